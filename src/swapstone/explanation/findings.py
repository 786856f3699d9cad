# SPDX-License-Identifier: MIT OR Apache-2.0
"""Findings: the classes of cost that account for a difference, each worded as a sentence with its evidence."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterable

from swapstone.explanation.cost_classes import (
    ALLOCATOR,
    COPIES,
    FAULTS,
    LOCKS,
    SYSTEM_CALLS,
    CostClass,
    CostClasses,
)
from swapstone.explanation.ledger import ledger, run_of
from swapstone.model import (
    Count,
    Explanation,
    Finding,
    Frame,
    InstrumentResult,
    Ledger,
    LedgerLine,
    Reference,
    RowMeasurements,
)
from swapstone.model.number_text import RESOLUTION, fixed, quantity
from swapstone.record.variant_label import short_label

LEAST_SHARE = 0.1
"""A class is reported if it accounts for at least this share of the difference. The largest class always is."""

DRIFT = 0.15
"""Relative deviation of the reference runs' difference from the record's, above which a caveat is added."""

MOST_NAMES = 4
_LARGE = "of 131072 B or more"


@dataclasses.dataclass(frozen=True)
class _Pair:
    """The two variants, the slower one first."""

    slow: Reference
    fast: Reference
    swapped: bool

    def order(self, baseline: float, candidate: float) -> tuple[float, float]:
        return (baseline, candidate) if self.swapped else (candidate, baseline)


def explain(seen: RowMeasurements, classes: CostClasses) -> Explanation:
    """Explain the difference of a row by counts and profiles.

    Args:
        seen: the measurements of both variants.
        classes: the classes of cost.
    """
    counts = counts_of(seen)
    split = ledger(seen, classes)
    findings = _findings(seen, split, counts, classes)
    return Explanation(
        place=seen.place,
        counts=counts,
        ledger=split,
        findings=findings,
        paragraph=_paragraph(seen, split, findings),
        caveats=tuple(_caveats(seen, split)),
    )


def counts_of(seen: RowMeasurements) -> tuple[Count, ...]:
    """Pair the counts of both variants, the largest ratios first.

    A constant is added to both counts (see `distance`), so that a count of zero has a ratio too.
    """
    sides: list[dict[tuple[str, str], float]] = []
    groups: list[set[str]] = []
    gives = {(run.instrument, a.group) for run in seen.runs for a in run.amounts}
    for reference in seen.references:
        runs = [run for run in seen.runs if run.variant == reference.variant]
        sides.append({(a.group, a.name): a.value for run in runs for a in run.amounts})
        used = {run.instrument for run in runs}
        groups.append(
            {group for instrument, group in gives if instrument in used}
        )  # a missing count is 0 if its instrument ran
    found = []
    for group, name in dict.fromkeys([*sides[0], *sides[1]]):
        values = [
            side.get((group, name), 0.0 if group in known else None) for side, known in zip(sides, groups, strict=True)
        ]
        found.append(Count(group=group, name=name, baseline=values[0], candidate=values[1]))
    return tuple(sorted(found, key=lambda count: (-distance(count), count.group, count.name)))


def distance(count: Count) -> float:
    """Return the absolute logarithm of the ratio of two counts, with 1 added to both (64 to bytes, 1000 to instructions)."""
    if count.baseline is None or count.candidate is None:
        return 0.0
    add = 64.0 if "bytes" in count.name else 1000.0 if count.group == "instructions" else 1.0
    return abs(math.log((count.candidate + add) / (count.baseline + add)))


def _sides(seen: RowMeasurements, split: Ledger | None) -> _Pair:
    base, candidate = seen.references
    before, after = (split.baseline, split.candidate) if split else (base.recorded, candidate.recorded)
    return _Pair(candidate, base, False) if after >= before else _Pair(base, candidate, True)


def _findings(
    seen: RowMeasurements, split: Ledger | None, counts: tuple[Count, ...], classes: CostClasses
) -> tuple[Finding, ...]:
    pair = _sides(seen, split)
    if not seen.differs:
        return ()
    if split is None:
        return _from_counts(pair, counts)
    if not split.difference:
        return ()
    of: dict[str, list[LedgerLine]] = {}
    for line in split.lines:
        of.setdefault(line.cause, []).append(line)
    parts = {cause: sum(line.difference for line in lines) / split.difference for cause, lines in of.items()}
    order = sorted(parts, key=lambda cause: -parts[cause])
    functions = _function_times(seen, classes)
    found: list[Finding] = []
    for cause in order:
        if parts[cause] < LEAST_SHARE and (found or parts[cause] <= 0):
            break
        kind = classes.named(cause)
        found.append(
            Finding(
                cause=cause,
                share=parts[cause],
                sentence=_sentence(kind, of[cause], pair, counts, functions),
                evidence=_evidence(kind, of[cause], pair, counts, functions),
            )
        )
    return tuple(found)


def _from_counts(pair: _Pair, counts: tuple[Count, ...]) -> tuple[Finding, ...]:
    """Return findings without a ledger: the counts in which the slower variant exceeds the other most."""
    causes = {
        "system calls": SYSTEM_CALLS,
        "faults": FAULTS,
        "switches": LOCKS,
        "copies": COPIES,
        "allocations": ALLOCATOR,
    }
    found: dict[str, Finding] = {}
    for count in counts:
        cause = causes.get(count.group) if count.name != "involuntary switches" else None
        if (
            cause is None
            or cause in found
            or count.baseline is None
            or count.candidate is None
            or distance(count) < math.log(1.2)
        ):
            continue
        more, less = pair.order(count.baseline, count.candidate)
        if more > less:
            text = f"{short_label(pair.slow.variant)} has {amount(more)} {count.name} per operation (other variant: {amount(less)})"
            found[cause] = Finding(cause=cause, share=None, sentence=text, evidence=(f"{count.group}: {text}",))
    return tuple(found.values())


Times = dict[str, dict[tuple[str, str], float]]
"""CPU time per operation in ns, by variant and (class, function)."""


def _function_times(seen: RowMeasurements, classes: CostClasses) -> Times:
    """Return the CPU time per operation by class and innermost user function."""
    found: Times = {}
    for reference in seen.references:
        run = run_of(seen, "on-cpu", reference.variant)
        times: collections.Counter[tuple[str, str]] = collections.Counter()
        if run is not None and run.profile is not None:
            scale = dict(reference.metrics).get("cpu", 0.0) / (sum(stack.weight for stack in run.profile.stacks) or 1.0)
            for stack in run.profile.stacks:
                frames = [run.profile.frames[number] for number in stack.frames]
                times[classes.of(frames)[0], _function(frames)] += stack.weight * scale  # type: ignore[assignment]
        found[reference.variant] = dict(times)
    return found


def _function(frames: list[Frame]) -> str:
    return next(
        (frame.symbol for frame in reversed(frames) if frame.object != "[kernel]"), frames[-1].symbol if frames else ""
    )


def _largest(cause: str, pair: _Pair, functions: Times) -> list[str]:
    """Return the functions of a class in which the slower variant spends the most CPU time, with both variants' times."""
    slow, fast = functions.get(pair.slow.variant, {}), functions.get(pair.fast.variant, {})
    mine = sorted(((time, name) for (of, name), time in slow.items() if of == cause), reverse=True)
    return [
        f"{name} {duration(time)} (other variant: {duration(fast.get((cause, name), 0.0))})"
        for time, name in mine[:MOST_NAMES]
    ]


