# SPDX-License-Identifier: MIT OR Apache-2.0
"""Explain a row on the exact clock: by the instructions that the emulator's plugin counted, or by the paths of the worst wake-ups."""

from __future__ import annotations

import collections
from collections.abc import Callable

from swapstone.core.comparison.profile_difference import ProfileDifference, Weights, difference, stacks_of_both
from swapstone.core.model.profile import KERNEL
from swapstone.core.report.formatting import count
from swapstone.parts.explain.explanation.by_function import (
    amount,
    answer,
    by_function,
    duration,
    function_text,
    percent,
    short_label,
)
from swapstone.parts.explain.explanation.profile_formats import LIBRARY, aligned, is_library
from swapstone.parts.explain.model.explanation import (
    INTERRUPT,
    PASSES,
    PENDING,
    PHASES,
    SWITCH,
    WOKEN,
    ArmCounts,
    CountedRow,
    CountedSide,
    EvidenceTable,
    Explanation,
    TracedRow,
    WakeupPath,
)

Rows = tuple[tuple[str, ...], ...]

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("floating-point sums and differences", ("vadd",)),
    ("floating-point products", ("vmul", "vmla")),
    ("floating-point divisions and roots", ("vdiv", "vsqrt")),
    ("floating-point comparisons and conversions", ("vcmp", "vcvt")),
    ("moves within the floating-point unit", ("vmov",)),
    ("loads and stores of the floating-point unit", ("vload", "vstore")),
    ("moves from the unit to the core", ("vfp-to-core",)),
    ("moves from the core to the unit", ("core-to-vfp",)),
    ("NEON", ("neon",)),
    ("integer arithmetic", ("integer",)),
    ("integer loads and stores", ("load", "store")),
    ("branches and calls", ("branch",)),
)
"""Pairs (what is printed, kinds), in the order of the table."""


def arm_sides(found: CountedRow) -> tuple[ArmCounts, ArmCounts] | None:
    """Return the kinds of instructions of both sides; None if one side has none."""
    baseline, candidate = (side.arm for side in found.sides)
    return None if baseline is None or candidate is None else (baseline, candidate)


def arm_kind_rows(found: CountedRow) -> Rows:
    """Return the instructions of an operation by group, their sum, and the calls of libgcc's floating-point functions."""
    sides = arm_sides(found)
    if sides is None:
        return ()
    pairs = [(name, [side.of(*kinds) for side in sides]) for name, kinds in GROUPS]
    pairs = [(name, counts) for name, counts in pairs if any(counts)]
    pairs.append(("sum", [sum(count for _, count in side.kinds) for side in sides]))
    if any(side.helper_calls for side in sides):
        pairs.append(("calls of libgcc's floating-point functions", [side.helper_calls for side in sides]))
    rows: list[tuple[str, ...]] = []
    for name, counts in pairs:
        before, after = (count / side.operations for count, side in zip(counts, found.sides, strict=True))
        rows.append((name, amount(before), amount(after), f"{'+' if after > before else ''}{amount(after - before)}"))
    return tuple(rows)


MOST_EVENTS = 12
GRAPH_NOTE = "The flame graphs have the same instructions by call path. Callers of main are left out."


def explain_counts(found: CountedRow) -> Explanation:
    """Explain a row by its instructions."""
    split = counted_difference(found)
    time = by_function(split)
    before, after = (side.instructions / side.operations for side in found.sides)
    baseline, candidate = (short_label(side.variant) for side in found.sides)
    start = f"{found.place.workload} executes {amount(after)} instructions with {candidate} instead of {amount(before)} with {baseline}"
    tables: tuple[tuple[str, tuple[str, ...], Rows], ...] = (
        ("Instructions by file", FILE_HEAD, file_rows(found)),
        (
            "Instructions by kind",
            ("instructions of an operation, outside the kernel", *FILE_HEAD[1:4]),
            arm_kind_rows(found),
        ),
        ("System calls and faults", ("in one operation", "baseline", "candidate"), event_rows(found)),
    )
    no_callers = (f"Callers and flame graphs are unavailable: {found.no_paths}.",) if found.no_paths else ()
    return Explanation(
        place=found.place,
        time=time,
        sentence=answer(start, time),
        unknown=(*no_callers, *split.notes),
        tables=tuple(
            EvidenceTable(title=name, head=head, rows=rows, brief=True) for name, head, rows in tables if rows
        ),
        methods=(*found.notes, *(() if no_callers else (GRAPH_NOTE,))),
    )


