# SPDX-License-Identifier: MIT OR Apache-2.0
"""Crossed factors arranged for a report.

Per suite, load and metric: each variant against the baseline, main effects, interactions, and sentences about present interactions.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from swapstone.core.model import (
    Analysis,
    Comparison,
    Direction,
    FactorEffect,
    FrozenStruct,
    Index,
    Interaction,
    LevelChange,
    Metric,
    Presence,
    Quantity,
    Scale,
)
from swapstone.core.report import formatting
from swapstone.core.report.answer.means import time_rows
from swapstone.core.report.context import ReportContext
from swapstone.core.report.variant_values import grouped, without_copies
from swapstone.core.report.verdict_groups import NO_NUMBERS

Found = TypeVar("Found", Comparison, FactorEffect, Interaction)

INDEX = "index"
"""The name of the row with the geometric mean over a table's workloads."""


class Matrix(FrozenStruct, frozen=True, kw_only=True):
    """Each variant against the baseline: a line per workload, a column per variant.

    Attributes:
        factors: their names, in order.
        baseline: levels of the baseline, parallel to `factors`.
        variants: levels of each column, parallel to `factors`.
        lines: pairs (workload, comparisons), parallel to `variants`.
        indices: of the suite, parallel to `variants`; empty without an index.
    """

    factors: tuple[str, ...]
    baseline: tuple[str, ...]
    variants: tuple[tuple[str, ...], ...]
    lines: tuple[tuple[str, tuple[Comparison | None, ...]], ...]
    indices: tuple[Index | None, ...]


class EstimateTable(FrozenStruct, Generic[Found], frozen=True, kw_only=True):
    """Main effects or interactions: a line per workload and one for the index.

    Attributes:
        heads: a column per level, or per pair of levels that was measured on any of them.
        lines: pairs (workload, estimates), parallel to `heads`.
    """

    heads: tuple[str, ...]
    lines: tuple[tuple[str, tuple[Found | None, ...]], ...]

    @property
    def cells(self) -> tuple[Found, ...]:
        """Return the estimates of all rows."""
        return tuple(cell for _, cells in self.lines for cell in cells if cell is not None)


class CrossedMetric(FrozenStruct, frozen=True, kw_only=True):
    """One metric of one suite under one load.

    Attributes:
        title: the suite, and the load unless it is ``idle``.
        brief: whether a brief report prints the matrix only.
        rejected: sentences about variants without numbers, each in the first metric of a suite and load only.
    """

    title: str
    metric: Metric
    brief: bool
    matrix: Matrix
    main: EstimateTable[FactorEffect]
    interactions: EstimateTable[Interaction]
    rejected: tuple[str, ...]


def is_crossed(analysis: Analysis) -> bool:
    """Return whether two factors or more were varied."""
    return bool(analysis.effects or analysis.interactions)


def crossed_metrics(
    context: ReportContext, analysis: Analysis, metrics: Sequence[str] = ()
) -> tuple[CrossedMetric, ...]:
    """Arrange the results of crossed factors by suite, load and metric.

    Args:
        context: names the factors.
        analysis: holds effects and interactions.
        metrics: names of the metrics to show; empty for the time to read first and resident memory, or, without either, the
            programs' size.

    Returns:
        One entry per suite, load and metric; none of an experiment with one factor.
    """
    if not is_crossed(analysis):
        return ()
    made = []
    for found in grouped(without_copies(analysis), lambda c: (c.suite, c.load)).values():
        printed: set[str] = set()
        for rows, brief in _by_metric(found, metrics):
            section = _section(context, analysis, rows, brief=brief, selected=bool(metrics))
            news = tuple(text for text in section.rejected if text not in printed)
            printed.update(news)
            made.append(msgspec.structs.replace(section, rejected=news))
    return tuple(made)


def _by_metric(found: list[Comparison], metrics: Sequence[str]) -> list[tuple[list[Comparison], bool]]:
    """Return pairs (rows, brief) of the metrics to show."""
    if metrics:
        names = [name for name in dict.fromkeys(c.metric.name for c in found) if name in metrics]
        return [([c for c in found if c.metric.name == name], False) for name in names]
    leads = {c.workload: c.metric.name for c in time_rows(found)}
    chosen = [
        ([c for c in found if leads.get(c.workload) == name == c.metric.name], False)
        for name in dict.fromkeys(leads.values())
    ]
    memory = [c for c in found if c.metric.quantity is Quantity.MEMORY]
    names = list(dict.fromkeys(c.metric.name for c in memory))
    if names:
        name = "res" if "res" in names else names[0]
        chosen.append(([c for c in memory if c.metric.name == name], True))
    if not chosen:
        sizes = [c for c in found if c.metric.quantity is Quantity.SIZE]
        chosen = [([c for c in sizes if c.metric.name == sizes[0].metric.name], True)] if sizes else []
    return chosen


