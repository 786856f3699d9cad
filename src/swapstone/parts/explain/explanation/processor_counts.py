# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the processor's own counters contribute to why the same instructions take longer."""

from __future__ import annotations

from collections.abc import Mapping

from swapstone.core.model.number_text import fixed
from swapstone.parts.explain.explanation.evidence import Sides, amount
from swapstone.parts.explain.model.explanation import CYCLES, HARDWARE, INSTRUCTIONS, LOST, SLOTS, Count

Counts = Mapping[tuple[str, str], Count]

LEAST_LOST = 0.05
"""Share of the slots that the slower variant must lose more, so that this is named."""

_LEAST_RATIO = 1.5
_MISSES = (
    "mispredicted branches",
    "misses of the first-level data cache",
    "misses of the last-level cache",
    "misses of the TLB",
)


def processor_text(counts: Counts, pair: Sides) -> str:
    """Return instructions per cycle, where slots are lost, and the misses that the slower variant has more of; empty without counters.

    Args:
        counts: of both variants, by group and name.
        pair: the variants.
    """
    cycles, instructions = (pair.counted(counts.get((HARDWARE, name))) for name in (CYCLES, INSTRUCTIONS))
    if cycles is None or instructions is None or not all(cycles):
        return ""
    rates = [fixed(number / time, 2) for number, time in zip(instructions, cycles, strict=True)]
    parts = [f"the processor's counters show {rates[0]} instructions per cycle (other variant: {rates[1]})"]
    if lost := _lost(counts, pair):
        parts.append(lost)
    for name in _MISSES:
        found = pair.counted(counts.get((HARDWARE, name)))
        if found is not None and found[0] >= _LEAST_RATIO * found[1] and amount(found[0]) != amount(found[1]):
            parts.append(f"{amount(found[0])} {name} per operation (other variant: {amount(found[1])})")
    return ", ".join(parts)


def _lost(counts: Counts, pair: Sides) -> str:
    """Return for what the slower variant loses most slots more, by the top-down method."""
    slots = pair.counted(counts.get((HARDWARE, SLOTS)))
    if slots is None or not all(slots):
        return ""
    values = ((name, pair.counted(counts.get((HARDWARE, name)))) for name in LOST)
    shares = ((name, found[0] / slots[0], found[1] / slots[1]) for name, found in values if found is not None)
    most, slow, fast = max(shares, key=lambda one: one[1] - one[2], default=("", 0.0, 0.0))
    if slow - fast < LEAST_LOST:
        return ""
    return f"{fixed(100 * slow, 0)} % of its slots are lost to {LOST[most]} (other variant: {fixed(100 * fast, 0)} %)"
