# SPDX-License-Identifier: MIT OR Apache-2.0
"""Findings: the classes of cost that account for a difference, each worded as a sentence with its evidence."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from swapstone.core.comparison.rows import AGAINST_BASELINE, MEDIANS_ALPHA
from swapstone.core.model.number_text import fixed, ratio
from swapstone.core.report.variant_values import grouped
from swapstone.core.stats import median, median_contrast
from swapstone.parts.explain.explanation.call_names import common_counts
from swapstone.parts.explain.explanation.cost_classes import (
    ALLOCATOR,
    COPIES,
    FAULTS,
    OWN,
    READY,
    SYSTEM_CALLS,
    WAITING,
    CostClasses,
)
from swapstone.parts.explain.explanation.evidence import (
    ClassEvidence,
    RowFacts,
    Sides,
    amount,
    duration,
    function_times,
    is_shown,
)
from swapstone.parts.explain.explanation.instruction_work import SLOWER_WORD, instruction_work
from swapstone.parts.explain.explanation.ledger import ledger, split_problem
from swapstone.parts.explain.explanation.wait_names import FOREIGN, sleep_name, wait_name
from swapstone.parts.explain.model.explanation import (
    COUNTERS,
    HARDWARE,
    Count,
    Explanation,
    Finding,
    Ledger,
    LedgerLine,
    RemedyRuns,
    RowMeasurements,
)
from swapstone.parts.explain.model.variant_label import short_label

CONFIDENCE = 0.95
REPLICATES = 2000
LEAST_ROUNDS = 5
MOST_ROUNDS = 1000
"""More rounds only occur in forged evidence."""
_SEED = 21


@dataclasses.dataclass(frozen=True)
class ClosedGap:
    """The share of the gap that a remedy closes: 1 if the slower variant is then as fast as the other, below 0 if it is slower than before.

    Attributes:
        share: from the medians.
        interval: from a bootstrap of the rounds; None with fewer than `LEAST_ROUNDS`, or if the gap itself is not shown.
        rounds: how often all three were run in turn.
    """

    share: float
    interval: tuple[float, float] | None
    rounds: int


def closed_gap(tried: RemedyRuns) -> ClosedGap | None:
    """Return how much of the gap a remedy closes; None if it was not measured, or if there was no gap in these runs."""
    rounds = len(tried.remedied)
    if not 0 < rounds <= MOST_ROUNDS or not len(tried.faster) == len(tried.slower) == rounds:
        return None
    times = np.asarray((tried.faster, tried.slower, tried.remedied), dtype=np.float64)
    fast, slow, remedied = (float(each) for each in np.median(times, axis=1))
    if slow <= fast:
        return None
    share = (slow - remedied) / (slow - fast)
    chosen = np.random.default_rng(_SEED).integers(0, rounds, (REPLICATES, rounds))
    faster, slower, with_it = np.median(times[:, chosen], axis=2)
    gap = slower - faster
    if rounds < LEAST_ROUNDS or float(np.quantile(gap, (1 - CONFIDENCE) / 2)) <= 0:
        return ClosedGap(share, None, rounds)
    shares = (slower - with_it)[gap > 0] / gap[gap > 0]
    low, high = np.quantile(shares, ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    return ClosedGap(share, (float(low), float(high)), rounds)


def remedy_text(tried: RemedyRuns) -> str:
    """Return a sentence on a remedy that was tried."""
    start = f"{tried.name}: {tried.text}."
    if tried.problem:
        return f"{start} Not measured: {tried.problem.rstrip('.')}."
    found = closed_gap(tried)
    if found is None:
        return f"{start} Not known: the slower variant was not slower in the {len(tried.remedied)} rounds of this measurement."
    rounds = f"{found.rounds} rounds"
    if found.interval is None:
        return f"{start} Not known: in {rounds} the gap between both variants is not larger than its error."
    low, high = (f"{100 * each:.0f}" for each in found.interval)
    between = f"95 % interval {low} to {high} %, {rounds}"
    if found.interval[0] > 0:
        return f"{start} It closes {100 * found.share:.0f} % of the gap ({between})."
    if found.interval[1] < 0:
        return (
            f"{start} It makes the slower variant slower still, by {-100 * found.share:.0f} % of the gap ({between})."
        )
    return f"{start} It closes nothing of the gap that this measurement shows ({between})."


LEAST_SHARE = 0.1
"""A class is reported if it accounts for at least this share of the difference, and if its interval, if it has one, excludes 0."""

DECISIVE = 2.0
"""Factor by which a number of entries into the kernel must differ to be named where the ledger names no class."""

DRIFT = 0.15
"""Relative deviation of the reference runs' difference from the record's, above which a caveat is added."""

_LARGEST_RATIO = 1e9
"""Larger ratios only occur in forged evidence."""

NEVER_EMPTY = {"simulated", "calls"}
"""Groups of counts that an instrument that counts them has for every program. A side without any was counted in another
way, by which functions have other names."""

_LARGE = "of 131072 B or more"


def explain(seen: RowMeasurements, classes: CostClasses) -> Explanation:
    """Explain the difference of a row by counts and profiles.

    Args:
        seen: the measurements of both variants.
        classes: the classes of cost.
    """
    classes = classes.for_row(seen)
    counts = counts_of(seen)
    split = ledger(seen, classes)
    if seen.no_result and not _is_repeated(split):
        seen = msgspec.structs.replace(seen, differs=False)
    pair = _sides(seen, split)
    findings = _findings(seen, split, pair, common_counts(counts), classes)
    return Explanation(
        place=seen.place,
        counts=counts,
        ledger=split,
        findings=findings,
        paragraph=_paragraph(seen, split, pair, counts, findings),
        caveats=tuple(_caveats(seen, split, pair, findings)),
        differs=seen.differs,
        no_result=seen.no_result,
    )


def _is_recorded(seen: RowMeasurements) -> bool:
    """Return whether the difference that the ledger splits is the record's, and not that of the reference runs."""
    return all(reference.time_ns is not None for reference in seen.references)