def _evidence(
    kind: CostClass, lines: list[LedgerLine], pair: _Pair, counts: tuple[Count, ...], functions: Times
) -> tuple[str, ...]:
    found = []
    for line in sorted(lines, key=lambda one: -abs(one.difference))[:MOST_NAMES]:
        more, less = pair.order(line.baseline, line.candidate)
        name = f"{kind.name} {line.detail}".strip()
        found.append(f"{name}: {duration(more)} per operation (other variant: {duration(less)})")
    if kind.has_functions and (named := _largest(kind.name, pair, functions)):
        found.append("CPU time in " + ", ".join(named))
    found += [_count_words(count, pair) for count in _relevant(kind, lines, counts)]
    return tuple(found)


def _relevant(kind: CostClass, lines: list[LedgerLine], counts: tuple[Count, ...]) -> list[Count]:
    """Return the counts that are evidence for a class, those that differ most first."""
    details = {line.detail.rpartition("in ")[2] for line in lines}
    found = [count for count in counts if kind.has_count(count, details) and (count.baseline or count.candidate)]
    return sorted(found, key=lambda count: -abs((count.candidate or 0.0) - (count.baseline or 0.0)))[:MOST_NAMES]


def _count_words(count: Count, pair: _Pair) -> str:
    if count.baseline is None or count.candidate is None:
        side, value = ("baseline", count.baseline) if count.candidate is None else ("candidate", count.candidate)
        return f"{count.name}: {amount(value or 0.0)} per operation of the {side}; not counted for the other variant"
    more, less = pair.order(count.baseline, count.candidate)
    unit = "instructions" if count.group == "instructions" else count.name
    unit = f"allocations {unit}" if unit.startswith("of ") else unit
    return f"{amount(more)} {unit} per operation (other variant: {amount(less)})"


def _sentence(
    kind: CostClass, lines: list[LedgerLine], pair: _Pair, counts: tuple[Count, ...], functions: Times
) -> str:
    numbers = "; ".join(_count_words(count, pair) for count in _relevant(kind, lines, counts)[:3])
    names = ", ".join(name.split(" ")[0] for name in _largest(kind.name, pair, functions)[:3])
    text = kind.sentence(short_label(pair.slow.variant), _details(lines, pair), names)
    return f"{text}: {numbers}" if numbers else text


