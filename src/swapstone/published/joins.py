# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which rows of this program stand beside which published figures: joins.toml, decoded, and the figures that it joins.

Reports print a published figure only where a join has it, so the joins are the coverage of the pages.
"""

from __future__ import annotations

import functools
import itertools
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources

import msgspec

from swapstone.model import FrozenStruct
from swapstone.published.data import Figure, figures, further, source_of

_IDLE = "idle"

Levels = tuple[tuple[str, str], ...]
"""Pairs (factor, level)."""


class Side(FrozenStruct, frozen=True, kw_only=True):
    """What a run was made with: the levels of the factors, and the load beside it."""

    levels: Levels
    load: str

    @property
    def text(self) -> str:
        """Return the levels as a user types them."""
        return ",".join(f"{factor}={level}" for factor, level in self.levels)


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


def _joins() -> Iterator[Joined]:
    """Yield the joined figures, in the order of the file and of the figures."""
    text = resources.files("swapstone.published").joinpath("joins.toml").read_text(encoding="utf-8")
    file = msgspec.convert(tomllib.loads(text), _File)
    for number, join in enumerate(file.join, start=1):
        first = next(iter(join.levels))
        for figure in (*figures(), *further()):
            for place in _places(join, figure, file.rows[join.rows]):
                yield Joined(figure=figure, place=place, join=number, baseline=figure.level == first)


def _places(join: _Written, figure: Figure, rows: Mapping[str, str]) -> Iterator[Place]:
    """Yield the places of a figure by a join; none if the join is not of it."""
    here = (figure.study, figure.suite) == (join.study, join.suite) and figure.level in join.levels
    if not here or _star(join.platform, figure.platform) is None or _star(join.unit, figure.unit) is None:
        return
    condition, named = _star(join.condition, figure.condition), _row(figure, rows, join.index)
    if condition is None or named is None:
        return
    load = join.load.replace("*", condition)
    for template, metric, text in itertools.product(
        *map(_listed, (join.workload, join.metric, join.levels[figure.level]))
    ):
        above, _, below = text.partition(" / ")
        yield Place(
            section=join.section,
            suite=join.to,
            workload=template.replace("*", named) if named else "",
            metric=metric.replace("*", named),
            side=side_of(above, load),
            over=side_of(below, load) if below else None,
            series=join.series,
            derived=join.derived,
            index=not named,
            inverse=join.inverse,
            differs=join.differs,
        )


def _listed(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


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


def side_of(text: str, load: str = _IDLE) -> Side:
    """Return the side that a text such as ``kernel=rt load=io`` describes.

    Args:
        text: the levels, and the load if it is another one.
        load: without one in the text.
    """
    found = dict(word.split("=", 1) for word in text.split())
    load = found.pop("load", load)
    return Side(levels=tuple(found.items()), load=load)


COMPARISONS = "comparisons"
"""The section of rows that compare two levels of a factor. There a row has one figure for each level."""


@functools.cache
def _every_join() -> tuple[Joined, ...]:
    return tuple(_joins())


def joined(section: str = "", study: str = "") -> tuple[Joined, ...]:
    """Return the joined figures.

    Args:
        section: only of this part of a report.
        study: only of this published study.
    """
    return tuple(
        each for each in _every_join() if section in {"", each.place.section} and study in {"", each.figure.study}
    )


def beside(study: str, row: tuple[str, str, str], baseline: str, candidate: str, load: str = "idle") -> float | None:
    """Return the published ratio candidate / baseline that stands beside a row of comparisons here; of rates beside times, its inverse.

    Args:
        study: name of a published study.
        row: (suite, workload, metric) here.
        baseline: level of a factor here.
        candidate: another one.
        load: of the row.

    Returns:
        The ratio; None where no join has both levels.

    Raises:
        UserError: there is no such study.
    """
    source_of(study)
    sides = _levels_of_rows().get((study, *row, load), {})
    if baseline not in sides or candidate not in sides:
        return None
    (one, inverse), (two, _) = sides[baseline], sides[candidate]
    return one / two if inverse else two / one


@functools.cache
def _levels_of_rows() -> dict[tuple[str, ...], dict[str, tuple[float, bool]]]:
    """Return (value, whether it is a rate beside a time) by level of each row of comparisons."""
    found: dict[tuple[str, ...], dict[str, tuple[float, bool]]] = {}
    for each in joined(COMPARISONS):
        place = each.place
        if not place.index and place.over is None and len(place.side.levels) == 1:
            key = (each.figure.study, place.suite, place.workload, place.metric, place.side.load)
            found.setdefault(key, {})[place.side.levels[0][1]] = (each.figure.value, place.inverse)
    return found
