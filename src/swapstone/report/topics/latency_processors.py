# SPDX-License-Identifier: MIT OR Apache-2.0
"""Wake-up latencies of each processor of a machine with several."""

from __future__ import annotations

from collections.abc import Iterable

from swapstone.model import percentile
from swapstone.report.context import ReportContext
from swapstone.report.document import Section, data_section
from swapstone.report.topics.latency_data import NS_PER_US, Datum, LatencyGroup, us

_PERCENTS = (99.0, 99.9, 99.99)

Histogram = tuple[tuple[int, int], ...]
"""Pairs (microseconds, count), ascending."""


def by_processor(context: ReportContext, group: LatencyGroup, suffix: str) -> Iterable[Section]:
    """Yield a table of the processors, and their histograms as data; nothing for machines with one processor."""
    found = [
        (each.load, each.variant, processor, histogram)
        for load in group.loads
        for variant in group.variants
        if (each := group.found.get((load, variant))) is not None
        for processor, histogram in each.by_processor
    ]
    if not found:
        return
    number = context.experiment.processors
    yield data_section(
        name=f"latency-processors{suffix}",
        title=f"Wake-up latency of {group.workload} by processor, in microseconds, all replicates together",
        head=("load", "variant", "processor", "maximum", "average", *(f"p{one:g}" for one in _PERCENTS), "wake-ups"),
        rows=tuple(
            (load, variant.short_label, str(processor), *_figures(histogram))
            for load, variant, processor, histogram in found
        ),
        right=(False, False, True, True, True, True, True, True, True),
        keys=3,
        data=tuple(
            _datum({"load": load, "variant": variant.label, "processor": float(processor)}, histogram)
            for load, variant, processor, histogram in found
        ),
        notes=(
            f"One thread on each processor. One clock counts the instructions of all {number} processors in turn, so each runs at "
            f"1/{number} of the speed, and a turn of up to 10 us of the others is part of a latency. Compare only machines with {number} "
            "processors.",
        ),
    )
    yield data_section(
        name=f"latency-histogram-processors{suffix}",
        title=f"Histogram of wake-up latency of {group.workload} by processor",
        data=tuple(
            {
                "load": load,
                "variant": variant.label,
                "processor": float(processor),
                "from_us": float(edge),
                "count": float(count),
            }
            for load, variant, processor, histogram in found
            for edge, count in histogram
        ),
    )


def _average(histogram: Histogram) -> float:
    return sum(edge * count for edge, count in histogram) / _total(histogram)


def _total(histogram: Histogram) -> int:
    return sum(count for _, count in histogram)


def _percentile(histogram: Histogram, percent: float) -> float | None:
    """Return a percentile in microseconds; None where it would be the maximum, with too few latencies."""
    return None if _total(histogram) * (100 - percent) < 100 - 1e-6 else float(percentile(histogram, percent))


def _figures(histogram: Histogram) -> tuple[str, ...]:
    percents = [_percentile(histogram, percent) for percent in _PERCENTS]
    return (
        str(histogram[-1][0]),
        us(_average(histogram) * NS_PER_US),
        *("" if value is None else f"{value:g}" for value in percents),
        str(_total(histogram)),
    )


def _datum(place: Datum, histogram: Histogram) -> Datum:
    return {
        **place,
        "wake_ups": float(_total(histogram)),
        "max_us": float(histogram[-1][0]),
        "average_us": _average(histogram),
        **{f"p{percent:g}_us": _percentile(histogram, percent) for percent in _PERCENTS},
    }
