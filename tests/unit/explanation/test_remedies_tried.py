# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which share of a gap a remedy closes beyond its placebo, and what is printed of it."""

from __future__ import annotations

import random

import msgspec
import pytest

from swapstone.parts.explain.explanation.remedy_gaps import LEAST_ROUNDS, remedy_shares
from swapstone.parts.explain.model.explanation import RemedyRuns


def tried(
    fast: float, slow: float, placebo: float, remedied: float, *, rounds: int = 16, noise: float = 0.02, seed: int = 5
) -> RemedyRuns:
    chance = random.Random(seed)
    times = [
        tuple(middle * chance.gauss(1, noise) for _ in range(rounds)) for middle in (fast, slow, placebo, remedied)
    ]
    faster, slower, without, with_it = times
    return RemedyRuns(
        name="a remedy", text="it does", faster=faster, slower=slower, placebo=without, remedied=with_it, calls=4200
    )


def test_a_remedy_that_closes_most_of_the_gap_is_confirmed() -> None:
    (found,) = remedy_shares((tried(10.0, 30.0, 30.0, 12.0),))
    assert found.share == pytest.approx(0.9, abs=0.05) and found.placebo == pytest.approx(0, abs=0.05)
    assert found.interval is not None and 0.8 < found.interval[0] < 0.9 < found.interval[1] and found.confirmed
    assert found.text.startswith("a remedy: it does. Confirmed: it closes ")
    assert "%, 16 rounds, acting on 4,200 calls): " in found.text


def test_times_with_a_remedy_with_its_placebo_and_without_are_printed() -> None:
    (found,) = remedy_shares((tried(4e6, 37e6, 26e6, 6e6, noise=0.0),))
    assert found.text.endswith("acting on 4,200 calls): 6 ms with it, 26 ms with its placebo, 37 ms without.")


def test_a_remedy_that_does_no_more_than_its_placebo_is_not_confirmed() -> None:
    """The defect that a placebo is for: an empty object closes 36 % of a gap."""
    (found,) = remedy_shares((tried(10.0, 30.0, 22.8, 22.8),))
    assert found.placebo == pytest.approx(0.36, abs=0.05) and found.share == pytest.approx(0, abs=0.05)
    assert found.interval is not None and found.interval[0] < 0 < found.interval[1] and not found.confirmed
    assert "No effect is shown: " in found.text and "Confirmed" not in found.text


def test_one_that_widens_the_gap() -> None:
    (found,) = remedy_shares((tried(10.0, 30.0, 30.0, 50.0),))
    assert "It widens the gap by 1" in found.text and not found.confirmed


def test_intervals_of_all_that_were_tried_hold_together() -> None:
    """One interval at 95 % misses zero on the upper side in one of forty."""
    nothing = [tried(10.0, 13.0, 13.0, 13.0, seed=seed) for seed in range(90, 110)]
    assert [remedy_shares((runs,))[0].confirmed for runs in nothing].count(True) == 3
    assert not any(found.confirmed for found in remedy_shares(nothing))


def test_those_that_are_confirmed_come_first_and_all_are_there() -> None:
    failed = RemedyRuns(name="a", text="it does", problem="the program calls none of: fsync.", calls=0)
    nothing, found = (
        msgspec.structs.replace(tried(10, 30, 30, end), name=name) for name, end in (("b", 30), ("c", 12))
    )
    shares = remedy_shares((failed, nothing, found))
    assert [each.name for each in shares] == ["c", "b", "a"]
    assert shares[2].text == "a: it does. Not measured: the program calls none of: fsync." and shares[2].calls == 0


def test_a_gap_that_these_runs_do_not_show_is_not_closed() -> None:
    for runs in (tried(30.0, 10.0, 10.0, 5.0), tried(10.0, 10.3, 10.3, 9.0, noise=0.3)):
        (found,) = remedy_shares((runs,))
        assert (found.share, found.interval, found.confirmed) == (None, None, False)
        assert "Not known: in 16 rounds the gap between both variants is not larger than its error." in found.text


@pytest.mark.parametrize(
    "runs",
    [
        msgspec.structs.replace(tried(10.0, 30.0, 30.0, 12.0), placebo=()),  # of an earlier version
        msgspec.structs.replace(tried(10.0, 30.0, 30.0, 12.0), slower=(30.0,) * 5),  # forged
        tried(10.0, 30.0, 30.0, 12.0, rounds=LEAST_ROUNDS - 1),
    ],
)
def test_runs_without_a_placebo_or_with_too_few_rounds_are_no_result(runs: RemedyRuns) -> None:
    (found,) = remedy_shares((runs,))
    assert (found.share, found.interval, found.confirmed) == (None, None, False)
    assert "Not known: it was not measured beside a placebo, or in too few rounds." in found.text
