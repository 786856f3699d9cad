# SPDX-License-Identifier: MIT OR Apache-2.0
"""Call stacks with weights, whichever instrument observed them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import msgspec

from swapstone.core.model.frozen_struct import FrozenStruct, Number

Samples = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
"""A number of samples."""

KERNEL = "[kernel]"
"""Object name of kernel frames."""

OWN_OBJECT = "[program]"
"""Object name of frames of the program itself."""

NAMELESS = "[unknown]"
"""Symbol of a function without a name."""


class Frame(FrozenStruct, frozen=True, kw_only=True):
    """A function on a call stack.

    Attributes:
        symbol: its name; `NAMELESS` if it has none.
        object: `KERNEL`, `OWN_OBJECT`, or the file name of a shared object.
    """

    symbol: str
    object: str


class Stack(FrozenStruct, frozen=True, kw_only=True):
    """A call stack with its weight.

    Attributes:
        frames: indices into `Profile.frames`, the outermost first.
        weight: in the unit of the profile, over the whole run.
    """

    frames: tuple[int, ...]
    weight: Number


class ProfileRun(FrozenStruct, frozen=True, kw_only=True):
    """One of the runs that a profile sums up, or a part of one.

    Attributes:
        samples: number of samples.
        weights: pairs (index into `Profile.stacks`, weight).
    """

    samples: Samples
    weights: tuple[tuple[int, Number], ...]


class Profile(FrozenStruct, frozen=True, kw_only=True):
    """Call stacks of one variant, with weights.

    Attributes:
        kind: what the weights count.
        unit: ``ns``, ``B`` or ``1``.
        operations: number of operations in the run.
        frames: each once.
        stacks: each once.
        notes: limits of the profile: lost records, truncated stacks.
        runs: the same weights by run; empty if they were not kept apart.
    """

    kind: str
    unit: str
    operations: Number
    frames: tuple[Frame, ...]
    stacks: tuple[Stack, ...]
    notes: tuple[str, ...] = ()
    runs: tuple[ProfileRun, ...] = ()

    @classmethod
    def of(cls, weights: Mapping[tuple[Frame, ...], float], **facts: Any) -> Profile:  # noqa: ANN401 - as the fields have it
        """Return the profile of stacks with weights, the outermost frame first, in their order; the facts are its other fields."""
        index: dict[Frame, int] = {}
        stacks = tuple(
            Stack(frames=tuple(index.setdefault(frame, len(index)) for frame in frames), weight=float(weight))
            for frames, weight in weights.items()
        )
        return cls(frames=tuple(index), stacks=stacks, **facts)

    @property
    def samples(self) -> int:
        """Return the number of samples; 0 if unknown."""
        return sum(run.samples for run in self.runs)

    @property
    def total(self) -> float:
        """Return the sum of all weights."""
        return sum(stack.weight for stack in self.stacks)

    def weighted(self) -> Iterator[tuple[tuple[Frame, ...], float]]:
        """Yield each stack, the outermost frame first, and its weight."""
        return ((tuple([self.frames[number] for number in stack.frames]), stack.weight) for stack in self.stacks)

    def mapped(self, change: Callable[[tuple[Frame, ...]], tuple[Frame, ...]]) -> Profile:
        """Return the profile with other stacks: each is changed, and equal ones are added up, also in each run."""
        index: dict[Frame, int] = {}
        place: dict[tuple[int, ...], int] = {}
        whole: list[float] = []
        of = []
        for frames, weight in self.weighted():
            stack = tuple([index.setdefault(frame, len(index)) for frame in change(frames)])
            of.append(number := place.setdefault(stack, len(whole)))
            if number == len(whole):
                whole.append(0.0)
            whole[number] += weight
        runs = []
        for run in self.runs:
            sums: dict[int, float] = {}
            for number, weight in run.weights:
                sums[of[number]] = sums.get(of[number], 0.0) + weight
            runs.append(ProfileRun(samples=run.samples, weights=tuple(sums.items())))
        stacks = tuple(Stack(frames=stack, weight=weight) for stack, weight in zip(place, whole, strict=True))
        return msgspec.structs.replace(self, frames=tuple(index), stacks=stacks, runs=tuple(runs))
