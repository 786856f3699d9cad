# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer of wake-up latencies: the worst case and p99.9 of each variant under each load."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

from swapstone.core.model import Analysis, Latency, Variant
from swapstone.core.report import formatting
from swapstone.core.report.answer import figures, limits, wording
from swapstone.core.report.answer.answer import Answer
from swapstone.core.report.answer.claim import Claim
from swapstone.core.report.answer.commands import commands_for
from swapstone.core.report.answer.means import Standing, mean_of
from swapstone.core.report.answer.places import places_of
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Block, Item
from swapstone.core.report.tables import Field, short_table, unit
from swapstone.parts.vm.report import latency_wall
from swapstone.parts.vm.report.latency_data import IDLE, LatencyGroup, groups, percentile, ratios

_PERCENT = 99.9


def answer(context: ReportContext, analysis: Analysis) -> Answer | None:
    """Return the answer of latencies; None of an analysis without any."""
    found = groups(context, analysis)
    if not found:
        return None
    suites = tuple(dict.fromkeys(group.suite for group in found))
    rows = [row for place in places_of(analysis) if place.suite in suites for row in place.leads]
    exact, several = context.experiment.virtual, len(found) > 1
    return Answer(
        claims=tuple(_claim(group, analysis, context, several=several) for group in found),
        suites=suites,
        figures=tuple(_table(group, exact=exact) for group in found),
        unknown=(*limits.rejected(rows), *_few(found), *(() if exact else latency_wall.unknown(found))),
        commands=(*_explaining(context, found), *commands_for(context, ())),
    )


def _claim(group: LatencyGroup, analysis: Analysis, context: ReportContext, *, several: bool) -> Claim:
    """Return the result of one workload; its numbers are those of the longest latency that differs most."""
    margin = context.experiment.margin
    if context.experiment.virtual:
        text = _sentence(group, margin, several=several)
    else:
        text = latency_wall.sentence(group, analysis, several=several)
    rows = latency_wall.longest_rows(group, analysis)
    means = [mean for row in rows if (mean := mean_of([row])) is not None]
    claim = Claim(
        suite=group.suite, load="", text=text, rows=rows, names_rows=not context.experiment.virtual, floor=margin
    )
    first = max(
        means,
        key=lambda mean: (mean.standing(margin) in {Standing.MORE, Standing.LESS}, abs(math.log(mean.effect))),
        default=None,
    )
    return claim if first is None else claim.of_mean(first)


def _explaining(context: ReportContext, found: Sequence[LatencyGroup]) -> tuple[tuple[str, str], ...]:
    """Return the command that prints the path of the worst wake-up, where it can be derived: on the exact clock, of two variants."""
    if not context.experiment.virtual or not context.explain or all(len(group.variants) < 2 for group in found):
        return ()
    return (("why it was late", f"{context.explain} max"),)


def _sentence(group: LatencyGroup, margin: float, *, several: bool) -> str:
    """Return the result of one workload, without a full stop."""
    where = f"{formatting.safe(group.workload)}: " if several else ""
    first, *others = group.variants
    if not others:
        load = _worst_load(group, group.variants)
        return f"{where}{_alone(group, first, load)}"
    return where + "; ".join(_against(group, first, other, margin) for other in others)


def _alone(group: LatencyGroup, variant: Variant, load: str) -> str:
    each = group.found[load, variant]
    name = formatting.safe(variant.short_label)
    return f"the worst wake-up of {name} took {_time(max(each.maxima))}, {_under(load)}, {_replicates(each)}; nothing to compare it with"


def _against(group: LatencyGroup, first: Variant, other: Variant, margin: float) -> str:
    """Return a variant against the first: under the load with the longest latency, and the number of loads with the same sign."""
    both = [load for load in group.loads if (load, first) in group.found and (load, other) in group.found]
    names = formatting.safe(other.short_label), formatting.safe(first.short_label)
    if not both:
        return f"no load was measured with both {names[1]} and {names[0]}"
    signs = {load: _sign(group.found[load, first], group.found[load, other], margin) for load in both}
    shorter = [load for load in both if signs[load] == 1]
    longer = [load for load in both if signs[load] == -1]
    same = [load for load in both if signs[load] == 0]
    if not shorter and not longer:
        load = max(both, key=lambda each: max(group.found[each, first].maxima))
        what = "the same worst case" if len(same) == len(both) else "no worst case that differs in every replicate"
        return f"{names[0]} and {names[1]} have {what} ({_under(load)}: {_pair(group, load, first, other)})"
    words = [("shorter", shorter), ("longer", longer)]
    (word, most), (other_word, rest) = sorted(words, key=lambda each: -len(each[1]))
    clauses = [_clause(group, most, word, names, first, other)]
    clauses += [f"{other_word} {_under(*rest)}"] if rest else []
    clauses += [f"the same {_under(*same)}"] if same else []
    open_loads = [load for load in both if signs[load] is None]
    clauses += [f"undecided {_under(*open_loads)}"] if open_loads else []
    return "; ".join(clauses)


