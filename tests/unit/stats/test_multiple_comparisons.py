# SPDX-License-Identifier: MIT OR Apache-2.0
"""The correction for multiple comparisons: against scipy, and consistency of p-values with intervals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import example, given
from hypothesis import strategies as st

from swapstone.core.stats import SignedRank, common_level, holm, rejections

families = st.lists(st.floats(0, 1), min_size=1, max_size=40)
rates = st.sampled_from([0.01, 0.05, 0.1, 0.2])


@given(families, rates)
def test_rejections_equal_those_of_scipy(p_values: list[float], rate: float) -> None:
    adjusted = scipy.stats.false_discovery_control(p_values, method="bh")
    near = np.isclose(adjusted, rate, rtol=1e-12)  # there the two round differently
    assert abs(rejections(p_values, rate) - int((adjusted <= rate).sum())) <= near.sum()


@given(st.lists(st.floats(0, 0.2), max_size=20), rates)
def test_holm_rejects_as_long_as_each_p_value_is_within_its_share(p_values: list[float], rate: float) -> None:
    order = np.argsort(p_values, kind="stable").tolist()
    within = [p_values[number] <= rate / (len(order) - rank) for rank, number in enumerate(order)]
    assert holm(p_values, rate) == {number for rank, number in enumerate(order) if all(within[: rank + 1])}


@example([0.0, 0.0, 0.0], 0.05)  # 3 * 0.05 / 3 is above 0.05
@given(families, rates)
def test_p_is_within_the_common_level_exactly_when_it_is_rejected(p_values: list[float], rate: float) -> None:
    alpha, rejected = common_level(p_values, rate), rejections(p_values, rate)
    assert sum(p <= alpha for p in p_values) == rejected
    assert rate * (1 / len(p_values)) <= alpha <= rate


@given(families, st.integers(2, 20), rates)
def test_ties_at_the_threshold_are_rejected_together(others: list[float], copies: int, rate: float) -> None:
    p_values = [*others, *[rate / 3] * copies]
    alpha = common_level(p_values, rate)
    assert sum(p <= alpha for p in p_values) == rejections(p_values, rate)


@given(st.integers(1, 40), rates)
def test_a_p_value_at_its_threshold_is_rejected(m: int, rate: float) -> None:
    """Benjamini and Hochberg (1995), (1): the largest r with P(r) <= r / m * q."""
    p_values = [rate * (r / m) for r in range(1, m + 1)]
    assert rejections(p_values, rate) == m
    assert rejections(p_values[-1:], rate) == 1  # one hypothesis at the plain rate
    above = [float(np.nextafter(p, 1)) for p in p_values]
    assert rejections(above, rate) == 0
    assert rejections([*above[:-1], p_values[-1]], rate) == m  # step-up: the last one takes the others with it


def test_one_hypothesis_is_tested_at_the_plain_rate() -> None:
    assert common_level([0.5], 0.05) == 0.05
    assert common_level([0.001], 0.05) == 0.05


def test_a_worked_example_of_five_hypotheses() -> None:
    p_values = [0.001, 0.012, 0.02, 0.6, 0.9]
    assert rejections(p_values, 0.05) == 3  # 0.02 <= 3/5 * 0.05
    assert common_level(p_values, 0.05) == pytest.approx(0.03)


@given(st.lists(st.lists(st.integers(-3, 5), min_size=3, max_size=14), min_size=1, max_size=12), rates)
def test_rejected_rows_are_those_whose_interval_excludes_zero(rows: list[list[int]], rate: float) -> None:
    found = [SignedRank(np.array(row, dtype=np.float64), 1.0) for row in rows]
    p_values = [row.p_value for row in found]
    alpha = common_level(p_values, rate)
    excluding = [interval is not None and interval.excludes(0.0) for interval in (row.interval(alpha) for row in found)]
    assert sum(excluding) == rejections(p_values, rate)
    assert excluding == [p <= alpha for p in p_values]


@pytest.mark.slow
def test_false_coverage_of_selected_rows_stays_within_the_rate() -> None:
    """10 of 20 rows are nulls. Among rejected rows, the share of intervals that miss the true value is within the rate."""
    random = np.random.default_rng(8)
    shares: list[float] = []
    truth = np.repeat([0.0, 1.0], 10)
    for _ in range(300):
        rows = [SignedRank(random.normal(centre, 1, 15), 2.0**-20) for centre in truth]
        alpha = common_level([row.p_value for row in rows], 0.1)
        chosen = [
            (row.interval(alpha), centre) for row, centre in zip(rows, truth, strict=True) if row.p_value <= alpha
        ]
        missed = [interval is None or interval.excludes(centre) for interval, centre in chosen]
        shares.append(float(np.mean(missed)) if missed else 0.0)
    assert 0.02 < np.mean(shares) < 0.1 + 3 * np.std(shares) / 300**0.5
