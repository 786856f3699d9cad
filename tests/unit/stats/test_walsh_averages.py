# SPDX-License-Identifier: MIT OR Apache-2.0
"""Selection among pair sums without storing them equals selection from the sorted sums."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapstone.core.stats import signed_rank
from swapstone.core.stats.signed_rank import PairSums


def shapes(random: np.random.Generator, name: str, n: int) -> np.ndarray:
    drawn: np.ndarray = {
        "normal": random.normal(0, 1e9, n),
        "heavy": random.standard_t(0.7, n) * 1e6,
        "ties": random.integers(-3, 4, n),
        "one value": np.full(n, 17),
        "two far values": random.choice([-(10**14), 10**14], n),
        "one far away": np.r_[random.integers(0, 5, n - 1), 2**50],
    }[name]
    clipped: np.ndarray = np.clip(drawn, -(2**51), 2**51).astype(np.int64)
    return clipped


@pytest.mark.parametrize("name", ["normal", "heavy", "ties", "one value", "two far values", "one far away"])
@pytest.mark.parametrize("n", [257, 900])
@pytest.mark.parametrize("limit", [50, signed_rank.ENUMERATE_LIMIT])
def test_selection_and_counts_equal_those_of_the_sorted_sums(
    name: str, n: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signed_rank, "ENUMERATE_LIMIT", limit)
    values = shapes(np.random.default_rng(n), name, n)
    full = np.sort(np.add.outer(values, values)[np.triu_indices(values.size)])
    pairs = PairSums(values)
    assert pairs.count == full.size
    for rank in (1, 2, 77, full.size // 3, full.size // 2, full.size - 1, full.size):
        assert pairs.select(rank) == full[rank - 1]
        for limit_value in (full[rank - 1] - 1, full[rank - 1]):
            assert pairs.at_most(int(limit_value)) == np.searchsorted(full, limit_value, side="right")


@pytest.mark.parametrize("name", ["normal", "heavy"])
def test_no_more_sums_than_the_limit_are_listed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory would grow with the square of the number of values otherwise. Ties could exceed it: a sum that occurs more often."""
    monkeypatch.setattr(signed_rank, "ENUMERATE_LIMIT", 50)
    pairs = PairSums(shapes(np.random.default_rng(5), name, 900))
    listed: list[int] = []
    between = PairSums._between

    def counted(self: PairSums, low: int, high: int) -> object:
        found = between(self, low, high)
        listed.append(found.size)
        return found

    monkeypatch.setattr(PairSums, "_between", counted)
    for rank in (1, 2, 77, pairs.count // 3, pairs.count // 2, pairs.count):
        pairs.select(rank)
    assert listed
    assert max(listed) <= 50


@given(st.lists(st.integers(-(2**50), 2**50), min_size=1, max_size=12), st.data())
def test_selection_from_few_values_equals_that_of_the_sorted_sums(values: list[int], data: st.DataObject) -> None:
    expected = sorted(a + b for i, a in enumerate(values) for b in values[i:])
    pairs = PairSums(np.array(values))
    rank = data.draw(st.integers(1, len(expected)))
    assert pairs.select(rank) == expected[rank - 1]


@pytest.mark.parametrize("rank", [0, 4])
def test_a_rank_out_of_range_fails_an_assertion(rank: int) -> None:
    with pytest.raises(AssertionError, match="of 3"):
        PairSums(np.array([1, 2])).select(rank)


@pytest.mark.parametrize("n", [30, 250, 1000])
def test_memory_that_stays_is_proportional_to_the_number_of_values(n: int) -> None:
    """An analysis holds the values of all its rows at once. All sums of 1000 values take 4 MB."""
    random = np.random.default_rng(n)
    PairSums(random.integers(0, 10**9, n)).select(1)  # what is kept once
    tracemalloc.start()
    try:
        kept = [PairSums(random.integers(0, 10**9, n)) for _ in range(40)]
        for pairs in kept:
            for rank in (1, pairs.count // 2, pairs.count // 2 + 1, pairs.count):
                pairs.select(rank)
            pairs.at_most(0)
        stays, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    recent = 8 * 8 * n * (n + 1) // 2 if n <= signed_rank.FULL_LIMIT else 0
    assert stays < recent + len(kept) * (40 * n + 4000)
