# SPDX-License-Identifier: MIT OR Apache-2.0
"""Histograms: pairs (lower edge, count), ascending."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(histogram: Sequence[tuple[int, int]], percent: float) -> int:
    """Return the lower edge of the bin that contains a percentile, by the nearest-rank definition.

    Args:
        histogram: pairs (edge, count), ascending, with at least one count above 0.
        percent: above 0, at most 100.
    """
    needed = sum(count for _, count in histogram) * percent / 100
    total = 0
    for edge, count in histogram:
        total += count
        if total >= needed - 1e-9:
            return edge
    return histogram[-1][0]
