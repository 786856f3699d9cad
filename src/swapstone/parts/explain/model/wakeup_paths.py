# SPDX-License-Identifier: MIT OR Apache-2.0
"""The path of the worst wake-up of a row of latencies: what the machine executed from the timer's expiry to the thread."""

from __future__ import annotations

from swapstone.core.model.frozen_struct import FrozenStruct, NonNegative
from swapstone.parts.explain.model.explanation import MachineEvidence, TracedSide

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
