# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where the instructions of a row went: the evidence of a row of a record on the exact clock."""

from __future__ import annotations

import collections
from typing import Annotated

import msgspec

from swapstone.core.model.frozen_struct import LARGEST_INTEGER, FrozenStruct, NonNegative
from swapstone.core.model.profile import KERNEL, NAMELESS, OWN_OBJECT, Frame, Profile, Stack
from swapstone.core.model.safe_text import safe
from swapstone.parts.explain.model.explanation import MachineEvidence, TracedSide

PROGRAM, C_LIBRARY, KERNEL_CODE, AMBIGUOUS, UNKNOWN = ("program", "C library", "kernel", "ambiguous", "unknown")
OTHER_PROGRAM = "another variant's program"
"""Kinds of code. Ambiguous: several files have the same bytes at that address. Unknown: no file has them. Other kinds are files' names.
Where the program of the trial has the bytes too, code is never that of another variant's program."""

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


MOST_NODES = 1 << 16
"""Of one variant's tree."""

MOST_DEPTH = 512
"""A tree is less deep: the emulator's plugin follows 200 calls (native/plugin/paths.c)."""

MOST_CALLS = 1 << 22
"""Calls of all paths of one variant together: a flame graph repeats the callers of each path."""


class PathTree(FrozenStruct, frozen=True, kw_only=True):
    """The instructions of one variant by call path: a tree, whose nodes are functions below their callers.

    Attributes:
        frames: functions, each once.
        above: of each node, the index of its caller's node, which is smaller than its own; -1 for none.
        frame: of each node, an index into `frames`.
        own: of each node, instructions in the function itself.
        least: functions with fewer instructions on a path were added to their callers; 0 if none was.
        deep: calls whose callees are shown as called by the last caller that had room, because the path was too long.
        full: calls whose callers are not shown, because there were too many paths.
    """

    frames: tuple[Frame, ...]
    above: tuple[int, ...]
    frame: tuple[int, ...]
    own: tuple[NonNegative, ...]
    least: NonNegative = 0
    deep: NonNegative = 0
    full: NonNegative = 0

    @property
    def total(self) -> int:
        """Return the sum of all instructions."""
        return sum(self.own)

    def problem(self) -> str:
        """Return why it is no tree; empty if it is one."""
        if not len(self.above) == len(self.frame) == len(self.own) or len(self.own) > MOST_NODES:
            return "its lists have different lengths, or too many nodes"
        if not all(0 <= number < len(self.frames) for number in self.frame):
            return "a function is none of its own"
        depths: list[int] = []
        for node, above in enumerate(self.above):
            if not -1 <= above < node:
                return "a caller is not before its callee"
            depths.append(depths[above] + 1 if above >= 0 else 1)
        return "its paths are too long" if max(depths, default=0) > MOST_DEPTH or sum(depths) > MOST_CALLS else ""

    def notes(self) -> tuple[str, ...]:
        """Return what the tree lacks, as sentences."""
        texts = (
            (self.least, f"Functions with fewer than {self.least} instructions on a path were added to their callers."),
            (
                self.deep,
                f"Calls beyond the longest path that is followed: {self.deep}. Their functions are below the last caller that had room.",
            ),
            (self.full, f"Calls that found no room: {self.full}. Their functions are below [callers not kept]."),
        )
        return tuple(text for number, text in texts if number)

    def profile(self, operations: float) -> Profile:
        """Return the stacks with their instructions.

        Args:
            operations: number of operations that were observed.
        """
        paths: list[tuple[int, ...]] = []
        stacks = []
        for above, frame, own in zip(self.above, self.frame, self.own, strict=True):
            paths.append((*(paths[above] if above >= 0 else ()), frame))
            if own:
                stacks.append(Stack(frames=paths[-1], weight=float(own)))
        return Profile(
            kind="instructions",
            unit="1",
            operations=operations,
            frames=self.frames,
            stacks=tuple(stacks),
            notes=self.notes(),
        )


class CountedRow(MachineEvidence, frozen=True, kw_only=True):
    """Where the instructions of both variants of a row went.

    Attributes:
        region: what was observed: `PASSES` or `WHOLE_RUN`.
        sides: baseline, then candidate.
        functions: all functions, the largest difference first. Their sums are the sides' instructions, without the lost ones.
        notes: what the numbers contain, as sentences.
        paths: of both sides, the instructions by call path; None if there are none.
        no_paths: why there are none; empty if there are.
    """

    region: str
    sides: tuple[CountedSide, CountedSide]
    functions: tuple[FunctionCount, ...]
    notes: tuple[str, ...] = ()
    paths: tuple[PathTree, PathTree] | None = None
    no_paths: str = ""

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
        if self.paths is None:
            return "" if self.no_paths else "it has no call paths, and no reason why"
        return self._problem_of(self.paths)

    def _problem_of(self, paths: tuple[PathTree, PathTree]) -> str:
        for side, tree in zip(self.sides, paths, strict=True):
            if problem := tree.problem():
                return problem
            if tree.total + side.lost != side.instructions:
                return f"the call paths of {side.variant} don't sum to its instructions"
        return ""


def frame_of(name: str, file: str, kind: str) -> Frame:
    """Return a function as a frame of a stack; its file's kind tells whether it is the kernel's or the program's."""
    if kind in {UNKNOWN, AMBIGUOUS}:
        return Frame(symbol=name or NAMELESS, object=kind)
    shown = KERNEL if kind == KERNEL_CODE else OWN_OBJECT if kind == PROGRAM else safe(file)
    return Frame(symbol=safe(name) or NAMELESS, object=shown)


def counted_profiles(found: CountedRow) -> tuple[Profile, Profile]:
    """Return the instructions of both sides by call path; without paths, by function, each without callers."""
    if found.paths is not None:
        before, after = (tree.profile(side.operations) for side, tree in zip(found.sides, found.paths, strict=True))
        return before, after
    stacks = collections.Counter[tuple[Frame, ...]](), collections.Counter[tuple[Frame, ...]]()
    for one in found.functions:
        for each, count in zip(stacks, (one.baseline, one.candidate), strict=True):
            each[(frame_of(one.name, one.file, one.kind),)] += count
    before, after = (
        Profile.of(+each, kind="instructions", unit="1", operations=side.operations)
        for side, each in zip(found.sides, stacks, strict=True)
    )
    return before, after
