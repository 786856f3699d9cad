# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a report states of maxima on the wall clock, where a run is no exact repetition. docs/statistics.md has the reasons."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from swapstone.core.model import Analysis, Comparison, Latency, Variant, Verdict
from swapstone.core.report import formatting
from swapstone.core.report.answer import wording
from swapstone.core.report.document import Item
from swapstone.parts.vm.report.latency_data import IDLE, LatencyGroup, total

_LEAD = "max"
_LONGER, _SHORTER, _ALIKE = {Verdict.WORSE}, {Verdict.BETTER}, {Verdict.EQUIVALENT}


def sentence(group: LatencyGroup, analysis: Analysis, *, several: bool) -> str:
    """Return the result of one workload, without a full stop: the verdicts on the maxima of runs, never on the largest of all.

    Args:
        group: its latencies.
        analysis: has the verdicts.
        several: whether the sentence must name the workload.
    """
    where = f"{formatting.safe(group.workload)}: " if several else ""
    first, *others = group.variants
    if not others:
        load = max(group.loads, key=lambda each: statistics.median(group.found[each, first].maxima))
        each = group.found[load, first]
        return (
            f"{where}the longest wake-up of a run of {formatting.safe(first.short_label)} took {_median(each)} {_under(load)}, at the "
            f"median of {_runs(each)}; nothing to compare it with"
        )
    return where + "; ".join(_against(group, analysis, first, other) for other in others)


def _against(group: LatencyGroup, analysis: Analysis, first: Variant, other: Variant) -> str:
    both = [load for load in group.loads if (load, first) in group.found and (load, other) in group.found]
    names = formatting.safe(other.short_label), formatting.safe(first.short_label)
    if not both:
        return f"no load was measured with both {names[1]} and {names[0]}"
    verdicts = {row.load: row.verdict for row in longest_rows(group, analysis) if row.candidate == other}
    clauses = [
        f"{names[0]} has {what} maxima than {names[1]} {_under(*loads)}: {_pair(group, loads, first, other)}"
        for what, which in (("longer", _LONGER), ("shorter", _SHORTER))
        if (loads := [load for load in both if verdicts.get(load) in which])
    ]
    alike = [load for load in both if verdicts.get(load) in _ALIKE]
    clauses += [f"{names[0]} and {names[1]} have equal maxima {_under(*alike)}"] if alike else []
    rest = [load for load in both if verdicts.get(load) not in _LONGER | _SHORTER | _ALIKE]
    if rest and not clauses:
        pair = _pair(group, rest, first, other)
        return f"whether {names[0]} has other maxima than {names[1]} is undecided {_under(*rest)}: {pair}"
    clauses += [f"undecided {_under(*rest)}"] if rest else []
    return "; ".join(clauses)


def longest_rows(group: LatencyGroup, analysis: Analysis) -> tuple[Comparison, ...]:
    """Return the comparisons of the longest latencies of a group."""
    place = group.suite, group.workload, _LEAD
    return tuple(row for row in analysis.comparisons if (row.suite, row.workload, row.metric.name) == place)


def _pair(group: LatencyGroup, loads: Sequence[str], first: Variant, other: Variant) -> str:
    """Return both medians under the load where they differ most."""

    def size(load: str) -> float:
        values = [statistics.median(group.found[load, variant].maxima) for variant in (first, other)]
        return max(values) / max(1.0, min(values))

    load = max(loads, key=size)
    before, after = group.found[load, first], group.found[load, other]
    which = f" {_under(load)}" if len(loads) > 1 else ""
    return f"{_median(after)} instead of {_median(before)}{which}, at the median of {_runs(after)}"


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


def _median(each: Latency) -> str:
    return formatting.quantity(statistics.median(each.maxima), "ns")


def _runs(each: Latency) -> str:
    length = round(total(each) / max(1, len(each.maxima)))
    return f"{formatting.count(len(each.maxima), 'run')} of {length} wake-ups"


def _under(*loads: str) -> str:
    names = wording.listed([formatting.safe(load) for load in loads])
    return "without a load" if loads == (IDLE,) else f"under {names}"
