# SPDX-License-Identifier: MIT OR Apache-2.0
"""One estimate over units: a published data set, the formulas by hand, and the coverage of the interval."""

from __future__ import annotations

import math

import numpy as np
import pytest

from swapstone.core.stats import deviating_units, pooled_estimate
from swapstone.core.stats.mean_ratio import student_quantile

# Log relative risks of tuberculosis after BCG in 13 trials, and their variances (Colditz et al. 1994, JAMA 271, 698-702; to four places).
RISKS = (
    -0.8893,
    -1.5854,
    -1.3481,
    -1.4416,
    -0.2175,
    -0.7861,
    -1.6209,
    0.0120,
    -0.4694,
    -1.3713,
    -0.3394,
    0.4459,
    -0.0173,
)
VARIANCES = (0.3256, 0.1946, 0.4154, 0.0200, 0.0512, 0.0069, 0.2230, 0.0040, 0.0564, 0.0730, 0.0124, 0.5325, 0.0714)


def test_a_published_data_set() -> None:
    """The package metafor gives -0.7141 and a variance between the trials of 0.3088 by DerSimonian and Laird's method."""
    found = pooled_estimate(RISKS, VARIANCES, 0.05)
    assert found.estimate == pytest.approx(-0.7141, abs=2e-3)
    assert found.spread**2 == pytest.approx(0.3088, abs=2e-3)
    assert -1.2 < found.interval.low < -1.05 and -0.4 < found.interval.high < -0.25


def test_the_interval_is_that_of_the_formula() -> None:
    found = pooled_estimate((0.0, 0.1, 0.5), (0.01, 0.01, 0.01), 0.05)
    assert found.estimate == pytest.approx(0.2)
    # Equal variances: the variance between units is that of the estimates less their error; the interval is Student's of three values.
    between = np.var((0.0, 0.1, 0.5), ddof=1)
    assert found.spread == pytest.approx(math.sqrt(between - 0.01))
    assert found.interval.half_width == pytest.approx(4.3027 * math.sqrt(between / 3), rel=1e-4)


def test_units_that_agree_by_chance_give_no_interval_that_is_shorter_than_their_errors_allow() -> None:
    found = pooled_estimate((0.3, 0.3, 0.3), (0.04, 0.04, 0.04), 0.05)
    assert found.spread == 0 and found.estimate == pytest.approx(0.3)
    assert found.interval.half_width == pytest.approx(student_quantile(2, 0.05) * math.sqrt(0.04 / 3))


def test_exact_units() -> None:
    found = pooled_estimate((1.0, 1.0, 1.0), (0.0, 0.0, 0.0), 0.05)
    assert found.estimate == 1.0 and 0 < found.interval.half_width < 1e-5


def test_the_interval_contains_the_mean_of_all_units_as_often_as_stated(exhaustive: bool) -> None:
    random, number = np.random.default_rng(7), 4000 if exhaustive else 400
    for spread in (0.0, 0.3):
        hits = 0
        for _ in range(number):
            errors = random.uniform(0.01, 0.2, size=3)
            centres = random.normal(0.0, spread, size=3)
            found = pooled_estimate(tuple(random.normal(centres, errors)), tuple(errors**2), 0.05)
            hits += not found.interval.excludes(0.0)
        assert hits >= 0.95 * number - 4 * math.sqrt(0.95 * 0.05 * number)


def test_the_unit_that_differs_is_found_and_not_the_others() -> None:
    assert deviating_units((0.0, 0.01, 0.2), (1e-4,) * 3, (20, 20, 20), 0.01, 0.02) == (2,)
    assert deviating_units((0.0, 0.01, 0.2, -0.3), (1e-4,) * 4, (20,) * 4, 0.01, 0.02) == (3, 2)
    assert deviating_units((0.0, 0.01, 0.02), (1e-4,) * 3, (20, 20, 20), 0.01, 0.02) == ()
    assert deviating_units((0.0, 0.0, 0.015), (1e-8,) * 3, (20, 20, 20), 0.01, 0.02) == ()  # within the limit
    assert (
        deviating_units((0.0, 0.5), (1e-8,) * 2, (20, 20), 0.01, 0.02) == ()
    )  # two units: neither is the one that differs
    assert deviating_units((0.0, 0.0, 0.2), (1e-3,) * 3, (2, 2, 2), 0.01, 0.02) == ()  # too few runs


def test_equal_units_are_rarely_said_to_differ(exhaustive: bool) -> None:
    random, number = np.random.default_rng(8), 2000 if exhaustive else 300
    found = 0
    for _ in range(number):
        values = random.normal(0.0, 1.0, size=(3, 20))
        variances = values.var(axis=1, ddof=1) / 20
        found += bool(deviating_units(tuple(values.mean(axis=1)), tuple(variances), (19,) * 3, 0.05, 0.0))
    assert found <= 0.05 * number + 4 * math.sqrt(0.05 * 0.95 * number)


def test_the_error_of_the_others_and_the_fewest_runs_count() -> None:
    """Of three equal variances, the mean of the other two has half of one: the difference has an error of sqrt(1.5)."""
    for freedoms in ((50, 50, 50), (3, 50, 50)):
        least = student_quantile(min(freedoms), 0.05 / 3) * math.sqrt(1.5)
        assert deviating_units((0.0, 0.0, 0.99 * least), (1.0,) * 3, freedoms, 0.05, 0.0) == ()
        assert deviating_units((0.0, 0.0, 1.01 * least), (1.0,) * 3, freedoms, 0.05, 0.0) == (2,)
