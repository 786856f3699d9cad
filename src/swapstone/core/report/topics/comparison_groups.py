# SPDX-License-Identifier: MIT OR Apache-2.0
"""Comparisons grouped for reading: per suite, load and candidate, with the published figures beside them.

A group has the times to read first, other times and rates, then memory, events and sizes.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable

from swapstone.core.model import (
    MEDIAN_DIFFERS,
    NO_NUMBERS,
    SAME_CENTRE,
    Analysis,
    Comparison,
    FrozenStruct,
    Metric,
    Quantity,
    Scale,
    Variant,
    grouped,
)
from swapstone.core.model.references import beside
from swapstone.core.report import formatting
from swapstone.core.report.answer.means import time_rows
from swapstone.core.report.context import ReportContext
from swapstone.core.report.variant_values import without_copies

SAME_SIZE = 1.1
"""Two figures are of the same size if neither is larger than the other by more than this factor."""


def same_size(here: float, on_page: float) -> bool:
    """Return whether two figures above 0 are of the same size."""
    return 1 / SAME_SIZE <= here / on_page <= SAME_SIZE


def size_note(here: float, on_page: float) -> str:
    """Return how many times the published figure this one is, e.g. ``size x 8.2``."""
    return f"size x {formatting.ratio(here / on_page)}"


_KINDS = (
    ("", (Quantity.TIME, Quantity.RATE)),
    ("Memory", (Quantity.MEMORY,)),
    ("Events", (Quantity.EVENTS,)),
    ("Size of the program", (Quantity.SIZE,)),
)
"""Pairs (title, quantities) of what is not read first."""


class Agreement(enum.Enum):
    """Whether the sign of a difference agrees with the published one."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    SAME_PUBLISHED = "page: same"  # the published ratio is within the margin
    SAME_HERE = "here: same"  # the median here is the same
    UNDECIDED = "undecided"


class Row(FrozenStruct, frozen=True, kw_only=True):
    """A comparison, with the published ratio of the same row and whether the signs agree."""

    comparison: Comparison
    published: float | None = None
    agreement: Agreement | None = None

    @property
    def another_size(self) -> str:
        """Return how many times the published ratio this one is, if only their signs agree; empty otherwise."""
        here = shown_ratio(self.comparison)
        if self.agreement is not Agreement.AGREES or self.published is None or here is None:
            return ""
        return "" if same_size(here, self.published) else size_note(here, self.published)

    @property
    def page_note(self) -> str:
        """Return how the row compares with the published one, in a few words; empty without one."""
        return self.another_size or (self.agreement.value if self.agreement else "")


class ComparisonGroup(FrozenStruct, frozen=True, kw_only=True):
    """The comparisons of one suite, load and candidate.

    Attributes:
        rows: those to read first, by metric: what the user asked for, then of each workload the time to read first.
        others: pairs (title, rows), in the analysis' order: other times and rates, without a title, then memory, events, sizes.
    """

    suite: str
    load: str
    baseline: Variant
    candidate: Variant
    rows: tuple[Row, ...]
    others: tuple[tuple[str, tuple[Row, ...]], ...]

    @property
    def title(self) -> str:
        """Return the suite, and the load unless it is ``idle``."""
        return formatting.place(self.suite, self.load)


def shown(comparison: Comparison) -> float | None:
    """Return the effect to show; None for an invalid or unavailable comparison, or one without pairs."""
    return comparison.effect if comparison.verdict not in NO_NUMBERS and comparison.baseline_values else None


def shown_ratio(comparison: Comparison) -> float | None:
    """Return the effect to show on a logarithmic axis; None where it is no ratio above 0."""
    effect = shown(comparison)
    return effect if comparison.scale is Scale.RATIO and effect is not None and effect > 0 else None


def sign(comparison: Comparison) -> int | None:
    """Return the sign of an effect (+1: the candidate's value is larger), 0 for the same median, None without a decision."""
    effect = shown(comparison)
    if effect is not None and comparison.verdict in MEDIAN_DIFFERS:
        return 1 if effect > (1.0 if comparison.scale is Scale.RATIO else 0.0) else -1
    return 0 if comparison.verdict in SAME_CENTRE else None


def agreement(comparison: Comparison, page: float, margin: float) -> Agreement:
    """Compare the signs of a comparison and a published ratio.

    Args:
        comparison: the result.
        page: the published one, of the same sides.
        margin: ratios within 1 / (1 + margin) to 1 + margin have no sign.
    """
    if page > 0 and abs(math.log(page)) <= math.log1p(margin):
        return Agreement.SAME_PUBLISHED
    theirs = 1 if page > 1 else -1
    kinds = {None: Agreement.UNDECIDED, 0: Agreement.SAME_HERE, theirs: Agreement.AGREES}
    return kinds.get(sign(comparison), Agreement.DISAGREES)


def _row(context: ReportContext, comparison: Comparison, leads: bool) -> Row:
    ours, theirs = comparison.baseline.levels, comparison.candidate.levels
    if not context.published or len(ours) != 1 or len(theirs) != 1:
        return Row(comparison=comparison)
    # Published times are elapsed times. They are compared with the time to read first.
    metric = "wall" if leads and comparison.metric.quantity is Quantity.TIME else comparison.metric.name
    row = (comparison.suite, comparison.workload, metric)
    page = beside(context.published, row, ours[0][1], theirs[0][1], comparison.load)
    kind = None if page is None else agreement(comparison, page, context.experiment.margin)
    return Row(comparison=comparison, published=page, agreement=kind)


def by_metric(rows: Iterable[Row]) -> tuple[tuple[Metric, tuple[Row, ...]], ...]:
    """Return pairs (metric, its rows)."""
    groups = grouped(rows, lambda row: row.comparison.metric.name)
    return tuple((found[0].comparison.metric, tuple(found)) for found in groups.values())


def comparison_groups(context: ReportContext, analysis: Analysis) -> tuple[ComparisonGroup, ...]:
    """Group the comparisons of an analysis.

    Args:
        context: names the published study, whose figures the rows get.
        analysis: holds the comparisons.

    Returns:
        One group per suite, load and candidate, in the analysis' order. Comparisons with a copy of the baseline are left out.
    """
    groups = grouped(without_copies(analysis), lambda c: (c.suite, c.load, c.baseline, c.candidate))
    found = []
    for (suite, load, baseline, candidate), comparisons in groups.items():
        asked = (c for name in context.experiment.printed_metrics for c in comparisons if c.metric.name == name)
        first = tuple(dict.fromkeys((*asked, *time_rows(comparisons))))
        others = [_row(context, c, leads=False) for c in comparisons if c not in first]
        found.append(
            ComparisonGroup(
                suite=suite,
                load=load,
                baseline=baseline,
                candidate=candidate,
                rows=tuple(row for _, of in by_metric(_row(context, c, leads=True) for c in first) for row in of),
                others=tuple(
                    (title, tuple(row for row in others if row.comparison.metric.quantity in kind))
                    for title, kind in _KINDS
                ),
            )
        )
    return tuple(found)


def memory_rows(found: Iterable[ComparisonGroup]) -> tuple[Row, ...]:
    """Return every row about memory."""
    others = (row for group in found for _, rows in group.others for row in rows)
    return tuple(row for row in others if row.comparison.metric.quantity is Quantity.MEMORY)
