"""What the evidence is consistent with, in plain words, each with what it rests on."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Callable, Iterable

from swapstone.explain.cost_classes import (
    ALLOCATOR,
    COPIES,
    FAULTS,
    LOCKS,
    OTHER,
    OWN,
    READY,
    SYSTEM_CALLS,
    WAITING,
    Classes,
)
from swapstone.explain.ledger import ledger, run_of
from swapstone.model import Count, Explanation, Finding, Frame, Instrumented, Ledger, LedgerLine, Reference, Seen

LEAST_SHARE = 0.1
"""A cause is named if it accounts for as much of the difference, or the first of all."""

DRIFT = 0.15
"""How far the runs now may differ from the record's before it is said."""

MOST_NAMES = 4
_LARGE = "of 131072 B or more"


@dataclasses.dataclass(frozen=True)
class _Pair:
    """The two sides by which is slower; values are (slower's, faster's)."""

    slow: Reference
    fast: Reference
    swapped: bool

    def order(self, baseline: float, candidate: float) -> tuple[float, float]:
        return (baseline, candidate) if self.swapped else (candidate, baseline)


def explain(seen: Seen, classes: Classes) -> Explanation:
    """Say what the difference of a row is consistent with.

    Args:
        seen: what was seen of both sides.
        classes: which stack belongs where.
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


def counts_of(seen: Seen) -> tuple[Count, ...]:
    """Lay what was counted of both sides side by side, the largest ratios first.

    Something that is there on one side alone is a ratio too: to what can't be seen, one in an operation (or 64 bytes).
    """
    sides: list[dict[tuple[str, str], float]] = []
    groups: list[set[str]] = []
    gives = {(run.instrument, a.group) for run in seen.runs for a in run.amounts}
    for reference in seen.references:
        runs = [run for run in seen.runs if run.variant == reference.variant]
        sides.append({(a.group, a.name): a.value for run in runs for a in run.amounts})
        used = {run.instrument for run in runs}
        groups.append({group for instrument, group in gives if instrument in used})  # what counted nothing counted none
    found = []
    for group, name in dict.fromkeys([*sides[0], *sides[1]]):
        values = [
            side.get((group, name), 0.0 if group in known else None) for side, known in zip(sides, groups, strict=True)
        ]
        found.append(Count(group=group, name=name, baseline=values[0], candidate=values[1]))
    return tuple(sorted(found, key=lambda count: (-distance(count), count.group, count.name)))


def distance(count: Count) -> float:
    """Return how far apart two counts are: the logarithm of their ratio, with one added to both."""
    if count.baseline is None or count.candidate is None:
        return 0.0
    add = 64.0 if "bytes" in count.name else 1000.0 if count.group == "instructions" else 1.0
    return abs(math.log((count.candidate + add) / (count.baseline + add)))


def _sides(seen: Seen, split: Ledger | None) -> _Pair:
    base, candidate = seen.references
    before, after = (split.baseline, split.candidate) if split else (base.recorded, candidate.recorded)
    return _Pair(candidate, base, False) if after >= before else _Pair(base, candidate, True)


def _findings(seen: Seen, split: Ledger | None, counts: tuple[Count, ...], classes: Classes) -> tuple[Finding, ...]:
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
        evidence = _evidence(cause, of[cause], pair, counts, functions)
        found.append(
            Finding(
                cause=cause,
                share=parts[cause],
                sentence=_sentence(cause, of[cause], pair, counts, functions),
                evidence=evidence,
            )
        )
    return tuple(found)


def _from_counts(pair: _Pair, counts: tuple[Count, ...]) -> tuple[Finding, ...]:
    """Return findings where no time could be split: what the slower side does most more of."""
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
            text = f"{short(pair.slow.variant)} has {amount(more)} {count.name} in an operation, against {amount(less)}"
            found[cause] = Finding(cause=cause, share=None, sentence=text, evidence=(f"{count.group}: {text}",))
    return tuple(found.values())


Times = dict[str, dict[tuple[str, str], float]]
"""ns of processor time in an operation by variant and (cause, function)."""


def _function_times(seen: Seen, classes: Classes) -> Times:
    """Return the processor time of an operation by cause and innermost named function outside the kernel."""
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
    """Return the functions of a cause that take the slower side longest, with both sides' times."""
    slow, fast = functions.get(pair.slow.variant, {}), functions.get(pair.fast.variant, {})
    mine = sorted(((time, name) for (of, name), time in slow.items() if of == cause), reverse=True)
    return [
        f"{name} {duration(time)} (against {duration(fast.get((cause, name), 0.0))})"
        for time, name in mine[:MOST_NAMES]
    ]