def _is_repeated(split: Ledger | None) -> bool:
    """Return whether the reference runs show a difference: its interval excludes 0."""
    return split is not None and split.repeated is not None and not split.repeated[0] <= 0 <= split.repeated[1]


def counts_of(seen: RowMeasurements) -> tuple[Count, ...]:
    """Pair the counts of both variants, the largest ratios first.

    A constant is added to both counts (see `distance`), so that a count of zero has a ratio too.
    """
    sides: list[dict[tuple[str, str], float]] = []
    groups: list[set[str]] = []
    found = []
    gives = {(run.instrument, a.group) for run in seen.runs for a in run.amounts}
    always = {(run.variant, a.group) for run in seen.runs for a in run.amounts}
    for reference in seen.references:
        runs = [run for run in seen.runs if run.variant == reference.variant]
        used = {run.instrument for run in runs}
        sides.append({(a.group, a.name): a.value for run in runs for a in run.amounts})
        groups.append(  # a missing count is 0 if its instrument ran, and counts such events on this side
            {
                group
                for instrument, group in gives
                if instrument in used and (group not in NEVER_EMPTY or (reference.variant, group) in always)
            }
        )
    ways = {any((side.variant, group) in always for group in NEVER_EMPTY) for side in seen.references}
    for group, name in dict.fromkeys([*sides[0], *sides[1]]):
        if len(ways) > 1 and group == "instructions" and name != "all":
            continue
        base, candidate = (
            side.get((group, name), 0.0 if group in known else None) for side, known in zip(sides, groups, strict=True)
        )
        interval = _count_interval(seen, group, name, base, candidate)
        found.append(Count(group=group, name=name, baseline=base, candidate=candidate, interval=interval))
    return tuple(sorted(found, key=lambda count: (-distance(count), count.group, count.name)))