def _section(
    context: ReportContext, analysis: Analysis, rows: list[Comparison], *, brief: bool, selected: bool
) -> CrossedMetric:
    first = rows[0]
    workloads = list(dict.fromkeys(c.workload for c in rows))

    def belongs(each: FactorEffect | Interaction) -> bool:
        place = each.suite, each.load, each.metric.name
        return place == (first.suite, first.load, first.metric.name) and each.workload in (*workloads, "")

    # An index covers every workload that has its metric: it stands below the metric that is read first for most of them.
    index = len(workloads) > 1 and any(
        belongs(each) and not each.workload and (selected or each.preferred) for each in analysis.effects
    )
    names = [*workloads, ""] if index else workloads

    effects = [each for each in analysis.effects if belongs(each) and not each.held]
    changes = tuple(dict.fromkeys(each.change for each in effects))
    interactions = [each for each in analysis.interactions if belongs(each)]
    pairs = tuple(
        dict.fromkeys((each.change, each.by) for each in interactions if each.presence is not Presence.UNAVAILABLE)
    )
    measurable = {(i.workload, pairs.index((i.change, i.by))): i for i in interactions if (i.change, i.by) in pairs}
    return CrossedMetric(
        title=first.suite if first.load == "idle" else f"{first.suite}, load {first.load}",
        metric=first.metric,
        brief=brief,
        matrix=_matrix(context, analysis, rows, workloads, index=index),
        main=EstimateTable(
            heads=tuple(change.label for change in changes),
            lines=_lines(names, {(e.workload, changes.index(e.change)): e for e in effects}, len(changes)),
        ),
        interactions=EstimateTable(
            heads=tuple(pair(*each) for each in pairs), lines=_lines(names, measurable, len(pairs))
        ),
        rejected=tuple(_rejected(rows)),
    )


def _lines(
    names: Sequence[str], cells: Mapping[tuple[str, int], Found], width: int
) -> tuple[tuple[str, tuple[Found | None, ...]], ...]:
    found = ((name, tuple(cells.get((name, place)) for place in range(width))) for name in names)
    return tuple((name or INDEX, line) for name, line in found if any(cell is not None for cell in line))


def _matrix(
    context: ReportContext, analysis: Analysis, rows: Sequence[Comparison], names: Sequence[str], *, index: bool
) -> Matrix:
    """Return the matrix of comparisons, without columns that have no number."""
    first = rows[0]
    variants = [
        variant
        for variant in dict.fromkeys(c.candidate for c in rows)
        if any(c.candidate == variant and c.verdict not in NO_NUMBERS for c in rows)
    ]
    cells = {(c.workload, variants.index(c.candidate)): c for c in rows if c.candidate in variants}
    place = first.suite, first.load, first.metric.name
    indices = {each.candidate: each for each in analysis.indices if (each.suite, each.load, each.metric) == place}
    shown = index and any(variant in indices for variant in variants)
    return Matrix(
        factors=tuple(each.factor for each in context.experiment.factors),
        baseline=tuple(level for _, level in first.baseline.levels),
        variants=tuple(tuple(level for _, level in variant.levels) for variant in variants),
        lines=_lines(names, cells, len(variants)),
        indices=tuple(indices.get(variant) for variant in variants) if shown else (),
    )


def _rejected(rows: Iterable[Comparison]) -> Iterator[str]:
    """Yield a sentence for each variant without numbers: the reason and the number of workloads."""
    gone = (c for c in rows if c.verdict in NO_NUMBERS)
    found = grouped(gone, lambda c: (c.candidate, c.verdict, c.reason.removeprefix("candidate: ")))
    for (candidate, verdict, reason), refused in found.items():
        where = (
            formatting.safe(refused[0].workload) if len(refused) == 1 else formatting.count(len(refused), "workload")
        )
        yield f"{formatting.safe(candidate.label)}: {verdict.value} on {where}: {formatting.safe(reason) or 'no reason given'}"


def baseline_text(line: Sequence[Comparison | None]) -> str:
    """Return the median of a matrix's line, with its unit: of the longest series of the baseline; empty where there is none."""
    longest = max((c for c in line if c is not None), key=lambda c: len(c.baseline_values))
    values = longest.baseline_values
    return formatting.quantity(statistics.median(values), longest.metric.unit) if values else ""


