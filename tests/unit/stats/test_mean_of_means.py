# SPDX-License-Identifier: MIT OR Apache-2.0
"""The mean of several sets' means, of which some lack values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from swapstone.core.stats import MeanOfMeans, mean_contrast


def test_one_set_has_students_interval() -> None:
    values = np.array([0.3, 0.1, 0.4, 0.1, 0.5, 0.9])
    found, expected = (
        MeanOfMeans(values[np.newaxis]),
        mean_contrast(np.array([np.zeros(6), values]), (-1.0, 1.0), 0.05, ratio=False),
    )
    interval = found.interval(0.05)
    assert expected.interval is not None
    assert found.n == 6
    assert found.estimate() == pytest.approx(expected.effect)
    assert interval.low == pytest.approx(expected.interval.low)
    assert interval.high == pytest.approx(expected.interval.high)


def test_sets_that_vary_together_are_not_taken_for_more_data() -> None:
    values = np.array([0.3, 0.1, 0.4, 0.1, 0.5, 0.9])
    one, twice, opposed = (
        MeanOfMeans(np.array(sets)).interval(0.05).half_width
        for sets in ([values], [values, values], [values, values.sum() / 3 - values])
    )
    assert twice == pytest.approx(one)
    assert opposed == pytest.approx(0, abs=1e-12)


def test_the_error_is_that_of_the_values_that_exist() -> None:
    # Of one set 0, 2 and a gap: mean 1, variance of the mean 2 / 2 = 1. Of the other 4, 4, 4: 0. Their mean has the error 1 / 2.
    found = MeanOfMeans(np.array([[0.0, 2.0, np.nan], [4.0, 4.0, 4.0]]))
    t = 12.7062047  # of one degree of freedom at 5 %
    assert (found.n, found.estimate()) == (2, 2.5)
    assert found.interval(0.05).half_width == pytest.approx(t / 2)


def test_the_p_value_is_the_level_at_which_the_interval_reaches_zero() -> None:
    found = MeanOfMeans(np.array([[0.1, 0.3, np.nan, 0.2], [0.5, np.nan, 0.1, 0.0]]))
    assert 0 < found.p_value < 1
    assert found.interval(found.p_value).low == pytest.approx(0, abs=1e-9)
    assert MeanOfMeans(-np.array([[0.1, 0.3, np.nan, 0.2], [0.5, np.nan, 0.1, 0.0]])).p_value == found.p_value


def test_values_without_spread_have_no_uncertainty() -> None:
    assert (MeanOfMeans(np.full((2, 3), 0.5)).p_value, MeanOfMeans(np.zeros((2, 3))).p_value) == (0.0, 1.0)
    assert MeanOfMeans(np.array([[-1.0, 1.0]])).p_value == 1.0


@pytest.mark.parametrize("values", [np.zeros((0, 3)), np.array([[0.1, np.nan], [0.1, 0.2]])])
def test_a_set_needs_two_values(values: np.ndarray) -> None:
    with pytest.raises(ValueError, match="at least two values"):
        MeanOfMeans(values)


@pytest.mark.parametrize(
    ("blocks", "missing"),
    [(20, (0, 0)), (20, (2, 2)), (20, (6, 10)), (20, (14, 14)), (100, (80, 10))],
)
def test_intervals_contain_the_truth_as_often_as_they_state(blocks: int, missing: tuple[int, int]) -> None:
    """1000 simulations of 9 sets, one with ten times the noise of the others, two with missing values: 95 % and three standard errors."""
    random, inside = np.random.default_rng(4), 0
    noise = np.array([0.1] + [0.01] * 8)
    for _ in range(1000):
        values = random.normal(0, noise[:, np.newaxis], (9, blocks))
        for line, lacking in zip(values, missing, strict=False):
            line[random.permutation(blocks)[:lacking]] = math.nan
        interval = MeanOfMeans(values).interval(0.05)
        inside += interval.low <= 0 <= interval.high
    assert 0.95 - 0.021 <= inside / 1000 <= 0.95 + 0.03
