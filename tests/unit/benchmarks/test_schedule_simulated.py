# SPDX-License-Identifier: MIT OR Apache-2.0
"""The simulation of how trials share processors."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.schedule_simulated import block_after_block, main, with_trials_ahead

import swapstone
from tests.e2e.cli import fake


def test_without_trials_ahead_the_longest_trial_of_each_block_leaves_processors_idle() -> None:
    blocks = [[1.0, 3.0], [3.0, 1.0]]
    assert block_after_block(blocks, 1) == with_trials_ahead(blocks, 1) == 8.0
    assert block_after_block(blocks, 2) == 6.0
    assert with_trials_ahead(blocks, 2) == 4.0


def test_processors_wait_for_a_trial_if_too_many_would_run_ahead() -> None:
    """Behind a long trial, two of each processor may begin; the others wait until its block has ended."""
    blocks = [[10.0], *[[1.0]] * 8]
    assert block_after_block(blocks, 2) == 18.0
    assert with_trials_ahead(blocks, 2) == 12.0  # four run ahead on the other processor, four follow on both
    assert with_trials_ahead(blocks, 100) == 10.0


@pytest.mark.parametrize("processors", [1, 2, 3, 7])
def test_no_rule_is_faster_than_the_work_allows(processors: int) -> None:
    blocks = [[float(1 + (number * trial) % 5) for trial in range(5)] for number in range(6)]
    work = sum(map(sum, blocks))
    assert work / processors <= with_trials_ahead(blocks, processors) <= block_after_block(blocks, processors)


def test_it_prints_a_row_for_each_number_of_processors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = swapstone.compare(
        swapstone.Workloads(only=["b_string_strlen"]),
        swapstone.Measuring(blocks=2),
        swapstone.Place(target=fake(tmp_path)),
        libc=["glibc", "musl"],
        out=tmp_path / "r",
    )
    assert main([str(record.path), "--processors", "1", "100", "--times", "3"]) == 0
    head, _, one, hundred = capsys.readouterr().out.splitlines()
    assert head.startswith("9 blocks, 18 trials, ")
    assert one.split()[0] == "1" and hundred.split()[0] == "100"
