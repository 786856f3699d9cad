# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run values, confidence intervals of shares, and the test of dependence."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from swapstone.core.stats import binomial_tail, dependence_p_value, run_value, wilson


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=9))
def test_a_run_value_is_the_median(values: list[float]) -> None:
    assert run_value(values) == statistics.median(values)


@pytest.mark.parametrize("count", [200, 201])
def test_a_run_value_of_many_values_is_the_median(count: int) -> None:
    values = list(np.random.default_rng(1).normal(size=count))
    assert run_value(values) == pytest.approx(statistics.median(values), rel=1e-15)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("count", [1, 3, 500])
def test_no_values_and_non_finite_values_are_refused(bad: float, count: int) -> None:
    with pytest.raises(ValueError, match="finite"):
        run_value([1.0] * count + [bad])
    with pytest.raises(ValueError, match="without values"):
        run_value([])


@given(st.integers(1, 500), st.data())
def test_wilson_equals_scipy(trials: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, trials))
    expected = scipy.stats.binomtest(hits, trials).proportion_ci(method="wilson")
    assert wilson(hits, trials) == pytest.approx((expected.low, expected.high), abs=1e-12)


@given(st.integers(1, 60), st.floats(0.01, 0.5), st.data())
def test_binomial_tail_equals_scipy(trials: int, share: float, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, trials))
    assert binomial_tail(hits, trials, share) == pytest.approx(scipy.stats.binom.sf(hits - 1, trials, share))


def chained(random: np.random.Generator, n: int, memory: float) -> np.ndarray:
    values = np.empty(n)
    values[0] = random.normal()
    for i in range(1, n):
        values[i] = memory * values[i - 1] + random.normal()
    return values


@pytest.mark.slow
@pytest.mark.parametrize("n", [15, 50])
def test_the_dependence_test_keeps_its_level_and_detects_autocorrelation(n: int) -> None:
    random = np.random.default_rng(2)
    independent = np.mean([dependence_p_value(random.standard_t(2, n)) <= 0.05 for _ in range(1500)])
    coarse = np.mean([dependence_p_value(random.integers(0, 4, n).astype(float)) <= 0.05 for _ in range(1500)])
    assert 0.03 < independent < 0.07
    assert 0.03 < coarse < 0.07
    dependent = np.mean([dependence_p_value(chained(random, n, 0.8)) <= 0.05 for _ in range(300)])
    alternating = np.mean([dependence_p_value(chained(random, n, -0.8)) <= 0.05 for _ in range(300)])
    assert dependent > 0.7
    assert alternating < 0.02


def test_too_few_or_equal_values_show_no_dependence() -> None:
    assert dependence_p_value(np.arange(9.0)) == 1.0
    assert dependence_p_value(np.ones(50)) == 1.0
    assert dependence_p_value(np.arange(10.0)) < 1e-3
