# SPDX-License-Identifier: MIT OR Apache-2.0
"""The randomisation test of paired differences by sign flips."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapstone.core.stats import sign_flip_p_value
from swapstone.core.stats.summary import MOST_TERMS


@given(st.lists(st.integers(-8, 8), min_size=1, max_size=9))
def test_it_is_the_share_of_all_sign_combinations(values: list[int]) -> None:
    """The sum of the magnitudes is a divisor of the resolution here, so that rounding changes nothing."""
    total = sum(map(abs, values))
    padded = [*values, 128 - total] if total < 128 else values
    sums = [
        sum(s * abs(v) for s, v in zip(signs, padded, strict=True))
        for signs in itertools.product((1, -1), repeat=len(padded))
    ]
    share = sum(abs(s) >= abs(sum(padded)) for s in sums) / len(sums)
    assert sign_flip_p_value(np.array(padded, dtype=float)) == pytest.approx(share)


@pytest.mark.parametrize("slow", [1, 3, 8, 40])
def test_rare_large_values_on_one_side_give_2_to_the_power_of_their_number(slow: int) -> None:
    values = np.concatenate([np.full(slow, 1000.0), np.tile([0.001, -0.001], 50)])
    assert sign_flip_p_value(values) == pytest.approx(2.0 ** (1 - slow), rel=0.01)


def test_far_tails_are_not_rounded_to_0() -> None:
    assert sign_flip_p_value(np.ones(200)) == 2.0**-199


def test_no_difference_and_no_pairs_are_no_evidence() -> None:
    assert sign_flip_p_value(np.zeros(5)) == sign_flip_p_value(np.array([])) == 1.0
    assert sign_flip_p_value(np.array([1.0, -1.0])) == 1.0
    with pytest.raises(ValueError, match="finite"):
        sign_flip_p_value(np.array([1.0, math.inf]))


def test_the_sign_and_the_unit_do_not_matter() -> None:
    values = np.random.default_rng(2).normal(0.3, 1, 30)
    p = sign_flip_p_value(values)
    assert 0.001 < p < 0.9
    assert sign_flip_p_value(-values) == p == sign_flip_p_value(values * 2.0**40)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "limit"), [(15, 0.05), (60, 0.05), (MOST_TERMS * 3, 0.05), (40, 0.002)])
def test_its_level_is_kept_with_heavy_tails(size: int, limit: float, exhaustive: bool) -> None:
    """Tests of noise without a mean's limit theorem (t with 1.2 degrees of freedom)."""
    random, tests = np.random.default_rng(size), 1000 if exhaustive or size < 100 else 200
    hits = sum(sign_flip_p_value(random.standard_t(1.2, size)) <= limit for _ in range(tests))
    assert hits <= tests * limit + 4 * math.sqrt(tests * limit)
