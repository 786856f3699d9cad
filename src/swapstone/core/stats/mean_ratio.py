# SPDX-License-Identifier: MIT OR Apache-2.0
"""The ratio of arithmetic means of paired values, with Fieller's interval; contrasts of means and of medians of several sides.

A ratio theta is not rejected if the mean of y - theta x is within t standard errors of 0 (Fieller 1954). The theta that are not
rejected are the roots of a quadratic and what lies between them, if the mean of x differs from 0 by more than t standard errors.
Nothing is trimmed or winsorised: among 90 runs a single run in a slow mode can't be distinguished from one that the machine delayed,
so each rule that leaves out the one leaves out the other. What the machine adds to both sides cancels on average by randomisation,
and widens the interval.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Sequence

import msgspec
import numpy as np

from swapstone.core.stats.signed_rank import Interval
from swapstone.core.stats.summary import Floats, median

_NORMAL = statistics.NormalDist()


class AverageEffect(msgspec.Struct, frozen=True):
    """An effect on arithmetic means, or on medians.

    Attributes:
        effect: ratio or difference of the means or medians.
        interval: around it; None with fewer than two pairs, or if the baseline's mean is too uncertain for a bounded ratio.
    """

    effect: float
    interval: Interval | None


def mean_ratio(baseline: Floats, candidate: Floats, alpha: float) -> AverageEffect:
    """Return mean(candidate) / mean(baseline) with Fieller's interval.

    Args:
        baseline: shape (n,), n >= 1, all > 0.
        candidate: the same, paired with it.
        alpha: two-sided error of the interval, 0 < alpha < 1.
    """
    unit = float(baseline.mean())
    x, y = baseline / unit, candidate / unit
    top = float(y.mean())
    if x.size < 2:
        return AverageEffect(top, None)
    (s_xx, s_xy), (_, s_yy) = np.cov(x, y).tolist()
    scale = student_quantile(x.size - 1, alpha) ** 2 / x.size
    a, b, c = 1 - scale * s_xx, top - scale * s_xy, top * top - scale * s_yy
    if a <= 0:
        return AverageEffect(top, None)
    root = math.sqrt(max(0.0, b * b - a * c))
    return AverageEffect(top, Interval(min(top, max(0.0, (b - root) / a)), max(top, (b + root) / a)))


def mean_contrast(sides: Floats, weights: Sequence[float], alpha: float, *, ratio: bool) -> AverageEffect:
    """Return the product of the sides' arithmetic means, each to the power of its weight, or with `ratio` False their weighted sum.

    The interval is Student's, of the sum in each block; of a product, of its logarithm by the delta method (Casella, Berger 2002, 5.5).

    Args:
        sides: values of each side, paired by block, shape (sides, n), n >= 1; for a ratio all > 0.
        weights: of the sides; -1 and 1 of two give candidate / baseline, or candidate - baseline.
        alpha: two-sided error of the interval, 0 < alpha < 1.
        ratio: whether a ratio is returned.
    """
    means = sides.mean(axis=1)
    scale = np.asarray(weights) / means if ratio else np.asarray(weights)
    apart = (scale[:, None] * sides).sum(axis=0)
    effect = _combined(means.tolist(), weights) if ratio else float(apart.mean())
    if apart.size < 2:
        return AverageEffect(effect, None)
    reach = student_quantile(apart.size - 1, alpha) * float(apart.std(ddof=1)) / math.sqrt(apart.size)
    return _around(effect, reach, ratio=ratio)


def median_contrast(sides: Floats, weights: Sequence[float], alpha: float, *, ratio: bool) -> AverageEffect:
    """Return the same as `mean_contrast` of medians.

    Of the medians themselves: the signed-rank estimate is of the median of sums of two pairs, which differs where shapes differ. Source:
    Bonett and Price, Interval estimation for linear functions of medians in within-subjects and mixed designs, British Journal of
    Mathematical and Statistical Psychology 73 (2020). The standard error of a median is the distance of the order statistics
    c = n / 2 - sqrt(n) and n - c + 1 over twice the normal quantile of their binomial probability. The covariance of two medians is
    that of the signs of both sides' distances from them. Ratios are computed on logarithms.
    """
    medians = [median(side) for side in sides]
    effect = _combined(medians, weights) if ratio else sum(w * each for w, each in zip(weights, medians, strict=True))
    count = sides.shape[1]
    if count < 2:
        return AverageEffect(effect, None)
    place, quantile = _median_places(count)
    ends = np.partition(sides, (place - 1, count - place), axis=1)[:, [place - 1, count - place]].tolist()
    errors = [(math.log(high / low) if ratio else high - low) / (2 * quantile) for low, high in ends]
    signs = np.sign(sides - np.array(medians)[:, None])
    alike = (signs @ signs.T / count).tolist()
    variance = sum((w * error) ** 2 for w, error in zip(weights, errors, strict=True))
    for one, other in itertools.combinations(range(len(errors)), 2):
        variance += 2 * weights[one] * weights[other] * (alike[one][other] * errors[one] * errors[other])
    reach = _NORMAL.inv_cdf(1 - alpha / 2) * math.sqrt(max(0.0, variance))
    return _around(effect, reach, ratio=ratio)


def _combined(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the product of positive values, each to the power of its weight."""
    above, below = (
        math.prod(math.pow(value, abs(w)) for value, w in zip(values, weights, strict=True) if w * sign > 0)
        for sign in (1, -1)
    )
    return above / below


