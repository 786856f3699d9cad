# SPDX-License-Identifier: MIT OR Apache-2.0
"""Does a run depend on which treatment ran before it? A randomisation test by the predecessors in randomised blocks.

Runs of treatments 0..k-1 are made in blocks that hold each once, in random order. For two treatments a and b the statistic is

    T = (mean of b after a - mean of b after others) - (mean of a after b - mean of a after others).

Without carry-over its expectation is 0, whatever the differences between the treatments, the effects of positions in a block, and the
drift: the orders were drawn independently of them. Two tests share the error (Bonferroni):

1. Of normal scores of the residuals (van der Waerden), ranked for each treatment alone, so that treatments with different spread, and
   outliers, can be mixed. The distribution of T is that over new draws of the orders, with the noise of each place in the sequence
   unchanged (Fisher's randomisation; Edgington and Onghena, Randomization tests, chapter 3). It is robust, but with 15 blocks its p-value
   hardly falls below 0.001.
   From `LARGEST_DRAWN` runs on, only the standard deviation of T is estimated from draws (`RunOrder._deviation`), with fewer of them.
2. Of the residuals themselves, by Welch's t-test: an effect that is large against the noise is certain with few blocks.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from swapstone.core.stats.summary import Floats, Ints, Mask, median

DRAWS = 1000
DRAW_SEED = 1949

LARGEST_DRAWN = 4096
"""Number of runs up to which `DRAWS` orders are drawn: 16 MiB of weights. Above, T is normal to well below the error of their deviation."""

DRAWN_RUNS = 1 << 18
"""Above, so many runs are drawn in all, at least `FEWEST_DRAWS` orders: the deviation is known to about 1 %; by `DRAWS` orders to 2 %."""

DRAWN_AT_ONCE = 1 << 14
"""Runs of orders that are drawn together: their arrays have half a MiB."""

FEWEST_DRAWS = 16

WINDOW = 2
"""The local level of a block is the mean of its residuals and of those of so many blocks on each side."""

FITS = 6

TIE = 1 - 1e-5
"""A draw whose T is as far from the mean as this share of the observed distance is as far: T has single precision."""

FEWEST = 2
"""Of each of the four means; with fewer values there is no test."""

_SIGNS = np.array([1.0, -1.0, -1.0, 1.0])
"""Of the four means in T."""

_NORMAL = statistics.NormalDist()


class PredecessorTest(msgspec.Struct, frozen=True):
    """The result.

    Attributes:
        p_value: of no carry-over, two-sided.
        effect: T, in the unit of the values.
        standard_error: of it.
        means: of a after others, a after b, b after others, b after a; without drift and position effects.
        share: of the two treatments' runs, how many follow a run of another treatment.
    """

    p_value: float
    effect: float
    standard_error: float
    means: tuple[float, float, float, float]
    share: float


class RunOrder:
    """Runs of randomised blocks in their order.

    Args:
        order: treatment of each run, shape (blocks, k), each row a permutation of 0..k-1.
        before: treatment that ran before each block, shape (blocks,); -1 for none.
        cycles: length of the cycles in which orders were drawn, in blocks; 1 for independent blocks. A cycle that is cut off at either
            end stays in the order that it has.
        first: place of the first block in its cycle.
    """

    def __init__(self, order: Ints, before: Ints, cycles: int = 1, first: int = 0) -> None:
        self.order = order
        self.before = before
        self.cycles, self.first = cycles, first

    @functools.cached_property
    def previous(self) -> Ints:
        """Return the treatment before each run, shape (blocks, k)."""
        return np.concatenate([self.before[:, None], self.order[:, :-1]], axis=1)

    def test(self, values: Floats, a: int, b: int) -> PredecessorTest | None:
        """Test the values of one quantity.

        Args:
            values: in the order of the runs, shape (blocks, k); NaN for missing ones.
            a: a treatment.
            b: another one.

        Returns:
            The result; None if one of the four means has fewer than `FEWEST` values, or the values don't vary.
        """
        valid = np.isfinite(values)
        of_treatment = [valid & (self.order == each) for each in range(values.shape[1])]
        medians = [median(values[mine]) if mine.any() else math.nan for mine in of_treatment]
        centred, weights, scores = np.zeros((3, *values.shape))
        for mine, middle in zip(of_treatment, medians, strict=True):
            centred[mine] = values[mine] - middle
            weights[mine] = _weight(centred[mine])
        shared = _Shared(weights)
        residuals = shared.removed(centred)
        codes = np.where(valid, _codes_of(self.order, self.before, a, b), 4)
        if np.bincount(codes.ravel(), minlength=5)[:4].min() < FEWEST:
            return None
        for mine in of_treatment:
            scores[mine] = normal_scores(residuals[mine])
        by_scores = self.randomised_p_value(scores, valid, a, b)
        means, variances, freedom = _fitted(centred, shared, codes)
        # Test 2 has one variance for each treatment: the smaller cell alone would have too few values.
        error = math.sqrt(sum(variances))
        effect = (means[3] - means[2]) - (means[1] - means[0])
        if not error > 0:
            return None
        return PredecessorTest(
            p_value=min(1.0, 2 * min(by_scores, student_tail(effect / error, freedom))),
            effect=effect,
            standard_error=error,
            means=(medians[a] + means[0], medians[a] + means[1], medians[b] + means[2], medians[b] + means[3]),
            share=float((self.previous != self.order)[codes < 4].mean()),
        )

    def randomised_p_value(self, scores: Floats, valid: Mask, a: int, b: int) -> float:
        """Return the p-value of T of the scores over new draws of the orders: normal, and not below the share of the draws.

        Args:
            scores: in the order of the runs, shape (blocks, k).
            valid: which runs have one, the same shape.
            a: a treatment.
            b: another one.
        """
        present = valid.ravel().astype(np.float64)
        flat = scores.ravel() * present
        codes = _codes_of(self.order, self.before, a, b)
        observed = float(_weights(codes.ravel(), present) @ flat)
        if self.order.size > LARGEST_DRAWN:
            deviation = self._deviation(flat.reshape(valid.shape), present.reshape(valid.shape))
            return math.erfc(abs(observed) / deviation / math.sqrt(2)) if deviation > 0 else 1.0
        drawn = self._statistics(flat, present, a, b)
        deviation = float(drawn.std())
        if not deviation > 0:
            return 1.0
        distance = abs(observed - float(drawn.mean()))
        p_value = math.erfc(distance / deviation / math.sqrt(2))
        farther = int((np.abs(drawn - drawn.mean()) >= distance * TIE).sum())
        return max(p_value, (farther + 1) / (drawn.size + 1)) if farther else p_value

    def _statistics(self, scores: Floats, present: Floats, a: int, b: int) -> Floats:
        """Return T of the scores for each draw of the orders in which no mean is empty; arguments as `_weights`."""
        if self.cycles == 1:  # the names of the treatments make no difference
            weights = _random_weights(*self.order.shape, present.tobytes())
        else:
            weights = _weights_of_draws(self._drawn(a, b), present)
        # Products of a matrix would start threads, which wait for each other longer than they compute.
        drawn: Floats = np.vecdot(weights, scores.astype(np.float32)).astype(np.float64)
        return drawn

    def _deviation(self, scores: Floats, present: Floats) -> float:
        """Return the standard deviation of T over new draws of the orders, for many blocks.

        The treatments are exchangeable, so the mean of T is 0. T is nearly the sum of one term for each independently drawn block or cycle
        (the delta method for its four quotients), and only successive terms are correlated. So the variance of T is the sum of the terms'
        variances and of twice their successive covariances. Each is estimated over a few draws; their sum is precise, as there are many.

        Args:
            scores: in the order of the runs, shape (blocks, k); 0 for missing ones.
            present: 1, and 0 for missing ones, the same shape.
        """
        codes = self._codes
        units = (np.arange(self.order.shape[0]) + self.first) // self.cycles
        # Expected means and numbers, of a run after the other treatment (cells 1 and 3) and after any other: those of the first draw.
        first = codes[0].ravel()
        sums, counts = (np.bincount(first, each.ravel(), minlength=5)[:4] for each in (scores, present))
        number = np.array([counts[0] + counts[2], counts[1] + counts[3]])[[0, 1, 0, 1]] / 2
        mean = np.array([sums[0] + sums[2], sums[1] + sums[3]])[[0, 1, 0, 1]] / 2 / number
        share = np.append(_SIGNS / number, 0.0)
        offset = share * np.append(mean, 0.0)
        terms = np.empty((codes.shape[0], int(units[-1]) + 1))
        for draw, code in enumerate(codes):
            found = (share[code] * scores - offset[code] * present).sum(axis=1)
            terms[draw] = np.bincount(units, found, minlength=terms.shape[1])
        terms -= terms.mean(axis=0)
        variance = (np.square(terms).sum() + 2 * (terms[:, 1:] * terms[:, :-1]).sum()) / (codes.shape[0] - 1)
        return math.sqrt(max(0.0, float(variance)))

    @functools.cached_property
    def _codes(self) -> NDArray[np.int8]:
        """Return to which of the four means each run belongs in draws of the orders, 4 for none, shape (draws, blocks, k)."""
        blocks, count = self.order.shape
        if self.cycles == 1:
            return _random_codes(blocks, count, draws_of(blocks * count))  # the same for all groups of so many blocks
        random = np.random.default_rng(DRAW_SEED)
        return np.stack([_codes_of(*self._new_order(random)) for _ in range(draws_of(blocks * count))])

    def _new_order(self, random: np.random.Generator) -> tuple[Ints, Ints]:
        """Shuffle the orders of each whole cycle; return them, shape (blocks, k), and the treatment before each block, shape (blocks,)."""
        blocks, count = self.order.shape
        order = self.order.copy()
        head = -self.first % self.cycles
        whole = (blocks - head) // self.cycles
        cycles = order[head : head + whole * self.cycles].reshape(whole, self.cycles, count)
        rows = random.random((whole, self.cycles)).argsort(axis=1)
        names = random.random((whole, count)).argsort(axis=1)
        shuffled = np.take_along_axis(cycles, rows[:, :, None], axis=1)
        renamed = np.take_along_axis(names, shuffled.reshape(whole, -1), axis=1)
        order[head : head + whole * self.cycles] = renamed.reshape(-1, count)
        return order, np.concatenate([self.before[:1], order[:-1, -1]])

    def _drawn(self, a: int, b: int) -> NDArray[np.int8]:
        """Return to which of the four means each run belongs in `DRAWS` draws of the cycles, shape (DRAWS, blocks, k)."""
        random = np.random.default_rng(DRAW_SEED)
        found = np.empty((DRAWS, *self.order.shape), dtype=np.int8)
        places = (np.arange(self.order.shape[0]) + self.first) // self.cycles
        sizes = np.bincount(places)
        for draw in range(DRAWS):
            order = self.order.copy()
            for cycle in np.flatnonzero(sizes == self.cycles):
                rows = order[places == cycle]
                order[places == cycle] = random.permutation(order.shape[1])[random.permutation(rows)]
            found[draw] = _codes_of(order, np.concatenate([self.before[:1], order[:-1, -1]]), a, b)
        return found


@functools.lru_cache(maxsize=2)
def _random_weights(blocks: int, count: int, present: bytes) -> NDArray[np.float32]:
    """Return `_weights_of_draws` for random orders of independent blocks.

    They have up to 16 MiB. The rows of a group share them, and groups of as many blocks, if the same runs are missing.
    """
    return _weights_of_draws(_random_codes(blocks, count, DRAWS), np.frombuffer(present))


def _weights_of_draws(codes: NDArray[np.int8], present: Floats) -> NDArray[np.float32]:
    """Return `_weights` of each draw in which no mean is empty, shape (at most draws, runs)."""
    flat = codes.reshape(len(codes), -1)
    counted = np.where(present > 0, flat, np.int8(4))
    counts = np.stack([np.count_nonzero(counted == mean, axis=1) for mean in range(4)], axis=1)
    whole = counts.min(axis=1) > 0
    shares = np.zeros((int(whole.sum()), 5), dtype=np.float32)
    shares[:, :4] = _SIGNS / counts[whole]
    return np.take_along_axis(shares, flat[whole].astype(np.intp), axis=1)


def _weights(code: NDArray[np.int8], present: Floats) -> Floats:
    """Return the weight of each run in T, shape (runs,).

    Args:
        code: to which of the four means each run belongs, 4 for none, shape (runs,).
        present: 1, and 0 for a missing run, shape (runs,).
    """
    counts = np.bincount(code, present, minlength=5)[:4]
    return np.append(_SIGNS / counts, 0.0)[code]


def draws_of(runs: int) -> int:
    """Return how many orders of so many runs are drawn for the deviation alone."""
    return max(FEWEST_DRAWS, -(-DRAWN_RUNS // runs))


@functools.lru_cache(maxsize=8)
def _random_codes(blocks: int, count: int, draws: int) -> NDArray[np.int8]:
    """Return to which of the four means each run belongs in random orders of independent blocks, shape (draws, blocks, count)."""
    return np.concatenate(list(_new_codes(blocks, count, draws)))


def _new_codes(blocks: int, count: int, draws: int) -> Iterator[NDArray[np.int8]]:
    """Yield the codes of random orders of independent blocks, several at a time, each array of shape (some draws, blocks, count)."""
    random = np.random.default_rng(DRAW_SEED)
    several = max(1, DRAWN_AT_ONCE // ((blocks + 1) * count))
    for first in range(0, draws, several):
        order = _ordered(random.random((min(several, draws - first), blocks + 1, count)))
        yield _codes_of(order[:, 1:], order[:, :-1, -1])


def _ordered(numbers: Floats) -> NDArray[Any]:
    """Return the indices that would sort numbers along the last axis; of two, as mostly, by one comparison: a quarter of the time."""
    if numbers.shape[-1] != 2:
        return numbers.argsort(axis=-1)
    swapped = numbers[..., 0] > numbers[..., 1]
    return np.stack([swapped, ~swapped], axis=-1).view(np.int8)


def _codes_of(order: NDArray[Any], before: NDArray[Any], a: int = 0, b: int = 1) -> NDArray[np.int8]:
    """Return to which of the four means of two treatments each run belongs, 4 for none.

    Args:
        order: of treatments, shape (..., blocks, k).
        before: the treatment of the run before each block, shape (..., blocks).
        a: a treatment.
        b: another one.
    """
    previous = np.concatenate([before[..., None], order[..., :-1]], axis=-1)
    first = order == a
    code = np.where(first, (previous == b).view(np.int8), (previous == a).view(np.int8) + np.int8(2))
    return np.where((first | (order == b)) & (previous >= 0), code, np.int8(4))


def _fitted(
    centred: Floats, shared: _Shared, codes: NDArray[np.int8]
) -> tuple[tuple[float, ...], tuple[float, float], float]:
    """Fit level, positions and the four means together, by repeating them in turn (backfitting).

    Returns:
        The means; the variances of the differences of the first two and of the last two; Welch's degrees of freedom.
    """
    members = [np.flatnonzero(codes == cell) for cell in range(4)]
    effects = np.zeros(centred.shape)
    for _ in range(FITS):
        residuals = shared.removed(centred - effects) + effects
        values = [residuals.reshape(-1)[mine] for mine in members]
        means = [float(each.mean()) for each in values]
        for mine, mean in zip(members, means, strict=True):
            effects.reshape(-1)[mine] = mean
    squares = [float(np.square(each - mean).sum()) for each, mean in zip(values, means, strict=True)]
    counts = [mine.size for mine in members]
    # A run's own weight in its level makes the residuals too small.
    own = 1 / (1 - 1 / ((2 * WINDOW + 1) * centred.shape[1]))
    variances, freedoms = [], []
    for one, other in ((0, 1), (2, 3)):
        freedom = counts[one] + counts[other] - 2
        variances.append(own * (squares[one] + squares[other]) / freedom * (1 / counts[one] + 1 / counts[other]))
        freedoms.append(freedom)
    total = sum(variances)
    welch = total**2 / sum(v**2 / f for v, f in zip(variances, freedoms, strict=True)) if total > 0 else 1.0
    return tuple(means), (variances[0], variances[1]), welch


def student_tail(t: float, freedom: float) -> float:
    """Return P(|T| >= |t|) of Student's distribution, by Wallace's normal approximation (1959).

    From 5 degrees on its relative error is below 2 % up to t = 2.5, and below 4 % up to t = 4.
    """
    z = math.sqrt(freedom * math.log1p(t * t / freedom)) * (8 * freedom + 1) / (8 * freedom + 3)
    return math.erfc(z / math.sqrt(2))


def _weight(centred: Floats) -> float:
    """Return the weight of a treatment's values in the local level: 1 / variance, from the median absolute deviation."""
    spread = median(np.abs(centred)) if centred.size else 0.0
    return 1 / max(spread, 1e-6) ** 2


