# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the emulator's plugin observed of a row on the exact clock: where the instructions went, and the path of the worst wake-up."""

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


EXPLAINED_LATENCY = "max"
"""The metric whose rows the path of the worst wake-up explains."""

PENDING, INTERRUPT, WOKEN, SWITCH = "interrupt pending", "interrupt", "before the last switch", "switch and return"
PHASES = (PENDING, INTERRUPT, WOKEN, SWITCH)
"""From the timer's expiry to the entry of its interrupt; from there to the function that wakes the thread; from there to the last
run of the scheduler, which switches to it; from there until the thread reads the clock."""

MOST_DEPTH = 128
_MOST = 1 << 53


class DisabledSection(FrozenStruct, frozen=True, kw_only=True):
    """The part of the path with interrupts disabled at whose end the timer's interrupt was delivered.

    Attributes:
        begins, ends: the functions that disabled and enabled interrupts.
        modules: of these functions; empty for the kernel itself.
        instructions: between the two.
    """

    begins: str
    ends: str
    modules: tuple[str, str]
    instructions: int


class WakeupPath(TracedSide, frozen=True, kw_only=True):
    """The worst wake-up of one variant: that of the replicate with the largest maximum, to the reading of the clock.

    Attributes:
        latency_ns: the maximum that the program reported. It rounds down to microseconds.
        cycle, cycles: number of the wake-up, from 1, and how many there were.
        equal: how many wake-ups had this latency; `cycle` is the first of them.
        phases: instructions of each of `PHASES`.
        switches: how often the scheduler ran between the wake-up and its last run.
        ended_by: the outermost function of that last run of the scheduler, and its caller.
        disabled: the section that delayed the interrupt; None if the interrupt was not delayed, or if the section is not known.
        locks: pairs (function that takes or releases a lock, calls) on the path.
    """

    latency_ns: NonNegative
    cycle: int
    cycles: int
    equal: int
    phases: tuple[NonNegative, NonNegative, NonNegative, NonNegative]
    ended_by: tuple[str, str]
    switches: NonNegative = 0
    disabled: DisabledSection | None = None
    locks: tuple[tuple[str, NonNegative], ...] = ()

    def problem(self) -> str:
        """Return why the numbers contradict each other; empty if they don't."""
        if not 1 <= self.cycle <= self.cycles < _MOST or not 1 <= self.equal <= self.cycles:
            return f"the cycle of {self.variant} is not one of its cycles"
        if not 0 < self.instructions < _MOST or sum(self.phases) != self.instructions:
            return f"the phases of {self.variant} don't sum to its instructions"
        return super().problem()


class TracedRow(MachineEvidence, frozen=True, kw_only=True):
    """The paths of the worst wake-ups of both variants of a row; a stack begins anew with the handler of an interrupt."""

    sides: tuple[WakeupPath, WakeupPath]
