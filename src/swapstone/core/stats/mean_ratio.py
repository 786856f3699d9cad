# SPDX-License-Identifier: MIT OR Apache-2.0
"""The ratio of arithmetic means of paired values, with Fieller's interval; the difference of means, with Student's.

A ratio theta is not rejected if the mean of y - theta x is within t standard errors of 0 (Fieller 1954). The theta that are not
rejected are the roots of a quadratic and what lies between them, if the mean of x differs from 0 by more than t standard errors.
Nothing is trimmed or winsorised: among 90 runs a single run in a slow mode can't be distinguished from one that the machine delayed,
so each rule that leaves out the one leaves out the other. What the machine adds to both sides cancels on average by randomisation,
and widens the interval.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
from numpy.typing import NDArray

from swapstone.core.stats.signed_rank import Interval

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class MeanEffect:
    """An effect on arithmetic means.

    Attributes:
        effect: ratio or difference of the means.
        interval: around it; None with fewer than two pairs, or if the baseline's mean is too uncertain for a bounded ratio.
    """

    effect: float
    interval: Interval | None


def mean_ratio(baseline: Floats, candidate: Floats, alpha: float) -> MeanEffect:
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
        return MeanEffect(top, None)
    (s_xx, s_xy), (_, s_yy) = np.cov(x, y).tolist()
    scale = student_quantile(x.size - 1, alpha) ** 2 / x.size
    a, b, c = 1 - scale * s_xx, top - scale * s_xy, top * top - scale * s_yy
    if a <= 0:
        return MeanEffect(top, None)
    root = math.sqrt(max(0.0, b * b - a * c))
    return MeanEffect(top, Interval(min(top, max(0.0, (b - root) / a)), max(top, (b + root) / a)))


def mean_difference(baseline: Floats, candidate: Floats, alpha: float) -> MeanEffect:
    """Return mean(candidate) - mean(baseline) with Student's paired interval; arguments as `mean_ratio`, of any sign."""
    apart = candidate - baseline
    middle = float(apart.mean())
    if apart.size < 2:
        return MeanEffect(middle, None)
    reach = student_quantile(apart.size - 1, alpha) * float(apart.std(ddof=1)) / math.sqrt(apart.size)
    return MeanEffect(middle, Interval(middle - reach, middle + reach))


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
    for _ in range(80):
        middle = (low + high) / 2
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
