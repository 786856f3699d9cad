# SPDX-License-Identifier: MIT OR Apache-2.0
"""A target that breaks now and then costs single runs; one that breaks three times in a row ends the session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import CONSOLE, Run, Status, Trial, UserError
from swapstone.core.plan import Group
from swapstone.core.plan.stopping import StopDecision
from swapstone.core.record import RecordWriter, load
from swapstone.core.run.engine import Engine, failure_text
from swapstone.core.run.prepare import prepare
from swapstone.core.session.progress import LineProgress
from swapstone.core.targets import MachineConfig, MachineConfigError, TargetError
from swapstone.core.targets.fake import FakeTarget
from swapstone.core.targets.target import DEFAULT_MACHINE
from swapstone.core.wire import AgentAnswer, TrialRequest
from tests.unit.builders import experiment

SPEC = """
[[behaviour]]
wall_ns = 3_000_000
faults = [{{ kind = "broken", trials = {trials} }}]
"""


def until_block(last: int) -> object:
    def decide(
        runs: Sequence[Run], still_open: tuple[Group, ...], block: int, used_ns: int, next_block_ns: int
    ) -> StopDecision:
        return StopDecision(still_open, "enough" if block == last else "", None, None)

    return decide


def statuses(folder: Path, broken: Sequence[str], kind: type[FakeTarget] = FakeTarget) -> list[tuple[str, Status, str]]:
    """Run three blocks of four trials; return identifier, status and reason of each run."""
    (folder / "fake.toml").write_text(SPEC.format(trials=list(broken)))
    subject = experiment(target=f"fake:{folder / 'fake.toml'}")
    target = kind(folder / "fake.toml")
    shown = LineProgress(print)
    shown.experiment_started(subject, "")
    with RecordWriter.create(folder / "record", subject) as writer:
        prepared = prepare(subject, target, shown.building, shown.note, keep_log=writer.keep_log)
        rule = until_block(2)
        Engine(subject, prepared, target, writer, stopping_rule=rule, progress=shown).run()  # type: ignore[arg-type]
    return [(run.trial.identity, run.status, run.reason) for run in load(folder / "record").runs]


def test_breaks_that_are_not_in_a_row_cost_only_their_runs(tmp_path: Path) -> None:
    broken = ("0-0", "0-1", "0-3", "1-0", "1-2", "1-3", "2-1", "2-2")
    found = statuses(tmp_path, broken)
    assert [identity for identity, status, _ in found if status is Status.FAILED] == list(broken)
    assert all(reason.startswith("the target broke: ") for _, status, reason in found if status is Status.FAILED)
    assert len(found) == 12


@pytest.mark.parametrize("broken", [("0-0", "0-1", "0-2"), ("0-3", "1-0", "1-1"), ("0-1", "1-1", "1-2", "1-3")])
def test_three_breaks_in_a_row_end_the_session(tmp_path: Path, broken: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match="The target broke 3 times in a row: The agent's answer is invalid"):
        statuses(tmp_path, broken)
    runs = load(tmp_path / "record").runs
    assert runs and runs[-1].trial.identity == broken[-2]  # the third one is no run


class Unmade(FakeTarget):
    """A target that can't make the machine of one trial."""

    def run(self, request: TrialRequest, config: MachineConfig = DEFAULT_MACHINE) -> AgentAnswer:
        if request.id == "0-2":
            raise MachineConfigError("there is no such machine")
        return super().run(request, config)


def test_a_machine_that_can_not_be_made_is_no_break_of_the_target(tmp_path: Path) -> None:
    found = statuses(tmp_path, ("0-0", "0-1", "0-3", "1-0"), Unmade)
    failed = {identity: reason for identity, status, reason in found if status is Status.FAILED}
    assert list(failed) == ["0-0", "0-1", "0-2", "0-3", "1-0"]
    assert failed["0-2"] == "there is no such machine"


class Hangs(FakeTarget):
    """A target whose machines hang on two trials, after they printed lines."""

    def run(self, request: TrialRequest, config: MachineConfig = DEFAULT_MACHINE) -> AgentAnswer:
        if request.id in {"0-2", "1-1"}:
            raise TargetError("The virtual machine failed: it hangs.", "a hint", "[ 0.1] one\n[ 0.2] two " + "x" * 300)
        return super().run(request, config)


def test_the_reason_has_the_last_console_lines(tmp_path: Path) -> None:
    found = statuses(tmp_path, (), Hangs)
    failed = [reason for _, status, reason in found if status is Status.FAILED]
    start = f"the target broke: The virtual machine failed: it hangs.{CONSOLE}[ 0.1] one | [ 0.2] two xxx"
    assert len(failed) == 2 and all(reason.startswith(start) for reason in failed)
    assert all(reason.rpartition(" | ")[2] == "[ 0.2] two ".ljust(200, "x") for reason in failed)


def test_an_error_message_has_a_console_line_in_each_line() -> None:
    trial = Trial(suite="s", workload="w", load="idle", variant="v", block=1, position=0)
    run = Run(trial=trial, status=Status.FAILED, reason=f"it hangs.{CONSOLE}one | two", started_unix_ns=0)
    assert failure_text(run, b"", " (3 of 3 attempts)") == (
        "it hangs. (3 of 3 attempts)\nThe last lines of its console:\none\ntwo"
    )
    printed = msgspec.structs.replace(run, reason="it failed")
    assert failure_text(printed, b"out\n", "") == "it failed\nout"