def _evidence(
    cause: str, lines: list[LedgerLine], pair: _Pair, counts: tuple[Count, ...], functions: Times
) -> tuple[str, ...]:
    found = []
    for line in sorted(lines, key=lambda one: -abs(one.difference))[:MOST_NAMES]:
        more, less = pair.order(line.baseline, line.candidate)
        name = f"{cause} {line.detail}".strip()
        found.append(f"{name}: {duration(more)} in an operation, against {duration(less)}")
    if cause not in {WAITING, READY, SYSTEM_CALLS, FAULTS} and (named := _largest(cause, pair, functions)):
        found.append("on the processor in " + ", ".join(named))
    found += [_count_words(count, pair) for count in _relevant(cause, lines, counts)]
    return tuple(found)


def _relevant(cause: str, lines: list[LedgerLine], counts: tuple[Count, ...]) -> list[Count]:
    """Return the counts that bear on a cause, those that differ most first."""
    named = {line.detail.rpartition("in ")[2] for line in lines}
    wanted: dict[str, Callable[[Count], bool]] = {
        SYSTEM_CALLS: lambda count: count.group == "system calls" and _call(count) in named,
        WAITING: lambda count: (
            (count.group == "system calls" and _call(count) in named) or count.name == "voluntary switches"
        ),
        LOCKS: lambda count: (
            (count.group == "system calls" and (count.name.startswith("futex") or _call(count) in named))
            or (count.name == "minor faults" and FAULTS in named)
            or count.name == "voluntary switches"
        ),
        FAULTS: lambda count: count.group == "faults",
        ALLOCATOR: lambda count: count.group == "allocations",
        COPIES: lambda count: count.group == "copies",
        OWN: lambda count: count.group == "instructions" and count.name == "all",
        OTHER: lambda count: count.group == "instructions" and count.name == "all",
        READY: lambda count: count.name == "involuntary switches",
    }
    wants = wanted.get(cause)
    found = [count for count in counts if wants and wants(count) and (count.baseline or count.candidate)]
    return sorted(found, key=lambda count: -abs((count.candidate or 0.0) - (count.baseline or 0.0)))[:MOST_NAMES]


def _call(count: Count) -> str:
    """Return the name of a system call as the table of classes has it: epoll_wait and epoll_pwait are one."""
    return count.name.replace("epoll_pwait", "epoll_wait")


def _count_words(count: Count, pair: _Pair) -> str:
    if count.baseline is None or count.candidate is None:
        side, value = ("baseline", count.baseline) if count.candidate is None else ("candidate", count.candidate)
        return f"{count.name}: {amount(value or 0.0)} on the {side}; not counted on the other"
    more, less = pair.order(count.baseline, count.candidate)
    unit = "instructions" if count.group == "instructions" else count.name
    unit = f"allocations {unit}" if unit.startswith("of ") else unit
    return f"{amount(more)} {unit} in an operation, against {amount(less)}"


def _sentence(cause: str, lines: list[LedgerLine], pair: _Pair, counts: tuple[Count, ...], functions: Times) -> str:
    slow = short(pair.slow.variant)
    relevant = _relevant(cause, lines, counts)
    numbers = "; ".join(_count_words(count, pair) for count in relevant[:3])
    names = ", ".join(name.split(" ")[0] for name in _largest(cause, pair, functions)[:3])
    text = {
        SYSTEM_CALLS: f"{slow} is longer in system calls ({_details(lines, pair)})",
        FAULTS: f"{slow} takes page faults",
        LOCKS: f"{slow} waits for locks and wakes others at them ({_details(lines, pair)})",
        WAITING: f"{slow} waits longer ({_details(lines, pair)})",
        READY: f"{slow} had to wait longer for a processor, which is the machine's doing or that of its own threads",
        ALLOCATOR: f"{slow} spends the time in its allocator ({names})",
        COPIES: f"{slow} spends the time in copies and string functions ({names})",
        OWN: f"{slow} computes longer in the program's own code ({names})",
    }.get(cause, f"{slow} spends the time in {cause} ({names or _details(lines, pair)})")
    return f"{text}: {numbers}" if numbers else text


