# SPDX-License-Identifier: MIT OR Apache-2.0
"""The difference of two centres: by hand, by the interval's p-value, and the rate of errors of simulated records."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from swapstone.core.stats import (
    KnownCentre,
    SignedRank,
    difference_p_value,
    interval_of_difference,
)

QUANTUM = 2.0**-40


def _centred(values: list[float]) -> SignedRank:
    return SignedRank(np.array(values), QUANTUM)


FIRST = _centred([1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.5])
SECOND = _centred([4.0, 4.5, 5.0, 5.5, 7.0, 7.5, 8.0, 8.5, 9.0])


def test_the_interval_adds_the_distances_in_squares() -> None:
    one, other = FIRST.interval(0.05), SECOND.interval(0.05)
    assert one is not None and other is not None
    a, b = FIRST.estimate(), SECOND.estimate()
    found = interval_of_difference(FIRST, SECOND, 0.05)
    assert found is not None
    assert found.low == pytest.approx(b - a - math.sqrt((b - other.low) ** 2 + (one.high - a) ** 2))
    assert found.high == pytest.approx(b - a + math.sqrt((other.high - b) ** 2 + (a - one.low) ** 2))


def test_exchanging_the_two_mirrors_the_interval() -> None:
    one, other = interval_of_difference(FIRST, SECOND, 0.05), interval_of_difference(SECOND, FIRST, 0.05)
    assert one is not None and other is not None
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
    assert difference_p_value(FIRST, SECOND) == pytest.approx(difference_p_value(SECOND, FIRST))


def test_a_centre_that_is_known_exactly_leaves_the_interval_of_the_other() -> None:
    plain, found = FIRST.interval(0.05), interval_of_difference(KnownCentre(1.0), FIRST, 0.05)
    assert plain is not None and found is not None
    assert (found.low, found.high) == pytest.approx((plain.low - 1, plain.high - 1))
    one, other = KnownCentre(1.0), KnownCentre(3.0)
    both = interval_of_difference(one, other, 0.05)
    assert both is not None and (both.low, both.high) == (2.0, 2.0)
    assert (difference_p_value(one, other), difference_p_value(one, KnownCentre(1.0))) == (0.0, 1.0)
    assert one.p_value is None and one.smallest_visible(0.05) is None


def test_the_p_value_is_the_level_at_which_the_interval_begins_to_exclude_zero() -> None:
    near = _centred([value + 2.2 for value in (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.5)])
    p = difference_p_value(FIRST, near)
    assert 0.01 < p < 0.5
    inside, outside = interval_of_difference(FIRST, near, p * 0.999), interval_of_difference(FIRST, near, p * 1.001)
    assert inside is None or not inside.excludes(0.0)
    assert outside is not None and outside.excludes(0.0)


def test_few_differences_have_no_interval_and_no_smaller_p_value() -> None:
    far = _centred([100.0, 101.0, 102.0])
    assert interval_of_difference(FIRST, far, 0.05) is None
    assert difference_p_value(FIRST, far) == 0.25  # 2 / 2**3


SHAPES: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "normal": lambda random, n: random.normal(size=n),
    "t of 3 degrees": lambda random, n: random.standard_t(3, size=n),
    "log-normal": lambda random, n: np.exp(random.normal(size=n)) - 1.2215829,  # the pseudomedian of exp(N(0, 1))
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("first", "second", "spread"), [(15, 15, 1.0), (15, 60, 4.0), (60, 15, 4.0)])
def test_errors_stay_near_the_level_whatever_the_spreads(
    shape: str, first: int, second: int, spread: float, exhaustive: bool
) -> None:
    """A rank-sum test of the same data errs in 11 % of the cases at 1 % (log-normal, 60 and 15 pairs of 4 times the spread)."""
    random, draw = np.random.default_rng(3), SHAPES[shape]
    repeats = 2000 if exhaustive else 300
    wrong = 0
    for _ in range(repeats):
        found = interval_of_difference(
            SignedRank(draw(random, first), QUANTUM), SignedRank(spread * draw(random, second), QUANTUM), 0.01
        )
        assert found is not None
        wrong += found.excludes(0.0)
    assert wrong / repeats <= (0.025 if exhaustive else 0.04)
