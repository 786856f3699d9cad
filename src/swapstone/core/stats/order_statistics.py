# SPDX-License-Identifier: MIT OR Apache-2.0
"""What order statistics permit to state about a distribution of which nothing is known, such as that of maxima."""

from __future__ import annotations

import math
from collections.abc import Sequence


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """Return an interval for the median of a distribution, whose ends are two of its values.

    Source: David and Nagaraja, Order Statistics, 3rd edition, 2003, section 7.1. The interval [x(r), x(n+1-r)] contains the median with
    probability at least 1 - 2 P(B <= r-1), B binomial with n and 1/2; r is the largest number for which that is the confidence or more.

    Args:
        values: independent, of one distribution; in any order.
        confidence: between 0 and 1.

    Returns:
        The ends; None if there are too few values: below 6 for 95 %.
    """
    ordered, count = sorted(values), len(values)
    below, rank = 0, 0  # the sum of the binomial coefficients C(count, 0) to C(count, rank)
    while rank < count // 2:
        below += math.comb(count, rank)
        if 2 * below > (1 - confidence) * 2**count:
            break
        rank += 1
    return (ordered[rank - 1], ordered[count - rank]) if rank else None


def exceedance(count: int) -> float:
    """Return the probability that one more value exceeds the largest of `count` values, all exchangeable: at most 1 / (count + 1).

    Source: David and Nagaraja, section 7.3: each of the count + 1 values is equally likely to be the largest; ties lower it.

    Args:
        count: at least 0.
    """
    return 1 / (count + 1)
