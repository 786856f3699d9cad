# SPDX-License-Identifier: MIT OR Apache-2.0
"""Contrasts of means and of medians of several sides that are paired by block."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from swapstone.core.stats import AverageEffect, mean_contrast, mean_ratio, median_contrast

CONTRASTS = [mean_contrast, median_contrast]
INTERACTION = (1.0, -1.0, -1.0, 1.0)
"""Of a 2 x 2 table."""


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_a_ratio_of_ratios_of_constant_sides_is_exact(contrast: Callable[..., AverageEffect]) -> None:
    sides = np.array([[8.0] * 6, [2.0] * 6, [3.0] * 6, [1.0] * 6])
    found = contrast(sides, INTERACTION, 0.05, ratio=True)
    assert found.effect == pytest.approx(8 / 2 / 3, rel=1e-12)
    assert found.interval is not None and found.interval.low == pytest.approx(found.interval.high, rel=1e-12)
    difference = contrast(sides, INTERACTION, 0.05, ratio=False)
    assert difference.effect == 8 - 2 - 3 + 1


@pytest.mark.parametrize("contrast", CONTRASTS)
@pytest.mark.parametrize("ratio", [True, False])
def test_one_block_has_no_interval(contrast: Callable[..., AverageEffect], *, ratio: bool) -> None:
    assert contrast(np.array([[2.0], [3.0]]), (-1.0, 1.0), 0.05, ratio=ratio).interval is None


def test_a_drift_that_all_sides_share_widens_neither() -> None:
    """Signs and deviations of the sides have the same correlation."""
    drift = np.exp(np.linspace(0, 1, 40))
    sides = np.array([drift * factor for factor in (1.0, 2.0, 3.0, 4.0)])
    for contrast in CONTRASTS:
        found = contrast(sides, INTERACTION, 0.05, ratio=True)
        assert found.interval is not None and found.interval.high / found.interval.low < 1 + 1e-6


def test_a_ratio_of_two_means_is_about_that_of_fieller() -> None:
    before, after = np.random.default_rng(2).normal(100, 3, (2, 50))
    found = mean_contrast(np.array([before, after]), (-1.0, 1.0), 0.05, ratio=True)
    expected = mean_ratio(before, after, 0.05)
    assert found.interval is not None and expected.interval is not None
    assert found.effect == pytest.approx(expected.effect, rel=1e-12)
    assert found.interval.low == pytest.approx(expected.interval.low, rel=1e-4)
    assert found.interval.high == pytest.approx(expected.interval.high, rel=1e-4)


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_intervals_contain_the_truth_in_as_many_cases_as_stated(contrast: Callable[..., AverageEffect]) -> None:
    """In skewed noise with a drift; the mean over two workloads of the ratio of their levels."""
    random, hits, cases = np.random.default_rng(4), 0, 300
    weights = (-0.5, 0.5, -0.5, 0.5)
    for _ in range(cases):
        noise = random.exponential(0.1, (4, 40)) + random.normal(0, 0.2, 40)
        sides = np.exp(noise) * np.array([[1.0], [1.1], [5.0], [6.0]])
        found = contrast(sides, weights, 0.05, ratio=True)
        assert found.interval is not None
        hits += found.interval.low <= math.sqrt(1.1 * 1.2) <= found.interval.high
    assert hits / cases > 0.93


def test_widths_beyond_all_numbers_are_bounded() -> None:
    sides = np.exp(np.array([[-150.0, 150.0], [150.0, -150.0], [150.0, -150.0], [-150.0, 150.0]]))
    found = median_contrast(sides, INTERACTION, 0.01, ratio=True)
    assert found.interval is not None and 0 <= found.interval.low < found.interval.high < math.inf
