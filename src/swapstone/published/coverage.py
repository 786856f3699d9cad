# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which published figures this program has a row for, and why the others have none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from swapstone.model import FrozenStruct
from swapstone.published.data import Figure, figures, further
from swapstone.published.joins import COMPARISONS, Joined, Place, Side, joined

_UNJOINED = "no row is joined with it"


class Part(FrozenStruct, frozen=True, kw_only=True):
    """An experiment of a shipped study.

    Attributes:
        name: ``STUDY`` or ``STUDY/PART``.
        published: the published study beside it.
        workloads: pairs (suite, workload).
        loads: their names.
        levels: pairs (factor, level).
    """

    name: str
    published: str
    workloads: frozenset[tuple[str, str]]
    loads: frozenset[str]
    levels: frozenset[tuple[str, str]]


class Catalog(FrozenStruct, frozen=True, kw_only=True):
    """What this program can measure and print.

    Attributes:
        metrics: names of metrics by (suite, workload).
        loads: names.
        levels: pairs (factor, level), without levels that are paths or formed from a pattern.
        sections: parts of reports that print published figures.
        series: names of time series.
        parts: experiments of the shipped studies.
    """

    metrics: Mapping[tuple[str, str], frozenset[str]]
    loads: frozenset[str]
    levels: frozenset[tuple[str, str]]
    sections: frozenset[str]
    series: frozenset[str]
    parts: tuple[Part, ...]


class Covered(FrozenStruct, frozen=True, kw_only=True):
    """A figure with the rows that stand beside it.

    Attributes:
        figure: the published one.
        places: rows that exist.
        parts: experiments of shipped studies that measure one of them.
        reason: why there is no row; empty if there is one.
    """

    figure: Figure
    places: tuple[Place, ...]
    parts: tuple[str, ...]
    reason: str


class Coverage(FrozenStruct, frozen=True, kw_only=True):
    """All published figures, and the further numbers of the pages, each with its rows."""

    figures: tuple[Covered, ...]
    further: tuple[Covered, ...]

    @property
    def missing(self) -> tuple[Covered, ...]:
        """Return the figures without a row."""
        return tuple(each for each in self.figures if each.reason)


def coverage(catalog: Catalog, found: Iterable[Joined] | None = None) -> Coverage:
    """Return which published figures have a row.

    Args:
        catalog: what can be measured.
        found: joined figures; None for those of joins.toml.

    Raises:
        UserError: a file of this package is damaged.
    """
    every = joined() if found is None else tuple(found)
    problems = {number: _problems(catalog, number, every) for number in {each.join for each in every}}
    places: dict[Figure, list[tuple[Place, str]]] = {}
    for each in every:
        reason = problem(each.place, catalog)
        if each.place.index and not reason and problems[each.join]:
            reason = f"its index needs every row: {problems[each.join]}"
        places.setdefault(each.figure, []).append((each.place, reason))
    return Coverage(
        figures=tuple(_covered(figure, places.get(figure, ()), catalog) for figure in figures()),
        further=tuple(_covered(figure, places.get(figure, ()), catalog) for figure in further()),
    )


def _covered(figure: Figure, places: Iterable[tuple[Place, str]], catalog: Catalog) -> Covered:
    known = tuple(places)
    good = tuple(place for place, reason in known if not reason)
    reason = "" if good else known[0][1] if known else _UNJOINED
    parts = dict.fromkeys(
        part.name
        for part in catalog.parts
        if part.published == figure.study and any(_measures(part, place) for place in good)
    )
    return Covered(figure=figure, places=good, parts=tuple(parts), reason=reason)


def _problems(catalog: Catalog, number: int, found: Iterable[Joined]) -> str:
    """Return why a row of a join is missing; empty if all exist."""
    rows = (each.place for each in found if each.join == number and not each.place.index)
    return next(filter(None, (problem(place, catalog) for place in rows)), "")


def problem(place: Place, catalog: Catalog) -> str:
    """Return why a place does not exist; empty if it does."""
    if place.suite not in {suite for suite, _ in catalog.metrics}:
        return f"there is no suite {place.suite}"
    if place.section not in catalog.sections:
        return f"no report has the section {place.section}"
    if place.section == COMPARISONS and (place.over is not None or place.derived):
        return "a row of comparisons has one level on each side"
    if not place.index and (place.suite, place.workload) not in catalog.metrics:
        return f"suite {place.suite} has no workload {place.workload}"
    if place.series:
        return "" if place.metric in catalog.series else f"no run has the time series {place.metric}"
    known = catalog.metrics.get((place.suite, place.workload), frozenset())
    if not place.index and place.metric not in known:
        return f"{place.workload} has no metric {place.metric}"
    return next(filter(None, (_side_problem(side, catalog) for side in (place.side, place.over) if side)), "")


def _side_problem(side: Side, catalog: Catalog) -> str:
    if side.load not in catalog.loads:
        return f"there is no load {side.load}"
    factors = {factor for factor, _ in catalog.levels}
    for factor, level in side.levels:
        if factor not in factors:
            return f"there is no factor {factor}"
        if (factor, level) not in catalog.levels:
            return f"the factor {factor} has no level {level}"
    return ""


def _measures(part: Part, place: Place) -> bool:
    sides = tuple(side for side in (place.side, place.over) if side)
    mine = (place.suite, place.workload) in part.workloads
    if place.index:
        mine = any(suite == place.suite for suite, _ in part.workloads)
    return mine and all(side.load in part.loads and set(side.levels) <= part.levels for side in sides)
