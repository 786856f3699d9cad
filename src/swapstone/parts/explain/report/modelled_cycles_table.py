# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cycles of a modelled processor beside the instructions of a row: a table, a sentence, and what the model leaves out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from swapstone.core.report.answer import wording
from swapstone.core.report.answer.wording import listed
from swapstone.core.report.formatting import ratio
from swapstone.parts.explain.explanation.amounts import amount
from swapstone.parts.explain.model.instruction_counts import (
    BRANCHES,
    DIFFERENT_CYCLES,
    DIVIDES,
    DIVISION,
    EQUAL_INSTRUCTIONS,
    MEMORY,
    CacheSize,
    ModelledCycles,
    ProcessorEvents,
    cycles,
    other_behaviour,
)

MODEL_HEAD = ("modelled, of an operation", "cycles each", "baseline", "candidate", "ratio", "cycles more")
Rows = list[tuple[str, ...]]
Operations = tuple[float, float]

_BEHAVIOUR = {
    MEMORY: "different memory behaviour",
    BRANCHES: "different branch behaviour",
    DIVISION: "different divides",
}
_DIVIDE_NAMES = (
    "divides, integer 32 bits",
    "divides, integer 64 bits",
    "divides, single precision",
    "divides, double precision",
    "square roots, single precision",
    "square roots, double precision",
)


def model_rows(model: ModelledCycles, operations: Operations) -> Rows:
    """Return the rows of the table: instructions, cycles, cycles per instruction, and each kind of event.

    Args:
        model: of both sides.
        operations: of both sides.
    """
    costs = model.costs
    events: tuple[tuple[str, Callable[[ProcessorEvents], int], int | None], ...] = (
        ("instructions", lambda side: side.instructions, costs.instruction),
        ("L1I misses", lambda side: side.l1i_misses, costs.l2),
        ("L1D misses", lambda side: side.l1d_misses, costs.l2),
        ("L2 misses, code", lambda side: side.l2_code_misses, costs.memory),
        ("L2 misses, data", lambda side: side.l2_data_misses, costs.memory),
        ("mispredictions", lambda side: side.mispredictions, costs.misprediction),
        *(
            (text, lambda side, name=name: getattr(side, name), each)
            for text, name, each in zip(_DIVIDE_NAMES, DIVIDES, costs.divides, strict=True)
        ),
        ("cycles", lambda side: cycles(side, costs), 1),
        ("loads", lambda side: side.loads, None),
        ("stores", lambda side: side.stores, None),
        ("conditional branches", lambda side: side.branches, None),
    )
    rows = [_row(name, [of(side) for side in model.sides], operations, each) for name, of, each in events]
    shown = [row for row in rows if (row[2], row[3]) != ("0", "0")]
    per_instruction = [cycles(side, costs) / max(1, side.instructions) for side in model.sides]
    at = next((place for place, row in enumerate(shown) if row[0] == "cycles"), len(shown) - 1) + 1
    texts = [f"{value:.2f}" for value in per_instruction]
    return [*shown[:at], ("cycles per instruction", "", *texts, _ratio(*per_instruction), ""), *shown[at:]]


def _row(name: str, counts: Sequence[int], operations: Operations, each: int | None) -> tuple[str, ...]:
    before, after = (count / number for count, number in zip(counts, operations, strict=True))
    cost = "" if each is None or name == "cycles" else str(each)
    signed = "" if each is None else f"{'+' if (after - before) * each > 0 else ''}{amount((after - before) * each)}"
    return (name, cost, amount(before), amount(after), _ratio(before, after), signed)


def _ratio(before: float, after: float) -> str:
    return ratio(after / before) if before > 0 and after > 0 else ""


def model_sentence(model: ModelledCycles, operations: Operations) -> str:
    """Return the flag of rows whose instructions hide another behaviour, or how the modelled cycles compare.

    For example: Same instructions, different memory behaviour: a modelled processor takes 7.8 times the cycles.
    """
    before, after = (cycles(side, model.costs) / number for side, number in zip(model.sides, operations, strict=True))
    if not before or not after:
        return ""
    found = other_behaviour(model, operations)
    flag = f"Same instructions, {listed([_BEHAVIOUR[name] for name in found])}: a" if found else "A"
    if round(after / before, 3) == 1:
        return f"{flag} modelled processor takes as many cycles."
    return f"{flag} modelled processor takes {wording.amount(after / before, 'cycles', counted=True)}."


def model_notes(model: ModelledCycles) -> list[str]:
    """Return what is modelled, and what is not."""
    caches, costs = model.caches, model.costs
    notes = [
        f"Modelled: L1I {_size(caches.l1i)}, L1D {_size(caches.l1d)}, L2 {_size(caches.l2)}, lines of {caches.line_bytes} B, "
        "least recently used lines replaced, a line allocated by a store that misses (sizes of Arm Cortex-A72); gshare with "
        f"{1 << caches.history_bits} counters; no other processor. The cycles of an event are assumptions, not measurements.",
        f"Each instruction counts {costs.instruction} cycle{'s' if costs.instruction != 1 else ''}, and each event counts in full. Not "
        "modelled: instruction-level parallelism, out-of-order execution, overlapping misses, prefetching, TLBs, page-table walks, "
        "write-backs, indirect branches and returns, atomic operations. So modelled cycles predict no time; they show a difference "
        "of behaviour that the number of instructions hides.",
        f"A row is flagged if its instructions differ by at most {percent_of(EQUAL_INSTRUCTIONS)} and its modelled cycles by more than "
        f"{percent_of(DIFFERENT_CYCLES)}.",
    ]
    if any(side.unseen for side in model.sides):
        counts = " and ".join(str(side.unseen) for side in model.sides)
        notes.append(
            f"Of {counts} instructions DC ZVA, which zero a block of memory, the emulator reports no access: these stores are not modelled."
        )
    return notes


def percent_of(factor: float) -> str:
    """Return a threshold as a percentage."""
    return f"{100 * (factor - 1):.0f} %"


def _size(size: CacheSize) -> str:
    return f"{size.bytes / 1024:.0f} KiB {size.ways}-way"
