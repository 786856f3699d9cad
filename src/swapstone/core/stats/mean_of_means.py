# SPDX-License-Identifier: MIT OR Apache-2.0
"""The mean of several sets' means, where sets lack values in some blocks, with Student's interval.

Let x[w, b] be the value of set w in block b, m[w] the mean of its n[w] values. The estimate is the mean of the m[w]. Its error is a sum
over blocks: block b adds the sum over the sets of (x[w, b] - m[w]) / n[w], over the number of sets, where a missing value adds nothing.
The variance is the sum of the squares of these, so sets that vary together within a block are taken into account (Liang and Zeger 1986,
Biometrika 73, 13-22, the "sandwich" of a mean, with blocks as clusters). Each deviation is scaled by sqrt(n[w] / (n[w] - 1)) for the mean
that was estimated. The degrees of freedom are those of the smallest set, which is cautious. Whether a value is missing must not depend on
the value.
"""

from __future__ import annotations

import math

import numpy as np

from swapstone.core.stats.mean_ratio import Floats, student_quantile, student_tail
from swapstone.core.stats.signed_rank import Interval


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