class _Shared:
    """What the runs of neighbouring blocks, and those of one position in a block, have in common: weighted means.

    Args:
        weights: of the runs, shape (blocks, k); 0 for missing ones.
    """

    def __init__(self, weights: Floats) -> None:
        self._weights = weights
        self._around, self._positions = _around(weights.sum(axis=1)), weights.sum(axis=0)
        for each in (self._around, self._positions):
            each[each == 0] = 1.0  # the sums that they divide are 0 too

    def removed(self, residuals: Floats) -> Floats:
        """Subtract the local level, and then the mean of each position."""
        level = _around((residuals * self._weights).sum(axis=1)) / self._around
        left: Floats = residuals - level[:, None]
        left -= (left * self._weights).sum(axis=0) / self._positions
        return left


def _around(values: Floats) -> Floats:
    """Return the sums of each block's value and of those of `WINDOW` blocks on each side, shape (blocks,)."""
    sums: Floats = np.convolve(values, np.ones(2 * WINDOW + 1))[WINDOW : WINDOW + values.size]
    return sums


def normal_scores(values: Floats) -> Floats:
    """Return the van der Waerden scores of values; equal values have the mean rank."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    if counts.size == values.size:
        return _scores_of_ranks(values.size)[index.reshape(-1)]
    ranks = np.cumsum(counts) - (counts - 1) / 2
    return np.array([_NORMAL.inv_cdf(rank / (values.size + 1)) for rank in ranks.tolist()])[index.reshape(-1)]


@functools.lru_cache(maxsize=8)
def _scores_of_ranks(count: int) -> Floats:
    """Return the van der Waerden scores of the ranks 1 to `count`."""
    return np.array([_NORMAL.inv_cdf(rank / (count + 1)) for rank in range(1, count + 1)])