def _values(seen: RowMeasurements, metric: str) -> NDArray[np.float64] | None:
    """Return the values of both variants in the reference runs, shape (2, runs); None if they were not kept."""
    sides = [dict(reference.values).get(metric, ()) for reference in seen.references]
    return np.array(sides, dtype=np.float64) if len(sides[0]) == len(sides[1]) > 1 else None


def _count_interval(
    seen: RowMeasurements, group: str, name: str, baseline: float | None, candidate: float | None
) -> tuple[float, float] | None:
    """Return the interval of the ratio of a counter's medians; without it a ratio of counts that vary would be no result.

    Where a run has none, it is that of the difference over the baseline's median.
    """
    metric = next((metric for metric, words in COUNTERS.items() if words == name), "")
    values = _values(seen, metric) if group in {"faults", "switches"} else None
    if values is None or not baseline or not candidate:
        return None
    positive, (before, after) = bool(values.min() > 0), map(median, values)
    ends = median_contrast(values, AGAINST_BASELINE, MEDIANS_ALPHA, ratio=positive).interval
    if ends is None or not before or not after:
        return None
    low, high = (each if positive else max(0.0, 1 + each / before) for each in (ends.low, ends.high))
    scale = candidate / baseline / (after / before)  # a variant may make more operations in a run
    return (low * scale, high * scale) if 0 <= high * scale < _LARGEST_RATIO else None


def distance(count: Count) -> float:
    """Return the absolute logarithm of the ratio of two counts, with 1 added to both (64 to bytes, 1000 to instructions)."""
    if count.baseline is None or count.candidate is None:
        return 0.0
    add = 64.0 if "bytes" in count.name else 1000.0 if count.group == "instructions" else 1.0
    return abs(math.log((count.candidate + add) / (count.baseline + add)))


def _sides(seen: RowMeasurements, split: Ledger | None) -> Sides:
    base, candidate = seen.references
    before, after = (split.baseline, split.candidate) if split else (base.recorded, candidate.recorded)
    return Sides(candidate, base, swapped=False) if after >= before else Sides(base, candidate, swapped=True)


def _findings(
    seen: RowMeasurements, split: Ledger | None, pair: Sides, counts: tuple[Count, ...], classes: CostClasses
) -> tuple[Finding, ...]:
    if not seen.differs:
        return ()
    if split is None or not (_is_recorded(seen) or split.repeated is None or _is_repeated(split)):
        return _from_counts(pair, counts)
    if not split.difference:
        return ()
    of = grouped(split.lines, lambda line: line.cause)
    parts = {cause: sum(line.difference for line in lines) / split.difference for cause, lines in of.items()}
    facts, spans = RowFacts(pair, abs(split.difference), counts, function_times(seen, classes), classes), _shares(split)
    found: list[Finding] = []
    # Time without a processor comes last, and never alone: on a busy machine it is large, and foreign load is no property of a variant.
    for cause in sorted(parts, key=lambda cause: (cause == READY, -parts[cause])):
        interval = spans.get(cause)
        if parts[cause] < LEAST_SHARE or (interval is not None and interval[0] <= 0):
            continue
        if cause == READY and _is_foreign(seen, pair, named=bool(found)):
            continue
        found.append(_finding(seen, cause, of[cause], facts, (parts[cause], interval)))
    if not found:
        entries = tuple(count for count in counts if count.group in {"system calls", "faults"} and _is_decisive(count))
        return _from_counts(pair, entries)
    # So do waits for other programs that had no processor.
    return tuple(sorted(found, key=lambda one: one.how == FOREIGN or (one.cause == READY and not one.how)))


def _is_foreign(seen: RowMeasurements, pair: Sides, *, named: bool) -> bool:
    """Return whether time without a processor is no finding: other programs had it, or it is unknown who, and nothing else is named."""
    how = wait_name(seen, pair, READY).how
    return how == FOREIGN or (not how and not named)


