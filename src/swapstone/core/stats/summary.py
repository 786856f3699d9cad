# SPDX-License-Identifier: MIT OR Apache-2.0
"""Summaries: the value of a run, intervals of proportions, and a test for serial dependence between runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

NUMPY_FROM = 200
"""numpy's median is faster than sorting a list from this number of values on."""


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
    if len(values) >= NUMPY_FROM:
        array = np.asarray(values, dtype=np.float64)
        finite, middle = bool(np.isfinite(array).all()), median(array)
    else:
        # A sum of finite values may overflow; one of others is never finite.
        finite = math.isfinite(sum(values)) or all(map(math.isfinite, values))
        ordered, half = sorted(values), len(values) // 2
        middle = float(ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2)
    if not finite:
        raise ValueError("a run's values must be finite")
    return middle


def median(values: NDArray[np.int64] | NDArray[np.float64]) -> float:
    """Return the median of at least one value, as `statistics.median` does: of an odd number of integers an integer.

    `numpy.median` imports masked arrays when it is first called, a tenth of the time that `swapstone show` takes.
    """
    half, odd = divmod(values.size, 2)
    if odd:
        middle: float = np.partition(values, half)[half].item()
        return middle
    parted = np.partition(values, [half - 1, half])
    low, high = parted[half - 1].item(), parted[half].item()
    between: float = (low + high) / 2
    return between


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


def dependence_p_value(values: NDArray[np.float64]) -> float:
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
