# SPDX-License-Identifier: MIT OR Apache-2.0
"""Wilcoxon's signed-rank test, the Hodges-Lehmann estimate, and the interval that inverts the test exactly.

With ties and zeros too: for paired differences x, write W for the M = n (n + 1) / 2 Walsh averages (x[i] + x[j]) / 2,
i <= j. A shift s is rejected at level alpha when fewer than k of them are <= s, or fewer than k are >= s; k is the
largest number with 2 P(T <= k - 1) <= alpha, T the signed-rank statistic of n untied values. The shifts that are not
rejected are the *closed* interval [W(k), W(M + 1 - k)]. Without ties that is the textbook test and interval
(Hollander, Wolfe and Chicken, section 3). With ties, closed ends keep the coverage at least at its nominal level
(Noether 1967); see docs/statistics.md for the argument.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
import statistics
from typing import ClassVar, TypeAlias

import msgspec
import numpy as np

from swapstone.core.stats.summary import Floats, Ints, median, median_interval

FULL_LIMIT = 256
"""Up to this number of values all sums (33 thousand) are sorted; above, they are counted and selected without storing."""

ENUMERATE_LIMIT = 1 << 12
"""Selection narrows its bracket to at most this number of sums, then lists them: as long as counting once more takes, and 32 KB."""

_BISECTED = 3
"""Each so many-th step of a selection halves its bracket; the others expect the sums to be uniform in it."""

_SORTED = 8
"""So many sets of sorted sums are kept: the figures of one set of values are computed one after another."""


class PairSums:
    """The M = n (n + 1) / 2 pairwise sums of n integers, each with every other and with itself.

    Args:
        values: shape (n,), n >= 1, in any order, magnitudes below 2**61.
    """

    def __init__(self, values: Ints) -> None:
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
        return self._keep(limit, self._count(limit))

    def _keep(self, limit: int, count: int) -> int:
        place = bisect.bisect_left(self._limits, limit)
        if 0 < place < len(self._limits) and self._limits[place] != limit:
            self._limits.insert(place, limit)
            self._counts.insert(place, count)
        return count

    def _count(self, limit: int) -> int:
        ordered = int(np.searchsorted(self.values, limit - self.values, side="right").sum())
        diagonal = int(np.searchsorted(2 * self.values, limit, side="right"))
        return (ordered + diagonal) // 2

    def select(self, rank: int) -> int:
        """Return the `rank`-th smallest sum, from 1.

        Takes O(n log n) steps for each of at most 3 * 61 limits; memory O(n).

        Args:
            rank: 1..M.
        """
        assert 1 <= rank <= self.count, f"rank {rank} of {self.count}"
        if self._few:
            return int(_sorted_sums(self.values.tobytes())[rank - 1])
        for step in itertools.count(1):
            place = bisect.bisect_left(self._counts, rank)
            low, high, below = self._limits[place - 1], self._limits[place], self._counts[place - 1]
            inside, within = self._counts[place] - below, rank - below
            if high - low == 1:
                break
            if inside <= ENUMERATE_LIMIT:
                sums = self._between(low, high)
                high = int(np.partition(sums, within - 1)[within - 1])
                self._keep(high - 1, below + int((sums < high).sum()))
                self._keep(high, below + int((sums <= high).sum()))
                break
            if step % _BISECTED:  # beyond the rank, so that the limits enclose it
                within += ENUMERATE_LIMIT // 3 if 2 * within < inside else -ENUMERATE_LIMIT // 3
                self.at_most(min(max(low + 1, low + (high - low) * within // inside), high - 1))
            else:
                self.at_most((low + high) // 2)
        return high

    def _between(self, low: int, high: int) -> Ints:
        """Return every sum in (low, high], unsorted."""
        index = np.arange(self.values.size)
        start = np.maximum(np.searchsorted(self.values, low - self.values, side="right"), index)
        stop = np.searchsorted(self.values, high - self.values, side="right")
        lengths = np.maximum(stop - start, 0)
        first = np.repeat(index, lengths)
        steps = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        second = np.repeat(start, lengths) + steps
        sums: Ints = self.values[first] + self.values[second]
        return sums


@functools.lru_cache(maxsize=_SORTED)
def _sorted_sums(values: bytes) -> Ints:
    """Return all M sums of n values in their bytes, sorted, shape (M,)."""
    numbers = np.frombuffer(values, dtype=np.int64)
    first, second = _pairs(numbers.size)
    sums: Ints = np.sort(numbers[first] + numbers[second])
    return sums


@functools.lru_cache(maxsize=_SORTED)
def _pairs(n: int) -> tuple[Ints, Ints]:
    return np.triu_indices(n)


EXACT_LIMIT = 200
"""T is exact up to this number of pairs; above, normal with a continuity correction (its tails are slightly heavy: conservative)."""

LOG_QUANTUM = 2.0**-40
"""Logarithms of ratios are rounded to multiples of this (1e-12), so that equal ratios of different numbers are ties."""

POWER = 0.8
"""The power at which `SignedRank.smallest_visible` is computed."""

RESAMPLED_LIMIT = 64
"""`SignedRank.smallest_visible` resamples up to this number of pairs (a few milliseconds); above, it uses a normal approximation."""

RESAMPLES = 200
_SMALLEST_EXPONENT = -1074  # of a positive double
RESAMPLING_SEED = 1945

_NORMAL = statistics.NormalDist()


class Interval(msgspec.Struct, frozen=True):
    """A closed interval.

    Attributes:
        low, high: its ends.
    """

    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Return half the distance between the ends."""
        return (self.high - self.low) / 2

    def excludes(self, value: float) -> bool:
        """Return whether `value` lies outside the closed interval."""
        return value < self.low or value > self.high


