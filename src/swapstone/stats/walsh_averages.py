"""Order statistics of all pairwise sums x[i] + x[j], i <= j: twice the Walsh averages.

Everything is done on integers, so that sums are exact, ties are ties, and counting agrees with selecting to the last
bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

FULL_LIMIT = 256
"""Up to so many values all sums (33 thousand) are kept, sorted; above, they are counted and selected unstored."""

ENUMERATE_LIMIT = 1_000_000
"""Selecting narrows its bracket to at most so many sums (8 MB each for a few arrays), then lists those."""

THINNED = 256
"""So many evenly spaced values give the first guess at a bracket."""


class PairSums:
    """The M = n (n + 1) / 2 sums of n integers, each with each and with itself.

    Args:
        values: shape (n,), n >= 1, in any order, magnitudes below 2**61.
    """

    def __init__(self, values: Integers) -> None:
        self.values = np.sort(values.astype(np.int64))
        self.count = self.values.size * (self.values.size + 1) // 2
        self._sorted = all_sums(self.values) if self.values.size <= FULL_LIMIT else None
        self._guess = None if self._sorted is not None else _thinned(self.values)

    def at_most(self, limit: int) -> int:
        """Return how many sums are <= `limit`."""
        if self._sorted is not None:
            return int(np.searchsorted(self._sorted, limit, side="right"))
        ordered = int(np.searchsorted(self.values, limit - self.values, side="right").sum())
        diagonal = int(np.searchsorted(2 * self.values, limit, side="right"))
        return (ordered + diagonal) // 2

    def select(self, rank: int) -> int:
        """Return the `rank`-th smallest sum, from 1.

        In O(n log n) steps for values that are spread at all evenly, and never more than 2 x 61 halvings; memory O(n).

        Args:
            rank: 1..M.
        """
        assert 1 <= rank <= self.count, f"rank {rank} of {self.count}"
        if self._sorted is not None:
            return int(self._sorted[rank - 1])
        low, high, below, upto = self._bracket(rank)
        halve = False
        while high - low > 1 and upto - below > ENUMERATE_LIMIT:
            for probe in _probes(low, high, (rank - below) / (upto - below), halve):
                if not low < probe < high:
                    continue
                seen = self.at_most(probe)
                if seen >= rank:
                    high, upto = probe, seen
                else:
                    low, below = probe, seen
            halve = not halve
        if high - low == 1:
            return high
        return int(np.partition(self._between(low, high), rank - below - 1)[rank - below - 1])

    def _bracket(self, rank: int) -> tuple[int, int, int, int]:
        """Return (low, high, count <= low, count <= high) with low < the wanted sum <= high."""
        low, high = 2 * int(self.values[0]) - 1, 2 * int(self.values[-1])
        below, upto = 0, self.count
        assert self._guess is not None
        place = rank / self.count * self._guess.size
        for offset in (-0.02, 0.02):
            index = round(place + offset * self._guess.size)
            probe = int(self._guess[min(max(index, 0), self._guess.size - 1)])
            if low < probe < high:
                seen = self.at_most(probe)
                if seen >= rank:
                    high, upto = probe, seen
                else:
                    low, below = probe, seen
        return low, high, below, upto

    def _between(self, low: int, high: int) -> Integers:
        """Return every sum in (low, high], in no order."""
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
    first, second = np.triu_indices(values.size)
    sums: Integers = np.sort(values[first] + values[second])
    return sums


def _thinned(values: Integers) -> Integers:
    """Return the sorted sums of about `THINNED` values taken evenly from sorted `values`."""
    places = np.linspace(0, values.size - 1, THINNED).round().astype(np.int64)
    return all_sums(values[places])


def _probes(low: int, high: int, share: float, halve: bool) -> tuple[int, ...]:
    """Choose where to count next inside a bracket: the middle, or close around where a straight line puts the rank."""
    if halve:
        return ((low + high) // 2,)
    width = high - low
    centre = low + round(share * width)
    pad = max(width // 64, 1)
    return centre - pad, centre + pad
