# SPDX-License-Identifier: MIT OR Apache-2.0
"""Summaries: the value of a run, intervals of proportions, and a test for serial dependence between runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


def run_value(values: Sequence[float]) -> float:
    """Reduce the values that one run measured of one metric to the run's value: their median.

    Values inside a process are not independent. So the run is the unit of inference, and contributes one value.

    Args:
        values: at least one, finite.

    Raises:
        ValueError: no values, or one that is not finite.
    """
    if not values:
        raise ValueError("a run without values has no value")
    # The sum is finite only if each value is: one pass, instead of a call for each value.
    if not math.isfinite(sum(values)) and not all(map(math.isfinite, values)):
        raise ValueError("a run's values must be finite")
    return float(statistics.median(values))


def median(values: Ints | Floats) -> float:
    """Return the median of at least one value.

    `numpy.median` imports masked arrays when it is first called, a tenth of the time that `swapstone show` takes.
    """
    places = [(values.size - 1) // 2, values.size // 2]
    low, high = np.partition(values, places)[places].tolist()
    middle: float = (low + high) / 2
    return middle


def distinct(values: Ints) -> Ints:
    """Return the different values, ascending. `numpy.unique` without their counts imports masked arrays, as `numpy.median` does."""
    return np.unique(values, return_counts=True)[0]


def wilson(hits: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval (1927) for a proportion.

    Args:
        hits: 0..trials.
        trials: >= 1.
        confidence: of the interval.
    """
    z = statistics.NormalDist().inv_cdf(0.5 + confidence / 2)
    share = hits / trials
    centre = share + z * z / (2 * trials)
    spread = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def binomial_tail(hits: int, trials: int, share: float) -> float:
    """Return P(X >= hits) for X binomial with `trials` and `share`."""
    return math.fsum(math.comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(hits, trials + 1))


def equal_shares_p_value(hits: int, trials: int, other_hits: int, other_trials: int) -> float:
    """Test whether two shares are equal: the p-value of Fisher's exact test (1935), two-sided, by hypergeometric probabilities.

    Args:
        hits: of the first sample, 0..trials.
        trials: >= 0.
        other_hits: of the second sample.
        other_trials: >= 0.
    """
    total, every = hits + other_hits, trials + other_trials

    def log_choices(n: int, k: int) -> float:
        return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

    def log_chance(k: int) -> float:
        return log_choices(trials, k) + log_choices(other_trials, total - k) - log_choices(every, total)

    most = log_chance(hits) + 1e-7  # rounding
    chances = map(log_chance, range(max(0, total - other_trials), min(trials, total) + 1))
    return min(1.0, math.fsum(math.exp(each) for each in chances if each <= most))


def dependence_p_value(values: Floats) -> float:
    """Test whether neighbours in time are correlated: the rank von Neumann ratio (Bartels 1982), one-sided.

    The ratio of squared successive rank differences to the ranks' variance is about 2 for independent values, and smaller
    for positive lag-1 autocorrelation. It uses ranks, so that a few slow runs can neither hide nor cause it.

    Args:
        values: shape (n,), in order of time.

    Returns:
        P(a ratio this small | independence), by the normal approximation; 1.0 for fewer than 10 values or for equal values.
    """
    n = values.size
    if n < 10 or values.min() == values.max():
        return 1.0
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    ratio = float(np.square(np.diff(ranks)).sum() / np.square(ranks - ranks.mean()).sum())
    variance = 4 * (n - 2) * (5 * n * n - 2 * n - 9) / (5 * n * (n + 1) * (n - 1) ** 2)
    return statistics.NormalDist().cdf((ratio - 2) / math.sqrt(variance))


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


def rejections(p_values: Sequence[float], rate: float) -> int:
    """Return the number of hypotheses that Benjamini and Hochberg's step-up procedure (1995) rejects.

    Args:
        p_values: one for each hypothesis of the family, in any order.
        rate: the false discovery rate to control, e.g. 0.05.

    Returns:
        The largest r for which the r-th smallest p-value is <= rate * r / m; 0 for none.
    """
    m = len(p_values)
    return max((r for r, p in enumerate(sorted(p_values), start=1) if p <= rate * (r / m)), default=0)


def holm(p_values: Sequence[float], rate: float) -> set[int]:
    """Return the numbers of the hypotheses that Holm's procedure (1979) rejects at a rate: any falsely with this probability at most."""
    order = sorted(range(len(p_values)), key=lambda number: p_values[number])
    beyond = (rank for rank, number in enumerate(order) if p_values[number] > rate / (len(order) - rank))
    return set(order[: next(beyond, None)])


def common_level(p_values: Sequence[float], rate: float) -> float:
    """Return the alpha of every interval of the family.

    It is rate * max(R, 1) / m for R rejections among m: the level of Benjamini and Yekutieli's (2005) intervals for
    selected parameters, which keep the false coverage rate. An interval at that level that inverts its test excludes
    "no difference" exactly when the procedure rejects: the R rejected p-values are <= rate * R / m and the others are
    above it, or R would be larger.

    Args:
        p_values: at least one.
        rate: 1 - confidence.
    """
    return rate * (max(rejections(p_values, rate), 1) / len(p_values))


RESOLUTION = 4096
"""Sum of the rounded magnitudes. 200 equal ones are 20 units each; the rounding errors of their sum are 1.4 % of its deviation."""

MOST_TERMS = 400
"""Neighbouring differences are added up to this number of terms: to flip them together is a subset of the flips, and exact too."""


def sign_flip_p_value(differences: Floats) -> float:
    """Return the two-sided p-value of the hypothesis that each difference is symmetric about 0.

    Args:
        differences: shape (n,), finite; none of them gives 1.0.
    """
    if differences.size > MOST_TERMS:
        size, longer = divmod(differences.size, MOST_TERMS)
        border = longer * (size + 1)
        parts = differences[:border].reshape(longer, size + 1), differences[border:].reshape(-1, size)
        differences = np.concatenate([part.sum(axis=1) for part in parts])
    total = float(np.abs(differences).sum())
    if total == 0.0:
        return 1.0
    if not np.isfinite(total):
        raise ValueError("differences must be finite, and so must be their sum")
    signed = np.rint(differences / total * RESOLUTION).astype(np.int64)
    sizes = np.sort(np.abs(signed[signed != 0]))
    # With u the sum of the sizes whose sign is positive, the sum of all is 2 u - sum(sizes).
    whole = int(sizes.sum())
    least = (whole + abs(int(signed.sum()))) // 2
    ways = np.zeros(whole + 1)  # at most 2 ** MOST_TERMS
    ways[0] = 1.0
    reached = 0
    for size in sizes.tolist():
        ways[size : reached + size + 1] += ways[: reached + 1].copy()
        reached += size
    return min(1.0, math.ldexp(float(ways[least:].sum()), 1 - sizes.size))