def present_interactions(interactions: Iterable[Interaction]) -> list[Interaction]:
    """Return the present interactions: those of the index, then those of workloads, the largest first."""

    def size(each: Interaction) -> float:
        """Return the absolute logarithm; those on the scale of differences come last."""
        return abs(math.log(each.effect)) if each.scale is Scale.RATIO and each.effect and each.effect > 0 else 0.0

    found = [each for each in interactions if each.presence is Presence.PRESENT and each.effect is not None]
    return sorted(found, key=lambda each: (bool(each.workload), -size(each)))


_VERBS = {Direction.LOWER: "costs", Direction.HIGHER: "gives", Direction.NEITHER: "has"}


def sentence(each: Interaction) -> str:
    """Return the sentence about a present interaction, without a full stop.

    For example: with allocator=mimalloc, libc=musl costs 1.040x instead of 3.400x (with default): it closes 97 % of the gap.
    """
    times = "x" if each.scale is Scale.RATIO else ""
    shown = [formatting.effect(value, each) + times for value in (each.within, each.without) if value is not None]
    within, without = shown if len(shown) == 2 else ("?", "?")
    text = (
        f"with {formatting.safe(each.by.label)}, {formatting.safe(each.change.label)} {_VERBS[each.metric.better]} {within} instead of "
        f"{without} (with {formatting.safe(each.by.baseline)})"
    )
    return f"{text}: {_closing(each)}" if each.closed is not None else text


def _closing(each: Interaction) -> str:
    """Return the clause about the share of a gap that is closed, or of a gain that is lost."""
    closed, without = each.closed or 0.0, each.without or 0.0
    more = without > (1.0 if each.scale is Scale.RATIO else 0.0)
    gain = each.metric.better is not Direction.NEITHER and more == (each.metric.better is Direction.HIGHER)
    if closed > 1:  # its own interval shows whether it goes beyond
        return "the whole gain is lost" if gain else "it closes the whole gap"
    share = formatting.percent(abs(closed))
    if closed < 0:
        return f"that adds {share} to the gain" if gain else f"that widens the gap by {share}"
    return f"{share} of the gain is lost" if gain else f"it closes {share} of the gap"


def counted(table: EstimateTable[Interaction]) -> str:
    """Return the sentence that counts the workloads' interactions by presence; empty without any."""
    numbers = Counter(each.presence for each in table.cells if each.workload)
    if not numbers:
        return ""
    parts = ", ".join(f"{numbers[presence]} {presence.value}" for presence in Presence if numbers[presence])
    return f"{formatting.count(numbers.total(), 'interaction')}: {parts}."


def undecided(interactions: Iterable[Interaction]) -> list[str]:
    """Return the undecided interactions, each with the smallest one that would be detected."""
    return [
        f"{formatting.safe(each.workload) or INDEX} {pair(each.change, each.by)} {formatting.smallest(each)}"
        for each in interactions
        if each.presence is Presence.UNDECIDED and formatting.smallest(each)
    ]


def pair(change: LevelChange, by: LevelChange) -> str:
    """Return the name of a pair of levels, e.g. ``musl × mimalloc``."""  # noqa: RUF002 - a times sign
    if change.level == by.level:
        return f"{formatting.safe(change.label)} × {formatting.safe(by.label)}"  # noqa: RUF001 - a times sign
    return f"{formatting.safe(change.level)} × {formatting.safe(by.level)}"  # noqa: RUF001 - a times sign


def dependences(table: EstimateTable[FactorEffect]) -> str:
    """Return the sentence about main effects that depend on other factors; empty without any."""
    found: dict[str, dict[str, None]] = {}
    for cell in table.cells:
        for factor in cell.depends_on:
            found.setdefault(formatting.safe(cell.change.label), {})[formatting.safe(factor)] = None
    parts = [f"{label} depends on {', '.join(names)}" for label, names in found.items()]
    return f"These main effects alone are misleading: {'; '.join(parts)}." if parts else ""


def left_out(table: EstimateTable[FactorEffect]) -> str:
    """Return the sentence about combinations that main effects leave out; empty without any."""
    found = dict.fromkeys(
        f"{formatting.safe(cell.change.label)} without {', '.join(map(formatting.safe, cell.missing))}"
        for cell in table.cells
        if cell.missing and cell.effect is not None
    )
    return f"Averaged over the measured combinations: {'; '.join(found)}." if found else ""
