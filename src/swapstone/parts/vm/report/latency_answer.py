# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer of wake-up latencies: the worst case and p99.9 of each variant under each load, on the wall clock the maxima of runs.

On the wall clock a run is no exact repetition. docs/statistics.md has what a maximum shows there.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

from swapstone.core.model import Analysis, Comparison, Latency, Variant, Verdict
from swapstone.core.report import formatting
from swapstone.core.report.answer import figures, limits, wording
from swapstone.core.report.answer.claim import Answer, Claim
from swapstone.core.report.answer.commands import commands_for
from swapstone.core.report.answer.means import Standing, mean_of, places_of
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Block, Item
from swapstone.core.report.tables import Field, short_table, unit
from swapstone.parts.vm.report.latency_data import IDLE, LatencyGroup, average, groups, percentile, ratios, total

_PERCENT = 99.9
_SIGNS = {1: "shorter", -1: "longer", 0: "same", None: ""}
_DIFFERENT = {True: ("shorter", "longer"), False: ("longer", "shorter")}
"""The words of differences on the exact clock, and on the wall clock."""
_VERDICTS = {Verdict.WORSE: "longer", Verdict.BETTER: "shorter", Verdict.EQUIVALENT: "same"}


def answer(context: ReportContext, analysis: Analysis) -> Answer | None:
    """Return the answer of latencies; None of an analysis without any."""
    found = groups(context, analysis)
    if not found:
        return None
    suites = tuple(dict.fromkeys(group.suite for group in found))
    rows = [row for place in places_of(analysis) if place.suite in suites for row in place.leads]
    exact, several = context.experiment.virtual, len(found) > 1
    fewest = min(len(each.maxima) for group in found for each in group.found.values())
    few = (Item("With one replicate, whether the worst cases differ is undecided: more replicates (--blocks)."),)
    # The path of a wake-up can be derived on the exact clock, of two variants.
    path = (("why it was late", f"{context.explain} max"),)
    several_variants = any(len(group.variants) > 1 for group in found)
    return Answer(
        claims=tuple(_claim(group, analysis, context, several=several) for group in found),
        suites=suites,
        figures=tuple(_table(group, exact=exact) for group in found),
        unknown=(*limits.rejected(rows), *(few if fewest == 1 else ()), *(() if exact else _unknown(found))),
        commands=(*(path if exact and context.explain and several_variants else ()), *commands_for(context, ())),
    )


def _claim(group: LatencyGroup, analysis: Analysis, context: ReportContext, *, several: bool) -> Claim:
    """Return the result of one workload; its numbers are those of the longest latency that differs most."""
    margin, exact = context.experiment.margin, context.experiment.virtual
    place = group.suite, group.workload, "max"
    rows = tuple(row for row in analysis.comparisons if (row.suite, row.workload, row.metric.name) == place)
    first, *others = group.variants
    clauses = [
        _against(group, _words(group, rows, first, other, margin, exact=exact), first, other, exact=exact)
        for other in others
    ]
    where = f"{formatting.safe(group.workload)}: " if several else ""
    text = where + "; ".join(clauses or [_alone(group, first, exact=exact)])
    claim = Claim(suite=group.suite, load="", text=text, rows=rows, names_rows=not exact, floor=margin)
    means = [mean for row in rows if (mean := mean_of([row])) is not None]
    differing = [mean for mean in means if mean.standing(margin) in {Standing.MORE, Standing.LESS}]
    largest = max(differing or means, key=lambda mean: abs(math.log(mean.effect)), default=None)
    return claim if largest is None else claim.of_mean(largest)


def _alone(group: LatencyGroup, variant: Variant, *, exact: bool) -> str:
    load = max(
        (load for load in group.loads if (load, variant) in group.found),
        key=lambda load: _value(group.found[load, variant], exact),
    )
    each = group.found[load, variant]
    what = "worst wake-up" if exact else "longest wake-up of a run"
    where = f"{',' * exact} {_under([load], exact)}, {_over(each, exact)}"
    return f"the {what} of {formatting.safe(variant.short_label)} took {_time(_value(each, exact))}{where}; nothing to compare it with"


def _words(
    group: LatencyGroup, rows: Sequence[Comparison], first: Variant, other: Variant, margin: float, *, exact: bool
) -> dict[str, list[str]]:
    """Return the loads under which a variant's longest latency is ``shorter``, ``longer``, ``same``, or undecided (empty).

    On the exact clock, a difference is one in every replicate, and a single replicate decides nothing. On the wall clock the verdicts on
    the maxima of runs decide, never the largest of all.
    """
    verdicts = {row.load: _VERDICTS.get(row.verdict, "") for row in rows if row.candidate == other}
    found: dict[str, list[str]] = {word: [] for word in (*_DIFFERENT[exact], "same", "")}
    for load in group.loads:
        if (load, first) not in group.found or (load, other) not in group.found:
            continue
        signs = ratios(group.found[load, first], group.found[load, other]) if exact else None
        sign = None if signs is None or signs.replicates < 2 else signs.sign(margin)
        found[_SIGNS[sign] if exact else verdicts.get(load, "")].append(load)
    return found