def _sign(before: Latency, after: Latency, margin: float) -> int | None:
    """Return 1 if the second has a shorter worst case in every replicate, -1 for a longer one, 0 for the same, else None.

    A single replicate decides nothing.
    """
    found = ratios(before, after)
    return None if found is None or found.replicates < 2 else found.sign(margin)


def _clause(  # noqa: PLR0917 - what a clause names
    group: LatencyGroup, loads: Sequence[str], word: str, names: tuple[str, str], first: Variant, other: Variant
) -> str:
    def size(load: str) -> float:
        values = max(group.found[load, first].maxima), max(group.found[load, other].maxima)
        return max(values) / max(1.0, min(values))

    load = max(loads, key=size)
    most = ", most" if len(loads) > 1 else ","
    count = f" under {len(loads)} of {len(group.loads)} loads{most}" if len(group.loads) > 1 else ""
    return f"{names[0]} has a {word} worst wake-up than {names[1]}{count} {_under(load)}: {_pair(group, load, first, other)}"


def _pair(group: LatencyGroup, load: str, first: Variant, other: Variant) -> str:
    """Return both worst cases and percentiles: ``31 us instead of 3.74 ms, p99.9 9 us instead of 120 us, in 4 replicates``."""
    before, after = group.found[load, first], group.found[load, other]
    text = f"{_time(max(after.maxima))} instead of {_time(max(before.maxima))}"
    tails = percentile(after, _PERCENT), percentile(before, _PERCENT)
    if tails[0] is not None and tails[1] is not None:
        text += f", p99.9 {_time(tails[0])} instead of {_time(tails[1])}"
    return f"{text}, {_replicates(after)}"


def _replicates(each: Latency) -> str:
    return f"in {formatting.count(len(each.maxima), 'replicate')}"


def _under(*loads: str) -> str:
    names = wording.listed([formatting.safe(load) for load in loads])
    return "on an idle machine" if loads == (IDLE,) else f"under {names}"


def _worst_load(group: LatencyGroup, variants: Sequence[Variant]) -> str:
    known = [load for load in group.loads if all((load, variant) in group.found for variant in variants)]
    return max(known or list(group.loads), key=lambda load: max(group.found[load, variants[0]].maxima, default=0.0))


def _time(nanoseconds: float) -> str:
    return formatting.quantity(nanoseconds, "ns")


def _few(found: Sequence[LatencyGroup]) -> list[Item]:
    fewest = min(len(each.maxima) for group in found for each in group.found.values())
    if fewest > 1:
        return []
    return [Item("With one replicate, whether the worst cases differ is undecided: more replicates (--blocks).")]


def _table(group: LatencyGroup, *, exact: bool) -> Block:
    """Return the worst case, the median of the replicates' maxima, p99.9 and the average of each load and variant."""
    cells = [found for place in itertools.product(group.loads, group.variants) if (found := group.found.get(place))]
    fields: tuple[Field[Latency], ...] = (
        Field("load", "", lambda each: each.load, formatting.safe, right=False),
        Field("variant", "", lambda each: each.variant.short_label, formatting.safe, right=False),
        Field("worst case" if exact else "largest seen", "", lambda each: max(each.maxima), _time),
        Field("median of maxima", "", lambda each: _time(statistics.median(each.maxima)) + latency_wall.interval(each)),
        Field("p99.9", "", lambda each: percentile(each, _PERCENT), unit("ns")),
        Field("average", "", lambda each: statistics.fmean(each.averages) if each.averages else None, unit("ns")),
    )
    return short_table(
        f"Wake-up latency of {group.workload}",
        fields,
        cells,
        figures.MOST_ROWS + 2,
        keys=2,
        optional=("median of maxima", "average"),
    )