def _details(lines: list[LedgerLine], pair: _Pair) -> str:
    sign = -1.0 if pair.swapped else 1.0
    mine = sorted(
        (line for line in lines if line.detail and line.difference * sign > 0), key=lambda line: -abs(line.difference)
    )
    return ", ".join(line.detail for line in mine[:3]) or "in none by far"


def _paragraph(seen: Seen, split: Ledger | None, findings: tuple[Finding, ...]) -> str:
    pair = _sides(seen, split)
    slow, fast = short(pair.slow.variant), short(pair.fast.variant)
    work = seen.place.workload
    if not seen.differs:
        return (
            f"{work}, {seen.place.metric}: the record does not say that {seen.place.candidate} differs from {seen.place.baseline}, "
            "so there is nothing to give reasons for. Counts and ledger follow all the same; shares of a difference that may be none "
            "mean nothing."
        )
    if split is None:
        head = f"{work}: no profile could be had, so the time is not split."
        more = "; ".join(finding.sentence for finding in findings[:3])
        return f"{head} The counts are consistent with this: {more}." if more else f"{head} No count differs much."
    more_ns, less_ns = pair.order(split.baseline, split.candidate)
    head = f"{work} takes {duration(more_ns)} of {_time_name(split)} an operation with {slow}, against {duration(less_ns)} with {fast}."
    if not findings:
        return f"{head} No class of cost accounts for it."
    said = [f"{percent(finding.share)} of it, {finding.sentence}" for finding in findings[:3]]
    text = f"{head} That is consistent with this: " + ". ".join(said) + "."
    if extra := _mapping(seen, pair):
        text += f" {extra}"
    left = split.residual / split.difference if split.difference else 0.0
    return f"{text} Without a name: {percent(left)} of the difference."


def _time_name(split: Ledger) -> str:
    return "elapsed time" if split.metric == "wall" else "processor time"


def _mapping(seen: Seen, pair: _Pair) -> str:
    """Say that large buffers are mapped and unmapped one by one, where the counts say so: as many calls as such allocations."""

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
        f"The counts fit an allocator that maps and unmaps each buffer of 131072 bytes or more: {amount(large)} of them, "
        f"{amount(maps)} mmap, {amount(unmaps)} munmap and {amount(faults[0])} page faults in an operation with {short(slow)}, "
        f"against {amount(others)} mmap and {amount(faults[1])} page faults with {short(fast)}."
    )


def _caveats(seen: Seen, split: Ledger | None) -> Iterable[str]:
    for missing in seen.missing:
        yield f"{missing.instrument} is unavailable: {missing.reason.rstrip('.')}." + (
            f" What would allow it: {missing.mend}." if missing.mend else ""
        )
    if split is not None:
        base, candidate = (dict(reference.metrics).get(seen.ledger_metric, 0.0) for reference in seen.references)
        now = candidate - base
        if split.difference and abs(now - split.difference) > DRIFT * abs(split.difference):
            yield (
                f"The runs that were made now differ by {duration(abs(now))}{'' if now * split.difference > 0 else ' the other way'}, "
                f"those of the record by {duration(abs(split.difference))}: machine or load have changed, and the residual holds that."
            )
        yield from split.notes
    for run in _unusual(seen.runs):
        yield f"{run.instrument} on {short(run.variant)}: {'; '.join(run.notes)}."


def _unusual(runs: tuple[Instrumented, ...]) -> list[Instrumented]:
    return [run for run in runs if any("lost" in note or "strace" in note for note in run.notes)]


def short(variant: str) -> str:
    """Return a variant's label without the factor's name where it has one factor."""
    return variant.split("=", 1)[1] if variant.count("=") == 1 and "," not in variant else variant


def amount(value: float) -> str:
    """Return a count in words: three digits, thousands with a suffix."""
    for size, suffix in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if value >= size:
            return f"{value / (1e3 if suffix == ' k' else size):.3g}{suffix}"
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def duration(value_ns: float) -> str:
    """Return a time with three digits."""
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if abs(value_ns) >= size:
            return f"{value_ns / size:.3g} {unit}"
    return f"{value_ns:.3g} ns"


def percent(share: float | None) -> str:
    """Return a share in per cent, without digits after the point."""
    return "a part" if share is None else f"{100 * share:.0f} %"
