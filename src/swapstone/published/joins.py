# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which rows of this program stand beside which published figures: joins.toml, decoded, and the figures that it joins.

Reports print a published figure only where a join has it, so the joins are the coverage of the pages.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources

import msgspec

from swapstone.model import FrozenStruct, UserError
from swapstone.model.toml_file import TomlError, decode_toml
from swapstone.published.data import Figure, figures, further, studies

_REINSTALL = "This file comes with swapstone: install it again."
_IDLE = "idle"
_LEVEL = re.compile(r"(?P<factor>[a-z][a-z0-9_-]*)=(?P<level>[^\s/]+)", re.ASCII)

Levels = tuple[tuple[str, str], ...]
"""Pairs (factor, level)."""


class Side(FrozenStruct, frozen=True, kw_only=True):
    """What a run was made with: the levels of the factors, and the load beside it."""

    levels: Levels
    load: str


class Place(FrozenStruct, frozen=True, kw_only=True):
    """Where this program has the number that a page has.

    Attributes:
        section: the part of the report that prints both.
        suite, workload, metric: of the runs; for an index, the workload is empty.
        side: of the runs.
        over: of the runs by which those are divided, where the page prints a ratio; None where it prints a value.
        series: whether `metric` is a time series of a run.
        derived: whether the report computes the number from several rows, of which this is one.
        index: whether it is the geometric mean over the other workloads of the join.
        inverse: whether the page's figure is a rate, and the metric here is a time.
        differs: what is not the same; empty for nothing.
    """

    section: str
    suite: str
    workload: str
    metric: str
    side: Side
    over: Side | None = None
    series: bool = False
    derived: bool = False
    index: bool = False
    inverse: bool = False
    differs: str = ""


class Joined(FrozenStruct, frozen=True, kw_only=True):
    """A published figure and a place of the same number here.

    Attributes:
        join: number of the table in joins.toml.
        baseline: whether the figure is of the join's first level.
    """

    figure: Figure
    place: Place
    join: int
    baseline: bool


class _Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table [[join]] of joins.toml; its comment explains the keys."""

    study: str
    suite: str
    section: str
    to: str
    metric: str | list[str]
    rows: str
    levels: dict[str, str | list[str]]
    platform: str = "*"
    condition: str = "*"
    unit: str = "*"
    load: str = _IDLE
    workload: str | list[str] = "*"
    series: bool = False
    derived: bool = False
    index: str = ""
    inverse: bool = False
    differs: str = ""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    rows: dict[str, dict[str, str]]
    join: list[_Written]


def decode_joins(content: bytes, known: Iterable[Figure]) -> tuple[Joined, ...]:
    """Decode a file of joins, and join figures by it.

    Args:
        content: TOML; the comment in joins.toml explains it.
        known: the figures to join.

    Returns:
        The joined figures, in the order of the file and of the figures.

    Raises:
        UserError: the file is invalid, a join has no figure, or two figures of one level come to stand in one row of comparisons.
    """
    try:
        file = msgspec.convert(decode_toml(content), _File)
    except (TomlError, msgspec.ValidationError) as error:
        raise UserError(f"joins.toml: {error}.", _REINSTALL) from error
    found: list[Joined] = []
    kept = tuple(known)
    for number, join in enumerate(file.join, start=1):
        where = f"joins.toml, join {number} ({join.study}, {join.suite})"
        rows = file.rows.get(join.rows)
        if rows is None:
            raise UserError(f"{where}: there is no table rows.{join.rows}.", _REINSTALL)
        mine = list(_joined(join, number, rows, kept, where))
        if not mine:
            raise UserError(f"{where}: no published figure matches.", _REINSTALL)
        found += mine
    _require_distinct(found)
    return tuple(found)


def _joined(
    join: _Written, number: int, rows: Mapping[str, str], known: Iterable[Figure], where: str
) -> Iterator[Joined]:
    sides = {level: tuple(_sides(texts, where)) for level, texts in join.levels.items()}
    first = next(iter(sides), "")
    for figure in known:
        here = (figure.study, figure.suite) == (join.study, join.suite) and figure.level in sides
        if not here or _star(join.platform, figure.platform) is None or _star(join.unit, figure.unit) is None:
            continue
        condition = _star(join.condition, figure.condition)
        named = _row(figure, rows, join.index)
        if condition is None or named is None:
            continue
        for place in _places(join, named, condition, sides[figure.level]):
            yield Joined(figure=figure, place=place, join=number, baseline=figure.level == first)


def _row(figure: Figure, rows: Mapping[str, str], index: str) -> str | None:
    """Return the right side of the first row that matches a figure; an empty text for the index; None if the join leaves it out."""
    if index and figure.metric == index:
        return ""
    for pattern, name in rows.items():
        if (text := _star(pattern, figure.metric)) is not None:
            return name.replace("*", text)
    return None


def _star(pattern: str, text: str) -> str | None:
    """Return what a pattern's * stands for in a text; empty without a *; None if the text does not match."""
    before, star, after = pattern.partition("*")
    if not star:
        return "" if pattern == text else None
    fits = len(text) >= len(before) + len(after) and text.startswith(before) and text.endswith(after)
    return text[len(before) : len(text) - len(after)] if fits else None


