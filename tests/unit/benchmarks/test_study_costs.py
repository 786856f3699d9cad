# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the trials of a study cost, and its simulated time."""

from __future__ import annotations

import pytest
from benchmarks.study_costs import Part, instructions, simulated_s, tabulate

PART = Part("p", budget_s=30.0, blocks=((4.0, 6.0), (6.0, 4.0)), snapshots_s=(3.0, 5.0))


def test_idle_time_executes_no_instruction() -> None:
    machine = {"clock": "1500000000", "before /proc/uptime": "2.00 0.25\n", "after /proc/uptime": "3.50 1.00\n"}
    assert instructions(machine) == pytest.approx((0.25e9, 0.75e9))


def test_a_budget_holds_blocks_on_two_processors() -> None:
    assert PART.planned() == [(4.0, 6.0), (6.0, 4.0)] * 3  # 60 s of two processors, 10 s a block
    assert PART.planned(3) == [(4.0, 6.0), (6.0, 4.0), (4.0, 6.0)]
    assert len(Part("p", 1.0, PART.blocks, ()).planned()) == 1


def test_snapshots_come_before_the_trials_and_one_for_each_kernel_at_once() -> None:
    blocks = PART.planned(2)
    assert simulated_s(PART, blocks, 1) == 8.0 + 20.0
    assert simulated_s(PART, blocks, 2) == 4.0 + 10.0
    assert simulated_s(PART, blocks, 100) == 4.0 + 6.0


def test_the_parts_of_a_study_run_one_after_another() -> None:
    lines: list[str] = []
    tabulate([PART, PART], {"p": 2}, (1, 2), lines.append)
    assert [line.split() for line in lines[1:]] == [["p", "2", "28", "28", "14"]] * 2 + [["all", "56", "28"]]
