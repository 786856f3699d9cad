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

from swapstone.core.model import (
    NO_NUMBERS,
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
    Variant,
    grouped,
)
from swapstone.core.report import formatting
from swapstone.core.report.answer.means import time_rows
from swapstone.core.report.variant_values import without_copies

Found = TypeVar("Found")
Key = TypeVar("Key")

INDEX = "index"
"""The name of the row with the geometric mean over a table's workloads."""


class EstimateTable(FrozenStruct, Generic[Found], frozen=True, kw_only=True):
    """Results of crossed factors: a line per workload, and one without a name for the index.

    Attributes:
        heads: of the columns: a variant's levels, a level, or a pair of levels that was measured on any workload.
        lines: pairs (workload, results), parallel to `heads`.
    """

    heads: tuple[tuple[str, ...], ...]
    lines: tuple[tuple[str, tuple[Found | None, ...]], ...]

    @property
    def cells(self) -> tuple[Found, ...]:
        """Return the results of all lines."""
        return tuple(cell for _, cells in self.lines for cell in cells if cell is not None)


class CrossedMetric(FrozenStruct, frozen=True, kw_only=True):
    """One metric of one suite under one load.

    Attributes:
        title: the suite, and the load unless it is ``idle``.
        brief: whether a brief report prints the matrix only.
        baseline: the first variant.
        matrix: each other variant against it, without those that have no number.
        rejected: sentences about variants without numbers, each in the first metric of a suite and load only.
    """

    title: str
    metric: Metric
    brief: bool
    baseline: Variant
    matrix: EstimateTable[Comparison | Index]
    main: EstimateTable[FactorEffect]
    interactions: EstimateTable[Interaction]
    rejected: tuple[str, ...]


def is_crossed(analysis: Analysis) -> bool:
    """Return whether two factors or more were varied."""
    return bool(analysis.effects or analysis.interactions)


def crossed_metrics(analysis: Analysis, metrics: Sequence[str] = ()) -> tuple[CrossedMetric, ...]:
    """Arrange the results of crossed factors by suite, load and metric.

    Args:
        analysis: holds effects and interactions.
        metrics: names of the metrics to show; empty for the time to read first and resident memory, or, without either, the
            programs' size.

    Returns:
        One entry per suite, load and metric; none of an experiment with one factor.
    """
    made = []
    places = grouped(without_copies(analysis), lambda c: (c.suite, c.load)).values() if is_crossed(analysis) else ()
    for found in places:
        printed: set[str] = set()
        for rows, brief in _by_metric(found, metrics):
            news = tuple(text for text in _rejected(rows) if text not in printed)
            printed.update(news)
            made.append(_section(analysis, rows, news, brief=brief, selected=bool(metrics)))
    return tuple(made)


def _by_metric(found: list[Comparison], metrics: Sequence[str]) -> list[tuple[list[Comparison], bool]]:
    """Return pairs (rows, brief) of the metrics to show."""
    by_name = grouped(found, lambda c: c.metric.name)
    if metrics:
        return [(rows, False) for name, rows in by_name.items() if name in metrics]
    leads = {c.workload: c.metric.name for c in time_rows(found)}
    chosen = [
        ([c for c in by_name[name] if leads.get(c.workload) == name], False) for name in dict.fromkeys(leads.values())
    ]
    of = {kind: [name for name, rows in by_name.items() if rows[0].metric.quantity is kind] for kind in Quantity}
    names = of[Quantity.MEMORY] or ([] if chosen else of[Quantity.SIZE])
    name = "res" if "res" in names else next(iter(names), "")
    return [*chosen, *([(by_name[name], True)] if name else [])]