def _shares(split: Ledger) -> dict[str, tuple[float, float]]:
    """Return the interval of each class as shares of the difference."""
    ends = {cause: (low / split.difference, high / split.difference) for cause, (low, high) in split.causes}
    return {cause: (min(pair), max(pair)) for cause, pair in ends.items()}


def _finding(
    seen: RowMeasurements,
    cause: str,
    lines: list[LedgerLine],
    facts: RowFacts,
    share: tuple[float, tuple[float, float] | None],
) -> Finding:
    kind, pair = facts.classes.named(cause), facts.pair
    work = instruction_work(seen, facts.counts, pair) if cause == OWN else None
    if work is not None:  # its sentence has the number of instructions
        rest = tuple(each for each in facts.counts if each.group != "instructions")
        facts = dataclasses.replace(facts, counts=rest)
    evidence = ClassEvidence(kind, lines, facts)
    functions = ", ".join(evidence.functions()[:3])
    details = _details(lines, pair) or functions or "no single call dominates"
    sentence = kind.worded(short_label(pair.slow.variant), details, functions)
    waits = wait_name(seen, pair, cause, abs(sum(line.difference for line in lines)))
    if cause == WAITING and not waits.how:
        waits = sleep_name(lines) or waits
    sentences = work.texts if work else ()
    numbers = [*sentences, *waits.texts[:1], *evidence.numbers()[:3]]
    return Finding(
        cause=cause,
        share=share[0],
        sentence=f"{sentence}: {'; '.join(numbers)}" if numbers else sentence,
        evidence=(*sentences, *waits.texts, *evidence.texts()),
        interval=share[1],
        how=work.how if work else waits.how,
    )


def _is_decisive(count: Count) -> bool:
    """Return whether a count differs by a factor of `DECISIVE`, and by one in an operation at least."""
    if count.baseline is None or count.candidate is None or _is_undecided(count):
        return False
    return distance(count) >= math.log(DECISIVE) and abs(count.candidate - count.baseline) >= 1


def _is_undecided(count: Count) -> bool:
    """Return whether the interval of a ratio of medians contains 1."""
    return count.interval is not None and count.interval[0] <= 1 <= count.interval[1]


def _from_counts(pair: Sides, counts: tuple[Count, ...]) -> tuple[Finding, ...]:
    """Return findings without a ledger: the counts in which the slower variant exceeds the other most.

    Calls, faults and switches each enter the kernel once, so those come first of which it has most more. Others follow by their ratio.
    """
    causes = {
        "system calls": SYSTEM_CALLS,
        "faults": FAULTS,
        "switches": WAITING,
        "copies": COPIES,
        "allocations": ALLOCATOR,
    }
    found: dict[str, Finding] = {}
    for count in sorted(counts, key=_kernel_entries_first):
        cause = causes.get(count.group) if count.name != "involuntary switches" and not _is_undecided(count) else None
        more, less = pair.order(count.baseline or 0.0, count.candidate or 0.0)
        if cause is not None and cause not in found and distance(count) >= math.log(1.2) and more > less:
            text = f"{short_label(pair.slow.variant)} has {amount(more)} {count.name} per operation (other variant: {amount(less)})"
            found[cause] = Finding(cause=cause, share=None, sentence=text, evidence=(f"{count.group}: {text}",))
    return tuple(found.values())


def _kernel_entries_first(count: Count) -> float:
    """Return a key that sorts counts of entries into the kernel by their difference, before all others."""
    if count.group not in {"system calls", "faults", "switches"} or count.baseline is None or count.candidate is None:
        return 1.0
    return -abs(count.candidate - count.baseline)


def _details(lines: list[LedgerLine], pair: Sides) -> str:
    sign = -1.0 if pair.swapped else 1.0
    mine = sorted(
        (line for line in lines if line.detail and line.difference * sign > 0 and is_shown(line)),
        key=lambda line: -abs(line.difference),
    )
    return ", ".join(line.detail for line in mine[:3])


