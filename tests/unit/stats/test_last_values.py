# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where one method ends and the next begins, and the smallest inputs that have a result."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from swapstone.core.stats import (
    RunOrder,
    deviating_units,
    log_ratios,
    mean_contrast,
    mean_ratio,
    median_interval,
    pooled_estimate,
    predecessor_test,
)
from swapstone.core.stats.mean_ratio import student_quantile, student_tail
from tests.unit.stats.test_predecessor_test import drawn_order, predecessors, reference

# Means


def test_two_pairs_have_an_interval() -> None:
    before, after = np.array([10.0, 10.5]), np.array([5.0, 5.6])
    for found in (
        mean_ratio(before, after, 0.05),
        mean_contrast(np.array([before, after]), (-1.0, 1.0), 0.05, ratio=False),
    ):
        assert found.interval is not None and found.interval.low < found.effect < found.interval.high


def test_the_ends_of_a_ratio_below_1_are_those_that_students_test_just_rejects() -> None:
    random = np.random.default_rng(3)
    before, after = 10 + random.normal(0, 1, 25), 4 + random.normal(0, 1, 25)
    found = mean_ratio(before, after, 0.01)
    assert found.interval is not None and 0 < found.interval.low < found.effect < found.interval.high < 1
    for theta in (found.interval.low, found.interval.high):
        apart = after - theta * before
        statistic = abs(apart.mean()) / (apart.std(ddof=1) / math.sqrt(25))
        assert statistic == pytest.approx(student_quantile(24, 0.01), rel=1e-9)


def test_a_ratio_of_times_is_not_below_0() -> None:
    """One value of four has nearly the whole sum: Student's interval reaches below 0."""
    found = mean_ratio(np.array([10.0, 10.1, 9.9, 10.0]), np.array([0.1, 0.1, 0.1, 8.0]), 0.05)
    assert found.interval is not None
    assert found.interval.low == 0.0 and 0.2 < found.effect < found.interval.high < 1


def test_a_t_whose_square_is_rounded_to_0_has_the_p_value_1() -> None:
    assert student_tail(5, -500.0) == 1.0
    assert student_tail(5, -370.0) == pytest.approx(1.0)
    assert student_tail(1, 300.0) == pytest.approx(2 / math.pi * math.exp(-300), rel=1e-9)  # Cauchy's tail


# Order statistics


@pytest.mark.parametrize(("count", "least"), [(2, Fraction(1, 2)), (4, Fraction(7, 8)), (6, Fraction(31, 32))])
def test_an_interval_of_just_the_confidence_is_given(count: int, least: Fraction) -> None:
    """The smallest and the largest of n values enclose the median with the probability 1 - 2 / 2^n, here without rounding."""
    values = [float(value) for value in range(count)]
    assert median_interval(values, float(least)) == (0.0, count - 1.0)
    assert median_interval(values, math.nextafter(float(least), 1)) is None


# Several units


@pytest.mark.parametrize("variance", [0.0, 1e-13, 1e-12, 1e-11])
def test_the_smallest_variance_of_an_estimate(variance: float) -> None:
    found = pooled_estimate((1.0, 1.0, 1.0), (variance,) * 3, 0.05)
    expected = student_quantile(2, 0.05) * math.sqrt(max(variance, 1e-12) / 3)
    assert found.interval.half_width == pytest.approx(expected, rel=1e-3)


def test_a_difference_of_just_the_limit_is_of_no_interest() -> None:
    for last, expected in ((0.25, ()), (0.2500001, (2,))):
        assert deviating_units((0.0, 0.0, last), (0.0,) * 3, (20,) * 3, 0.01, 0.25) == expected


def test_without_units_none_differs() -> None:
    assert deviating_units((), (), (), 0.05, 0.0) == ()


def test_the_unit_that_is_farthest_in_standard_errors_is_examined_first() -> None:
    """The last one is twice as far, and known a hundred times less precisely."""
    estimates, variances = (0.0, 0.0, 0.0, 0.5, 1.0), (1e-4, 1e-4, 1e-4, 1e-4, 1.0)
    assert deviating_units(estimates, variances, (30,) * 5, 0.01, 0.01) == (3,)


# The signed-rank method


def test_logarithms_are_rounded_to_multiples_of_2_to_the_power_minus_40() -> None:
    for number in range(2, 40):
        baseline, candidate = np.array([float(number)]), np.array([float(number + 1)])
        expected = round((math.log(number + 1) - math.log(number)) * 2**40) / 2**40
        assert log_ratios(baseline, candidate).estimate() == expected


# The test of predecessors


def p_value(blocks: int, count: int, monkeypatch: pytest.MonkeyPatch, largest: int | None = None) -> float:
    random = np.random.default_rng(4)
    order = drawn_order(random, blocks, count)
    values: NDArray[np.float64] = np.asarray(100 + random.normal(size=order.shape), dtype=np.float64)
    with monkeypatch.context() as patch:
        if largest is not None:
            patch.setattr(predecessor_test, "LARGEST_DRAWN", largest)
        found = RunOrder(order, predecessors(order)).test(values, 0, 1)
    assert found is not None
    return found.p_value


@pytest.mark.slow
def test_up_to_4096_runs_each_p_value_is_that_of_1000_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two ways to the deviation of the statistic agree within a few percent, so a p-value shows which one was taken."""
    for blocks, count in ((2048, 2), (241, 17)):  # 4096 and 4097 runs
        found = p_value(blocks, count, monkeypatch)
        drawn, few = (p_value(blocks, count, monkeypatch, largest) for largest in (10**6, 0))
        assert drawn != few
        assert found == (drawn if blocks * count <= 4096 else few)


def test_a_spread_below_a_millionth_counts_as_that() -> None:
    """Of a treatment whose values are all equal, the weight in the local level is that of a deviation of 1e-6."""
    random = np.random.default_rng(7)
    order = drawn_order(random, 30, 2)
    values = np.asarray(3e-6 * random.normal(size=order.shape) * (order == 1), dtype=np.float64)
    found, expected = RunOrder(order, predecessors(order)).test(values, 0, 1), reference(values, order, 0, 1)
    assert found is not None
    assert found.effect == pytest.approx(expected.effect, rel=1e-6)
    assert found.standard_error == pytest.approx(expected.error, rel=1e-6)


def test_many_values_that_never_change_have_the_p_value_1() -> None:
    order = drawn_order(np.random.default_rng(1), 2100, 2)
    runs = RunOrder(order, predecessors(order))
    valid = np.ones(order.shape, dtype=np.bool_)
    assert order.size > predecessor_test.LARGEST_DRAWN
    assert runs.randomised_p_value(np.zeros(order.shape), valid, 0, 1) == 1.0
