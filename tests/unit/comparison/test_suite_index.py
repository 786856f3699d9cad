# SPDX-License-Identifier: MIT OR Apache-2.0
"""The index of a suite whose workloads lack pairs in some blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from swapstone.comparison.rows import Row
from swapstone.comparison.suite_index import index_estimates
from swapstone.model import Variant
from swapstone.stats import LOG_QUANTUM, SignedRank
from tests.unit.comparison.conftest import METRICS
from tests.unit.comparison.examples import workload

BASELINE, CANDIDATE = Variant(levels=(("libc", "glibc"),)), Variant(levels=(("libc", "musl"),))


def row(name: str, ratios: Mapping[int, float]) -> Row:
    """Return a row of elapsed time with the given log ratio in each block."""
    after = np.exp(np.array([ratios[block] for block in sorted(ratios)]))
    one = Row(
        group=("suite", name, "idle"),
        workload=workload(name, "wall"),
        metric=METRICS["wall"],
        baseline=BASELINE,
        candidate=CANDIDATE,
        null=False,
        blocks=tuple(sorted(ratios)),
        before=np.ones(len(ratios)),
        after=after,
        constant=False,
        exclusion=None,
    )
    assert one.inference is not None
    return one


def rows(ratios: NDArray[np.float64]) -> list[Row]:
    """Return a row for each line of log ratios, shape (workloads, blocks); NaN is a missing pair."""
    return [
        row(f"w{number}", {block: x for block, x in enumerate(line, start=1) if not np.isnan(x)})
        for number, line in enumerate(ratios)
    ]


def inference(ratios: Sequence[Sequence[float]] | NDArray[np.float64]) -> SignedRank:
    """Return the inference on the index of these log ratios."""
    (estimate,) = index_estimates(rows(np.array(ratios, dtype=float)))
    return estimate.inference


def gaps(*places: tuple[int, int], workloads: int = 4, blocks: int = 12, seed: int = 1) -> NDArray[np.float64]:
    """Return random log ratios that lack the pairs of the given (workload, block), counted from 0."""
    made = np.random.default_rng(seed).normal(0.1, 0.05, (workloads, blocks))
    for place in places:
        made[place] = np.nan
    return made


def test_one_missing_pair_costs_no_block() -> None:
    whole, one_missing = inference(gaps()), inference(gaps((0, 3)))
    assert (whole.n, one_missing.n) == (12, 12)
    assert one_missing.estimate() == pytest.approx(whole.estimate(), abs=0.01)


def test_the_mean_of_the_blocks_is_the_mean_of_the_workloads_means() -> None:
    # Of two workloads, one with 0.1 in 6 of 8 blocks, the other with 0.3 in all: each block's value is their mean, 0.2.
    steady = [[0.1, 0.1, np.nan, 0.1, 0.1, np.nan, 0.1, 0.1], [0.3] * 8]
    found = inference(steady)
    assert (found.n, found.estimate()) == (8, pytest.approx(0.2))


def test_a_workload_with_few_pairs_counts_as_the_few_that_it_has() -> None:
    # Its deviations are divided by the share of the blocks that it has, 3 of 4, so that the variance is that of three pairs.
    found = inference([[0.0, 0.3, 0.6, np.nan], [0.0, 0.0, 0.0, 0.0]])
    blocks = [(0.3 - 0.3 * 4 / 3) / 2, 0.15, (0.3 + 0.3 * 4 / 3) / 2, 0.15]
    interval = found.interval(0.2)  # of four values, from the lowest to the highest
    assert interval is not None
    assert (found.n, interval.low, interval.high) == (4, pytest.approx(min(blocks)), pytest.approx(max(blocks)))
    assert found.estimate() == pytest.approx(0.15)


def test_a_block_that_most_workloads_lack_is_left_out() -> None:
    assert inference(gaps((0, 3), (1, 3))).n == 12  # half of them have it
    assert inference(gaps((0, 3), (1, 3), (2, 3))).n == 11
    assert inference(gaps((0, 3), (1, 3), (2, 3), (3, 3))).n == 11


def test_of_a_workload_with_less_than_half_of_the_blocks_the_common_ones_count() -> None:
    assert inference(gaps(*((0, block) for block in range(6)))).n == 12
    assert inference(gaps(*((0, block) for block in range(7)))).n == 5


def test_complete_blocks_give_the_plain_mean_to_the_bit() -> None:
    made = gaps()
    plain = SignedRank(np.log(np.exp(made)).mean(axis=0), LOG_QUANTUM)
    found = inference(made)
    assert (found.estimate(), found.interval(0.05)) == (plain.estimate(), plain.interval(0.05))


def test_without_a_common_block_there_may_still_be_an_index() -> None:
    every_block_lacks_one = [(block % 4, block) for block in range(12)]
    assert inference(gaps(*every_block_lacks_one)).n == 12
    alternating = [[0.1, np.nan] * 6, [np.nan, 0.1] * 6, [0.1, np.nan] * 6]
    assert index_estimates(rows(np.array(alternating))) == []


@pytest.mark.parametrize("missing", [0, 2, 6, 10])
def test_the_interval_contains_the_true_index_as_often_as_it_should(missing: int) -> None:
    """600 simulated suites of 9 workloads and 20 blocks, two of which lack this many pairs: 95 % within 3 standard errors (2.7 %)."""
    random = np.random.default_rng(4)
    inside = 0
    for _ in range(600):
        ratios = random.normal(0, random.uniform(0.01, 0.3, (9, 1)), (9, 20))
        for line in ratios[:2]:
            line[random.permutation(20)[:missing]] = np.nan
        interval = inference(ratios).interval(0.05)
        assert interval is not None
        inside += interval.low <= 0 <= interval.high
    assert inside / 600 == pytest.approx(0.95, abs=0.027)


def test_workloads_keep_their_places_in_the_estimate() -> None:
    made: list[Any] = rows(gaps((0, 3)))
    (estimate,) = index_estimates(made)
    assert estimate.rows == made
    assert index_estimates([dataclasses.replace(made[0], exclusion=None)], fewest=2) == []
