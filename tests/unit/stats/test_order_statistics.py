# SPDX-License-Identifier: MIT OR Apache-2.0
"""Intervals of a median by order statistics, and how often one more value is the largest."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy  # whose stats are imported when a test uses them, not when tests are collected

from swapstone.core.stats import exceedance, median_interval


@pytest.mark.parametrize("count", range(1, 60))
def test_the_ranks_are_those_of_the_binomial_distribution(count: int) -> None:
    ranks = [rank for rank in range(1, count // 2 + 1) if 2 * scipy.stats.binom.cdf(rank - 1, count, 0.5) <= 0.05]
    found = median_interval([float(value) for value in range(1, count + 1)][::-1])
    assert found == ((float(ranks[-1]), float(count + 1 - ranks[-1])) if ranks else None)
    assert (found is None) == (count < 6)


def test_the_interval_covers_the_median_of_a_heavy_tail_as_often_as_stated() -> None:
    draws = np.random.default_rng(5).pareto(0.7, size=(4000, 20)) + 1
    median = 2 ** (1 / 0.7)
    found = [median_interval(list(row)) for row in draws]
    covered = sum(each is not None and each[0] <= median <= each[1] for each in found) / len(found)
    assert covered >= 0.95 - 3 * (0.95 * 0.05 / 4000) ** 0.5


def test_one_more_value_is_the_largest_in_one_of_all_orders_but_its_place() -> None:
    for count in range(1, 6):
        orders = list(itertools.permutations(range(count + 1)))
        assert exceedance(count) == pytest.approx(sum(order[-1] == count for order in orders) / len(orders))
