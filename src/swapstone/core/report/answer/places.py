# SPDX-License-Identifier: MIT OR Apache-2.0
"""Comparisons by place: one candidate on one suite under one load."""

from __future__ import annotations

from collections.abc import Sequence

from swapstone.core.model import OWN_SUITE, Analysis, Comparison, FrozenStruct, Index, Quantity, Variant
from swapstone.core.report import formatting
from swapstone.core.report.answer.means import Mean, leading_metric, means_of
from swapstone.core.report.sides import without_copies
from swapstone.core.report.verdict_groups import NO_NUMBERS

IDLE = "idle"


class Place(FrozenStruct, frozen=True, kw_only=True):
    """A candidate on a suite under a load.

    Attributes:
        suite, load, baseline, candidate: of the comparisons.
        rows: all comparisons.
        leads: of each workload the time or rate to read first.
        means: one ratio for each quantity, the time to read first before the others.
    """

    suite: str
    load: str
    baseline: Variant
    candidate: Variant
    rows: tuple[Comparison, ...]
    leads: tuple[Comparison, ...]
    means: tuple[Mean, ...]

    @property
    def lead(self) -> Mean | None:
        """Return the ratio of the time or rate to read first; None without one."""
        name = leading_metric(self.rows)
        return next((mean for mean in self.means if mean.metric.name == name), None)

    @property
    def memory(self) -> Mean | None:
        """Return the ratio of memory; None without one."""
        return next((mean for mean in self.means if mean.metric.quantity is Quantity.MEMORY), None)

    @property
    def size(self) -> Mean | None:
        """Return the ratio of the programs' sizes; None without one."""
        return next((mean for mean in self.means if mean.metric.quantity is Quantity.SIZE), None)

    @property
    def workloads(self) -> int:
        """Return the number of workloads."""
        return len({row.workload for row in self.rows})

    @property
    def names(self) -> tuple[str, str]:
        """Return the names of candidate and baseline in a sentence, e.g. ``musl with mimalloc``."""
        return prose_name(self.candidate), prose_name(self.baseline)

    def scope(self, workloads: int) -> str:
        """Return where it was measured: ``27 workloads of libc``, or the workload's name if there is one only."""
        if workloads == 1 and self.leads:
            usable = [row for row in self.leads if row.verdict not in NO_NUMBERS] or list(self.leads)
            text = formatting.safe(usable[0].workload)
        elif self.suite == OWN_SUITE:
            text = formatting.count(workloads, "program run")
        else:
            text = f"{formatting.count(workloads, 'workload')} of {formatting.safe(self.suite)}"
        return text if self.load == IDLE else f"{text} under load {formatting.safe(self.load)}"


def prose_name(variant: Variant) -> str:
    """Return a variant's levels in a sentence: ``musl`` or ``musl with mimalloc``."""
    return " with ".join(formatting.safe(level) for _, level in variant.levels)


def places_of(analysis: Analysis) -> tuple[Place, ...]:
    """Return the places of an analysis, in its order, without copies of the baseline. Those without times or rates come last."""
    found: dict[tuple[str, str, Variant, Variant], list[Comparison]] = {}
    for row in without_copies(analysis):
        found.setdefault((row.suite, row.load, row.baseline, row.candidate), []).append(row)
    indices: dict[tuple[str, str, Variant], list[Index]] = {}
    for each in analysis.indices:
        indices.setdefault((each.suite, each.load, each.candidate), []).append(each)
    places = [
        Place(
            suite=suite,
            load=load,
            baseline=baseline,
            candidate=candidate,
            rows=tuple(rows),
            leads=lead_rows(rows),
            means=means_of(rows, indices.get((suite, load, candidate), ())),
        )
        for (suite, load, baseline, candidate), rows in found.items()
    ]
    return tuple(sorted(places, key=lambda place: not place.leads))


def lead_rows(rows: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Return of each workload the row to read first: the preferred one, else its first time or rate.

    Numbers that an own program prints follow where the user gave them a direction.
    """
    chosen: dict[str, Comparison] = {}
    for row in rows:
        if row.metric.quantity not in {Quantity.TIME, Quantity.RATE}:
            continue
        if row.workload not in chosen or (row.preferred and not chosen[row.workload].preferred):
            chosen[row.workload] = row
    own = (
        row
        for row in rows
        if row.suite == OWN_SUITE
        and row.metric.leads
        and row.metric.quantity in {Quantity.TIME, Quantity.RATE}
        and row.metric is not chosen[row.workload].metric
    )
    return (*chosen.values(), *own)


def have_numbers(rows: Sequence[Comparison]) -> bool:
    """Return whether any row has a number."""
    return any(row.verdict not in NO_NUMBERS and row.baseline_values for row in rows)
