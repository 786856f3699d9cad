# SPDX-License-Identifier: MIT OR Apache-2.0
"""The difference of the centres of two independent sets of paired differences.

The estimate is the difference of the two Hodges-Lehmann estimates. Its interval is recovered from the two signed-rank intervals (Zou and
Donner 2008, Statistics in Medicine 27, 1693-1702, "method of variance estimates recovery"): the distance from an estimate to the
relevant end of its interval stands for its standard error, and the two distances are added in squares. The two sets may differ in size,
spread and shape, which a rank-sum test of the pooled differences does not allow.
"""

from __future__ import annotations

import math

from swapstone.core.stats.signed_rank import Interval, SignedRank

_STEPS = 30
"""Bisections of the logarithm of a level: its relative error is below 1e-7."""

_SMALLEST_LEVEL = 1e-12
"""Levels below this are not distinguished."""


def difference_of_estimates(first: SignedRank | float, second: SignedRank | float) -> float:
    """Return the estimate of the second centre less the first one. A number is a centre that is known exactly."""
    return _estimate(second) - _estimate(first)


def interval_of_difference(first: SignedRank | float, second: SignedRank | float, alpha: float) -> Interval | None:
    """Return an interval of the second centre less the first one, closed, of approximate level 1 - alpha.

    Args:
        first: inference on one set; a number is a centre that is known exactly.
        second: on the other.
        alpha: 0 < alpha < 1.

    Returns:
        The interval; None if one of the two has too few differences for an interval at this level.
    """
    ours, theirs = _interval(first, alpha), _interval(second, alpha)
    if ours is None or theirs is None:
        return None
    one, other = _estimate(first), _estimate(second)
    difference = other - one
    return Interval(
        difference - math.hypot(other - theirs.low, ours.high - one),
        difference + math.hypot(theirs.high - other, one - ours.low),
    )


def difference_p_value(first: SignedRank | float, second: SignedRank | float) -> float:
    """Return the smallest level at which `interval_of_difference` excludes 0; 1 if there is none.

    The interval exists only at levels that both numbers of differences reach, so the p-value is at least the larger of the two 2 / 2**n.
    Of two centres that are known exactly it is 1 if they are equal, else 0.
    """
    sizes = [each.n for each in (first, second) if isinstance(each, SignedRank)]
    if not sizes:
        return float(first == second)
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


def _excludes(first: SignedRank | float, second: SignedRank | float, alpha: float) -> bool:
    interval = interval_of_difference(first, second, alpha)
    return interval is not None and interval.excludes(0.0)


def _estimate(one: SignedRank | float) -> float:
    return one.estimate() if isinstance(one, SignedRank) else one


def _interval(one: SignedRank | float, alpha: float) -> Interval | None:
    return one.interval(alpha) if isinstance(one, SignedRank) else Interval(one, one)
