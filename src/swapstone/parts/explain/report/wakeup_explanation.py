# SPDX-License-Identifier: MIT OR Apache-2.0
"""The path of the worst wake-up of a row on the exact clock: a document and a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

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
    Path,
    WakeupExplanation,
    WakeupPath,
    growth_by_path,
    heaviest_path,
    totals_by_function,
    totals_by_path,
)
from swapstone.parts.explain.report.row_explanation import Rows, function_name, title

MOST_LINES = 40
MOST_GROWN = 12
MOST_LOCKS = 6
_NAMED = 4
_LEAST_OF_PATH = 0.25
_LEAST_LINE = 0.02
_LONGEST_CHAIN = 60

PHASE_MEANINGS = {
    PENDING: "the timer has expired; its interrupt is not delivered",
    INTERRUPT: "from the interrupt's entry until it wakes the thread",
    WOKEN: "until the scheduler switches to the thread",
    SWITCH: "the scheduler, and the thread until it reads the clock",
}


def number(value: int) -> str:
    """Return an exact number of instructions, with separators."""
    return f"{value:,}"


def _path_text(path: Path) -> str:
    return " > ".join(function_name(*one) for one in path)


def sentence(found: WakeupExplanation) -> str:
    """Return the answer: the worst wake-up of the side that is worse, and the path that grew or the other side's path."""
    baseline, candidate = found.sides
    if (grown := grown_sentence(found)) and candidate.latency_ns > baseline.latency_ns:
        return f"{side_sentence(candidate)} {grown}"
    return f"{side_sentence(baseline)} {side_sentence(candidate)}"


def side_sentence(side: WakeupPath) -> str:
    """Return how long the worst wake-up of a variant took, where its instructions are, and what ended them.

    For example: The worst wake-up of generic took 458 us; 157,432 of its 457,952 instructions are in tlb_batch_pages_flush >
    release_pages > free_unref_page_list > free_pcppages_bulk, without a switch to the woken thread, ended by __cond_resched.
    The number is that of the line of `path_rows` that has the path.
    """
    path = heaviest_path(totals_by_path(side.functions), _LEAST_OF_PATH * side.instructions)
    start = f"The worst wake-up of {safe(short_label(side.variant))} took {duration(side.latency_ns)}"
    if path:
        inside, named = _line(side, path)
        start = f"{start}; {number(inside)} of its {number(side.instructions)} instructions are in {_path_text(named)}"
    return f"{start}{_reason(side)}."


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
    """Return the path with the largest growth; empty if the candidate executes no more instructions than the baseline."""
    baseline, candidate = found.sides
    difference = candidate.instructions - baseline.instructions
    path = heaviest_path(growth_by_path(baseline, candidate), _LEAST_OF_PATH * difference)
    if difference <= 0 or not path:
        return ""
    inside, named = _line(candidate, path)
    before = totals_by_function(baseline.functions).get(path[-1], 0)
    return (
        f"The path that grew: {_path_text(named)}, {number(inside)} instructions; {function_name(*path[-1])} has {number(before)} with "
        f"{safe(short_label(baseline.variant))}."
    )


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


def path_rows(side: WakeupPath) -> Rows:
    """Return the functions of a path in the order of their first execution, with their callers; small ones are left out.

    A function that calls only one other, and does nearly nothing itself, shares a line with it.
    """
    totals = totals_by_path(side.functions)
    return [
        (
            "> " * depth + _path_text(tuple(path[-1] for path in line)),
            number(totals[line[0]]),
            percent(totals[line[0]] / side.instructions),
        )
        for depth, line in _lines(side)[:MOST_LINES]
    ]


def _line(side: WakeupPath, path: Path) -> tuple[int, Path]:
    """Return the instructions of the line that has a path, and the last functions of the path: the line's, and at least `_NAMED`."""
    line = next((line for _, line in _lines(side) if path in line), [path])
    return totals_by_path(side.functions)[line[0]], path[max(0, min(len(line[0]) - 1, len(path) - _NAMED)) :]


def _lines(side: WakeupPath) -> list[tuple[int, list[Path]]]:
    """Return the lines of a path: paths that call only the next one, with the depth at which they are printed."""
    totals = totals_by_path(side.functions)
    least = max(1, round(side.instructions * _LEAST_LINE))
    first = {path: at for at, path in enumerate(totals)}
    ordered = sorted(totals, key=lambda path: [first[path[:length]] for length in range(1, len(path) + 1)])
    paths = [path for path in ordered if totals[path] >= least]
    found: list[tuple[int, list[Path]]] = []
    depths: list[int] = []  # of the lines that are open, by the depth of their last function
    at = 0
    while at < len(paths):
        line = [paths[at]]
        while at + 1 < len(paths) and len(below := paths[at + 1]) == len(paths[at]) + 1:
            long = sum(len(path[-1][0]) + 3 for path in (*line, below)) > _LONGEST_CHAIN
            if long or totals[line[0]] - totals[below] >= least:
                break
            line.append(below)
            at += 1
        while depths and depths[-1] >= len(line[0]):
            depths.pop()
        found.append((len(depths), line))
        depths.append(len(line[-1]))
        at += 1
    return found


def grown_rows(found: WakeupExplanation) -> Rows:
    """Return the functions whose own instructions differ most, the candidate's growth first."""
    before, after = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for own, side in zip((before, after), found.sides, strict=True):
        for one in side.functions:
            own[one.name, one.module] += one.own
    return [
        (function_name(*name), number(before[name]), number(after[name]), f"{after[name] - before[name]:+,}")
        for name in sorted({*before, *after}, key=lambda name: (-abs(after[name] - before[name]), name))[:MOST_GROWN]
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
    names = [f"The path of {safe(short_label(side.variant))}" for side in found.sides]
    sections: tuple[tuple[str, Block], ...] = (
        ("From the timer to the thread", text_table("Phases", PHASE_HEAD, phase_rows(found), last=2)),
        *(
            (
                name,
                text_table(
                    name,
                    ("function, below its callers", "instructions, with all that it calls", "share"),
                    path_rows(side),
                ),
            )
            for name, side in zip(names, found.sides, strict=True)
        ),
        (
            "What differs",
            text_table("Functions", ("function itself", "baseline", "candidate", "difference"), grown_rows(found)),
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