def _paragraph(
    seen: RowMeasurements, split: Ledger | None, pair: Sides, counts: Sequence[Count], findings: tuple[Finding, ...]
) -> str:
    slow, fast = short_label(pair.slow.variant), short_label(pair.fast.variant)
    work = seen.place.workload
    if not seen.differs and seen.no_result:
        return (
            f"{work}, {seen.place.metric}: there is nothing to explain. The record has no result, and the runs without an "
            "instrument decide no difference now, so there are no findings. Counts and ledger follow."
        )
    if not seen.differs:
        return (
            f"{work}, {seen.place.metric}: there is nothing to explain. The record decides no difference between the "
            f"medians of {seen.place.candidate} and {seen.place.baseline}, so there are no findings. Counts and ledger follow. "
            "Their shares are relative to a difference that may be zero."
        )
    more = "; ".join(finding.sentence for finding in findings[:3])
    if split is None:
        reason = split_problem(seen) or "there is no on-CPU profile of both variants"
        head = f"{work}: {reason}, so the time is not split."
        return (
            f"{head} The counts are consistent with: {more}." if more else f"{head} No count differs by more than 20 %."
        )
    more_ns, less_ns = pair.order(split.baseline, split.candidate)
    time = "elapsed time" if split.metric == "wall" else "CPU time"
    head = f"{work}: {time} per operation is {duration(more_ns)} with {slow} and {duration(less_ns)} with "
    head += f"{fast}{_ratio_text(seen, pair)}."
    if all(finding.share is None for finding in findings):
        nothing = f"{head} {nothing_named(split)[0].upper()}{nothing_named(split)[1:]}."
        return f"{nothing} The counts are consistent with: {more}." if more else nothing
    shares = [f"({_share_text(finding)}) {finding.sentence}" for finding in findings[:3]]
    text = f"{head} The difference is consistent with: {'. '.join(shares)}."
    if extra := _mapping(counts, pair):
        text += f" {extra}"
    for tried in seen.remedies or ():
        gap = closed_gap(tried)
        if gap is not None and gap.interval is not None and gap.interval[0] > 0:
            text += f" Confirmed by a remedy: {remedy_text(tried)}"
    left = split.residual / split.difference if split.difference else 0.0
    return f"{text} Not attributed: {percent(left)} of the difference."


def _ratio_text(seen: RowMeasurements, pair: Sides) -> str:
    """Return the ratio of the slower variant's median time to the other's, with its interval; empty if it is not known."""
    found = seen.medians if _is_recorded(seen) else None
    values = None if _is_recorded(seen) else _values(seen, seen.ledger_metric)
    if values is not None and values.min() > 0:
        made = median_contrast(values, AGAINST_BASELINE, MEDIANS_ALPHA, ratio=True)
        found = None if made.interval is None else (made.effect, made.interval.low, made.interval.high)
    if found is None or not all(1 / _LARGEST_RATIO < each < _LARGEST_RATIO for each in found):
        return ""
    effect, low, high = (1 / found[0], 1 / found[2], 1 / found[1]) if pair.swapped else found
    return f" (ratio of medians {ratio(effect)}, 95 % interval {ratio(low)} to {ratio(high)})"


def nothing_named(split: Ledger) -> str:
    """Return a sentence, without its full stop, for a ledger of which no class is named."""
    beyond = "" if split.sampling is None else " with an interval that excludes 0"
    return f"no class of cost accounts for {percent(LEAST_SHARE)} of the difference or more{beyond}"


def _share_text(finding: Finding) -> str:
    """Return a share with its interval, if it has one."""
    return percent(finding.share) + ("" if finding.interval is None else f", {span(finding.interval)}")