def _against(group: LatencyGroup, words: dict[str, list[str]], first: Variant, other: Variant, *, exact: bool) -> str:
    """Return a variant against the first: under the loads where it differs, the figures of the one where it differs most."""
    new, old = formatting.safe(other.short_label), formatting.safe(first.short_label)
    both = [load for load in group.loads if any(load in loads for loads in words.values())]
    same, rest = words["same"], words[""]
    if not both:
        return f"no load was measured with both {old} and {new}"
    clauses = [
        f"{new} has {f'a {word} worst wake-up' if exact else f'{word} maxima'} than {old}{_where(group, loads, first, other, exact)}"
        for word, loads in sorted(words.items(), key=lambda pair: -len(pair[1]) * exact)
        if word in _DIFFERENT[exact] and loads
    ]
    if not clauses and exact and not rest:
        load = max(both, key=lambda each: max(group.found[each, first].maxima))
        return f"{new} and {old} have the same worst case ({_under([load], exact)}: {_pair(group, load, first, other, exact)})"
    if not clauses and not same:
        what = "another worst case" if exact else "other maxima"
        return f"whether {new} has {what} than {old} is not decided{_where(group, rest, first, other, exact)}"
    if same:
        equal = f"{new} and {old} have {'the same worst case' if exact else 'equal maxima'}"
        clauses.append(f"{'the same' if exact and clauses else equal} {_under(same, exact)}")
    return "; ".join([*clauses, *([f"undecided {_under(rest, exact)}"] if rest else [])])


def _where(group: LatencyGroup, loads: Sequence[str], first: Variant, other: Variant, exact: bool) -> str:
    """Return the loads, and the figures under that where the variants differ most."""

    def size(load: str) -> float:
        values = [_value(group.found[load, variant], exact) for variant in (first, other)]
        return max(values) / max(1.0, min(values))

    load = max(loads, key=size)
    if not exact:
        which = f" {_under([load], exact)}" if len(loads) > 1 else ""
        return f" {_under(loads, exact)}: {_pair(group, load, first, other, exact, which)}"
    most = ", most" if len(loads) > 1 else ","
    count = f" under {len(loads)} of {len(group.loads)} loads{most}" if len(group.loads) > 1 else ""
    return f"{count} {_under([load], exact)}: {_pair(group, load, first, other, exact)}"


def _pair(  # noqa: PLR0917 - what is compared
    group: LatencyGroup, load: str, first: Variant, other: Variant, exact: bool, where: str = ""
) -> str:
    """Return both longest latencies: ``31 us instead of 3.74 ms, p99.9 9 us instead of 120 us, in 4 replicates``."""
    before, after = group.found[load, first], group.found[load, other]
    text = f"{_time(_value(after, exact))} instead of {_time(_value(before, exact))}"
    tails = percentile(after, _PERCENT), percentile(before, _PERCENT)
    if exact and tails[0] is not None and tails[1] is not None:
        text += f", p99.9 {_time(tails[0])} instead of {_time(tails[1])}"
    common = len(set(before.blocks) & set(after.blocks))
    return f"{text}{where}, {_over(after, exact, common)}"


def _value(each: Latency, exact: bool) -> float:
    """Return the worst case on the exact clock, on the wall clock the median of the maxima of runs, in nanoseconds."""
    return max(each.maxima) if exact else statistics.median(each.maxima)


def _over(each: Latency, exact: bool, common: int | None = None) -> str:
    """Return over how many replicates, or runs, figures are; of two variants those that both have."""
    count = len(each.maxima) if common is None else common
    if exact:
        return f"in {formatting.count(count, 'replicate')}"
    length = round(total(each) / max(1, len(each.maxima)))
    return f"at the median of {formatting.count(count, 'run')} of {length} wake-ups"


def _under(loads: Sequence[str], exact: bool) -> str:
    idle = "on an idle machine" if exact else "without a load"
    return idle if list(loads) == [IDLE] else f"under {wording.listed([formatting.safe(load) for load in loads])}"


_time = unit("ns")


def _unknown(found: Sequence[LatencyGroup]) -> tuple[Item, ...]:
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


def _median(latency: Latency) -> str:
    """Return the median of maxima with its interval, such as ``36 us (31 us to 44 us)``."""
    bounds = " to ".join(map(_time, latency.median_interval or ()))
    return _time(statistics.median(latency.maxima)) + (f" ({bounds})" if bounds else "")


def _table(group: LatencyGroup, *, exact: bool) -> Block:
    """Return the worst case, the median of the replicates' maxima, p99.9 and the average of each load and variant."""
    cells = [found for place in itertools.product(group.loads, group.variants) if (found := group.found.get(place))]
    fields: tuple[Field[Latency], ...] = (
        Field("load", "", lambda each: each.load, formatting.safe, right=False),
        Field("variant", "", lambda each: each.variant.short_label, formatting.safe, right=False),
        Field("worst case" if exact else "largest seen", "", lambda each: max(each.maxima), _time),
        Field("median of maxima", "", _median),
        Field("p99.9", "", lambda each: percentile(each, _PERCENT), _time),
        Field("average", "", average, _time),
    )
    return short_table(
        f"Wake-up latency of {group.workload}",
        fields,
        cells,
        figures.MOST_ROWS + 2,
        keys=2,
        optional=("median of maxima", "average"),
    )
