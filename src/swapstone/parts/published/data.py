# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figures of five public pages, the pages they come from, and their claims; and which rows of this program stand beside which figures.

Reports print a published figure only where a join of joins.toml has it, so the joins are the coverage of the pages. claims.toml has the
claims that records can test.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import itertools
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import msgspec

from swapstone.core.model import FrozenStruct, UserError, find_named
from swapstone.core.model.references import Figure, Place, Reference, Side

_PRINTED = re.compile(r"(about |nearly )?(?P<digits>-?[0-9]+(\.[0-9]+)?)(?P<thousands>K?)\+?", re.ASCII)


@contextlib.contextmanager
def shipped(name: str) -> Iterator[str]:
    """Yield the text of a file of this package, to be decoded in the context.

    Raises:
        UserError: it can't be read or decoded.
    """
    try:
        yield Path(__file__).with_name(name).read_text(encoding="utf-8")
    except (OSError, ValueError, LookupError, TypeError, csv.Error) as error:
        raise UserError(
            f"{name} of the published figures is damaged: {type(error).__name__}: {error}.", "Install Swapstone again."
        ) from error


def rows_of(text: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a text of comma-separated values."""
    return csv.DictReader(text.splitlines(), strict=True)


def _figure(row: dict[str, str]) -> Figure:
    printed = row.pop("value")
    found = _PRINTED.fullmatch(printed)
    if found is None:
        raise ValueError(printed)
    # Decimal, because 16.52 * 1000 is not 16520 in binary.
    value = float(Decimal(found["digits"]) * (1000 if found["thousands"] else 1))
    return Figure(value=value, printed=printed, **row)


@functools.cache
def _read(name: str) -> tuple[Figure, ...]:
    with shipped(name) as text:
        return tuple(map(_figure, rows_of(text)))


def further() -> tuple[Figure, ...]:
    """Return further numbers of the pages: the rest of wrk's output and of vmstat's columns, and samples of stacks.

    They are not among `figures`, because the pages derive and claim nothing from most of them.
    """
    return _read("further.csv")


@functools.cache
def _tables() -> dict[str, dict[str, dict[str, str]]]:
    with shipped("sources.toml") as text:
        return tomllib.loads(text)


@functools.cache
def baselines() -> tuple[tuple[str, float, str], ...]:
    """Return UnixBench's twelve reference results: (test, result, unit)."""
    with shipped("unixbench.csv") as text:
        return tuple((row["metric"], float(row["baseline"]), row["unit"]) for row in rows_of(text))


def sources() -> dict[str, dict[str, str]]:
    """Return the pages by name: ``title``, ``project`` and the other keys of sources.toml."""
    return _tables()["source"]


def source_of(study: str) -> dict[str, str]:
    """Return the page of a published study: of a question that a page answers with figures.

    Raises:
        UserError: there is no such study.
    """
    return sources()[find_named("published study", study, _tables()["study"])["source"]]


def figures(study: str = "", suite: str = "") -> tuple[Figure, ...]:
    """Return published figures.

    Args:
        study: only of this study.
        suite: only of this suite.
    """
    every = _read("published.csv")
    return tuple(each for each in every if study in {"", each.study} and suite in {"", each.suite})


class MeasuredRow(FrozenStruct, frozen=True, kw_only=True):
    """A published row and the workload with the same work.

    Attributes:
        suite, metric, unit, condition: of the published figures; they name one row of the page.
        own_suite, workload: measured here.
        less: the workload whose time is subtracted, as the published program subtracts it; empty for none.
        plus: the workload whose time was subtracted from that of `less` before, so that it is added here; empty for none.
    """

    suite: str
    metric: str
    unit: str
    condition: str
    own_suite: str
    workload: str
    less: str
    plus: str

    @property
    def same_kind(self) -> bool:
        """Return whether the workload is another program of the same kind: then ratios can be compared and values can't."""
        return bool(kin_of(self.own_suite, self.workload))


@functools.cache
def _join_file() -> dict[str, Any]:
    with shipped("joins.toml") as text:
        return tomllib.loads(text)


@functools.cache
def kin_of(suite: str, workload: str) -> str:
    """Return in the place of which program a workload stands; empty for one that does the page's own work."""
    texts: dict[str, str] = _join_file()["kin"]
    return next((name for pattern, name in texts.items() if fnmatchcase(f"{suite}/{workload}", pattern)), "")


@functools.cache
def measured_rows(suite: str = "") -> tuple[MeasuredRow, ...]:
    """Return the rows of a suite of the pages, or all, in the order of the pages' tables.

    UnixBench's index is computed from its rows.
    """
    with shipped("measured_rows.csv") as text:
        found = msgspec.convert(list(rows_of(text)), tuple[MeasuredRow, ...], strict=False)
    return tuple(row for row in found if suite in {"", row.suite})


_IDLE = "idle"


class PublishedPlace(Place, frozen=True, kw_only=True):
    """A place with what the join states of it.

    Attributes:
        section: the part of the report that prints both.
        series: whether `metric` is a time series of a run.
        derived: whether the report computes the number from several rows, of which this is one.
        differs: what is not the same; empty for nothing.
        kin: the program of the page in whose place another one of the same kind is measured; empty where the work is the page's.
    """

    section: str
    series: bool = False
    derived: bool = False
    differs: str = ""
    kin: str = ""


class Joined(Reference, frozen=True, kw_only=True):
    """A published figure and a place of the same number here.

    Attributes:
        join: number of the table in joins.toml.
        baseline: whether the figure is of the join's first level.
    """

    place: PublishedPlace
    join: int
    baseline: bool


_COPIED = ("section", "series", "derived", "inverse", "differs")
"""Keys of a join that its places have, too."""


@functools.cache
def _joins() -> tuple[Joined, ...]:
    """Return the joined figures, in the order of the file and of the figures."""
    with shipped("joins.toml"):
        file = _join_file()
        return tuple(
            Joined(figure=figure, place=place, join=number, baseline=figure.level == next(iter(join["levels"])))
            for number, join in enumerate(file["join"], start=1)
            for figure in (*figures(), *further())
            if (figure.study, figure.suite) == (join["study"], join["suite"]) and figure.level in join["levels"]
            for place in _places(join, figure, file["rows"][join["rows"]])
        )


def _places(join: Mapping[str, Any], figure: Figure, rows: Mapping[str, str]) -> Iterator[PublishedPlace]:
    """Yield the places of a figure by a join of its study and suite; none if the join leaves it out."""
    # The right side of the first row that matches.
    found = ((_star(pattern, figure.metric), name) for pattern, name in rows.items())
    matching = (name.replace("*", star) for star, name in found if star is not None)
    named = "" if figure.metric == join.get("index") else next(matching, None)
    stars = [_star(join.get(key, "*"), getattr(figure, key)) for key in ("platform", "unit", "condition")]
    condition = stars[-1]
    if named is None or condition is None or None in stars:
        return
    load = join.get("load", _IDLE).replace("*", condition)
    texts = (join.get("workload", "*"), join["metric"], join["levels"][figure.level])
    for workload, metric, level in itertools.product(*([each] if isinstance(each, str) else each for each in texts)):
        above, _, below = level.partition(" / ")
        work = workload.replace("*", named) if named else ""
        yield PublishedPlace(
            suite=join["to"],
            workload=work,
            kin=kin_of(join["to"], work),
            metric=metric.replace("*", named),
            side=side_of(above, load),
            over=side_of(below, load) if below else None,
            index=not named,
            **{key: join[key] for key in _COPIED if key in join},
        )


@functools.cache
def _star(pattern: str, text: str) -> str | None:
    """Return what a pattern's * stands for in a text; empty without a *; None if the text does not match."""
    found = re.fullmatch(re.escape(pattern).replace(r"\*", "(.*)"), text)
    return None if found is None else "".join(found.groups())


@functools.cache
def side_of(text: str, load: str = _IDLE) -> Side:
    """Return the side that a text such as ``kernel=rt load=io`` describes.

    Args:
        text: the levels, and the load if it is another one.
        load: without one in the text.
    """
    found = dict(word.split("=", 1) for word in text.split())
    load = found.pop("load", load)
    return Side(levels=tuple(found.items()), load=load)


def joined(section: str = "", study: str = "") -> tuple[Joined, ...]:
    """Return the joined figures.

    Args:
        section: only of this part of a report.
        study: only of this published study.
    """
    return tuple(each for each in _joins() if section in {"", each.place.section} and study in {"", each.figure.study})


def references_of(study: str, section: str) -> tuple[Joined, ...]:
    """Return the joined figures of a published study in a part of a report.

    Raises:
        UserError: there is no such study.
    """
    source_of(study)
    return joined(section, study)


Kind = Literal["ratio", "difference", "values", "share", "index", "seconds", "stacks"]
"""What a test decides by; the comment in claims.toml explains each."""


class ClaimTest(FrozenStruct, frozen=True, kw_only=True):
    """A condition of a claim.

    Attributes:
        what: what is compared with the bounds.
        suite, workload, metric, load: the row; without a workload for an index.
        clock: of the records that test it; empty for any.
        side: its levels.
        over: what is divided by or subtracted; empty for values, shares and stacks.
        part_of: the metric of which a share is taken; empty for others.
        profile: kind of the profile whose stacks are searched; empty for others.
        functions: names of functions, one of which a stack must have.
        least, most: the claim holds from least to most; infinite without a bound.
    """

    what: Kind
    suite: str
    metric: str
    side: str
    workload: str = ""
    load: str = "idle"
    clock: str = ""
    over: str = ""
    part_of: str = ""
    profile: str = ""
    functions: tuple[str, ...] = ()
    least: float = -math.inf
    most: float = math.inf

    @property
    def sides(self) -> tuple[Side, Side]:
        """Return the side, and what it is compared with; that is itself where nothing is."""
        return side_of(self.side, self.load), side_of(self.over or self.side, self.load)


class PageClaim(FrozenStruct, frozen=True, kw_only=True):
    """A claim of a page.

    Attributes:
        name: of the claim.
        source, place: the page, and where on it.
        words: the claim, abridged.
        command: what measures it; empty if nothing here does.
        untested: why no record tests it; empty if it has tests.
        note: what differs between the words and the tests.
        tests: all must hold.
    """

    name: str = msgspec.field(name="id")
    source: str
    place: str
    words: str
    command: str
    untested: str = ""
    note: str = ""
    tests: tuple[ClaimTest, ...] = msgspec.field(name="test", default=())


@functools.cache
def page_claims() -> tuple[PageClaim, ...]:
    """Return the claims of the pages."""
    with shipped("claims.toml") as text:
        return msgspec.convert(tomllib.loads(text)["claim"], tuple[PageClaim, ...])


class PageRatio(FrozenStruct, frozen=True, kw_only=True):
    """A column of a page's table that follows from two others.

    Attributes:
        head: its heading.
        of, over: keys of the columns.
        form: how it is printed: a ratio, per cent more than 1, or per cent.
        ours: whether the page has no such column.
    """

    head: str
    of: str
    over: str
    form: Literal["ratio", "gain", "share"] = "ratio"
    ours: bool = False


class PageTable(FrozenStruct, frozen=True, kw_only=True):
    """A table of a page, or a picture; the comment in tables.toml explains each key."""

    study: str
    suite: str = ""
    title: str
    columns: Mapping[str, str] = {}
    section: str = ""
    code: Mapping[str, str] = {}
    unit: str = "*"
    platform: str = "*"
    condition: str = "*"
    metric: str = "*"
    level: str = "*"
    rows: tuple[str, ...] = ()
    ratios: tuple[PageRatio, ...] = ()
    base: str = ""
    digits: int = 2
    workload: str = "*"
    scale: float = 1.0
    note: str = ""

    def cells(self) -> dict[str, dict[str, Figure]]:
        """Return the figures by name of the row and key of the column, in the page's order."""
        found: dict[str, dict[str, Figure]] = {}
        for figure in (*figures(self.study, self.suite), *further()):
            place = _cell(self, figure) if (figure.study, figure.suite) == (self.study, self.suite) else None
            if place is not None and place[1] in self.columns:
                found.setdefault(place[0], {})[place[1]] = figure
        order = [name for name in _page_file()["names"].get(self.suite, {}) if name in found]
        names = [*order, *(name for name in found if name not in order)]
        first, last = self.rows or (names[0], names[-1])
        return {name: found[name] for name in names[names.index(first) : names.index(last) + 1]}

    def name_of(self, row: str) -> str:
        """Return how the page names a row; of figures, two of one name end in # and a number."""
        names: dict[str, str] = _page_file()["names"].get(self.suite, {})
        return names.get(row, row.partition("#")[0])


_FIELDS = ("platform", "condition", "metric", "level", "unit")


def _cell(table: PageTable, figure: Figure) -> tuple[str, str] | None:
    """Return the texts of {row} and of {column} in a figure; None if it is not of the table."""
    rows, columns = [], []
    for name in _FIELDS:
        found = _pattern(getattr(table, name)).fullmatch(getattr(figure, name))
        if found is None:
            return None
        texts = found.groupdict()
        rows += [texts["row"]] if "row" in texts else []
        columns += [texts["column"]] if "column" in texts else []
    return ", ".join(rows), ", ".join(columns)


@functools.cache
def _pattern(text: str) -> re.Pattern[str]:
    named = re.escape(text).replace(r"\{row\}", "(?P<row>.+)").replace(r"\{column\}", "(?P<column>.+)")
    return re.compile(named.replace(r"\*", ".*"))


@functools.cache
def _page_file() -> dict[str, Any]:
    with shipped("tables.toml") as text:
        return tomllib.loads(text)


@functools.cache
def page_tables(study: str) -> tuple[PageTable, ...]:
    """Return the tables of a published study's page, in the page's order."""
    with shipped("tables.toml"):
        found = msgspec.convert(_page_file()["table"], tuple[PageTable, ...])
    return tuple(each for each in found if each.study == study)


def absent_reason(figure: Figure) -> str:
    """Return why a figure has no row here; empty without a reason."""
    keys = ("study", "suite", "metric", "level")
    fitting = (
        each
        for each in _page_file()["absent"]
        if all(fnmatchcase(getattr(figure, key), each.get(key, "*")) for key in keys)
    )
    return next((str(each["reason"]) for each in fitting), "")
