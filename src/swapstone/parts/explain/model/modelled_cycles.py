# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cycles of a modelled processor: the counts of the emulator's plugin, what an event costs, and which difference is flagged.

The sizes of the caches are those of native/plugin/model.c: Arm Cortex-A72 (Technical Reference Manual, 100095), L2 1 MiB. That manual
documents no latencies. Those here are assumptions of the order of such a processor, and a user may compute with others: the JSON has all
counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeAlias

import msgspec

from swapstone.core.model.bounds import NonNegative, PositiveInteger
from swapstone.core.model.frozen_struct import FrozenStruct

_MOST_CYCLES = 1 << 20
_Cycles: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_MOST_CYCLES)]

EQUAL_INSTRUCTIONS = 1.05
"""Instructions of both sides are about equal if their ratio is between this number's reciprocal and this number."""

DIFFERENT_CYCLES = 1.10
"""Modelled cycles differ if their ratio is outside this number's reciprocal and this number."""

LEAST_SHARE = 0.25
"""A kind of event is named if it has at least this share of the difference in cycles."""


class CacheSize(FrozenStruct, frozen=True, kw_only=True):
    """Size of a cache in bytes, and its ways."""

    bytes: PositiveInteger
    ways: Annotated[int, msgspec.Meta(ge=1, le=1 << 16)]


class Caches(FrozenStruct, frozen=True, kw_only=True):
    """The modelled caches and the predictor.

    Attributes:
        l1i, l1d, l2: of instructions, of data, and of both.
        line_bytes: size of a line.
        history_bits: outcomes of branches that index the predictor's 2^history_bits counters.
    """

    l1i: CacheSize
    l1d: CacheSize
    l2: CacheSize
    line_bytes: PositiveInteger
    history_bits: Annotated[int, msgspec.Meta(ge=0, lt=64)]


class Costs(FrozenStruct, frozen=True, kw_only=True):
    """Cycles that an event adds.

    Attributes:
        instruction: each instruction, with its hits in L1.
        l2: a line that is in L2 and not in L1.
        memory: a line that is not in L2 either, beside `l2`.
        misprediction: a mispredicted conditional branch.
        divides: a divide of each kind, in the order of `DIVIDES`.
    """

    instruction: Annotated[int, msgspec.Meta(ge=1, le=_MOST_CYCLES)] = 1
    l2: _Cycles = 20
    memory: _Cycles = 150
    misprediction: _Cycles = 15
    divides: tuple[_Cycles, _Cycles, _Cycles, _Cycles, _Cycles, _Cycles] = (12, 20, 11, 18, 17, 32)


DIVIDES = ("divides_32", "divides_64", "divides_single", "divides_double", "roots_single", "roots_double")
"""Fields of `ProcessorEvents`, in the order of native/plugin/instruction.h."""


class ProcessorEvents(FrozenStruct, frozen=True, kw_only=True):
    """What the plugin counted in the observed part of a run (native/plugin/model.c).

    Attributes:
        instructions: completed ones.
        loads, stores: accesses to memory, as the emulator performs them: one of 16 bytes may be two of 8.
        devices: accesses to devices, which use no cache.
        unseen: instructions that write memory, which the emulator does not report (DC ZVA of arm64).
        l1i_accesses: lines of code that each executed block touches.
        l1d_accesses: lines that loads and stores touch.
        l1i_misses, l1d_misses: lines that were not in these caches.
        l2_code_misses, l2_data_misses: of these, lines that were not in L2 either.
        branches: conditional ones whose outcome is known.
        mispredictions: of these.
        interrupted: conditional branches whose outcome is not known, because an interrupt came after them.
        divides_32, divides_64: of integers of up to 32 bits and of 64.
        divides_single, divides_double, roots_single, roots_double: of floating point; an instruction on a vector counts once.
    """

    instructions: NonNegative
    loads: NonNegative
    stores: NonNegative
    devices: NonNegative
    unseen: NonNegative
    l1i_accesses: NonNegative
    l1i_misses: NonNegative
    l1d_accesses: NonNegative
    l1d_misses: NonNegative
    l2_code_misses: NonNegative
    l2_data_misses: NonNegative
    branches: NonNegative
    mispredictions: NonNegative
    interrupted: NonNegative
    divides_32: NonNegative
    divides_64: NonNegative
    divides_single: NonNegative
    divides_double: NonNegative
    roots_single: NonNegative
    roots_double: NonNegative

    @property
    def divides(self) -> int:
        """Return divides and square roots of all kinds."""
        return sum(getattr(self, name) for name in DIVIDES)

    def problem(self) -> str:
        """Return why the counts contradict each other; empty if they don't."""
        parts = (
            (self.l1i_misses, self.l1i_accesses),
            (self.l1d_misses, self.l1d_accesses),
            (self.l2_code_misses, self.l1i_misses),
            (self.l2_data_misses, self.l1d_misses),
            (self.mispredictions, self.branches),
        )
        return "there are more misses than accesses" if any(part > whole for part, whole in parts) else ""


