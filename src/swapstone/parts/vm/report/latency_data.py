# SPDX-License-Identifier: MIT OR Apache-2.0
"""Latencies arranged for a report: by workload, load and variant, and ratios of maxima replicate by replicate."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable

from swapstone.core.model import NO_NUMBERS, Analysis, FrozenStruct, Latency, Variant, grouped
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.ratios import Ratio

STUDY = "preempt-rt"
"""The published study of latencies."""

IDLE = "idle"
NS_PER_US = 1000.0

PERCENTS = (99.0, 99.9, 99.99)
"""Percentiles of the tables."""


class LatencyGroup(FrozenStruct, frozen=True, kw_only=True):
    """The latencies of one workload.

    Attributes:
        suite, workload: which.
        loads: in the experiment's order.
        variants: the baseline first, copies of it left out.
        found: by (load, variant).
        refused: by (load, variant), the verdict of maxima that can't be compared.
    """

    suite: str
    workload: str
    loads: tuple[str, ...]
    variants: tuple[Variant, ...]
    found: dict[tuple[str, Variant], Latency]
    refused: dict[tuple[str, Variant], str]


class MaximumRatios(FrozenStruct, frozen=True, kw_only=False):
    """Ratios of two maxima over the replicates that both sides have: their number, median, lowest and highest."""

    replicates: int
    median: float
    low: float
    high: float

    @property
    def ratio(self) -> Ratio:
        """Return the median with the range of several replicates."""
        low, high = (self.low, self.high) if self.replicates > 1 else (None, None)
        return Ratio(value=self.median, low=low, high=high, ranged=True)

    def sign(self, margin: float) -> int | None:
        """Return 1 or -1 where all replicates are on one side of the margin, 0 where all are within it, else None."""
        low, high = sign(self.low, margin), sign(self.high, margin)
        return low if low == high else None


def sign(ratio: float, margin: float) -> int:
    """Return 1 or -1 for the side of 1 on which a ratio is; 0 within the margin."""
    return 1 if ratio > 1 + margin else -1 if ratio < 1 / (1 + margin) else 0


def groups(context: ReportContext, analysis: Analysis) -> tuple[LatencyGroup, ...]:
    """Return the latencies by workload."""
    copies = {null.copy for null in analysis.nulls}
    kept = (each for each in analysis.latencies if each.variant not in copies and each.maxima)
    return tuple(
        LatencyGroup(
            suite=suite,
            workload=workload,
            loads=tuple(load for load in context.experiment.loads if load in {each.load for each in mine}),
            variants=tuple(dict.fromkeys(each.variant for each in mine)),
            found={(each.load, each.variant): each for each in mine},
            refused={
                (row.load, row.candidate): row.verdict.value
                for row in analysis.comparisons
                if (row.suite, row.workload, row.metric.name) == (suite, workload, "max") and row.verdict in NO_NUMBERS
            },
        )
        for (suite, workload), mine in grouped(kept, lambda each: (each.suite, each.workload)).items()
    )


def kernel_of(variant: Variant) -> str:
    """Return the level of the factor ``kernel``, ``rt`` with PREEMPT_RT; empty where that is not varied."""
    return dict(variant.levels).get("kernel", "")


def ratios(above: Latency | None, below: Latency | None) -> MaximumRatios | None:
    """Divide maxima replicate by replicate.

    Returns:
        None where no replicate has both maxima, and a divisor above 0.
    """
    if above is None or below is None:
        return None
    divisor = dict(zip(below.blocks, below.maxima, strict=True))
    pairs = zip(above.blocks, above.maxima, strict=True)
    found = [value / divisor[block] for block, value in pairs if divisor.get(block, 0.0) > 0]
    return MaximumRatios(len(found), statistics.median(found), min(found), max(found)) if found else None


def total(latency: Latency) -> int:
    """Return the number of latencies in all replicates together."""
    return sum(count for _, count in latency.histogram)


def percentile(latency: Latency, percent: float) -> float | None:
    """Return a percentile in nanoseconds; None where it would be the maximum, with too few latencies."""
    if total(latency) * (100 - percent) < 100 - 1e-6:
        return None
    return dict(latency.percentiles).get(percent)


def average(latency: Latency) -> float | None:
    """Return the mean of the replicates' averages in nanoseconds; None without any."""
    return statistics.fmean(latency.averages) if latency.averages else None


def in_us(nanoseconds: float | None) -> float | None:
    """Return a time in microseconds; None for None."""
    return None if nanoseconds is None else nanoseconds / NS_PER_US


def us(nanoseconds: float) -> str:
    """Return a time in microseconds, to the nanosecond below 100 us."""
    return us_text(nanoseconds / NS_PER_US)


def us_text(value: float) -> str:
    """Return microseconds, to the nanosecond below 100 us."""
    return formatting.trimmed(f"{value:.3f}" if value < 100 else f"{value:.1f}")


def spread(values: Iterable[float]) -> str:
    """Return values as ``median [lowest .. highest]`` in microseconds; a single value alone."""
    found = tuple(values)
    middle = us(statistics.median(found))
    return middle if len(found) == 1 else f"{middle} [{us(min(found))} .. {us(max(found))}]"


def plain_name(text: str) -> str:
    """Return a text in lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"


def over_replicates(counts: Iterable[int]) -> str:
    """Return ``over 4 replicates`` for the smallest and largest of some counts; `counts` is not empty."""
    found = sorted(set(counts))
    most = formatting.count(found[-1], "replicate")
    return f"over {most}" if len(found) == 1 else f"over {found[0]} to {most}"
