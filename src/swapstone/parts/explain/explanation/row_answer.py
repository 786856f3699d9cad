# SPDX-License-Identifier: MIT OR Apache-2.0
"""Why a row differs: the functions that account for it, the counts that obey them, and what is not known."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from swapstone.core.comparison.profile_difference import BELOW, LEAST_SHARE, NO_STACK
from swapstone.core.comparison.rows import AGAINST_BASELINE, MEDIANS_ALPHA
from swapstone.core.model.number_text import ratio
from swapstone.core.model.profile import NAMELESS, Frame
from swapstone.core.stats import median_contrast
from swapstone.parts.explain.explanation.by_function import (
    amount,
    answer,
    by_function,
    duration,
    function_text,
    percent,
    short_label,
    signed,
)
from swapstone.parts.explain.explanation.count_costs import (
    LARGEST_RATIO,
    Sides,
    common_counts,
    counts_of,
    distance,
    evidence,
    is_undecided,
    measured_tables,
    processor_taken,
    reference_values,
)
from swapstone.parts.explain.explanation.profile_formats import common_name
from swapstone.parts.explain.explanation.remedy_gaps import remedy_shares
from swapstone.parts.explain.explanation.surroundings import (
    NEITHER,
    READY,
    part_differences,
    processor_limits,
    slower_first,
    surrounding_lines,
)
from swapstone.parts.explain.explanation.time_split import TimeSplit, time_split
from swapstone.parts.explain.model.explanation import (
    EXCLUDED,
    HARDWARE,
    UNSAMPLED,
    UNSAMPLED_USER,
    Count,
    Explanation,
    RowMeasurements,
    TimeByFunction,
)

DRIFT = 0.15
"""Relative deviation of the reference runs' difference from the record's, above which a caveat is added."""

LEAST_NAMELESS = 0.05
"""Share of the difference in code without a name that is stated."""

NO_PROCESSOR = "time ready without a processor"
"""In sentences; remedies that undo limits belong to it."""

_MOST = 0.8
"""Share of the difference without a processor that is the answer, if what keeps processors from threads differs."""

_LEAST_RATIO = 1.2
"""Of counts that differ, where no profile shows their cost."""

_LIMITS = ("lost", "strace", "refuses", "wanted", "cachegrind", "recorded no event")
"""Words of those notes of instruments that are limits: something was not measured, or by other means."""


def explain_measurements(seen: RowMeasurements) -> Explanation:
    """Explain the difference of a row by its functions and counts.

    Args:
        seen: the measurements of both variants.
    """
    counts, split = counts_of(seen), time_split(seen)
    if seen.no_result and (split is None or split.interval is None or not split.is_decided):
        seen = msgspec.structs.replace(seen, differs=False)
    time = None
    if split is not None:
        time = by_function(
            split.functions,
            split.waits,
            source_lines(seen),
            named=seen.differs and split.is_decided,
            metric=split.metric,
            unit="ns",
            recorded=(split.recorded.baseline, split.recorded.candidate),
            ready=(split.ready.baseline, split.ready.candidate),
            interval=split.interval,
            samples=split.samples,
        )
    return Explanation(
        place=seen.place,
        counts=counts,
        time=time,
        sentence=_sentence(seen, time),
        evidence=evidence(seen, counts, split)
        if split is not None and seen.differs and split.is_decided and split.functions.total.difference
        else (),
        unknown=tuple(_unknown(seen, counts, split)),
        tables=measured_tables(seen, counts),
        remedies=None if seen.remedies is None else remedy_shares(seen.remedies),
        differs=seen.differs,
        no_result=seen.no_result,
        surroundings=surrounding_lines(seen, counts) if seen.differs or _differ_now(seen) else (),
    )


def source_lines(seen: RowMeasurements) -> dict[Frame, str]:
    """Return the source lines of functions in the slower variant, by their common names; those on a processor come first.

    The other variant's may be of another C library, whose functions have the same names.
    """
    slower = slower_first(seen)[0].variant
    return {
        common_name(Frame(symbol=each.symbol, object=each.object)): each.line
        for instrument in ("off-cpu", "on-cpu")
        for run in seen.runs
        if (run.variant, run.instrument) == (slower, instrument)
        for each in run.lines
    }


def _differ_now(seen: RowMeasurements) -> bool:
    """Return whether the medians of the runs without an instrument differ, with the time in which threads had no processor."""
    values = reference_values(seen, seen.ledger_metric)
    made = None if values is None else median_contrast(values, AGAINST_BASELINE, MEDIANS_ALPHA, ratio=False).interval
    return made is not None and not made.low <= 0 <= made.high


def named(explanation: Explanation) -> tuple[str, ...]:
    """Return the functions with `LEAST_SHARE` of the difference or more, as sentences have them, and those about counts and limits."""
    time = explanation.time
    whole = time.measured[1] - time.measured[0] if time else 0.0
    functions = (
        [one for one in time.functions if (one.candidate - one.baseline) / whole >= LEAST_SHARE]
        if time and whole
        else []
    )
    return (
        *((explanation.sentence,) if NO_PROCESSOR in explanation.sentence else ()),
        *(function_text(one.symbol, one.object) for one in functions),
        *explanation.evidence,
        *explanation.unknown,
        *explanation.surroundings,
    )


def _sentence(seen: RowMeasurements, time: TimeByFunction | None) -> str:
    """Return which functions account for a row's difference.

    For example: b_malloc_big1 takes 11.6 ms (cpu) with musl instead of 3.50 ms with glibc: malloc (C library), called by pass, takes
    7.90 ms more, 98 % of the difference (90 to 106 %).
    """
    place = seen.place
    baseline, candidate = short_label(place.baseline), short_label(place.candidate)
    if not seen.differs:
        medians = f"no difference between the medians of {candidate} and {baseline} on {place.workload}"
        if time and time.interval and not time.interval[0] <= 0 <= time.interval[1]:
            low, high = map(signed, time.interval)
            return (
                f"Too few pairs: the record decides {medians}, but the runs now differ by "
                f"{signed(time.measured[1] - time.measured[0])} ({low} to {high})."
            )
        decided = "has no result, and its runs now decide" if seen.no_result else "decides"
        return f"There is nothing to explain: the record {decided} {medians}."
    recorded = [
        dict(each.metrics).get(seen.ledger_metric, 0.0) if each.time_ns is None else each.time_ns
        for each in seen.references
    ]
    before, after = map(duration, recorded if time is None else time.recorded)
    start = f"{place.workload} takes {after} ({seen.ledger_metric}) with {candidate} instead of {before} with {baseline}{_ratio(seen)}"
    if late := _late(seen, time):
        return f"{start}: {late}."
    if time and time.interval and time.interval[0] <= 0 <= time.interval[1]:
        return f"{start}: which function accounts for it is not known, because the runs now show no difference."
    if time is None or any(
        Frame(symbol=one.symbol, object=one.object) == UNSAMPLED_USER for one in time.functions[: time.leading]
    ):
        return f"{start}: which function accounts for it is not known: {_no_time(seen)}."
    return answer(start, time)


def _ratio(seen: RowMeasurements) -> str:
    """Return the ratio of the medians of candidate and baseline with its interval; empty if it is not known."""
    recorded = all(reference.time_ns is not None for reference in seen.references)
    found = seen.medians if recorded else None
    values = None if recorded else reference_values(seen, seen.ledger_metric)
    if values is not None and values.min() > 0:
        made = median_contrast(values, AGAINST_BASELINE, MEDIANS_ALPHA, ratio=True)
        found = None if made.interval is None else (made.effect, made.interval.low, made.interval.high)
    if found is None or not all(1 / LARGEST_RATIO < each < LARGEST_RATIO for each in found):
        return ""
    effect, low, high = found
    return f" (ratio {ratio(effect)}, {ratio(low)} to {ratio(high)})"


def _no_time(seen: RowMeasurements) -> str:
    return next(
        (f"on-cpu is unavailable: {each.reason.rstrip('.')}" for each in seen.missing if each.instrument == "on-cpu"),
        "there is no on-CPU profile of both variants",
    )


def _unknown(seen: RowMeasurements, counts: Sequence[Count], split: TimeSplit | None) -> Iterator[str]:
    """Yield the limits of an explanation, a sentence each: first what was not measured."""
    if seen.no_result:
        yield (
            f"The record has no result of this row: {seen.no_result.rstrip('.')}. The difference is that of {seen.references[0].runs} runs "
            "of each variant without an instrument, made now."
        )
    for missing in seen.missing:
        # Most machines have no counters; what they would add is stated where it matters.
        if missing.instrument != HARDWARE and missing.reason != EXCLUDED:
            yield f"{missing.instrument} is unavailable: {missing.reason.rstrip('.')}." + (
                f" To enable it: {missing.remedy}." if missing.remedy else ""
            )
    if seen.differs and (split is None or _unsampled_share(split) >= LEAST_SHARE):
        yield _uncosted(seen, common_counts(counts))
    if split is not None:
        yield from _of_split(seen, split)
    limits: dict[tuple[str, str], list[str]] = {}
    for run in seen.runs:
        if notes := [note for note in run.notes if any(word in note for word in _LIMITS)]:
            limits.setdefault((run.instrument, "; ".join(notes)), []).append(short_label(run.variant))
    for (instrument, text), variants in limits.items():
        yield f"{instrument} on {' and '.join(variants)}: {text}."


def _unsampled_share(split: TimeSplit) -> float:
    """Return the share of the difference in code that could not be sampled."""
    unsampled = [one.own.difference for one in split.functions.frames if one.frame in {UNSAMPLED, UNSAMPLED_USER}]
    return sum(unsampled) / (split.functions.total.difference or math.inf)


def _uncosted(seen: RowMeasurements, counts: Sequence[Count]) -> str:
    """Return the counts that differ most, whose cost is not known, or of what was counted that none differs."""
    base, candidate = seen.references
    sides = Sides(candidate.recorded < base.recorded, 0.0)
    counted = list(dict.fromkeys(each.group for each in counts if sides.counted(each) is not None))
    if not counted:
        return "Nothing was counted of both variants."
    least = [
        each
        for each in counts
        if (pair := sides.counted(each))
        and pair[0] >= _LEAST_RATIO * pair[1]
        and amount(pair[0]) != amount(pair[1])
        and not is_undecided(each)
    ]
    least.sort(key=lambda each: -distance(each))
    texts = [
        f"{sides.bound(each)}{amount(pair[0])} {each.name} (other variant: {amount(pair[1])})"
        for each in least[:3]
        if (pair := sides.counted(each))
    ]
    if texts:
        return f"What these counts of an operation cost is not known: {', '.join(texts)}."
    return f"Of what was counted ({', '.join(counted)}), the slower variant has nothing 20 % more often."


def _of_split(seen: RowMeasurements, split: TimeSplit) -> Iterator[str]:
    found = split.functions
    ready, difference = split.ready.difference, found.total.difference
    now, recorded = difference + ready, split.recorded.difference
    if recorded and abs(now - recorded) > DRIFT * abs(recorded):
        yield (
            f"The runs now differ by {duration(abs(now))}{'' if now * recorded > 0 else ' in the other direction'}, those of the record by "
            f"{duration(abs(recorded))}: the machine or its load has changed. The shares are of the runs now."
        )
    has_rest = abs(ready) >= LEAST_SHARE * abs(now)
    if has_rest and not _is_delayed(seen, ready / now):  # else the sentence states it
        yield f"{signed(ready)} is {NO_PROCESSOR}, {_who_had_it(seen)}; the shares are of the rest."
    if split.interval is None:
        yield "The shares have no intervals: the measurements of several runs were not kept apart, or there were too few runs."
    elif not split.is_decided:
        low, high = map(duration, split.interval)
        yield (
            f"The {'rest of the runs now decides' if has_rest else 'runs now decide'} no difference: its interval, {low} to {high}, "
            "contains 0. More pairs would narrow it."
        )
    if not difference or not seen.differs or not split.is_decided:
        yield from split.notes
        return
    nameless = sum(one.own.difference for one in found.frames if _is_nameless(one.frame)) / difference
    if abs(nameless) >= LEAST_NAMELESS:
        yield f"{percent(nameless)} of the difference is in code without a name."
    yield from split.notes


def _ready_share(seen: RowMeasurements, time: TimeByFunction | None) -> float:
    """Return the share of the difference in which threads were ready without a processor; 0 if it is not known.

    The kernel's own count has the delay after each wake-up, too. It is no delay of its own where the slower variant waits more often.
    """
    if time is None and _waits_more(seen):
        return 0.0
    parts = part_differences(seen)
    ready = parts.pop(READY, 0.0) if NEITHER in parts else 0.0
    whole = sum(parts.values())
    if time is not None:
        ready = time.ready[1] - time.ready[0]
        whole = ready + time.measured[1] - time.measured[0]
    return ready / whole if whole else 0.0


def _waits_more(seen: RowMeasurements) -> bool:
    """Return whether the slower variant's threads leave their processors to wait more often."""
    more, less = (dict(each.metrics).get("nvcsw", 0.0) for each in slower_first(seen))
    return more > _LEAST_RATIO * (less + 1)


