# SPDX-License-Identifier: MIT OR Apache-2.0
"""The simulated workers answer every trial in the order of the plan, and more of them take trials at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.many_workers import IN_A_BLOCK, measure

from swapstone.targets.vm.content_store import RUNS, TRIALS
from tests.contract.vm_images import need_emulator


@pytest.mark.parametrize("workers", [2, 1000])
def test_each_trial_has_a_run_of_its_own(tmp_path: Path, workers: int) -> None:
    need_emulator()
    trials = 2 * IN_A_BLOCK
    elapsed_ms, processor_ms = measure(workers, trials, tmp_path)  # it compares the answers' order
    assert elapsed_ms > 0 and processor_ms > 0
    for kind in (TRIALS, RUNS):
        assert len(list((tmp_path / "store" / kind).glob("*/*"))) == trials