def counted_difference(found: CountedRow) -> ProfileDifference:
    """Return the difference of both variants' instructions by function; without call paths no function has callers."""
    first, second, _ = aligned(*found.profiles)
    return difference(first, second)


FILE_HEAD = ("instructions of an operation in", "baseline", "candidate", "difference", "share")


def _sides(found: CountedRow, count: Callable[[CountedSide], int]) -> Weights:
    """Return a number of both sides, per operation."""
    return Weights(*(count(side) / side.operations for side in found.sides))


def _signed(value: float) -> str:
    """Return a difference with its sign and all digits before the point, a small one with three digits."""
    text = f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else amount(value)
    return f"{'+' if value > 0 else ''}{text}"


def file_rows(found: CountedRow) -> Rows:
    """Return the instructions of each file, their sum, and the time by the machine's clock."""
    files = collections.defaultdict[str, Weights](Weights)
    known, stacks = stacks_of_both(*found.profiles)
    for numbers, weights in stacks.items():
        for frame in (known[number] for number in numbers[-1:]):
            files[LIBRARY if is_library(frame) else frame.object.strip("[]")].add(weights)
    scale, whole = found.ns_per_instruction, _sides(found, lambda side: side.instructions)
    name = "elapsed ns by its clock" + (f" / {scale}" if scale != 1 else "")
    rows = sorted(files.items(), key=lambda row: (-abs(row[1].difference), row[0]))
    rows += [("lost", _sides(found, lambda side: side.lost))] if any(side.lost for side in found.sides) else []
    rows += [("sum", whole)]
    rows += [(name, _sides(found, lambda side: side.clock_ns // scale))] if found.region == PASSES else []
    shares = [percent(each.difference / whole.difference) if whole.difference else "" for _, each in rows]
    return tuple(
        (text, amount(each.baseline), amount(each.candidate), _signed(each.difference), share)
        for (text, each), share in zip(rows, shares, strict=True)
    )


def event_rows(found: CountedRow) -> Rows:
    """Return page faults and system calls, those whose numbers differ most first."""
    pairs = [(each, each.baseline or 0.0, each.candidate or 0.0) for each in found.events]
    ordered = sorted(pairs, key=lambda one: (-abs(one[2] - one[1]), -max(one[1:]), one[0].name))
    return tuple(
        (f"system call {each.name}" if each.group == "system calls" else each.name, amount(before), amount(after))
        for each, before, after in ordered[:MOST_EVENTS]
    )


MOST_LOCKS = 6
PHASE_MEANINGS = {
    PENDING: "the timer has expired; its interrupt is not delivered",
    INTERRUPT: "from the interrupt's entry until it wakes the thread",
    WOKEN: "until the scheduler switches to the thread",
    SWITCH: "the scheduler, and the thread until it reads the clock",
}


def explain_wakeups(found: TracedRow) -> Explanation:
    """Explain a row by the functions in which the paths of its worst wake-ups differ, and by what delayed the later thread.

    For example: the worst wake-up of latency takes 458 us with generic instead of 21 us with rt: free_pcppages_bulk (kernel), called by
    free_unref_page_list (kernel), executes 397 k more, 90 % of the difference. With generic the thread waited without a switch to it,
    ended by __cond_resched (a voluntary preemption point).
    """
    time = by_function(traced_difference(found))
    baseline, candidate = found.sides
    start = (
        f"The worst wake-up of {found.place.workload} takes {duration(candidate.latency_ns)} with {short_label(candidate.variant)} "
        f"instead of {duration(baseline.latency_ns)} with {short_label(baseline.variant)}"
    )
    return Explanation(
        place=found.place,
        time=time,
        sentence=f"{answer(start, time)}{delay(max(candidate, baseline, key=lambda side: side.latency_ns))}",
        tables=(
            EvidenceTable(title="From the timer to the thread", head=PHASE_HEAD, rows=phase_rows(found), brief=True),
        ),
        methods=tuple(notes(found)),
    )


def traced_difference(found: TracedRow) -> ProfileDifference:
    """Return the difference of both paths by function."""
    return difference(*found.profiles)


def delay(side: WakeupPath) -> str:
    """Return what delayed the thread in the longest phase, as a sentence after another; empty if that is the interrupt's."""
    pending, _, woken, switch = side.phases
    reason = ""
    if pending == max(side.phases):
        section = side.disabled
        if section is None:
            reason = "with interrupts disabled: the timer had expired and its interrupt was not delivered"
        else:
            until = "" if section.begins == section.ends else f" until {_name(section.ends, section.modules[1])}"
            reason = f"with interrupts disabled by {_name(section.begins, section.modules[0])}{until}"
    elif woken == max(side.phases):
        others = f"with {count(side.switches, 'other switch', 'other switches')}"
        reason = f"{others if side.switches else 'without a switch to it'}, ended by {ended_by(side)}"
    elif switch == max(side.phases):
        reason = "after the switch to it"
    return f" With {short_label(side.variant)} the thread waited {reason}." if reason else ""


def _name(name: str, module: str) -> str:
    return function_text(name, module or KERNEL) if name else "code without a name"


def ended_by(side: WakeupPath) -> str:
    """Return what switched to the thread: a function of the scheduler, its caller, and what that is."""
    name, caller = side.ended_by
    where = name + (f" in {caller}" if caller else "")
    to_user = caller.startswith(
        ("exit_to_user_mode", "irqentry_exit_to_user_mode", "do_notify_resume", "do_work_pending")
    )
    kinds = (
        ("cond_resched" in name and "irqentry" not in name, "a voluntary preemption point"),
        (name.startswith("preempt_schedule_irq") or "irqentry" in name, "the return from an interrupt"),
        ("preempt_schedule" in name, "preemption enabled again"),
        (to_user, "the return to user mode"),
        (name == "schedule_idle" or caller == "do_idle", "the idle thread"),
    )
    return next((f"{where} ({what})" for matches, what in kinds if matches), where)


PHASE_HEAD = ("instructions of the worst wake-up", "baseline", "candidate", "meaning")


def phase_rows(found: TracedRow) -> tuple[tuple[str, ...], ...]:
    """Return the instructions of each phase, their sum, and the latency that the program reported."""
    rounded = f"rounded down to 1 us; an instruction takes {found.ns_per_instruction} ns"
    return (
        *(
            (phase, *(f"{side.phases[at]:,}" for side in found.sides), PHASE_MEANINGS[phase])
            for at, phase in enumerate(PHASES)
        ),
        ("sum", *(f"{side.instructions:,}" for side in found.sides), ""),
        ("reported by the program", *(duration(side.latency_ns) for side in found.sides), rounded),
    )


def notes(found: TracedRow) -> list[str]:
    """Return which wake-ups these are, and what is derived and what is not, as sentences."""
    lines = []
    for side in found.sides:
        name = short_label(side.variant)
        several = f", the first of {side.equal} with this latency" if side.equal > 1 else ""
        others = f", with {count(side.switches, 'other switch', 'other switches')} before" if side.switches else ""
        lines.append(
            f"{name}: replicate {side.trial.partition('/')[0]}, wake-up {side.cycle} of {side.cycles}{several}; "
            f"ended by {ended_by(side)}{others}."
        )
        if side.disabled is not None:
            section = side.disabled
            lines.append(
                f"{name}: interrupts were disabled when the timer expired, from {_name(section.begins, section.modules[0])} to "
                f"{_name(section.ends, section.modules[1])}, for {section.instructions:,} instructions."
            )
        if side.locks:
            calls = ", ".join(f"{function} {times}" for function, times in side.locks[:MOST_LOCKS])
            lines.append(f"{name}: functions of locks on the path, with their calls: {calls}.")
    return [
        *lines,
        "The program counts each latency in a histogram; the address of that write shows which wake-up was the latest. All of these "
        "writes together gave the histogram that the program printed, and each run gave the bytes that the record has.",
        "Derived: the timer's expiry, from the reported latency; whether its interrupt was delivered then; callers, from the instructions "
        "of calls and returns. A function without a caller was entered before the observed part, or by another thread.",
        "Not derived: the counter of preemption. That the kernel did not switch to a woken thread shows that it did not preempt there, "
        "because a lock or another section disables preemption, or because this kernel preempts only at certain points.",
    ]
