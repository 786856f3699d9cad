# SPDX-License-Identifier: MIT OR Apache-2.0
"""The path of the worst wake-up of a row on the exact clock: a document and a summary."""

from __future__ import annotations

from collections.abc import Sequence

from swapstone.core.comparison.profile_difference import FrameDifference, ProfileDifference, difference
from swapstone.core.model.profile import KERNEL, NAMELESS, Profile
from swapstone.core.report.answer.wording import listed
from swapstone.core.report.context import ExplanationSummary
from swapstone.core.report.document import Block, BulletList, Document, Item, Section
from swapstone.core.report.formatting import count, safe
from swapstone.core.report.tables import text_table
from swapstone.parts.explain.explanation.amounts import duration, percent
from swapstone.parts.explain.model.variant_label import short_label
from swapstone.parts.explain.model.wakeup_paths import (
    INTERRUPT,
    PENDING,
    PHASES,
    SWITCH,
    WOKEN,
    WakeupExplanation,
    WakeupPath,
    profile_of,
)
from swapstone.parts.explain.report.instruction_explanation import FUNCTION_HEAD, function_rows
from swapstone.parts.explain.report.row_explanation import Rows, function_name, title

MOST_LOCKS = 6

PHASE_MEANINGS = {
    PENDING: "the timer has expired; its interrupt is not delivered",
    INTERRUPT: "from the interrupt's entry until it wakes the thread",
    WOKEN: "until the scheduler switches to the thread",
    SWITCH: "the scheduler, and the thread until it reads the clock",
}


def number(value: int) -> str:
    """Return an exact number of instructions, with separators."""
    return f"{value:,}"


def compared(found: WakeupExplanation) -> ProfileDifference:
    """Return the difference of both paths by function."""
    return difference(*map(profile_of, found.sides))


def _named(one: FrameDifference) -> str:
    """Return a function with its caller."""
    texts = [
        function_name("" if each.symbol == NAMELESS else each.symbol, "" if each.object == KERNEL else each.object)
        for each in (one.frame, *one.callers)
    ]
    return f"{texts[0]}, called by {texts[1]}," if one.callers else texts[0]


def sentence(found: WakeupExplanation) -> str:
    """Return the answer: the worst wake-up of the side that is worse, and the functions that grew, or the other side's wake-up."""
    baseline, candidate = found.sides
    if (grown := grown_sentence(found)) and candidate.latency_ns > baseline.latency_ns:
        return f"{side_sentence(candidate)} {grown}"
    return f"{side_sentence(baseline)} {side_sentence(candidate)}"


def side_sentence(side: WakeupPath) -> str:
    """Return how long the worst wake-up of a variant took, where its instructions are, and what ended them.

    For example: The worst wake-up of generic took 458 us; free_pcppages_bulk, called by free_unref_page_list, and what it calls have
    397,432 of its 457,952 instructions, without a switch to the woken thread, ended by __cond_resched.
    """
    none = Profile.of({}, kind="instructions", unit="1", operations=1.0)
    parts = [
        f"{_named(one)} and what it calls have {number(round(one.inclusive.candidate))}"
        for one in difference(none, profile_of(side)).leading()
    ]
    start = f"The worst wake-up of {safe(short_label(side.variant))} took {duration(side.latency_ns)}"
    inside = f"; {listed(parts)} of its {number(side.instructions)} instructions" if parts else ""
    return f"{start}{inside}{_reason(side)}."


def _reason(side: WakeupPath) -> str:
    """Return what delayed the thread in the longest phase, as the end of a sentence."""
    pending, _, woken, switch = side.phases
    if pending == max(side.phases):
        section = side.disabled
        if section is None:
            return ", with interrupts disabled: the timer had expired and its interrupt was not delivered"
        where = function_name(section.begins, section.modules[0])
        until = "" if section.begins == section.ends else f" until {function_name(section.ends, section.modules[1])}"
        return f", with interrupts disabled by {where}{until}"
    if woken == max(side.phases):
        others = f"with {count(side.switches, 'other switch', 'other switches')}"
        switches = others if side.switches else "without a switch to the woken thread"
        return f", {switches}, ended by {ended_by(side)}"
    return ", after the switch to the thread" if switch == max(side.phases) else ""