def _around(effect: float, reach: float, *, ratio: bool) -> AverageEffect:
    if ratio:
        return AverageEffect(effect, Interval(effect * math.exp(-reach), effect * math.exp(min(reach, 700.0))))
    return AverageEffect(effect, Interval(effect - reach, effect + reach))


@functools.lru_cache(maxsize=256)
def _median_places(count: int) -> tuple[int, float]:
    """Return c, from 1, and the quantile of the interval between the order statistics c and count - c + 1; see `median_contrast`."""
    place = max(1, round(count / 2 - math.sqrt(count)))
    below = sum(math.comb(count, number) for number in range(place)) / (1 << count)
    return place, -_NORMAL.inv_cdf(below)


@functools.lru_cache(maxsize=4096)
def student_quantile(freedom: int, alpha: float) -> float:
    """Return the t with P(|T| > t) = alpha for Student's distribution, by bisection.

    Args:
        freedom: degrees of freedom, >= 1.
        alpha: 0 < alpha < 1.
    """
    # With v degrees of freedom P(|T| > t) is the regularised incomplete beta function I_x(v / 2, 1 / 2) at x = v / (v + t^2).
    # Abramowitz and Stegun (1964), 26.7.1. The bisection is over log t.
    low, high = -40.0, 200.0
    while low < (middle := (low + high) / 2) < high:
        if student_tail(freedom, middle) > alpha:
            low = middle
        else:
            high = middle
    return math.exp(high)


def student_tail(freedom: int, log_t: float) -> float:
    """Return P(|T| > exp(log_t)) for Student's T with `freedom` degrees of freedom, >= 1."""
    ratio = 2 * log_t - math.log(freedom)  # log(t^2 / v)
    odds = math.exp(ratio)
    x, rest = 1 / (1 + odds), odds / (1 + odds)
    return _incomplete_beta(x, rest, freedom / 2, 0.5)


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """Return I_x(a, b) for rest = 1 - x, by Lentz's continued fraction (Numerical Recipes, section 6.4)."""
    if rest <= 0.0:  # of a t whose square is rounded to 0
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - _incomplete_beta(rest, x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest))
    tiny = 1e-300
    c, d = 1.0, 1 / max(1 - (a + b) * x / (a + 1), tiny)
    fraction = d
    for m in range(1, 300):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + factor * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + factor / c
            c = c if abs(c) > tiny else tiny
            fraction *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * fraction / a


