# SPDX-License-Identifier: MIT OR Apache-2.0
"""The path of the worst wake-up of a row of latencies: what the machine executed from the timer's expiry to the thread."""

from __future__ import annotations

from swapstone.core.model.frozen_struct import FrozenStruct, NonNegative
from swapstone.core.model.profile import KERNEL, NAMELESS, Frame, Profile
from swapstone.parts.explain.model.explanation import MachineEvidence, TracedSide

EXPLAINED_LATENCY = "max"
"""The metric whose rows the path of the worst wake-up explains."""

PENDING, INTERRUPT, WOKEN, SWITCH = "interrupt pending", "interrupt", "before the last switch", "switch and return"
PHASES = (PENDING, INTERRUPT, WOKEN, SWITCH)
"""From the timer's expiry to the entry of its interrupt; from there to the function that wakes the thread; from there to the last
run of the scheduler, which switches to it; from there until the thread reads the clock."""

MOST_FUNCTIONS = 4000
MOST_DEPTH = 128
_MOST = 1 << 53


class PathFunction(FrozenStruct, frozen=True, kw_only=True):
    """A function on the path, below the functions that called it.

    Attributes:
        name: of the function; empty if it has none.
        module: of the kernel that contains it; empty for the kernel itself.
        depth: 0 for an outermost function. The caller is the last one before it with a smaller depth.
        own: instructions in it, without those of the functions that are listed below it.
        total: instructions in it and in these.
        handler: whether it handles an interrupt or an exception, so that the function above it did not call it.
    """

    name: str
    module: str = ""
    depth: int
    own: int
    total: int
    handler: bool = False


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
    """The worst wake-up of one variant.

    Attributes:
        variant: its label.
        trial: key of the record's trial that was run again: of its replicates the one with the largest maximum.
        run: name of the run, which covers all its inputs.
        output: SHA-256 of what the trial printed, in the record and under the plugin.
        latency_ns: the maximum that the program reported. It rounds down to microseconds.
        cycle, cycles: number of the wake-up, from 1, and how many there were.
        equal: how many wake-ups had this latency; `cycle` is the first of them.
        instructions: on the path, to the reading of the clock.
        phases: instructions of each of `PHASES`.
        functions: in the order in which they were first executed, each below its caller.
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
    functions: tuple[PathFunction, ...]
    ended_by: tuple[str, str]
    switches: NonNegative = 0
    disabled: DisabledSection | None = None
    locks: tuple[tuple[str, NonNegative], ...] = ()

    def problem(self) -> str:
        """Return why the numbers contradict each other; empty if they don't."""
        if not 0 < len(self.functions) <= MOST_FUNCTIONS:
            return f"{self.variant} has no functions, or more than {MOST_FUNCTIONS}"
        if not 1 <= self.cycle <= self.cycles < _MOST or not 1 <= self.equal <= self.cycles:
            return f"the cycle of {self.variant} is not one of its cycles"
        if not 0 < self.instructions < _MOST or sum(self.phases) != self.instructions:
            return f"the phases of {self.variant} don't sum to its instructions"
        return self._problem_of_functions()

    def _problem_of_functions(self) -> str:
        below: dict[int, int] = {}  # by depth, the sums of functions whose callers come before them
        for one in reversed(self.functions):
            inside = below.pop(one.depth + 1, 0)
            if not 0 <= one.depth <= MOST_DEPTH or max(below, default=0) > one.depth:
                return f"a function of {self.variant} has no caller"
            if one.own < 0 or one.own + inside != one.total:
                return f"the functions of {self.variant} don't sum to their callers"
            below[one.depth] = below.get(one.depth, 0) + one.total
        if max(below, default=0) > 0:
            return f"a function of {self.variant} has no caller"
        return (
            ""
            if below.get(0) == self.instructions
            else f"the functions of {self.variant} don't sum to its instructions"
        )


class TracedRow(MachineEvidence, frozen=True, kw_only=True):
    """The paths of the worst wake-ups of both variants of a row.

    Attributes:
        sides: baseline, then candidate.
    """

    sides: tuple[WakeupPath, WakeupPath]

    def problem(self) -> str:
        """Return why the numbers contradict each other; empty if they don't."""
        return next(filter(None, (side.problem() for side in self.sides)), "")


def profile_of(side: WakeupPath) -> Profile:
    """Return the instructions of a path by call stack; one begins anew with the handler of an interrupt, which nothing called."""
    weights: dict[tuple[Frame, ...], float] = {}
    above: list[tuple[Frame, ...]] = []
    for one in side.functions:
        del above[one.depth :]
        frame = Frame(symbol=one.name or NAMELESS, object=one.module or KERNEL)
        above.append((*(above[-1] if above and not one.handler else ()), frame))
        weights[above[-1]] = weights.get(above[-1], 0.0) + one.own
    return Profile.of(weights, kind="instructions", unit="1", operations=1.0)
