# SPDX-License-Identifier: MIT OR Apache-2.0
"""The ratio of arithmetic means, with Fieller's interval."""

from __future__ import annotations

import math

import numpy as np
import pytest

from swapstone.core.stats import mean_contrast, mean_ratio
from swapstone.core.stats.mean_ratio import student_quantile


@pytest.mark.parametrize(
    ("freedom", "alpha", "expected"),
    [  # scipy.stats.t.isf(alpha / 2, freedom)
        (1, 0.05, 12.7062047361747),
        (2, 0.01, 9.92484320091807),
        (5, 0.5, 0.726686843800424),
        (14, 0.01, 2.97684273437083),
        (89, 0.01, 2.632204191200009),
        (199, 1e-7, 5.529722102109344),
        (2000, 0.05, 1.96115),
    ],
)
def test_quantiles_of_students_distribution(freedom: int, alpha: float, expected: float) -> None:
    assert student_quantile(freedom, alpha) == pytest.approx(expected, rel=1e-5)


def test_one_degree_of_freedom_far_in_the_tail() -> None:
    assert student_quantile(1, 1e-12) == pytest.approx(1 / math.tan(math.pi / 2 * 1e-12), rel=1e-6)


def test_the_ends_are_the_ratios_that_students_test_just_rejects() -> None:
    random = np.random.default_rng(1)
    before, after = 10 + random.normal(0, 1, 20), 12 + random.normal(0, 1, 20)
    found = mean_ratio(before, after, 0.01)
    assert found.effect == pytest.approx(after.mean() / before.mean())
    assert found.interval is not None and {type(end) for end in (found.interval.low, found.interval.high)} == {float}
    for theta in (found.interval.low, found.interval.high):
        apart = after - theta * before
        statistic = abs(apart.mean()) / (apart.std(ddof=1) / math.sqrt(20))
        assert statistic == pytest.approx(student_quantile(19, 0.01), rel=1e-9)


def test_the_unit_does_not_matter_and_large_values_do_not_overflow() -> None:
    before, after = np.array([1.0, 2.0, 1.5, 1.2]), np.array([1.1, 2.3, 1.4, 1.5])
    plain, large = mean_ratio(before, after, 0.05), mean_ratio(before * 1e300, after * 1e300, 0.05)
    assert plain.interval is not None and large.interval is not None
    assert large.interval.low == pytest.approx(plain.interval.low)
    assert large.interval.high == pytest.approx(plain.interval.high)


def test_a_baseline_that_may_be_0_gives_no_interval_and_one_pair_neither() -> None:
    assert mean_ratio(np.array([1.0, 1.0, 1000.0]), np.array([1.0, 2.0, 3.0]), 0.01).interval is None
    assert mean_ratio(np.array([2.0]), np.array([3.0]), 0.01) == mean_ratio(np.array([4.0]), np.array([6.0]), 0.01)
    assert mean_contrast(np.array([np.array([2.0]), np.array([3.0])]), (-1.0, 1.0), 0.01, ratio=False).interval is None


def test_differences_have_students_interval() -> None:
    found = mean_contrast(np.array([np.zeros(4), np.array([1.0, 2.0, 3.0, 4.0])]), (-1.0, 1.0), 0.05, ratio=False)
    assert found.interval is not None and found.effect == 2.5
    assert found.interval.half_width == pytest.approx(3.182446 * math.sqrt(5 / 3) / 2, rel=1e-6)


def test_equal_values_have_an_interval_without_width() -> None:
    found = mean_ratio(np.full(5, 3.0), np.full(5, 6.0), 0.01)
    assert found.interval is not None
    assert found.effect == 2.0 == pytest.approx(found.interval.low) == pytest.approx(found.interval.high)


@pytest.mark.parametrize("noise", ["normal", "lognormal", "slow runs on both sides"])
def test_coverage(noise: str) -> None:
    """2000 intervals at 95 % for a ratio of 1.1: 100 misses are nominal; 135 is 3.6 standard deviations above."""
    random = np.random.default_rng(4)
    misses = 0
    for _ in range(2000):
        first, second = random.normal(0, 1, (2, 40))
        if noise == "normal":
            before, after = 1 + 0.05 * first, 1.1 * (1 + 0.05 * second)
        elif noise == "lognormal":
            before, after = np.exp(0.5 * first), 1.1 * np.exp(0.5 * second)
        else:
            slow = np.where(random.random((2, 40)) < 0.05, 3.0, 1.0)
            before, after = slow[0] * np.exp(0.02 * first), 1.1 * slow[1] * np.exp(0.02 * second)
        interval = mean_ratio(before, after, 0.05).interval
        assert interval is not None
        misses += interval.excludes(1.1)
    assert misses <= 135