def _places(
    join: _Written, named: str, condition: str, sides: Iterable[tuple[Levels, str, Levels, str]]
) -> Iterator[Place]:
    load = join.load.replace("*", condition)
    for template in [join.workload] if isinstance(join.workload, str) else join.workload:
        for metric in [join.metric] if isinstance(join.metric, str) else join.metric:
            for levels, other, over, over_load in sides:
                yield Place(
                    section=join.section,
                    suite=join.to,
                    workload=template.replace("*", named) if named else "",
                    metric=metric.replace("*", named),
                    side=Side(levels=levels, load=other or load),
                    over=Side(levels=over, load=over_load or load) if over else None,
                    series=join.series,
                    derived=join.derived,
                    index=not named,
                    inverse=join.inverse,
                    differs=join.differs,
                )


def _sides(texts: str | list[str], where: str) -> Iterator[tuple[Levels, str, Levels, str]]:
    """Yield (levels, load, levels of the divisor, load of the divisor) for each text; empty where the text has none."""
    for text in [texts] if isinstance(texts, str) else texts:
        above, slash, below = text.partition(" / ")
        yield (*_levels(above, where), *(_levels(below, where) if slash else ((), "")))


def side_of(text: str, load: str, where: str) -> Side:
    """Return the side that a text such as ``kernel=rt load=io`` describes.

    Args:
        text: the levels, and the load if it is another one.
        load: without one in the text.
        where: the file and place, for messages.

    Raises:
        UserError: the text is invalid.
    """
    levels, other = _levels(text, where)
    return Side(levels=levels, load=other or load)


def _levels(text: str, where: str) -> tuple[Levels, str]:
    found: dict[str, str] = {}
    for word in text.split():
        match = _LEVEL.fullmatch(word)
        if match is None:
            raise UserError(f"{where}: {word[:40]!r} is not FACTOR=LEVEL.", _REINSTALL)
        found[match["factor"]] = match["level"]
    load = found.pop("load", "")
    if not found:
        raise UserError(f"{where}: {text[:40]!r} names no level.", _REINSTALL)
    return tuple(found.items()), load


CLAIMS = "claims"
"""The section of the places of claims, which no report of a record has."""

COMPARISONS = "comparisons"
"""The section of rows that compare two levels of a factor. There a row has one figure for each level."""


def _require_distinct(found: Iterable[Joined]) -> None:
    """Raise an error where two figures of one level stand in one row of comparisons, such as a time and a rate of the same name."""
    seen: dict[tuple[str, str, str, str, bytes], Figure] = {}
    for each in found:
        place, figure = each.place, each.figure
        if place.section != COMPARISONS or place.index or place.over is not None:
            continue
        key = (figure.study, place.suite, place.workload, place.metric, place.side.encoded())
        other = seen.setdefault(key, figure)
        if other != figure:
            raise UserError(
                f"joins.toml: {place.workload}, {place.metric} of suite {place.suite} has two figures of the level {figure.level}: "
                f"{other.printed} {other.unit} ({_named(other)}) and {figure.printed} {figure.unit} ({_named(figure)}).",
                "Give the join a unit, a condition or a platform.",
            )


def _named(figure: Figure) -> str:
    return ", ".join(filter(None, (figure.metric, figure.condition, figure.platform)))


@functools.cache
def _every_join() -> tuple[Joined, ...]:
    content = resources.files("swapstone.published").joinpath("joins.toml").read_bytes()
    found = decode_joins(content, (*figures(), *further()))
    unknown = {each.figure.study for each in found} - {study.name for study in studies()}
    if unknown:
        raise UserError(f"joins.toml: no study {', '.join(sorted(unknown))}.", _REINSTALL)
    return found


def joined(section: str = "", study: str = "") -> tuple[Joined, ...]:
    """Return the joined figures.

    Args:
        section: only of this part of a report.
        study: only of this published study.
    """
    return tuple(
        each for each in _every_join() if section in {"", each.place.section} and study in {"", each.figure.study}
    )
