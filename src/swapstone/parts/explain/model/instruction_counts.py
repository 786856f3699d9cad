# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where the instructions of a row went: the evidence of a row of a record on the exact clock."""

from __future__ import annotations

from typing import Annotated

import msgspec

from swapstone.core.model.frozen_struct import LARGEST_INTEGER, FrozenStruct, NonNegative
from swapstone.core.model.profile import KERNEL, NAMELESS, OWN_OBJECT, Frame
from swapstone.core.model.safe_text import safe
from swapstone.parts.explain.model.explanation import Count, MachineEvidence, TracedSide

PROGRAM, C_LIBRARY, KERNEL_CODE, AMBIGUOUS, UNKNOWN = ("program", "C library", "kernel", "ambiguous", "unknown")
OTHER_PROGRAM = "another variant's program"
"""Kinds of code. Ambiguous: several files have the same bytes at that address. Unknown: no file has them. Other kinds are files' names.
Where the program of the trial has the bytes too, code is never that of another variant's program."""

PASSES, WHOLE_RUN = "passes", "whole run"
MOST_NOTES, MOST_EVENTS = 100, 1 << 12
"""Of one row. A kernel has about 400 system calls."""


class ArmCounts(FrozenStruct, frozen=True, kw_only=True):
    """The instructions of a 32-bit ARM machine outside its kernel, by kind.

    Attributes:
        kinds: pairs (kind, instructions), as `swapstone.core.factors.arm_code.KINDS` names kinds.
        load_runs: how often the floating-point unit loaded one number, or several with no other instruction between.
        helper_calls: direct calls of libgcc's functions that replace the unit's instructions.
    """

    kinds: tuple[tuple[str, NonNegative], ...]
    load_runs: NonNegative
    helper_calls: NonNegative

    def of(self, *names: str) -> int:
        """Return the instructions of some kinds; a name without its precision stands for both."""
        return sum(count for kind, count in self.kinds if kind in names or kind.partition(".")[0] in names)


class CountedSide(TracedSide, frozen=True, kw_only=True):
    """One variant's run whose instructions were counted by function.

    Attributes:
        program_sha256: of the program's file.
        operations: in the observed part.
        clock_ns: elapsed time by the machine's clock, as the program reports it for its passes; 0 if it reports none.
        repeated: at most so many of the instructions are counted twice, because they faulted at the end of a block and were repeated.
        arm: the instructions by kind, on 32-bit ARM.
    """

    program_sha256: str
    operations: Annotated[float, msgspec.Meta(ge=1, le=LARGEST_INTEGER)]
    clock_ns: NonNegative
    repeated: NonNegative
    arm: ArmCounts | None = None

    def problem(self) -> str:
        """Return why the numbers contradict each other; empty if they don't."""
        kinds = self.arm.kinds if self.arm else ()
        if len({kind for kind, _ in kinds}) != len(kinds) or sum(count for _, count in kinds) > self.instructions:
            return f"the kinds of instructions sum to more than the instructions of {self.variant}"
        return super().problem()


class CountedRow(MachineEvidence, frozen=True, kw_only=True):
    """Where the instructions of both variants of a row went.

    Attributes:
        region: what was observed: `PASSES` or `WHOLE_RUN`.
        events: system calls and page faults of an operation, as their functions in the kernel were entered.
        notes: what the numbers contain, as sentences.
    """

    region: str
    sides: tuple[CountedSide, CountedSide]
    events: tuple[Count, ...] = ()
    notes: tuple[str, ...] = ()

    def problem(self) -> str:
        """Return why the numbers contradict each other; empty if they don't."""
        if len(self.notes) > MOST_NOTES or len(self.events) > MOST_EVENTS:
            return f"it has more than {MOST_NOTES} notes or {MOST_EVENTS} events"
        return super().problem()


def frame_of(name: str, file: str, kind: str) -> Frame:
    """Return a function as a frame of a stack; its file's kind tells whether it is the kernel's or the program's."""
    if kind in {UNKNOWN, AMBIGUOUS}:
        return Frame(symbol=name or NAMELESS, object=kind)
    shown = KERNEL if kind == KERNEL_CODE else OWN_OBJECT if kind == PROGRAM else safe(file)
    return Frame(symbol=safe(name) or NAMELESS, object=shown)
