# SPDX-License-Identifier: MIT OR Apache-2.0
"""The search of a sequence: what it finds, how much it measures, and what it does where values are missing."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Collection, Sequence

import pytest

from swapstone.parts.bisect.search import Search


class Searched:
    """A search of known values, of which some are missing; `least` is the difference that counts."""

    def __init__(
        self, values: Sequence[float], missing: Collection[int] = (), *, every: bool = False, least: float = 0.0
    ) -> None:
        self.measured: list[int] = []
        self.search = Search(
            lambda at: self.measured.append(at) or at not in missing,  # type: ignore[func-returns-value]
            lambda low, high: abs(values[low] - values[high]) > least,
            every=every,
        )
        self.steps = self.search.steps(0, len(values) - 1)


def _values(count: int, steps: Collection[int]) -> list[int]:
    return [sum(1 for step in steps if step <= at) for at in range(count + 1)]


@pytest.mark.parametrize(("count", "number", "most"), [(389, 5, 36), (1000, 1, 12), (1000, 20, 125), (40, 6, 23)])
def test_all_steps_are_found_with_few_measurements(count: int, number: int, most: float) -> None:
    """The mean number of measurements, with both ends, is below k log2(n / k) + k, and never more than a quarter above."""
    made = []
    for seed in range(40):
        steps = sorted(random.Random(seed).sample(range(1, count + 1), number))
        found = Searched(_values(count, steps))
        assert found.steps == [(step - 1, step) for step in steps]
        assert not found.search.left and len({*found.measured}) == len(found.measured)
        made.append(len(found.measured) + 2)
    formula = number * math.log2(count / number) + number
    assert statistics.fmean(made) < min(most, formula + 2) and max(made) < 1.25 * formula


def test_equal_ends_hide_steps_that_cancel() -> None:
    values = [0, 0, 0, 1, 1, 0, 0, 0, 0]
    hidden = Searched(values)
    assert (hidden.steps, hidden.measured, hidden.search.equal) == ([], [], [(0, 8)])
    whole = Searched(values, every=True)
    assert whole.steps == [(2, 3), (4, 5)] and sorted(whole.measured) == [*range(1, 8)] and not whole.search.equal


def test_neighbours_that_are_equal_hide_nothing() -> None:
    assert Searched([0, 0, 1]).search.equal == []


def test_a_step_among_missing_values_is_a_range() -> None:
    values = _values(16, (6, 12))
    found = Searched(values, (5, 6, 7))
    assert found.steps == [(4, 8), (11, 12)] and found.search.without >= {6}
    assert Searched([0, 1, 1, 1], (1, 2)).steps == [(0, 3)]
    assert Searched([0, 1, 1, 0], (1, 2), every=True).steps == []


def test_many_missing_values_in_the_middle_cost_few_measurements() -> None:
    found = Searched(_values(400, (20,)), range(100, 300))
    assert found.steps == [(19, 20)] and len(found.measured) < 20
    assert len({*found.measured}) == len(found.measured), "none is tried twice"


def test_a_difference_of_which_no_half_counts_is_a_range() -> None:
    found = Searched([0, 1, 2, 3, 4, 9], least=3)
    assert found.steps == [(4, 5)]
    assert Searched([0, 1, 2, 3, 4], least=3).steps == [(0, 4)]


def test_what_may_still_be_measured_never_grows() -> None:
    left: list[int] = []
    values = _values(64, (9, 40))
    search = Search(
        lambda at: left.append(len(search.left)) or at not in {30, 31, 33},  # type: ignore[func-returns-value]
        lambda low, high: values[low] != values[high],
        every=False,
    )
    search.steps(0, 64)
    assert left == sorted(left, reverse=True) and left[0] == 62 and not search.left
