# SPDX-License-Identifier: MIT OR Apache-2.0
"""Multiple comparisons: Benjamini-Hochberg rejections, and the level at which intervals agree with them."""

from __future__ import annotations

from collections.abc import Sequence


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
