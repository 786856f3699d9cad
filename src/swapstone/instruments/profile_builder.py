# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sum up weights by stack."""

from __future__ import annotations

import collections

from swapstone.model import Frame, Profile, Stack


class ProfileBuilder:
    """Sums up weights by stack."""

    def __init__(self) -> None:
        self._weights: collections.Counter[tuple[Frame, ...]] = collections.Counter()

    def add(self, frames: tuple[Frame, ...], weight: float) -> None:
        """Add a weight to a stack, given from the outermost frame."""
        self._weights[frames] += weight  # type: ignore[assignment]  # a Counter adds floats as well

    @property
    def total(self) -> float:
        """Return the sum of all weights."""
        return float(sum(self._weights.values()))

    def profile(self, kind: str, unit: str, operations: float, notes: tuple[str, ...] = ()) -> Profile:
        """Return the profile, heaviest stacks first."""
        index: dict[Frame, int] = {}
        stacks = []
        for frames, weight in sorted(self._weights.items(), key=lambda one: (-one[1], [f.symbol for f in one[0]])):
            numbers = tuple(index.setdefault(frame, len(index)) for frame in frames)
            stacks.append(Stack(frames=numbers, weight=float(weight)))
        return Profile(
            kind=kind, unit=unit, operations=operations, frames=tuple(index), stacks=tuple(stacks), notes=notes
        )
