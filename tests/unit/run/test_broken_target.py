# SPDX-License-Identifier: MIT OR Apache-2.0
"""A target that breaks now and then costs single runs; one that breaks three times in a row ends the session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from swapstone.model import Run, Status, UserError
from swapstone.plan import Group
from swapstone.record import RecordWriter, load
from swapstone.run import Engine, StopDecision, prepare
from swapstone.session.progress import LineProgress
from swapstone.targets import MachineConfig, MachineConfigError
from swapstone.targets.fake import FakeTarget
from swapstone.targets.target import DEFAULT_MACHINE
from swapstone.wire import AgentAnswer, TrialRequest
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
