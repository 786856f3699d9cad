# SPDX-License-Identifier: MIT OR Apache-2.0
"""A budget that can't hold an experiment is named before anything is built."""

from __future__ import annotations

import pytest

from swapstone.model import UserError
from swapstone.session.budget import block_note, check_budget
from tests.unit.builders import experiment

SECOND_NS = 10**9


def test_a_budget_that_holds_the_first_look_says_nothing() -> None:
    # 2 variants x 2 workloads x 16 blocks x 80 ms = 5.12 s
    assert check_budget(experiment(budget_ns=6 * SECOND_NS)) == ""


def test_a_budget_below_the_first_look_is_noted_with_the_time_it_would_take() -> None:
    note = check_budget(experiment(budget_ns=5 * SECOND_NS))
    assert "2 variants x 2 workloads are 4 trials a block" in note
    assert "about 5 s" in note and "--budget 6s" in note


def test_a_budget_that_can_give_no_interval_is_refused() -> None:
    # 95 % needs 6 pairs: 7 blocks of 0.32 s.
    with pytest.raises(UserError, match="too small") as caught:
        check_budget(experiment(budget_ns=2 * SECOND_NS))
    assert "The 6 pairs of runs" in caught.value.message and "--budget 6s" in caught.value.hint


def test_slow_trials_need_more() -> None:
    # 4 trials of 10 s: 640 s to the first look.
    with pytest.raises(UserError, match="too small") as caught:
        check_budget(experiment(budget_ns=60 * SECOND_NS), 10 * SECOND_NS)
    assert "--budget 11m" in caught.value.hint


def test_an_exact_number_of_blocks_needs_no_budget() -> None:
    assert check_budget(experiment(budget_ns=1, blocks=3)) == ""


def test_the_first_block_shows_what_the_budget_holds() -> None:
    subject = experiment(budget_ns=60 * SECOND_NS)
    assert block_note(subject, 3 * SECOND_NS) == ""  # 48 s to the first look
    note = block_note(subject, 5 * SECOND_NS)
    assert "A block takes 5 s" in note and "holds 11 pairs of runs." in note and "--budget 80s" in note
    assert "holds 2 pairs of runs, and an interval needs 6" in block_note(subject, 20 * SECOND_NS)
    assert block_note(experiment(budget_ns=1, blocks=4), 5 * SECOND_NS) == ""