def _mapping(counts: Sequence[Count], pair: Sides) -> str:
    """Return a sentence if the slower variant maps and unmaps each large buffer: as many system calls as large allocations."""
    values = {(each.group, each.name): pair.order(each.baseline or 0.0, each.candidate or 0.0) for each in counts}
    large, (maps, others), (unmaps, _), faults = (
        values.get(key, (0.0, 0.0))
        for key in (
            ("allocations", _LARGE),
            ("system calls", "mmap"),
            ("system calls", "munmap"),
            ("faults", "minor faults"),
        )
    )
    if large[0] < 0.5 or min(maps, unmaps) < 0.8 * large[0] or others > 0.5 * maps:
        return ""
    return (
        f"The counts are consistent with an allocator that maps and unmaps each buffer of 131072 B or more: with "
        f"{short_label(pair.slow.variant)}, {amount(large[0])} such buffers, {amount(maps)} mmap, {amount(unmaps)} munmap and "
        f"{amount(faults[0])} page faults per operation; with {short_label(pair.fast.variant)}, {amount(others)} mmap and "
        f"{amount(faults[1])} page faults."
    )


_LIMITS = ("lost", "strace", "wanted", "cachegrind", "recorded no event")
"""Words of those notes of instruments that are caveats: something was not measured, or by other means."""


def _caveats(seen: RowMeasurements, split: Ledger | None, pair: Sides, findings: Sequence[Finding]) -> Iterable[str]:
    if seen.no_result:
        yield (
            f"The record has no result of this row: {seen.no_result.rstrip('.')}. The difference is that of {seen.references[0].runs} runs "
            "of each variant without an instrument, made now."
        )
    for missing in seen.missing:
        if missing.instrument == HARDWARE and not any(SLOWER_WORD in finding.how for finding in findings):
            continue  # counters would add nothing
        yield f"{missing.instrument} is unavailable: {missing.reason.rstrip('.')}." + (
            f" To enable it: {missing.remedy}." if missing.remedy else ""
        )
    yield from _foreign_load(seen, split, pair)
    if split is not None:
        base, candidate = (dict(reference.metrics).get(seen.ledger_metric, 0.0) for reference in seen.references)
        now = candidate - base
        if split.difference and abs(now - split.difference) > DRIFT * abs(split.difference):
            yield (
                f"The reference runs differ by {duration(abs(now))}{'' if now * split.difference > 0 else ' in the other direction'}, "
                f"those of the record by {duration(abs(split.difference))}: the machine or its load has changed. The residual includes it."
            )
        if split.sampling is None:
            yield "The shares have no intervals: the measurements of several runs were not kept apart, or there were too few runs."
        elif split.repeated is not None and not _is_repeated(split):
            yield (
                f"The reference runs alone decide no difference: its interval, {duration(split.repeated[0])} to "
                f"{duration(split.repeated[1])}, contains 0."
            )
        yield from split.notes
    elif problem := split_problem(seen):
        yield f"The ledger is refused: {problem}."
    for run in seen.runs:
        if notes := [note for note in run.notes if any(word in note for word in _LIMITS)]:
            yield f"{run.instrument} on {short_label(run.variant)}: {'; '.join(notes)}."


def _foreign_load(seen: RowMeasurements, split: Ledger | None, pair: Sides) -> Iterable[str]:
    """Return a caveat if other programs account for a relevant part of a difference."""
    lost = sum(line.difference for line in split.lines if line.cause == READY) if split is not None else 0.0
    if split is None or not seen.differs or not split.difference or lost / split.difference < LEAST_SHARE:
        return
    name = wait_name(seen, pair, READY)
    if name.how in {FOREIGN, ""}:
        who = f"; {name.texts[0]}" if name.texts else ", and it is unknown who had it"
        yield (
            f"{percent(lost / split.difference)} of the difference is time without a processor{who}: {FOREIGN} is no reason why the "
            "variants differ. Measure on a quiet machine."
        )


def span(interval: tuple[float, float]) -> str:
    """Format an interval of a share, in per cent without decimals."""
    low, high = (fixed(100 * each, 0) for each in interval)
    return f"{low} to {high} %"


def percent(share: float | None) -> str:
    """Format a share in per cent, without decimals and without a minus sign before 0."""
    return "a part" if share is None else f"{fixed(100 * share, 0)} %"