class ModelledCycles(FrozenStruct, frozen=True, kw_only=True):
    """The events of both variants of a row, and what they cost.

    Attributes:
        caches: the modelled processor.
        costs: cycles of an event.
        sides: baseline, then candidate.
    """

    caches: Caches
    costs: Costs
    sides: tuple[ProcessorEvents, ProcessorEvents]

    def problem(self) -> str:
        """Return why the numbers contradict each other; empty if they don't."""
        return next(filter(None, (side.problem() for side in self.sides)), "")


MEMORY, BRANCHES, DIVISION = "memory", "branch", "divide"

PARTS: tuple[tuple[str, Callable[[ProcessorEvents, Costs], int]], ...] = (
    ("instructions", lambda events, costs: events.instructions * costs.instruction),
    (
        MEMORY,
        lambda events, costs: (
            (events.l1i_misses + events.l1d_misses) * costs.l2
            + (events.l2_code_misses + events.l2_data_misses) * costs.memory
        ),
    ),
    (BRANCHES, lambda events, costs: events.mispredictions * costs.misprediction),
    (
        DIVISION,
        lambda events, costs: sum(
            getattr(events, name) * each for name, each in zip(DIVIDES, costs.divides, strict=True)
        ),
    ),
)
"""The cycles of a run are the sum of these parts: pairs (name, function of the counts and the costs)."""


def cycles(events: ProcessorEvents, costs: Costs) -> int:
    """Return the modelled cycles of a run."""
    return sum(part(events, costs) for _, part in PARTS)


def other_behaviour(model: ModelledCycles, operations: tuple[float, float]) -> tuple[str, ...]:
    """Return which behaviour makes modelled cycles differ though the instructions are about equal.

    Args:
        model: of both sides.
        operations: of both sides.

    Returns:
        `MEMORY`, `BRANCHES` and `DIVISION`, the largest difference first, as far as each has `LEAST_SHARE` of the difference or more.
        Empty if the instructions differ by more than `EQUAL_INSTRUCTIONS`, or the cycles by no more than `DIFFERENT_CYCLES`.
    """
    before, after = (
        {name: part(events, model.costs) / number for name, part in PARTS}
        for events, number in zip(model.sides, operations, strict=True)
    )
    whole = sum(after.values()) - sum(before.values())
    equal = _within(before["instructions"], after["instructions"], EQUAL_INSTRUCTIONS)
    if not equal or _within(sum(before.values()), sum(after.values()), DIFFERENT_CYCLES):
        return ()
    shares = {name: (after[name] - before[name]) / whole for name in (MEMORY, BRANCHES, DIVISION)}
    return tuple(sorted((name for name in shares if shares[name] >= LEAST_SHARE), key=lambda name: -shares[name]))


def _within(before: float, after: float, factor: float) -> bool:
    return before <= after * factor and after <= before * factor
