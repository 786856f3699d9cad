# SPDX-License-Identifier: MIT OR Apache-2.0
"""Order statistics of all pairwise sums x[i] + x[j], i <= j: twice the Walsh averages.

All arithmetic is on integers, so that sums and ties are exact, and counting agrees with selecting.
"""

from __future__ import annotations

import bisect
import functools

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

FULL_LIMIT = 256
"""Up to this number of values all sums (33 thousand) are sorted; above, they are counted and selected without storing."""

ENUMERATE_LIMIT = 1 << 14
"""Selection narrows its bracket to at most this number of sums, then lists them: as long as counting once more takes, and 128 KB."""

_SORTED = 8
"""So many sets of sorted sums are kept: the figures of one set of values are computed one after another."""


class PairSums:
    """The M = n (n + 1) / 2 pairwise sums of n integers, each with every other and with itself.

    Args:
        values: shape (n,), n >= 1, in any order, magnitudes below 2**61.
    """

    def __init__(self, values: Integers) -> None:
        self.values = np.sort(values.astype(np.int64))
        self.count = self.values.size * (self.values.size + 1) // 2
        self._few = self.values.size <= FULL_LIMIT
        # What was counted before: an estimate and several intervals look for neighbouring ranks.
        self._limits = [2 * int(self.values[0]) - 1, 2 * int(self.values[-1])]
        self._counts = [0, self.count]

    def at_most(self, limit: int) -> int:
        """Return the number of sums <= `limit`."""
        if self._few:
            return int(np.searchsorted(_sorted_sums(self.values.tobytes()), limit, side="right"))
        place = bisect.bisect_left(self._limits, limit)
        if place < len(self._limits) and self._limits[place] == limit:
            return self._counts[place]
        found = self._count(limit)
        if self._limits[0] < limit < self._limits[-1]:
            self._limits.insert(place, limit)
            self._counts.insert(place, found)
        return found

    def _count(self, limit: int) -> int:
        ordered = int(np.searchsorted(self.values, limit - self.values, side="right").sum())
        diagonal = int(np.searchsorted(2 * self.values, limit, side="right"))
        return (ordered + diagonal) // 2

    def select(self, rank: int) -> int:
        """Return the `rank`-th smallest sum, from 1.

        Takes O(n log n) steps for each of at most 61 bisections; memory O(n).

        Args:
            rank: 1..M.
        """
        assert 1 <= rank <= self.count, f"rank {rank} of {self.count}"
        if self._few:
            return int(_sorted_sums(self.values.tobytes())[rank - 1])
        while True:
            place = bisect.bisect_left(self._counts, rank)
            low, high, below = self._limits[place - 1], self._limits[place], self._counts[place - 1]
            if high - low == 1:
                return high
            if self._counts[place] - below <= ENUMERATE_LIMIT:
                return int(np.partition(self._between(low, high), rank - below - 1)[rank - below - 1])
            self.at_most((low + high) // 2)

    def _between(self, low: int, high: int) -> Integers:
        """Return every sum in (low, high], unsorted."""
        index = np.arange(self.values.size)
        start = np.maximum(np.searchsorted(self.values, low - self.values, side="right"), index)
        stop = np.searchsorted(self.values, high - self.values, side="right")
        lengths = np.maximum(stop - start, 0)
        first = np.repeat(index, lengths)
        steps = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        second = np.repeat(start, lengths) + steps
        sums: Integers = self.values[first] + self.values[second]
        return sums


def all_sums(values: Integers) -> Integers:
    """Return all M sums of `values` (shape (n,)), sorted, shape (M,)."""
    first, second = _pairs(values.size)
    sums: Integers = np.sort(values[first] + values[second])
    return sums


@functools.lru_cache(maxsize=_SORTED)
def _sorted_sums(values: bytes) -> Integers:
    return all_sums(np.frombuffer(values, dtype=np.int64))


@functools.lru_cache(maxsize=_SORTED)
def _pairs(n: int) -> tuple[Integers, Integers]:
    return np.triu_indices(n)
