# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trials that are run again are compared with their output in the record."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import Run, Status
from swapstone.core.record import load
from swapstone.core.run.prepare import prepare
from swapstone.core.run.recompute import choose, recompute
from swapstone.core.targets import DEFAULT_MACHINE, MachineConfig, open_target
from swapstone.core.targets.fake import FakeTarget
from swapstone.core.wire import AgentAnswer, TrialRequest
from swapstone.parts.build.subjects.bundled import Bundled
from tests.e2e.cli import fake, swapstone


def _again(record: Path, runs: list[Run]) -> list[bool]:
    view = load(record)
    keys: list[str] = []
    with open_target(view.experiment.target) as target:
        prepared = prepare(view.experiment, target, lambda *_: None)
        found = recompute(prepared, target, runs, lambda _done, _total, key: keys.append(key))
    assert keys == [*(run.trial.key for run in runs), ""]
    assert [each.key for each in found] == [run.trial.key for run in runs]
    named = {(bool(run.name), each.same_inputs) for run, each in zip(runs, found, strict=True)}
    assert named <= {(False, None)}, "without names nothing is known of the inputs"
    return [each.equal for each in found]


def test_equal_bytes_are_told_from_others(tmp_path: Path) -> None:
    record = tmp_path / "r"
    asked = ("libc=glibc,musl", "--only", "b_string_str*", "--blocks", "3", "--target", fake(tmp_path))
    swapstone(tmp_path, "compare", *asked, "--out", str(record))
    chosen = choose(load(record).runs, 6, seed=1)
    assert len({run.trial.key for run in chosen}) == 6
    assert _again(record, chosen) == [True] * 6
    changed = msgspec.structs.replace(chosen[2], output=chosen[3].output)
    assert _again(record, [*chosen[:2], changed, *chosen[3:]]) == [True, True, False, True, True, True]
    counted = msgspec.structs.replace(chosen[0], facts=(*chosen[0].facts, ("instructions", 7)))
    assert _again(record, [counted]) == [False]
    # The number of passes is the record's: another number is other work.
    fewer = msgspec.structs.replace(chosen[0], passes=chosen[0].passes + 1)
    assert _again(record, [fewer]) == [False]


def test_only_trials_with_an_output_can_be_run_again(tmp_path: Path) -> None:
    record = tmp_path / "r"
    asked = ("libc=glibc,musl", "--only", "b_string_strlen", "--blocks", "2", "--target", fake(tmp_path))
    swapstone(tmp_path, "compare", *asked, "--out", str(record))
    runs = load(record).runs
    failed = [msgspec.structs.replace(run, status=Status.FAILED) for run in runs[:3]]
    silent = [msgspec.structs.replace(run, output="") for run in runs[3:5]]
    assert choose([*failed, *silent, runs[5]], 9, seed=1) == [runs[5]]
    assert choose([*failed, *silent], 9, seed=1) == []


def test_a_trial_runs_again_in_the_machine_of_its_subject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine of a server with its load generator is another one than the workload alone needs."""
    record = tmp_path / "r"
    asked = ("libc=glibc,musl", "--only", "b_string_strlen", "--blocks", "1", "--target", fake(tmp_path))
    swapstone(tmp_path, "compare", *asked, "--out", str(record))
    machine = MachineConfig(prepare=("a command of the subject",))
    given: list[MachineConfig] = []
    run = FakeTarget.run

    def observed(self: FakeTarget, request: TrialRequest, config: MachineConfig) -> AgentAnswer:
        given.append(config)
        return run(self, request, DEFAULT_MACHINE)

    monkeypatch.setattr(Bundled, "machine_config", lambda *_: machine)
    monkeypatch.setattr(FakeTarget, "run", observed)
    assert _again(record, choose(load(record).runs, 2, seed=1)) == [True, True]
    assert given == [machine, machine]