def _late(seen: RowMeasurements, time: TimeByFunction | None) -> str:
    """Return that nearly all of the difference is time ready without a processor, and what does that; empty if it is not.

    The variants took turns, and load beside them delays both alike: so it can't be the cause, also where nothing that was read differs.
    """
    share = _ready_share(seen, time)
    if share < _MOST:
        return ""
    found = f"{percent(share)} of the difference is {NO_PROCESSOR}"
    if limits := processor_limits(seen):
        return f"{found}, consistent with {' '.join(limits).rstrip('.')}"
    if not _is_delayed(seen, share):
        return ""
    equal = ", which are equal at its end" if all(each.surroundings for each in seen.references) else ""
    return (
        f"{found}. The variants took turns, so load beside them is not the cause: its own threads may be, or a quota, a priority or a set "
        f"of processors while it ran{equal}"
    )


def _is_delayed(seen: RowMeasurements, share: float) -> bool:
    """Return whether the record and the runs now show a difference, nearly all of it without a processor, and no limit differs.

    The runs without an instrument must show that too: load may have hit those of one variant under the instrument.

    Args:
        seen: the row.
        share: of the difference, in which threads were ready without a processor, under the instrument.
    """
    counted = _ready_share(seen, None)
    return min(share, counted) >= _MOST and seen.differs and _differ_now(seen) and not processor_limits(seen)


def _who_had_it(seen: RowMeasurements) -> str:
    """Return why threads had no processor: first by what differs between variants that took turns, which other programs do not."""
    if limits := processor_limits(seen):
        return f"consistent with {' '.join(limits).rstrip('.')}"
    who = processor_taken(seen)
    taken = f"taken by {who}" if who else "and it is not known who had it"
    if not all(each.surroundings for each in seen.references):
        return taken
    return f"{taken}, while the variants took turns; at the end their quotas, priorities and processors were equal"


def _is_nameless(frame: Frame) -> bool:
    return frame == NO_STACK or frame.symbol == NAMELESS or frame.symbol.startswith(BELOW)