class SignedRank:
    """Inference on the centre of symmetry of paired differences.

    Args:
        differences: shape (n,), n >= 1, finite.
        quantum: they are rounded to multiples of this; a power of two with abs(differences) / quantum < 2**60.

    Raises:
        ValueError: no differences, or one that is not finite.
    """

    def __init__(self, differences: Floats, quantum: float) -> None:
        if differences.size == 0 or not np.isfinite(differences).all():
            raise ValueError("the signed-rank method needs at least one difference, all of them finite")
        self._quantum = quantum
        self._sums = PairSums(np.rint(differences / quantum).astype(np.int64))
        self.n = differences.size

    def estimate(self) -> float:
        """Return the Hodges-Lehmann estimate: the median of the Walsh averages (Hodges and Lehmann 1963)."""
        count = self._sums.count
        middle = self._sums.select((count + 1) // 2)
        other = middle if count % 2 else self._sums.select(count // 2 + 1)
        return (middle + other) / 4 * self._quantum

    @functools.cached_property
    def p_value(self) -> float:
        """Return the two-sided p-value of the hypothesis that the centre is 0: `interval(alpha)` excludes 0 exactly if it is <= alpha."""
        at_most = self._sums.at_most(0)
        at_least = self._sums.count - self._sums.at_most(-1)
        return min(1.0, 2 * tail(self.n, min(at_most, at_least)))

    def interval(self, alpha: float) -> Interval | None:
        """Return the closed interval of all shifts that are not rejected at level `alpha`.

        Args:
            alpha: 0 < alpha < 1, the two-sided error, e.g. 0.05.

        Returns:
            The interval, or None if n differences can't reach that level (2 / 2**n > alpha).

        Raises:
            ValueError: `alpha` is not between 0 and 1.
        """
        if not 0 < alpha < 1:
            raise ValueError(f"an error of {alpha} is not between 0 and 1")
        k = critical(self.n, alpha)
        return None if k == 0 else self._between(k)

    def smallest_visible(self, alpha: float) -> float | None:
        """Estimate the shift that this test would detect in 80 % of experiments with this n and this spread.

        A shift is detected if it exceeds the distance from the centre to the lower end of the interval, so the result is the
        80 % quantile of that distance. For few pairs the distribution of the distance is resampled: these differences, centred
        and with random signs (the model of the test: symmetry about the centre). For many pairs it is approximately normal:
        half the interval's width, plus a multiple of the estimate's standard error, which is taken from the interval of about
        one standard deviation.

        Args:
            alpha: as for `interval`.

        Returns:
            The shift, > 0; None if there is no interval at this level, or if the differences vary too little.
        """
        interval = self.interval(alpha)
        if interval is None:
            return None
        if self.n <= RESAMPLED_LIMIT:
            return self._resampled_reach(critical(self.n, alpha)) or None
        k = critical(self.n, 2 * _NORMAL.cdf(-1.0))
        standard_error = self._between(k).half_width / -_NORMAL.inv_cdf(tail(self.n, k - 1))
        return interval.half_width + _NORMAL.inv_cdf(POWER) * standard_error or None

    def _resampled_reach(self, k: int) -> float:
        """Return the `POWER` quantile of the distance from the centre to the k-th Walsh average, at least 0."""
        centred = np.sort(np.abs(self._sums.values * self._quantum - self.estimate()))
        random = np.random.default_rng(RESAMPLING_SEED)
        signs = random.choice((-1.0, 1.0), (RESAMPLES, self.n))
        drawn = signs * centred[random.integers(0, self.n, (RESAMPLES, self.n))]
        first, second = np.triu_indices(self.n)
        ends = np.partition(drawn[:, first] + drawn[:, second], k - 1, axis=1)[:, k - 1] / 2
        return max(0.0, float(np.quantile(-ends, POWER)))

    def _between(self, k: int) -> Interval:
        """Return [W(k), W(M + 1 - k)]."""
        low, high = self._sums.select(k), self._sums.select(self._sums.count + 1 - k)
        return Interval(low / 2 * self._quantum, high / 2 * self._quantum)


class KnownCentre(msgspec.Struct, frozen=True):
    """A centre that is known exactly, as that of differences which don't vary: no hypothesis, and an interval without a level.

    Attributes:
        centre: the number.
        spread: the range of the differences, if they vary.
        n: number of differences.
        visible: the smallest shift that would be stated; None for any.
        p_value: none, as there is nothing to test.
    """

    centre: float
    spread: Interval | None = None
    n: int = 1
    visible: float | None = None
    p_value: ClassVar[None] = None

    def estimate(self) -> float:
        """Return the centre."""
        return self.centre

    def interval(self, alpha: float) -> Interval:  # noqa: ARG002 - as that of `SignedRank`
        """Return the range of the differences, of any level."""
        return self.spread or Interval(self.centre, self.centre)

    def smallest_visible(self, alpha: float) -> float | None:  # noqa: ARG002 - as that of `SignedRank`
        """Return the smallest shift that would be stated, at any level."""
        return self.visible


class SampleMedian(msgspec.Struct, frozen=True):
    """The median of one sample, with the interval of `swapstone.core.stats.summary.median_interval`: nothing is tested.

    Attributes:
        values: shape (n,), n >= 1, independent, in any order.
        p_value: none, as there is no hypothesis.
    """

    values: Floats
    p_value: ClassVar[None] = None

    def estimate(self) -> float:
        """Return the median."""
        return median(self.values)

    def interval(self, alpha: float) -> Interval | None:
        """Return its interval at 1 - `alpha`; None with too few values."""
        found = median_interval(self.values.tolist(), 1 - alpha)
        return found and Interval(*found)

    def smallest_visible(self, alpha: float) -> None:
        """Return nothing: no change is looked for."""


Inference: TypeAlias = SignedRank | KnownCentre | SampleMedian


def log_ratios(baseline: Floats, candidate: Floats) -> SignedRank:
    """Return the inference on log(candidate / baseline).

    Args:
        baseline: shape (n,), all > 0.
        candidate: the same, paired with it.
    """
    return SignedRank(np.log(candidate) - np.log(baseline), LOG_QUANTUM)


def differences(baseline: Floats, candidate: Floats) -> SignedRank:
    """Return the inference on candidate - baseline, for values that may be zero or negative.

    They are rounded to 50 bits below the largest magnitude: integers below 2**50 are unchanged.

    Args:
        baseline: shape (n,).
        candidate: the same, paired with it.
    """
    largest = float(max(np.abs(baseline).max(), np.abs(candidate).max()))
    return SignedRank(candidate - baseline, difference_quantum(largest))


def difference_quantum(largest: float) -> float:
    """Return the quantum of differences between values up to a magnitude: 50 bits below it, or the smallest positive number."""
    return math.ldexp(1.0, max(math.frexp(largest)[1] - 50, _SMALLEST_EXPONENT))


def tail(n: int, count: int) -> float:
    """Return P(T <= count) for the signed-rank statistic T of n untied values, symmetric about 0.

    Args:
        n: number of values, >= 1.
        count: 0..n (n + 1) / 2.
    """
    if n <= EXACT_LIMIT:
        return float(_exact(n)[count])
    mean, deviation = _moments(n)
    return 0.5 * math.erfc(-(count + 0.5 - mean) / deviation / math.sqrt(2))


def critical(n: int, alpha: float) -> int:
    """Return the number of values c of the statistic with 2 P(T <= c) <= alpha: the k of the interval's ends; 0 for none."""
    if n <= EXACT_LIMIT:
        return int(np.searchsorted(2 * _exact(n), alpha, side="right"))
    mean, deviation = _moments(n)
    k = max(0, round(mean + deviation * _NORMAL.inv_cdf(alpha / 2)))
    while k > 0 and 2 * tail(n, k - 1) > alpha:
        k -= 1
    while 2 * tail(n, k) <= alpha:
        k += 1
    return k


def _moments(n: int) -> tuple[float, float]:
    """Return the mean and the standard deviation of the statistic of n untied values."""
    return n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24)


@functools.lru_cache(maxsize=64)
def _exact(n: int) -> Floats:
    """Return P(T <= t) for t = 0..n (n + 1) / 2: T is a sum of independent variables, each 0 or its rank with probability 1/2."""
    mass = np.zeros(n * (n + 1) // 2 + 1)
    mass[0] = 1.0
    for rank in range(1, n + 1):
        mass[rank:] += mass[:-rank].copy()
        mass *= 0.5
    cumulative: Floats = np.minimum(np.cumsum(mass), 1.0)
    return cumulative


_STEPS = 30
"""Bisections of the logarithm of a level: its relative error is below 1e-7."""

_SMALLEST_LEVEL = 1e-12
"""Levels below this are not distinguished."""


def interval_of_difference(first: Inference, second: Inference, alpha: float) -> Interval | None:
    """Return an interval of the second centre less the first one, closed, of approximate level 1 - alpha.

    Args:
        first: inference on one set.
        second: on the other.
        alpha: 0 < alpha < 1.

    Returns:
        The interval; None if one of the two has too few differences for an interval at this level.
    """
    ours, theirs = first.interval(alpha), second.interval(alpha)
    if ours is None or theirs is None:
        return None
    one, other = first.estimate(), second.estimate()
    difference = other - one
    return Interval(
        difference - math.hypot(other - theirs.low, ours.high - one),
        difference + math.hypot(theirs.high - other, one - ours.low),
    )


def difference_p_value(first: Inference, second: Inference) -> float:
    """Return the smallest level at which `interval_of_difference` excludes 0; 1 if there is none.

    The interval exists only at levels that both numbers of differences reach, so the p-value is at least the larger of the two 2 / 2**n.
    Of two centres that are known exactly it is 1 if they are equal, else 0.
    """
    sizes = [each.n for each in (first, second) if isinstance(each, SignedRank)]
    if not sizes:
        return float(first.estimate() == second.estimate())
    low, high = max(_SMALLEST_LEVEL, 2.0 ** (1 - min(sizes))), 1 - 2.0**-20
    if low >= high or not _excludes(first, second, high):
        return 1.0
    if _excludes(first, second, low):
        return low
    below, above = math.log(low), math.log(high)
    for _ in range(_STEPS):
        middle = (below + above) / 2
        below, above = (below, middle) if _excludes(first, second, math.exp(middle)) else (middle, above)
    return math.exp(above)


def _excludes(first: Inference, second: Inference, alpha: float) -> bool:
    interval = interval_of_difference(first, second, alpha)
    return interval is not None and interval.excludes(0.0)
