# SPDX-License-Identifier: MIT OR Apache-2.0
"""Searches a sequence for all places where its values change, with few measurements. It knows nothing of commits."""

from __future__ import annotations

import itertools
from collections.abc import Callable


class Search:
    """A search of a sequence for its steps.

    It measures a value between two that differ, and goes on in each half whose ends differ: about k log2(n / k) + k measurements for k
    steps among n values. Steps between two equal values are not found.

    Args:
        usable: measures the value at a place; returns whether it has one.
        differ: whether two measured values differ.
        every: whether to measure all of them, whatever differs.

    Attributes:
        left: the places that may still be measured.
        without: the places that have no value.
        equal: the pairs of places with equal values, and others between them that were not measured.
    """

    def __init__(self, usable: Callable[[int], bool], differ: Callable[[int, int], bool], *, every: bool) -> None:
        self._usable, self._differ, self._every = usable, differ, every
        self.left: set[int] = set()
        self.without: set[int] = set()
        self.equal: list[tuple[int, int]] = []

    def steps(self, low: int, high: int) -> list[tuple[int, int]]:
        """Return the pairs of places between which the value changes, in order.

        Those that are no neighbours have none between them with a value, or none that differs from both enough to count.

        Args:
            low: a place with a value.
            high: a later one.
        """
        self.left.update(range(low + 1, high))
        return self._steps(low, high)

    def _steps(self, low: int, high: int) -> list[tuple[int, int]]:
        if not self._every and not self._differ(low, high):
            skipped = self.left.intersection(range(low + 1, high))
            self.left -= skipped
            self.equal += [(low, high)] if skipped else []
            return []
        found = []
        if (middle := self._middle(low, high)) is not None:
            found = self._steps(low, middle) + self._steps(middle, high)
        return found or ([(low, high)] if self._differ(low, high) else [])

    def _middle(self, low: int, high: int) -> int | None:
        """Return a place with a value: one in the middle of the longest gap between those that are known to have none."""
        while True:
            known = sorted({low, high, *(each for each in self.without if low < each < high)})
            before, after = max(itertools.pairwise(known), key=lambda gap: gap[1] - gap[0])
            if after - before < 2:
                return None
            place = (before + after) // 2
            self.left.discard(place)
            if self._usable(place):
                return place
            self.without.add(place)
