# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figures of fixed inputs, by second implementations and by formulas, with the numbers of draws, seeds and limits written out.

An analysis of a stored record must give the figures that were published of it, so these numbers never change.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
import scipy.stats

from swapstone.core.stats import (
    KnownCentre,
    RunOrder,
    SignedRank,
    binomial_tail,
    dependence_p_value,
    difference_p_value,
    wilson,
)
from swapstone.core.stats import sign_flip_p_value as sign_flip
from swapstone.core.stats.mean_ratio import student_quantile
from swapstone.core.stats.predecessor_test import draws_of, normal_scores, student_tail
from swapstone.core.stats.signed_rank import PairSums, critical, difference_quantum, tail
from swapstone.core.stats.summary import run_value

QUANTUM = 2.0**-40

# The signed-rank method


@pytest.mark.parametrize("n", [201, 333, 1000])
@pytest.mark.parametrize("alpha", [0.3, 0.05, 0.01, 1e-4])
def test_above_200_pairs_the_tail_is_normal_with_a_continuity_correction(n: int, alpha: float) -> None:
    normal = scipy.stats.norm(n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24))
    middle = n * (n + 1) // 4
    for count in (middle // 2, middle - 100, middle):
        assert tail(n, count) == pytest.approx(normal.cdf(count + 0.5), rel=1e-9)
    k = critical(n, alpha)
    assert 2 * tail(n, k - 1) <= alpha < 2 * tail(n, k)


@pytest.mark.parametrize("n", [1, 3, 8, 200])
def test_up_to_200_pairs_the_tail_is_exact(n: int) -> None:
    ways = np.zeros(n * (n + 1) // 2 + 1, dtype=object)
    ways[0] = 1
    for rank in range(1, n + 1):
        ways[rank:] = ways[rank:] + ways[: ways.size - rank]
    for count in {0, n, ways.size // 3, ways.size - 1}:
        assert tail(n, count) == pytest.approx(float(sum(ways[: count + 1]) / 2**n), rel=1e-9)


@pytest.mark.parametrize("n", [65, 150, 300])
def test_above_64_pairs_the_smallest_visible_shift_is_a_formula(n: int) -> None:
    values = np.random.default_rng(n).normal(0.1, 1.0, n)
    found = SignedRank(values, QUANTUM)
    k = critical(n, 2 * scipy.stats.norm.cdf(-1))
    averages = np.sort(
        [(a + b) / 2 for a, b in itertools.combinations_with_replacement(np.rint(values / QUANTUM) * QUANTUM, 2)]
    )
    error = (averages[-k] - averages[k - 1]) / 2 / scipy.stats.norm.isf(tail(n, k - 1))
    interval = found.interval(0.01)
    assert interval is not None
    expected = (interval.high - interval.low) / 2 + scipy.stats.norm.ppf(0.8) * error
    assert found.smallest_visible(0.01) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n", [8, 30, 64])
def test_up_to_64_pairs_200_samples_are_drawn_with_the_seed_1945(n: int) -> None:
    values = np.random.default_rng(n).normal(0.1, 1.0, n)
    found = SignedRank(values, QUANTUM)
    distances = np.sort(np.abs(values - found.estimate()))
    random = np.random.default_rng(1945)
    signs = random.choice((-1.0, 1.0), (200, n))
    samples = signs * distances[random.integers(0, n, (200, n))]
    k = critical(n, 0.05)
    reach = [
        -sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(sample, 2))[k - 1]
        for sample in samples.tolist()
    ]
    assert found.smallest_visible(0.05) == pytest.approx(np.quantile(reach, 0.8), rel=1e-9)


@pytest.mark.parametrize(
    ("largest", "exponent"),
    [(1.0, -49), (1.5, -49), (2.0, -48), (0.75, -50), (2.0**50, 1), (0.0, -50), (5e-324, -1074), (1e-310, -1074)],
)
def test_differences_are_rounded_50_bits_below_the_largest_magnitude(largest: float, exponent: int) -> None:
    assert difference_quantum(largest) == 2.0**exponent


def test_sums_that_were_counted_are_not_counted_again() -> None:
    sums = PairSums(np.random.default_rng(1).integers(-(10**9), 10**9, 400))
    limits = [-(10**8), 0, 10**8]
    first = [sums.at_most(limit) for limit in limits]
    sums._count = lambda _: pytest.fail("counted again")  # type: ignore[method-assign,assignment]
    assert [sums.at_most(limit) for limit in limits] == first
    least, most = 2 * int(sums.values[0]) - 1, 2 * int(sums.values[-1])
    assert (sums.at_most(least), sums.at_most(most)) == (0, 400 * 401 // 2)


# Sign flips


def test_magnitudes_are_rounded_to_integers_whose_sum_is_4096() -> None:
    """Many sums are equal to that of the differences, and stay equal only in this unit."""
    random = np.random.default_rng(5)
    for _ in range(30):
        parts = np.sort(random.choice(np.arange(1, 64), 7, replace=False)) * 64
        sizes = np.diff(np.concatenate([[0], parts, [4096]]))
        values = (sizes * random.choice([-1, 1], sizes.size)).astype(float)
        sums = [abs(sum(s * size for s, size in zip(signs, sizes, strict=True))) for signs in _signs(sizes.size)]
        expected = sum(each >= abs(values.sum()) for each in sums) / len(sums)
        for unit in (1.0, 3.0, 1e-7):
            assert sign_flip(values * unit) == pytest.approx(expected, rel=1e-12)


def _signs(count: int) -> itertools.product[tuple[int, ...]]:
    return itertools.product((1, -1), repeat=count)


def test_a_resolution_other_than_4096_gives_other_p_values() -> None:
    random = np.random.default_rng(7)
    values = random.normal(0.2, 1, 40)

    def rounded(resolution: int) -> float:
        units = np.rint(values / np.abs(values).sum() * resolution).astype(int)
        reach = {0: 1}
        for size in np.abs(units).tolist():
            grown: dict[int, int] = {}
            for total, ways in reach.items():
                for each in (total + size, total - size):
                    grown[each] = grown.get(each, 0) + ways
            reach = grown
        return sum(ways for total, ways in reach.items() if abs(total) >= abs(units.sum())) / 2**40

    assert sign_flip(values) == pytest.approx(rounded(4096), rel=1e-12)
    assert len({rounded(each) for each in (2048, 4095, 4096, 4097, 8192)}) == 5


def test_more_than_400_differences_are_added_to_400() -> None:
    values = np.random.default_rng(3).normal(0.02, 1, 401)
    assert sign_flip(values) == sign_flip(np.concatenate([[values[:2].sum()], values[2:]]))
    alternating = np.tile([1.0, -1.0], 200)
    alternating[0] = 3.0
    assert sign_flip(alternating) > 0.9  # in 200 pairs of neighbours it would be the only difference
    assert sign_flip(np.tile([1.0, -1.0], 400)) == 1.0


# Summaries


@pytest.mark.parametrize("count", [1, 2, 3, 198, 199, 200, 201, 202, 400])
def test_a_run_value_is_the_middle_value_or_the_mean_of_two(count: int) -> None:
    values = np.random.default_rng(count).permutation(np.arange(1.0, count + 1)).tolist()
    assert run_value(values) == (count + 1) / 2


@pytest.mark.parametrize("count", [2, 300])
def test_large_finite_values_have_a_value(count: int) -> None:
    assert run_value([1.5e308] * count + [1.0]) == 1.5e308


def bartels(values: Sequence[float]) -> float:
    """Return the p-value of the rank von Neumann ratio by its definition (Bartels 1982, normal approximation)."""
    ranks, n = scipy.stats.rankdata(values), len(values)
    mean = sum(ranks) / n
    ratio = sum((b - a) ** 2 for a, b in itertools.pairwise(ranks)) / sum((each - mean) ** 2 for each in ranks)
    variance = 4 * (n - 2) * (5 * n**2 - 2 * n - 9) / (5 * n * (n + 1) * (n - 1) ** 2)
    return float(scipy.stats.norm.cdf((ratio - 2) / math.sqrt(variance)))


@pytest.mark.parametrize("n", [10, 11, 25, 100])
@pytest.mark.parametrize("most", [3, 10**6])
def test_the_dependence_test_is_that_of_bartels_with_mean_ranks_of_ties(n: int, most: int) -> None:
    for seed in range(5):
        values = np.random.default_rng(seed).integers(0, most, n).astype(float)
        assert dependence_p_value(values) == pytest.approx(bartels(values.tolist()), rel=1e-9)


def test_ends_of_proportions() -> None:
    assert 0.0 <= wilson(0, 10)[0] < 1e-15 and 1 - 1e-15 < wilson(10, 10)[1] <= 1.0
    assert wilson(0, 10)[1] == pytest.approx(1.959963984540054**2 / (10 + 1.959963984540054**2))
    assert wilson(3, 10, 0.99) == pytest.approx(
        tuple(scipy.stats.binomtest(3, 10).proportion_ci(0.99, method="wilson")), rel=1e-9
    )
    assert binomial_tail(0, 7, 0.3) == pytest.approx(1.0) and binomial_tail(7, 7, 0.5) == 0.5**7


# Two estimates


@pytest.mark.parametrize("n", [1, 2, 6, 20])
def test_equal_sets_have_the_p_value_1(n: int) -> None:
    values = np.random.default_rng(n).normal(0, 1, n)
    one, other = SignedRank(values, QUANTUM), SignedRank(values, QUANTUM)
    assert difference_p_value(one, other) == 1.0


def test_one_difference_has_the_p_value_1_and_far_sets_the_smallest_level() -> None:
    one = SignedRank(np.array([5.0]), QUANTUM)
    assert difference_p_value(one, KnownCentre(0.0)) == difference_p_value(KnownCentre(0.0), one) == 1.0
    many = SignedRank(np.linspace(1.0, 1.01, 60), QUANTUM)
    far = KnownCentre(100.0)
    assert difference_p_value(many, far) == 1e-12
    few = SignedRank(np.linspace(1.0, 1.01, 10), QUANTUM)
    assert difference_p_value(many, far) < difference_p_value(few, far) == 2.0**-9


# Student's distribution


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 10, 29, 30, 89, 199, 2000])
@pytest.mark.parametrize("alpha", [0.9, 0.5, 0.1, 0.05, 0.01, 1e-4, 1e-8])
def test_quantiles_of_student_equal_those_of_scipy(freedom: int, alpha: float) -> None:
    assert student_quantile(freedom, alpha) == pytest.approx(scipy.stats.t.isf(alpha / 2, freedom), rel=1e-8)


@pytest.mark.parametrize("freedom", [5.0, 12.5, 100.0])
@pytest.mark.parametrize("t", [0.0, 0.5, -1.7, 3.9])
def test_wallaces_approximation(freedom: float, t: float) -> None:
    expected = 2 * scipy.stats.norm.sf(
        math.sqrt(freedom * math.log(1 + t * t / freedom)) * (8 * freedom + 1) / (8 * freedom + 3)
    )
    assert student_tail(t, freedom) == pytest.approx(expected, rel=1e-12)
    assert student_tail(t, freedom) == pytest.approx(2 * scipy.stats.t.sf(abs(t), freedom), rel=0.04)


# The test of predecessors


def test_normal_scores_of_equal_values_are_those_of_the_mean_rank() -> None:
    inverse = scipy.stats.norm.ppf
    assert normal_scores(np.array([3.0, 1.0, 2.0])).tolist() == pytest.approx(
        [inverse(each) for each in (0.75, 0.25, 0.5)]
    )
    found = normal_scores(np.array([5.0, 1.0, 5.0, 7.0, 5.0])).tolist()
    assert found == pytest.approx([inverse(each / 6) for each in (3, 1, 3, 5, 3)])


def test_262144_runs_are_drawn_and_16_orders_at_least() -> None:
    assert [draws_of(runs) for runs in (4098, 10_000, 262_144 // 17, 262_144 // 16, 10**6)] == [64, 27, 18, 16, 16]


def randomised(blocks: int, count: int, cycles: int, carry: float) -> float:
    """Return the p-value over new draws of the orders, of values in which treatment 0 leaves something behind for treatment 1."""
    random = np.random.default_rng(blocks + count)
    order = np.array([random.permutation(count) for _ in range(blocks)])
    before = np.concatenate([[-1], order[:-1, -1]])
    runs = RunOrder(order, before, cycles, 1 if cycles > 1 else 0)
    values = random.normal(0, 1, order.shape) + carry * ((order == 1) & (runs.previous == 0))
    valid = random.random(order.shape) > 0.05
    return runs.randomised_p_value(normal_scores(values.ravel()).reshape(order.shape), valid, 0, 1)


FIGURES = {
    (15, 2, 1, 0.0): 0.46849593,
    (15, 2, 1, 2.0): 0.022497988,
    (40, 2, 1, 0.3): 0.66933067,
    (40, 2, 1, -0.7): 0.036168485,
    (40, 3, 1, 0.7): 0.090909091,
    (40, 2, 2, 0.5): 0.53846154,
    (41, 3, 6, -0.8): 0.21578422,
    (2100, 2, 1, 0.1): 0.029635941,
    (2100, 2, 2, 0.1): 0.02667511,
    (1400, 3, 1, -0.1): 0.021907758,
    (1400, 3, 6, -0.1): 0.02199244,
    (1400, 3, 3, 0.0): 0.31036618,
}


@pytest.mark.slow
@pytest.mark.parametrize("key", FIGURES)
def test_p_values_of_fixed_draws(key: tuple[int, int, int, float]) -> None:
    assert randomised(*key) == pytest.approx(FIGURES[key], rel=1e-4)


def test_a_value_that_never_changes_has_the_p_value_1() -> None:
    order = np.array([[0, 1], [1, 0]] * 10)
    runs = RunOrder(order, np.concatenate([[-1], order[:-1, -1]]))
    valid = np.ones(order.shape, dtype=np.bool_)
    assert runs.randomised_p_value(np.zeros(order.shape), valid, 0, 1) == 1.0


@pytest.mark.parametrize("n", [201, 202, 333])
def test_no_value_of_the_statistic_is_as_rare_as_the_smallest_levels(n: int) -> None:
    assert critical(n, 1e-200) == 0
    for count in (0, 50, 5000):
        level = 2 * tail(n, count)
        assert (critical(n, level), critical(n, math.nextafter(level, 0))) == (count + 1, count)
