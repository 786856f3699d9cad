# SPDX-License-Identifier: MIT OR Apache-2.0
"""The randomisation test of paired differences by sign flips (Fisher 1935, section 21; Pitman 1937), exact for any number of pairs.

If the two sides of each pair are exchangeable, each of the 2^n combinations of signs of the differences was equally likely. The
p-value is the share of combinations whose sum is as far from 0 as that of the differences. A few large values dominate the sum.
k such values on one side and none on the other give a p-value of about 2 / 2^k: no test that relies on exchangeability gives less.

The magnitudes are first rounded to integers whose sum is about `RESOLUTION`. The unit depends on the magnitudes alone, so the test of
the rounded sum is exact. Its distribution is a convolution of n distributions of two values each.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

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
