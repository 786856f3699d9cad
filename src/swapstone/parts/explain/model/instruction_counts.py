# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where the instructions of a row went: the explanation of a row of a record on the exact clock."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Annotated, TypeAlias

import msgspec

from swapstone.core.model.frozen_struct import LARGEST_INTEGER, FrozenStruct, NonNegative, PositiveInteger
from swapstone.core.model.profile import KERNEL, NAMELESS, OWN_OBJECT, Frame, Profile, Stack
from swapstone.core.model.safe_text import safe
from swapstone.parts.explain.model.explanation import TracedExplanation, TracedSide

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


class InstructionPaths(FrozenStruct, frozen=True, kw_only=True):
    """The call paths of both variants of a row.

    Attributes:
        chain: of the record's last run, as in the explanation by function.
        sides: baseline, then candidate.
    """

    chain: str
    sides: tuple[PathTree, PathTree]

    def problem(self) -> str:
        """Return why they are no paths; empty if they are."""
        return next(filter(None, (tree.problem() for tree in self.sides)), "")

    def is_of(self, found: InstructionExplanation) -> bool:
        """Return whether they are the paths of an explanation by function."""
        sums = all(
            tree.total + side.lost == side.instructions for side, tree in zip(found.sides, self.sides, strict=True)
        )
        return sums and self.chain == found.chain


def frame_of(name: str, file: str, kind: str) -> Frame:
    """Return a function as a frame of a stack; its file's kind tells whether it is the kernel's or the program's."""
    if kind in {UNKNOWN, AMBIGUOUS}:
        return Frame(symbol=name or NAMELESS, object=kind)
    shown = KERNEL if kind == KERNEL_CODE else OWN_OBJECT if kind == PROGRAM else safe(file)
    return Frame(symbol=safe(name) or NAMELESS, object=shown)


def counted_profiles(found: InstructionExplanation, paths: InstructionPaths | None) -> tuple[Profile, Profile]:
    """Return the instructions of both sides by call path; without paths, by function, each without callers."""
    if paths is not None:
        before, after = (tree.profile(side.operations) for side, tree in zip(found.sides, paths.sides, strict=True))
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