def ended_by(side: WakeupPath) -> str:
    """Return what switched to the thread: a function of the scheduler, its caller, and what that is."""
    name, caller = side.ended_by
    where = safe(name) + (f" in {safe(caller)}" if caller else "")
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


def grown_sentence(found: WakeupExplanation) -> str:
    """Return the functions that account for the growth; empty if the candidate executes no more instructions than the baseline."""
    split = compared(found)
    if split.total.difference <= 0:
        return ""
    parts = [
        f"{_named(one)} and what it calls execute {number(round(one.inclusive.difference))} more, "
        f"{percent(one.inclusive.difference / split.total.difference)} of the difference"
        for one in split.leading()
    ]
    where = "; ".join(parts) or f"the difference is spread over {split.spread()} functions"
    return f"Against {safe(short_label(found.sides[0].variant))}: {where}."


PHASE_HEAD = ("instructions of the worst wake-up", "baseline", "candidate", "meaning")


def phase_rows(found: WakeupExplanation) -> Rows:
    """Return the instructions of each phase, their sum, and the latency that the program reported."""
    rounded = f"rounded down to 1 us; an instruction takes {found.ns_per_instruction} ns"
    return [
        *(
            (phase, *(number(side.phases[at]) for side in found.sides), PHASE_MEANINGS[phase])
            for at, phase in enumerate(PHASES)
        ),
        ("sum", *(number(side.instructions) for side in found.sides), ""),
        ("reported by the program", *(duration(side.latency_ns) for side in found.sides), rounded),
    ]


def notes(found: WakeupExplanation) -> list[str]:
    """Return which wake-ups these are, and what is derived and what is not, as sentences."""
    lines = []
    for side in found.sides:
        name = safe(short_label(side.variant))
        several = f", the first of {side.equal} with this latency" if side.equal > 1 else ""
        others = f", with {count(side.switches, 'other switch', 'other switches')} before" if side.switches else ""
        lines.append(
            f"{name}: replicate {safe(side.trial.partition('/')[0])}, wake-up {side.cycle} of {side.cycles}{several}; "
            f"ended by {ended_by(side)}{others}."
        )
        if side.disabled is not None:
            section = side.disabled
            lines.append(
                f"{name}: interrupts were disabled when the timer expired, from {function_name(section.begins, section.modules[0])} to "
                f"{function_name(section.ends, section.modules[1])}, for {number(section.instructions)} instructions."
            )
        if side.locks:
            calls = ", ".join(f"{safe(function)} {times}" for function, times in side.locks[:MOST_LOCKS])
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


def document_of(found: WakeupExplanation) -> Document:
    """Return the explanation as a document."""
    sections: tuple[tuple[str, Block], ...] = (
        ("From the timer to the thread", text_table("Phases", PHASE_HEAD, phase_rows(found), last=2)),
        (
            "Instructions by function",
            text_table("Functions", FUNCTION_HEAD, function_rows(compared(found)), keys=2, last=-1),
        ),
        ("How it was found", BulletList(items=tuple(map(Item, notes(found))))),
    )
    return Document(
        kicker="why",
        title=f"Why: {safe(title(found.place, found.place.load))}",
        answer=sentence(found),
        sections=tuple(Section(title=name, blocks=(block,)) for name, block in sections),
    )


def summary_of(found: WakeupExplanation, pages: Sequence[tuple[str, str]]) -> ExplanationSummary:
    """Return the explanation as the record's report prints it.

    Args:
        found: the explanation.
        pages: pairs (path, description) of the files beside it.
    """
    return ExplanationSummary(
        title=safe(title(found.place, found.place.load)),
        paragraph=sentence(found),
        ledger=tuple(row[:3] for row in (PHASE_HEAD, *phase_rows(found))),
        pages=tuple(pages),
    )
