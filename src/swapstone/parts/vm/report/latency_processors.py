# SPDX-License-Identifier: MIT OR Apache-2.0
"""Wake-up latencies of each processor of a machine with several."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple

from swapstone.core.model import Variant, percentile
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Section
from swapstone.core.report.tables import Field, known, section_of
from swapstone.parts.vm.report.latency_data import PERCENTS, LatencyGroup, us_text


class _Row(NamedTuple):
    """A processor under a load with a variant; its histogram has pairs (microseconds, count), ascending."""

    load: str
    variant: Variant
    processor: int
    histogram: tuple[tuple[int, int], ...]

    def total(self) -> int:
        """Return the number of wake-ups."""
        return sum(count for _, count in self.histogram)

    def average(self) -> float:
        """Return the mean in microseconds."""
        return sum(edge * count for edge, count in self.histogram) / self.total()


def _percentile(percent: float) -> Callable[[_Row], float | None]:
    """Return the function from a row to a percentile in microseconds; None where it would be the maximum, with too few latencies."""
    return lambda row: None if row.total() * (100 - percent) < 100 - 1e-6 else float(percentile(row.histogram, percent))


_PLACE: tuple[Field[_Row], ...] = (
    Field("load", "load", lambda row: row.load, right=False),
    Field("variant", "", lambda row: row.variant.short_label, right=False),
    Field("", "variant", lambda row: row.variant.label),
    Field("processor", "processor", lambda row: float(row.processor), "{:.0f}".format),
)


def by_processor(context: ReportContext, group: LatencyGroup, suffix: str) -> Iterable[Section]:
    """Yield a table of the processors, and their histograms as data; nothing for machines with one processor."""
    found = [
        _Row(load, variant, processor, histogram)
        for load, variant in itertools.product(group.loads, group.variants)
        if (each := group.found.get((load, variant))) is not None
        for processor, histogram in each.by_processor
    ]
    if not found:
        return
    number = context.experiment.processors
    yield section_of(
        f"latency-processors{suffix}",
        f"Wake-up latency of {group.workload} by processor, in microseconds, all replicates together",
        (
            *_PLACE,
            Field("", "wake_ups", lambda row: float(row.total())),
            Field("maximum", "max_us", lambda row: float(row.histogram[-1][0]), "{:.0f}".format),
            Field("average", "average_us", _Row.average, us_text),
            *(Field(f"p{one:g}", f"p{one:g}_us", _percentile(one), known("{:g}".format)) for one in PERCENTS),
            Field("wake-ups", "", _Row.total),
        ),
        found,
        keys=3,
        notes=(
            f"One thread on each processor. One clock counts the instructions of all {number} processors in turn, so each runs at "
            f"1/{number} of the speed, and a turn of up to 10 us of the others is part of a latency. Compare only machines with {number} "
            "processors.",
        ),
    )
    yield section_of(
        f"latency-histogram-processors{suffix}",
        f"Histogram of wake-up latency of {group.workload} by processor",
        (
            *(field._replace(head="") for field in _PLACE if field.key),
            Field("", "from_us", lambda row: float(row.histogram[0][0])),
            Field("", "count", lambda row: float(row.histogram[0][1])),
        ),
        (row._replace(histogram=(pair,)) for row in found for pair in row.histogram),
    )
