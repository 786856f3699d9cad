# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fisher's exact test of two shares, beside sums of exact integers."""

from __future__ import annotations

import math

import pytest

from swapstone.core.stats import equal_shares_p_value


def exact(hits: int, trials: int, other_hits: int, other_trials: int) -> float:
    """Return the two-sided p-value: the sum of all tables that are at most as probable."""
    total = hits + other_hits
    weights = [math.comb(trials, k) * math.comb(other_trials, total - k) for k in range(total + 1)]
    return sum(each for each in weights if each <= weights[hits]) / math.comb(trials + other_trials, total)


@pytest.mark.parametrize(
    "counts", [(3, 4, 1, 4), (50, 51, 35, 51), (0, 50, 15, 50), (0, 9, 0, 9), (9, 9, 9, 9), (2, 30, 1, 7), (1, 1, 0, 1)]
)
def test_the_p_value_is_that_of_exact_sums(counts: tuple[int, int, int, int]) -> None:
    assert equal_shares_p_value(*counts) == pytest.approx(exact(*counts), rel=1e-6)


def test_published_example() -> None:
    """Fisher's tea, The Design of Experiments (1935): three of four cups, twice."""
    assert equal_shares_p_value(3, 4, 1, 4) == pytest.approx(34 / 70)