def _section(
    analysis: Analysis, rows: list[Comparison], rejected: tuple[str, ...], *, brief: bool, selected: bool
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
    interactions = [each for each in analysis.interactions if belongs(each)]
    numbers = {c.candidate for c in rows if c.verdict not in NO_NUMBERS}
    place = first.suite, first.load, first.metric.name
    indices: dict[tuple[str, Variant], Comparison | Index] = {
        ("", each.candidate): each for each in analysis.indices if (each.suite, each.load, each.metric) == place
    }
    return CrossedMetric(
        title=formatting.place(first.suite, first.load),
        metric=first.metric,
        brief=brief,
        baseline=first.baseline,
        matrix=_table(
            names,
            {
                c.candidate: tuple(level for _, level in c.candidate.shown_levels)
                for c in rows
                if c.candidate in numbers
            },
            indices | {(c.workload, c.candidate): c for c in rows},
        ),
        main=_table(
            names,
            {each.change: (each.change.shown_label,) for each in effects},
            {(each.workload, each.change): each for each in effects},
        ),
        interactions=_table(
            names,
            {
                (each.change, each.by): (pair(each.change, each.by),)
                for each in interactions
                if each.presence is not Presence.UNAVAILABLE
            },
            {(each.workload, (each.change, each.by)): each for each in interactions},
        ),
        rejected=rejected,
    )


def _table(
    names: Iterable[str], heads: Mapping[Key, tuple[str, ...]], cells: Mapping[tuple[str, Key], Found]
) -> EstimateTable[Found]:
    """Return the table of the columns `heads`, of those workloads that have a cell in one of them."""
    lines = ((name, tuple(cells.get((name, key)) for key in heads)) for name in names)
    return EstimateTable(heads=tuple(heads.values()), lines=tuple(each for each in lines if any(each[1])))


def _rejected(rows: Iterable[Comparison]) -> Iterator[str]:
    """Yield a sentence for each variant without numbers: the reason and the number of workloads."""
    gone = (c for c in rows if c.verdict in NO_NUMBERS)
    found = grouped(gone, lambda c: (c.candidate, c.verdict, c.reason.removeprefix("candidate: ")))
    for (candidate, verdict, reason), refused in found.items():
        where = (
            formatting.safe(refused[0].workload) if len(refused) == 1 else formatting.count(len(refused), "workload")
        )
        yield f"{formatting.safe(candidate.shown_label)}: {verdict.value} on {where}: {formatting.safe(reason) or 'no reason given'}"


def baseline_text(line: Iterable[Comparison | Index | None]) -> str:
    """Return the median of a matrix's line, with its unit: of the longest series of the baseline; empty where there is none."""
    found = (c for c in line if isinstance(c, Comparison) and c.baseline_values)
    longest = max(found, key=lambda c: len(c.baseline_values), default=None)
    return formatting.quantity(statistics.median(longest.baseline_values), longest.metric.unit) if longest else ""


def size(each: Interaction) -> float:
    """Return the absolute logarithm of an interaction; 0 on the scale of differences."""
    return abs(math.log(each.effect)) if each.scale is Scale.RATIO and each.effect and each.effect > 0 else 0.0


def present_interactions(interactions: Iterable[Interaction]) -> list[Interaction]:
    """Return the present interactions: those of the index, then those of workloads, the largest first."""
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
        f"with {formatting.safe(each.by.shown_label)}, {formatting.safe(each.change.shown_label)} {_VERBS[each.metric.better]} {within} "
        f"instead of {without} (with {formatting.safe(each.by.shown[0])})"
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
        return f"{formatting.safe(change.shown_label)} × {formatting.safe(by.shown_label)}"  # noqa: RUF001 - a times sign
    return f"{formatting.safe(change.shown[1])} × {formatting.safe(by.shown[1])}"  # noqa: RUF001 - a times sign


def dependences(table: EstimateTable[FactorEffect]) -> str:
    """Return the sentence about main effects that depend on other factors; empty without any."""
    found = dict.fromkeys(
        (formatting.safe(cell.change.shown_label), formatting.safe(factor))
        for cell in table.cells
        for factor in cell.depends_on
    )
    of_label = grouped(found, lambda pair: pair[0])
    parts = [f"{label} depends on {', '.join(name for _, name in of)}" for label, of in of_label.items()]
    return f"These main effects alone are misleading: {'; '.join(parts)}." if parts else ""


def left_out(table: EstimateTable[FactorEffect]) -> str:
    """Return the sentence about combinations that main effects leave out; empty without any."""
    found = dict.fromkeys(
        f"{formatting.safe(cell.change.shown_label)} without {', '.join(map(formatting.safe, cell.missing))}"
        for cell in table.cells
        if cell.missing and cell.effect is not None
    )
    return f"Averaged over the measured combinations: {'; '.join(found)}." if found else ""
