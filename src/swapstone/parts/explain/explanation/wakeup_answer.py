# SPDX-License-Identifier: MIT OR Apache-2.0
"""Explain a row of latencies on the exact clock by the paths of the worst wake-ups."""

from __future__ import annotations

from swapstone.core.comparison.profile_difference import ProfileDifference, difference
from swapstone.core.model.profile import KERNEL
from swapstone.core.report.formatting import count
from swapstone.parts.explain.explanation.amounts import duration, short_label
from swapstone.parts.explain.explanation.by_function import answer, by_function, function_text
from swapstone.parts.explain.model.explanation import EvidenceTable, Explanation
from swapstone.parts.explain.model.instruction_counts import (
    INTERRUPT,
    PENDING,
    PHASES,
    SWITCH,
    WOKEN,
    TracedRow,
    WakeupPath,
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
