# SPDX-License-Identifier: MIT OR Apache-2.0
"""Instructions by call path: what a flame graph of a row on the exact clock is drawn from."""

from __future__ import annotations

from swapstone.core.model.bounds import NonNegative
from swapstone.core.model.frozen_struct import FrozenStruct
from swapstone.parts.explain.model.explanation import Frame, Profile, Stack
from swapstone.parts.explain.model.instruction_counts import InstructionExplanation

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

    def profiles(self, found: InstructionExplanation) -> tuple[Profile, Profile]:
        """Return the stacks of both sides."""
        before, after = (tree.profile(side.operations) for side, tree in zip(found.sides, self.sides, strict=True))
        return before, after