class MeanOfMeans:
    """Inference on the mean of means.

    Args:
        values: shape (sets, blocks); NaN where a set lacks a value.

    Attributes:
        n: number of values of the smallest set.

    Raises:
        ValueError: a set has fewer than two values.
    """

    def __init__(self, values: Floats) -> None:
        present = ~np.isnan(values)
        sizes = present.sum(axis=1)
        if not sizes.size or sizes.min() < 2:
            raise ValueError("a mean of means needs at least two values of each set")
        means = np.nanmean(values, axis=1)
        scale = 1 / np.sqrt(sizes * (sizes - 1.0))
        deviations = np.where(present, values - means[:, np.newaxis], 0.0) * scale[:, np.newaxis]
        self.n = int(sizes.min())
        self._mean = float(means.mean())
        self._error = math.sqrt(float(np.square(deviations.mean(axis=0)).sum()))

    def estimate(self) -> float:
        """Return the mean of the sets' means."""
        return self._mean

    @property
    def p_value(self) -> float:
        """Return the two-sided p-value of the hypothesis that it is 0."""
        if self._error == 0:
            return float(self._mean == 0)
        return 1.0 if self._mean == 0 else student_tail(self.n - 1, math.log(abs(self._mean) / self._error))

    def interval(self, alpha: float) -> Interval:
        """Return the closed interval of the values that are not rejected at level `alpha`, 0 < alpha < 1."""
        reach = student_quantile(self.n - 1, alpha) * self._error
        return Interval(self._mean - reach, self._mean + reach)


_LEAST_VARIANCE = 1e-12
"""Smaller variances of an estimate, such as 0 of exact values, count as this one: a standard error of 1e-6."""


class PooledEstimate(msgspec.Struct, frozen=True):
    """An estimate over units.

    Attributes:
        estimate: the weighted mean of the units' estimates.
        interval: around it.
        spread: standard deviation of the units' own effects, without the error of their estimates; 0 if that explains all of it.
    """

    estimate: float
    interval: Interval
    spread: float


def pooled_estimate(estimates: Sequence[float], variances: Sequence[float], alpha: float) -> PooledEstimate:
    """Return the estimate over units with an interval of level 1 - alpha.

    Args:
        estimates: one for each of at least two units.
        variances: squared standard errors of the estimates, at least 0.
        alpha: 0 < alpha < 1.
    """
    found, errors = np.asarray(estimates, float), np.maximum(np.asarray(variances, float), _LEAST_VARIANCE)
    freedom = found.size - 1
    fixed = 1 / errors
    apart = float(fixed @ (found - fixed @ found / fixed.sum()) ** 2)
    between = max(0.0, (apart - freedom) / float(fixed.sum() - (fixed @ fixed) / fixed.sum()))
    weights = 1 / (errors + between)
    mean = float(weights @ found / weights.sum())
    factor = max(1.0, float(weights @ (found - mean) ** 2) / freedom)
    reach = student_quantile(freedom, alpha) * math.sqrt(factor / float(weights.sum()))
    return PooledEstimate(mean, Interval(mean - reach, mean + reach), math.sqrt(between))


def deviating_units(
    estimates: Sequence[float], variances: Sequence[float], freedoms: Sequence[int], alpha: float, limit: float
) -> tuple[int, ...]:
    """Return the numbers of the units that differ from the others, the most deviating one first.

    Each unit is compared with the mean of the others, weighted by their variances, by Student's distribution with the smallest number of
    degrees of freedom. The one with the largest statistic is removed if its difference is beyond the limit and significant at alpha
    divided by the number of units. Then the rest is examined, as long as there are three.

    Args:
        estimates: one for each unit.
        variances: squared standard errors.
        freedoms: degrees of freedom of the variances, at least 1.
        alpha: 0 < alpha < 1.
        limit: a difference of no interest.
    """
    left, found = list(range(len(estimates))), []
    errors = [max(each, _LEAST_VARIANCE) for each in variances]
    threshold = student_quantile(min(freedoms, default=1), alpha / max(1, len(left)))
    while len(left) >= 3:
        apart = {unit: _apart(unit, [each for each in left if each != unit], estimates, errors) for unit in left}
        unit = max(left, key=lambda each: abs(apart[each][0]) / apart[each][1])
        difference, error = apart[unit]
        if abs(difference) <= max(limit, threshold * error):
            break
        left.remove(unit)
        found.append(unit)
    return tuple(found)


def _apart(
    unit: int, others: Sequence[int], estimates: Sequence[float], errors: Sequence[float]
) -> tuple[float, float]:
    """Return the difference of a unit from the mean of others, and its standard error."""
    weights = [1 / errors[each] for each in others]
    mean = sum(weight * estimates[each] for weight, each in zip(weights, others, strict=True)) / sum(weights)
    return estimates[unit] - mean, math.sqrt(errors[unit] + 1 / sum(weights))
