# SPDX-License-Identifier: MIT OR Apache-2.0
"""The index of a suite whose workloads lack pairs in some blocks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from swapstone.core.comparison.rows import Row
from swapstone.core.comparison.suite_index import index_estimates
from swapstone.core.model import Variant
from swapstone.core.stats import LOG_QUANTUM, KnownCentre, MeanOfMeans, SignedRank
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
        blocks=np.array(sorted(ratios)),
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


def inference(ratios: NDArray[np.float64]) -> SignedRank | MeanOfMeans:
    """Return the inference on the index of these log ratios."""
    (estimate,) = index_estimates(rows(ratios))
    assert not isinstance(estimate.inference, KnownCentre)
    return estimate.inference


def gaps(*places: tuple[int, int], workloads: int = 4, blocks: int = 12) -> NDArray[np.float64]:
    """Return random log ratios that lack the pairs of the given (workload, block), counted from 0."""
    made = np.random.default_rng(1).normal(0.1, 0.05, (workloads, blocks))
    for place in places:
        made[place] = np.nan
    return made


def same(found: SignedRank | MeanOfMeans, expected: SignedRank | MeanOfMeans) -> bool:
    """Return whether both are of one kind, and have the same number of values, estimate and interval."""
    return type(found) is type(expected) and (found.n, found.estimate(), found.interval(0.05)) == (
        expected.n,
        expected.estimate(),
        expected.interval(0.05),
    )


def test_the_blocks_that_all_workloads_have_count() -> None:
    made = gaps((0, 3), (1, 3), (2, 5), blocks=14)
    common = np.delete(np.log(np.exp(made)), (3, 5), axis=1)
    assert same(inference(made), SignedRank(common.mean(axis=0), LOG_QUANTUM))


@pytest.mark.parametrize(
    ("blocks", "lacking", "fewest", "common", "means"),
    [
        (40, 20, 35, 20, False),
        (40, 22, 34, 18, False),
        (40, 24, 34, 16, True),  # less than half
        (15, 3, 14, 12, False),
        (15, 4, 14, 11, True),  # fewer than 12
    ],
)
def test_with_few_common_blocks_the_means_of_the_workloads_count(
    blocks: int, lacking: int, fewest: int, common: int, means: bool
) -> None:
    made = gaps(*((block % 4, block) for block in range(lacking)), blocks=blocks)
    assert int((~np.isnan(made)).sum(axis=1).min()) == fewest
    assert int((~np.isnan(made)).all(axis=0).sum()) == common
    found = inference(made)
    assert isinstance(found, MeanOfMeans) is means
    if means:
        assert found.n == fewest
        assert found.estimate() == pytest.approx(float(np.nanmean(made, axis=1).mean()))


def test_few_blocks_that_all_workloads_have_count_if_no_pair_is_lacking() -> None:
    """Or if the workload with the fewest pairs lacks the same blocks as all."""
    made = gaps(blocks=8)
    assert same(inference(made), SignedRank(np.log(np.exp(made)).mean(axis=0), LOG_QUANTUM))
    lacking = gaps((0, 3), (1, 3), blocks=8)
    common = np.delete(np.log(np.exp(lacking)), 3, axis=1)
    assert same(inference(lacking), SignedRank(common.mean(axis=0), LOG_QUANTUM))


def test_an_index_of_a_workload_with_less_than_six_pairs_is_of_the_common_blocks() -> None:
    few = gaps(*((0, block) for block in range(5, 12)), *((1, block) for block in range(4)))
    assert inference(few).n == 1
    six = gaps(*((0, block) for block in range(6, 12)), *((1, block) for block in range(4)))
    assert same(inference(six), MeanOfMeans(np.log(np.exp(six))))


def test_without_a_common_block_there_may_still_be_an_index() -> None:
    alternating = np.array([[0.1, np.nan] * 6, [np.nan, 0.1] * 6])
    assert inference(alternating).estimate() == pytest.approx(0.1)
    assert index_estimates(rows(alternating[:, :10])) == []


def test_an_estimate_names_its_workloads() -> None:
    made = rows(gaps((0, 3)))
    (estimate,) = index_estimates(made)
    assert estimate.rows == made
    assert index_estimates(made[:1], fewest=2) == []