def _details(lines: list[LedgerLine], pair: _Pair) -> str:
    sign = -1.0 if pair.swapped else 1.0
    mine = sorted(
        (line for line in lines if line.detail and line.difference * sign > 0), key=lambda line: -abs(line.difference)
    )
    return ", ".join(line.detail for line in mine[:3]) or "no single call dominates"


def _paragraph(seen: RowMeasurements, split: Ledger | None, findings: tuple[Finding, ...]) -> str:
    pair = _sides(seen, split)
    slow, fast = short_label(pair.slow.variant), short_label(pair.fast.variant)
    work = seen.place.workload
    if not seen.differs:
        return (
            f"{work}, {seen.place.metric}: the record has no significant difference between {seen.place.candidate} and "
            f"{seen.place.baseline}, so there are no findings. Counts and ledger follow. Their shares are relative to a difference "
            "that may be zero."
        )
    if split is None:
        head = f"{work}: there is no on-CPU profile of both variants, so the time is not split."
        more = "; ".join(finding.sentence for finding in findings[:3])
        return (
            f"{head} The counts are consistent with: {more}." if more else f"{head} No count differs by more than 20 %."
        )
    more_ns, less_ns = pair.order(split.baseline, split.candidate)
    head = f"{work}: {_time_name(split)} per operation is {duration(more_ns)} with {slow} and {duration(less_ns)} with {fast}."
    if not findings:
        return f"{head} No class of cost accounts for it."
    shares = [f"({percent(finding.share)}) {finding.sentence}" for finding in findings[:3]]
    text = f"{head} The difference is consistent with: {'. '.join(shares)}."
    if extra := _mapping(seen, pair):
        text += f" {extra}"
    left = split.residual / split.difference if split.difference else 0.0
    return f"{text} Not attributed: {percent(left)} of the difference."


def _time_name(split: Ledger) -> str:
    return "elapsed time" if split.metric == "wall" else "CPU time"


def _mapping(seen: RowMeasurements, pair: _Pair) -> str:
    """Return a sentence if the slower variant maps and unmaps each large buffer: as many system calls as large allocations."""

    def value(variant: str, group: str, name: str) -> float:
        found = (
            a.value
            for run in seen.runs
            if run.variant == variant
            for a in run.amounts
            if (a.group, a.name) == (group, name)
        )
        return next(found, 0.0)

    slow, fast = pair.slow.variant, pair.fast.variant
    large = value(slow, "allocations", _LARGE)
    maps, unmaps = (value(slow, "system calls", name) for name in ("mmap", "munmap"))
    others = value(fast, "system calls", "mmap")
    if large < 0.5 or not all(0.8 * large <= count for count in (maps, unmaps)) or others > 0.5 * maps:
        return ""
    faults = [value(variant, "faults", "minor faults") for variant in (slow, fast)]
    return (
        f"The counts are consistent with an allocator that maps and unmaps each buffer of 131072 B or more: with {short_label(slow)}, "
        f"{amount(large)} such buffers, {amount(maps)} mmap, {amount(unmaps)} munmap and {amount(faults[0])} page faults per "
        f"operation; with {short_label(fast)}, {amount(others)} mmap and {amount(faults[1])} page faults."
    )


def _caveats(seen: RowMeasurements, split: Ledger | None) -> Iterable[str]:
    for missing in seen.missing:
        yield f"{missing.instrument} is unavailable: {missing.reason.rstrip('.')}." + (
            f" To enable it: {missing.remedy}." if missing.remedy else ""
        )
    if split is not None:
        base, candidate = (dict(reference.metrics).get(seen.ledger_metric, 0.0) for reference in seen.references)
        now = candidate - base
        if split.difference and abs(now - split.difference) > DRIFT * abs(split.difference):
            yield (
                f"The reference runs differ by {duration(abs(now))}{'' if now * split.difference > 0 else ' in the other direction'}, "
                f"those of the record by {duration(abs(split.difference))}: the machine or its load has changed. The residual includes it."
            )
        yield from split.notes
    for run in _unusual(seen.runs):
        yield f"{run.instrument} on {short_label(run.variant)}: {'; '.join(run.notes)}."


def _unusual(runs: tuple[InstrumentResult, ...]) -> list[InstrumentResult]:
    return [run for run in runs if any("lost" in note or "strace" in note for note in run.notes)]


def amount(value: float) -> str:
    """Format a count: three significant digits, with the suffix k, M or G from 10000 on."""
    return quantity(value, "1") if abs(value) < 1000 or abs(value) >= 1e4 else fixed(value, 0)


SMALLEST_NS = RESOLUTION["ns"]
"""A shorter time is the rounding error of a difference of doubles, and is printed as 0."""


def duration(value_ns: float) -> str:
    """Format a time with three significant digits; 0 below `SMALLEST_NS`."""
    return quantity(value_ns, "ns")


def percent(share: float | None) -> str:
    """Format a share in per cent, without decimals and without a minus sign before 0."""
    return "a part" if share is None else f"{fixed(100 * share, 0)} %"
