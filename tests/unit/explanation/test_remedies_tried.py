# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which share of a gap a remedy closes, and what is printed of it."""

from __future__ import annotations

import random

import pytest

from swapstone.parts.explain.explanation.remedy_gaps import LEAST_ROUNDS, closed_gap, remedy_text
from swapstone.parts.explain.model.explanation import RemedyRuns


def tried(fast: float, slow: float, remedied: float, rounds: int = 12, noise: float = 0.02) -> RemedyRuns:
    chance = random.Random(5)
    times = [tuple(middle * chance.gauss(1, noise) for _ in range(rounds)) for middle in (fast, slow, remedied)]
    return RemedyRuns(name="a remedy", text="it does", faster=times[0], slower=times[1], remedied=times[2])


def test_a_remedy_that_closes_most_of_the_gap() -> None:
    found = closed_gap(tried(10.0, 30.0, 12.0))
    assert found is not None and found.interval is not None
    assert found.share == pytest.approx(0.9, abs=0.05)
    assert found.interval[0] < 0.9 < found.interval[1] and found.interval[0] > 0.8
    assert remedy_text(tried(10.0, 30.0, 12.0)).startswith("a remedy: it does. It closes ")
    assert "% of the gap (95 % interval " in remedy_text(tried(10.0, 30.0, 12.0))


def test_one_that_closes_nothing_and_one_that_makes_it_worse() -> None:
    assert "It closes nothing of the gap that this measurement shows" in remedy_text(
        tried(10.0, 30.0, 30.0, noise=0.05)
    )
    assert "It makes the slower variant slower still, by " in remedy_text(tried(10.0, 30.0, 50.0))


def test_a_gap_that_these_runs_do_not_show_is_not_closed() -> None:
    assert "Not known: the slower variant was not slower in the 12 rounds" in remedy_text(tried(30.0, 10.0, 5.0))
    within = remedy_text(tried(10.0, 10.3, 9.0, noise=0.3))
    assert "Not known" in within
    few = remedy_text(tried(10.0, 30.0, 12.0, rounds=LEAST_ROUNDS - 1))
    assert "Not known" in few and "closes" not in few


def test_a_remedy_that_was_not_measured_has_its_reason() -> None:
    failed = RemedyRuns(name="a remedy", text="it does", problem="there is no C compiler cc.")
    assert closed_gap(failed) is None
    assert remedy_text(failed) == "a remedy: it does. Not measured: there is no C compiler cc."


def test_forged_rounds_of_different_lengths_are_no_result() -> None:
    assert closed_gap(RemedyRuns(name="a", text="b", faster=(1.0,), slower=(2.0, 2.0), remedied=(1.0,))) is None
