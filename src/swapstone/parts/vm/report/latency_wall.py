# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a report states of maxima on the wall clock, where a run is no exact repetition. docs/statistics.md has the reasons."""

from __future__ import annotations

from collections.abc import Sequence

from swapstone.core.model import Analysis, Comparison, Latency
from swapstone.core.report import formatting
from swapstone.core.report.document import Item
from swapstone.parts.vm.report.latency_data import LatencyGroup, total

_LEAD = "max"


def longest_rows(group: LatencyGroup, analysis: Analysis) -> tuple[Comparison, ...]:
    """Return the comparisons of the longest latencies of a group."""
    place = group.suite, group.workload, _LEAD
    return tuple(row for row in analysis.comparisons if (row.suite, row.workload, row.metric.name) == place)


def unknown(found: Sequence[LatencyGroup]) -> tuple[Item, ...]:
    """Return what maxima on the wall clock do not show."""
    every = [each for group in found for each in group.found.values() if each.exceedance is not None]
    if not every:
        return ()
    fewest = min(every, key=lambda each: len(each.maxima))
    lengths = {round(total(each) / len(each.maxima)) for each in every}
    count = len(fewest.maxima)
    text = (
        f"The largest latency seen is no worst case: if runs are exchangeable, one more run exceeds that of {count} runs with a "
        f"probability of up to 1/{count + 1}. Maxima of runs with other numbers of wake-ups, loads or machines are not comparable"
    )
    if len(lengths) > 1:
        text += f" (here {formatting.digits(min(lengths))} to {formatting.digits(max(lengths))} wake-ups)"
    return (Item(f"{text}."),)


def interval(latency: Latency) -> str:
    """Return the interval of the median of maxima behind it, such as `` (31 us to 44 us)``; empty without one."""
    if latency.median_interval is None:
        return ""
    low, high = (formatting.quantity(value, "ns") for value in latency.median_interval)
    return f" ({low} to {high})"
