# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where the instructions of a row went: the explanation of a row of a record on the exact clock."""

from __future__ import annotations

from typing import Annotated

import msgspec

from swapstone.core.model.bounds import LARGEST_INTEGER, NonNegative
from swapstone.core.model.frozen_struct import FrozenStruct
from swapstone.parts.explain.model.explanation import TracedExplanation, TracedSide
from swapstone.parts.explain.model.modelled_cycles import ModelledCycles

PROGRAM, C_LIBRARY, KERNEL_CODE, AMBIGUOUS, UNKNOWN = ("program", "C library", "kernel", "ambiguous", "unknown")
"""Kinds of code. Ambiguous: several files have the same bytes at that address. Unknown: no file has them. Other kinds are files' names."""

PASSES, WHOLE_RUN = "passes", "whole run"
MOST_NOTES, MOST_FUNCTIONS = 100, 1 << 18
"""Of one row. A kernel has about 100,000 functions, and a run executes some thousand of them."""


class FunctionCount(FrozenStruct, frozen=True, kw_only=True):
    """The instructions of one function.

    Attributes:
        name: of the function; empty if it has none.
        file: that contains it.
        kind: of the file.
        baseline, candidate: instructions in the observed part of the run.
        entries: how often its first instruction was executed, on each side.
    """

    name: str
    file: str
    kind: str
    baseline: NonNegative = 0
    candidate: NonNegative = 0
    entries: tuple[NonNegative, NonNegative] = (0, 0)

    @property
    def difference(self) -> int:
        """Return candidate minus baseline."""
        return self.candidate - self.baseline


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
    """One variant's run under the emulator's plugin.

    Attributes:
        variant: its label.
        trial: key of the record's trial that was run again.
        run: name of the run, which covers all its inputs.
        output: SHA-256 of what the trial printed, in the record and under the plugin.
        program_sha256: of the program's file.
        operations: in the observed part.
        instructions: in the observed part.
        clock_ns: elapsed time by the machine's clock, as the program reports it for its passes; 0 if it reports none.
        repeated: at most so many of the instructions are counted twice, because they faulted at the end of a block and were repeated.
        lost: instructions without an address.
        arm: the instructions by kind, on 32-bit ARM.
    """

    program_sha256: str
    operations: Annotated[float, msgspec.Meta(ge=1, le=LARGEST_INTEGER)]
    clock_ns: NonNegative
    repeated: NonNegative
    lost: NonNegative
    arm: ArmCounts | None = None


class InstructionExplanation(TracedExplanation, frozen=True, kw_only=True):
    """Where the instructions of both variants of a row went.

    Attributes:
        region: what was observed: `PASSES` or `WHOLE_RUN`.
        sides: baseline, then candidate.
        functions: all functions, the largest difference first. Their sums are the sides' instructions, without the lost ones.
        notes: what the numbers contain, as sentences.
        model: events of a modelled processor; None if they were not requested.
        no_graph: why there is no flame graph; empty if there is one.
    """

    region: str
    sides: tuple[CountedSide, CountedSide]
    functions: tuple[FunctionCount, ...]
    notes: tuple[str, ...] = ()
    model: ModelledCycles | None = None
    no_graph: str = "the explanation is of an earlier version; run swapstone explain RECORD --again"

    def problem(self) -> str:
        """Return why the numbers contradict each other; empty if they don't."""
        if len(self.notes) > MOST_NOTES or len(self.functions) > MOST_FUNCTIONS:
            return f"it has more than {MOST_NOTES} notes or {MOST_FUNCTIONS} functions"
        for number, side in enumerate(self.sides):
            counts = [(one.baseline, one.candidate)[number] for one in self.functions]
            if sum(counts) + side.lost != side.instructions:
                return f"the functions of {side.variant} don't sum to its instructions"
            kinds = side.arm.kinds if side.arm else ()
            if len({kind for kind, _ in kinds}) != len(kinds) or sum(count for _, count in kinds) > side.instructions:
                return f"the kinds of instructions sum to more than the instructions of {side.variant}"
        return self.model.problem() if self.model else ""
