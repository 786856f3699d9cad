# SPDX-License-Identifier: MIT OR Apache-2.0
"""The test of predecessors against a second implementation with plain loops, and its level and power."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Sequence

import numpy as np
import pytest
import scipy  # whose stats are imported when a test uses them, not when tests are collected
from numpy.typing import NDArray

from swapstone.core.stats import PredecessorTest, RunOrder, predecessor_test
from swapstone.core.stats.predecessor_test import student_tail

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def drawn_order(random: np.random.Generator, blocks: int, count: int) -> Ints:
    return np.array([random.permutation(count) for _ in range(blocks)])


def predecessors(order: Ints) -> Ints:
    """Return the treatment before each block; none before the first."""
    return np.concatenate([[-1], order[:-1, -1]])


def values_of(
    random: np.random.Generator, order: Ints, *, carry: float = 0.0, heavy: bool = False, missing: int = 0
) -> Floats:
    """Return values with levels of treatments, drift, effects of positions, and what treatment 0 leaves behind for treatment 1."""
    before = np.concatenate([predecessors(order)[:, None], order[:, :-1]], axis=1)
    noise = random.standard_t(2, order.shape) if heavy else random.normal(size=order.shape)
    spread = np.array([1.0, 2.0, 0.5, 1.5])[order]
    drift = np.linspace(0, 8, len(order))[:, None]
    found = 100 + 10.0 * order + drift + np.array([3.0, 0.0, -1.0, 2.0])[: order.shape[1]] + spread * noise
    found = np.asarray(found + carry * ((order == 1) & (before == 0)), dtype=np.float64)
    places = random.choice(found.size, missing, replace=False)
    found.ravel()[places] = math.nan
    return found


@dataclasses.dataclass
class Reference:
    """The same computation with loops: effect, standard error, means, share, p-value of the second test, and scores."""

    effect: float
    error: float
    means: list[float]
    share: float
    welch: float
    counts: list[int]
    scores: dict[tuple[int, int], float]


def reference(values: Floats, order: Ints, a: int, b: int) -> Reference:
    blocks, count = values.shape
    places = [(i, p) for i in range(blocks) for p in range(count)]
    finite = {place for place in places if math.isfinite(values[place])}
    before = predecessors(order)
    previous = {(i, p): int(order[i, p - 1] if p else before[i]) for i, p in places}
    of = {t: [place for place in places if order[place] == t and place in finite] for t in range(count)}
    median = {t: statistics.median(values[place] for place in of[t]) for t in of}
    centred = {place: values[place] - median[order[place]] for place in finite}
    weight = {t: 1 / max(statistics.median(abs(centred[place]) for place in of[t]), 1e-6) ** 2 for t in of}

    def mean(chosen: Sequence[tuple[int, int]], what: dict[tuple[int, int], float]) -> float:
        total = sum(weight[order[place]] for place in chosen)
        return sum(weight[order[place]] * what[place] for place in chosen) / total if total else 0.0

    def without_shared(what: dict[tuple[int, int], float]) -> dict[tuple[int, int], float]:
        level = [mean([place for place in finite if abs(place[0] - i) <= 2], what) for i in range(blocks)]
        left = {place: what[place] - level[place[0]] for place in finite}
        position = [mean([place for place in finite if place[1] == p], left) for p in range(count)]
        return {place: left[place] - position[place[1]] for place in finite}

    cells: list[list[tuple[int, int]]] = [[], [], [], []]
    for place in places:
        if place in finite and previous[place] >= 0 and order[place] in (a, b):
            first = 0 if order[place] == a else 2
            cells[first + (previous[place] == (b if first == 0 else a))].append(place)
    effects = dict.fromkeys(finite, 0.0)
    residuals = centred
    for _ in range(6):
        shared = without_shared({place: centred[place] - effects[place] for place in finite})
        residuals = {place: shared[place] + effects[place] for place in finite}
        for cell in cells:
            middle = statistics.fmean(residuals[place] for place in cell)
            effects |= dict.fromkeys(cell, middle)
    means = [statistics.fmean(residuals[place] for place in cell) for cell in cells]
    counts = [len(cell) for cell in cells]
    variances, freedoms = [], []
    for one, other in ((0, 1), (2, 3)):
        squares = sum((residuals[place] - means[each]) ** 2 for each in (one, other) for place in cells[each])
        freedoms.append(counts[one] + counts[other] - 2)
        variances.append(squares / freedoms[-1] / (1 - 1 / (5 * count)) * (1 / counts[one] + 1 / counts[other]))
    welch = sum(variances) ** 2 / sum(v * v / f for v, f in zip(variances, freedoms, strict=True))
    plain = without_shared(centred)
    scores: dict[tuple[int, int], float] = {}
    for mine in of.values():
        ranks = scipy.stats.rankdata([plain[place] for place in mine])
        scores |= dict(zip(mine, scipy.stats.norm.ppf(ranks / (len(mine) + 1)), strict=True))
    pair = [place for cell in cells for place in cell]
    return Reference(
        effect=(means[3] - means[2]) - (means[1] - means[0]),
        error=math.sqrt(sum(variances)),
        means=[median[a] + means[0], median[a] + means[1], median[b] + means[2], median[b] + means[3]],
        share=sum(previous[place] != order[place] for place in pair) / len(pair),
        welch=welch,
        counts=counts,
        scores=scores,
    )


def statistic(scores: dict[tuple[int, int], float], order: Ints, before: Ints) -> float | None:
    """Return T of scores for an assignment of treatments 0 and 1 to places; None with an empty mean."""
    cells: list[list[float]] = [[], [], [], []]
    for (i, p), score in scores.items():
        previous = order[i, p - 1] if p else before[i]
        if previous >= 0 and order[i, p] in (0, 1):
            first = 2 * int(order[i, p])
            cells[first + (previous == 1 - order[i, p])].append(score)
    if not all(cells):
        return None
    means = [statistics.fmean(cell) for cell in cells]
    return (means[3] - means[2]) - (means[1] - means[0])


def result_of(values: Floats, order: Ints, a: int = 0, b: int = 1, cycles: int = 1) -> PredecessorTest:
    found = RunOrder(order, predecessors(order), cycles).test(values, a, b)
    assert found is not None
    return found


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("missing", [0, 3])
@pytest.mark.parametrize("seed", [1, 2])
def test_effect_error_and_means_are_those_of_the_second_implementation(count: int, missing: int, seed: int) -> None:
    random = np.random.default_rng(10 * count + seed)
    order = drawn_order(random, 20, count)
    values = values_of(random, order, carry=4.0, missing=missing)
    found, expected = result_of(values, order), reference(values, order, 0, 1)
    assert found.effect == pytest.approx(expected.effect, rel=1e-9)
    assert found.standard_error == pytest.approx(expected.error, rel=1e-9)
    assert found.means == pytest.approx(expected.means, rel=1e-9)
    assert found.share == pytest.approx(expected.share)


@pytest.mark.parametrize("a", [0, 1, 2])
def test_exchanging_the_treatments_mirrors_the_result(a: int) -> None:
    random = np.random.default_rng(4)
    order = drawn_order(random, 16, 3)
    values, b = values_of(random, order, carry=2.0), (a + 1) % 3
    one, other = result_of(values, order, a, b), result_of(values, order, b, a)
    assert other.effect == pytest.approx(-one.effect)
    assert other.means == (*one.means[2:], *one.means[:2])
    assert (one.standard_error, one.share) == pytest.approx((other.standard_error, other.share))
    assert one.means == pytest.approx(reference(values, order, a, b).means)


def test_without_a_whole_cycle_only_the_second_test_counts() -> None:
    """The orders of an incomplete cycle are not drawn anew, so that the first test has nothing to compare with."""
    random = np.random.default_rng(6)
    order = drawn_order(random, 14, 2)
    for carry in (0.0, 1.0, 3.0):
        values = values_of(random, order, carry=carry)
        expected = reference(values, order, 0, 1)
        second = 2 * student_tail(expected.effect / expected.error, expected.welch)
        assert result_of(values, order, cycles=20).p_value == pytest.approx(min(1.0, second), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "carry"), [(2, 0.0), (2, 1.2), (3, 1.2)])
def test_the_first_test_compares_with_new_draws_of_the_orders(count: int, carry: float) -> None:
    """Of heavy-tailed values the scores decide. The p-value agrees with 4000 orders that are drawn here, within 15 %."""
    random = np.random.default_rng(8)
    order = drawn_order(random, 20, count)
    values = values_of(random, order, carry=carry, heavy=True)
    expected = reference(values, order, 0, 1)
    observed = statistic(expected.scores, order, predecessors(order))
    assert observed is not None
    drawn = []
    for _ in range(4000):
        whole = drawn_order(random, 21, count)
        drawn.append(statistic(expected.scores, whole[1:], whole[:-1, -1]))
    distribution = np.array([each for each in drawn if each is not None])
    distance = abs(observed - distribution.mean())
    first = max(math.erfc(distance / distribution.std() / math.sqrt(2)), 0.0)
    second = student_tail(expected.effect / expected.error, expected.welch)
    p_value = result_of(values, order).p_value
    farther = float((np.abs(distribution - distribution.mean()) >= distance).mean())
    assert p_value <= 2 * second * (1 + 1e-9)
    if first < second:
        assert 0.85 * min(first, farther) <= p_value / 2 <= 1.2 * max(first, farther) + 0.002


def test_draws_whose_statistic_is_the_observed_one_count() -> None:
    """Of one value that is not 0, T has few values, which many of the 2^7 orders share. The draws have single precision."""
    scores = np.zeros((6, 2))
    scores[1, 1] = 0.7
    of_places = {(i, p): float(scores[i, p]) for i, p in itertools.product(range(6), range(2))}
    orders = [np.array([(one, 1 - one) for one in first]) for first in itertools.product((0, 1), repeat=7)]
    of_orders = [statistic(of_places, order[1:], order[:-1, 1]) for order in orders]
    observed = np.array([(one, 1 - one) for one in (1, 1, 0, 1, 0, 1, 1)])
    distance = statistic(of_places, observed[1:], observed[:-1, 1])
    assert distance is not None
    share = statistics.fmean(abs(each) >= distance * (1 - 1e-9) for each in of_orders if each is not None)
    p_value = RunOrder(observed[1:], observed[:-1, 1]).randomised_p_value(scores, np.full((6, 2), True), 0, 1)
    assert p_value == pytest.approx(share, abs=0.05)


def pairs_of_orders(random: np.random.Generator) -> Ints:
    """Return 16 blocks of two treatments, in which each cycle of two blocks has both orders."""
    return np.array([row for first in drawn_order(random, 8, 2) for row in (first, first[::-1])])


LONG = (pytest.mark.slow, pytest.mark.exhaustive)


@pytest.mark.parametrize(("cycles", "repeats", "most"), [(1, 200, 19), pytest.param(2, 25, 5, marks=LONG)])
def test_level_and_power(cycles: int, repeats: int, most: int) -> None:
    """At 5 % without carry-over 200 tests have 10 hits on average; 19 are 3 standard deviations above, and so are 5 of 25."""
    random = np.random.default_rng(cycles)
    hits = found = 0
    for _ in range(repeats):
        hits += result_of(values_of(random, order := pairs_of_orders(random)), order, cycles=cycles).p_value <= 0.05
    for _ in range(20):
        found += result_of(values_of(random, order := pairs_of_orders(random), carry=6.0), order).p_value <= 0.01
    assert hits <= most
    assert found >= 18


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "cycles", "first", "missing"), [(2, 1, 0, 150), (4, 1, 0, 0), (2, 2, 0, 0), (3, 6, 4, 150)]
)
def test_the_deviation_for_many_runs_is_that_of_all_draws(count: int, cycles: int, first: int, missing: int) -> None:
    """Of 1000 draws it has a standard error of 2 %, so 7 % are three standard deviations of the quotient."""
    random = np.random.default_rng(count)
    order = drawn_order(random, 300, count)
    if cycles > 1:  # each cycle has the same orders, in any order
        cycle = np.array(list(itertools.permutations(range(count))))
        order = np.array([cycle[(each + first) % cycles] for each in range(300)])
    values = random.normal(size=order.shape)
    values.ravel()[random.choice(values.size, missing, replace=False)] = math.nan
    valid = np.isfinite(values)
    scores = np.where(valid, values, 0.0)
    subject = RunOrder(order, predecessors(order), cycles, first)
    present = valid.astype(np.float64)
    drawn = subject._statistics(scores.ravel(), present.ravel(), 0, 1)
    assert subject._deviation(scores, present) == pytest.approx(drawn.std(), rel=0.07)
    assert first or abs(drawn.mean()) < 0.15 * drawn.std()


def test_the_draws_for_many_runs_keep_the_cycles() -> None:
    """In a cycle of both orders of two treatments, the second block begins with the treatment that ended the first one."""
    order = np.array([[0, 1], [1, 0]] * 50)
    follows_the_other = (1, 3)  # of the four means
    codes = RunOrder(order, predecessors(order), 2)._codes
    assert not np.isin(codes[:, 1::2, 0], follows_the_other).any()
    assert np.isin(codes[:, 2::2, 0], follows_the_other).any()
    assert np.isin(RunOrder(order, predecessors(order))._codes[:, 1::2, 0], follows_the_other).any()


@pytest.mark.parametrize("carry", [0.5, 0.9])
def test_many_runs_have_the_p_value_of_fewer_draws(carry: float, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(4)
    order = drawn_order(random, 1000, 2)
    values = values_of(random, order, carry=carry, heavy=True)
    every = result_of(values, order)
    monkeypatch.setattr(predecessor_test, "LARGEST_DRAWN", 1000)
    few = result_of(values, order)
    assert few.effect == every.effect and few.p_value != every.p_value
    assert math.log(few.p_value) == pytest.approx(math.log(every.p_value), rel=0.15, abs=0.1)


@pytest.mark.parametrize(("kept", "result"), [(2, True), (1, False)])
def test_each_mean_needs_two_values(kept: int, result: bool) -> None:
    order = np.array([[0, 1], [1, 0]] * 8)
    values = 100 + np.random.default_rng(3).normal(size=order.shape)
    # Orders that alternate: 0 after none, 1 after 0, 1 after 1, 0 after 1, 0 after 0, ...
    after_itself = [i for i in range(1, 16) if order[i, 0] == order[i - 1, 1] == 1]
    for i in after_itself[kept:]:
        values[i, 0] = math.nan
    assert (RunOrder(order, predecessors(order)).test(values, 0, 1) is not None) == result


def test_values_that_do_not_vary_give_no_test() -> None:
    order = drawn_order(np.random.default_rng(1), 12, 2)
    assert RunOrder(order, predecessors(order)).test(np.full(order.shape, 5.0), 0, 1) is None
    assert RunOrder(order, predecessors(order)).test(np.full(order.shape, math.nan), 0, 1) is None


@pytest.mark.parametrize("freedom", [5, 9.5, 30, 200])
@pytest.mark.parametrize("t", [0.1, 1.0, 2.5, 4.0])
def test_the_approximation_of_students_tail(freedom: float, t: float) -> None:
    exact = 2 * scipy.stats.t.sf(t, freedom)
    assert student_tail(t, freedom) == pytest.approx(exact, rel=0.02 if t < 3 else 0.04)
    assert student_tail(-t, freedom) == student_tail(t, freedom)


def test_no_difference_has_the_p_value_1() -> None:
    assert student_tail(0.0, 10) == 1.0
