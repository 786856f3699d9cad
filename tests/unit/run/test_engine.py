# SPDX-License-Identifier: MIT OR Apache-2.0
"""The engine on a target that runs several trials at once, and on the virtual clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import Experiment, Run, Status
from swapstone.core.plan import Group
from swapstone.core.plan.stopping import StopDecision
from swapstone.core.record import RecordWriter, load
from swapstone.core.run.engine import Engine, SessionEnd
from swapstone.core.run.prepare import prepare
from swapstone.core.session.progress import LineProgress
from swapstone.core.targets import MachineConfig
from swapstone.core.targets.fake import FakeTarget
from swapstone.core.targets.target import DEFAULT_MACHINE
from swapstone.core.wire import AgentAnswer, TrialRequest
from tests.unit.builders import experiment

SPEC = """
[[behaviour]]
wall_ns = 3_000_000
noise = 0.01
"""


class Several(FakeTarget):
    """A fake target that runs several trials at once, and stores which threads called it."""

    def __init__(self, path: Path, at_once: int) -> None:
        super().__init__(path)
        self.at_once = at_once
        self.asked: list[tuple[str, str]] = []
        self.together = threading.Barrier(at_once, timeout=300)

    def run(self, request: TrialRequest, setting: MachineConfig = DEFAULT_MACHINE) -> AgentAnswer:
        self.asked.append((request.id, threading.current_thread().name))
        if self.at_once > 1 and request.id.startswith("calibrate-") and request.id.endswith("-0"):
            self.together.wait()  # breaks unless both workloads' first calibrations are made at the same time
        answer = super().run(request, setting)
        return msgspec.structs.replace(answer, name=f"name of {request.id}")


class Counting:
    """A rule that stops after a number of blocks and stores its arguments."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.calls: list[tuple[int, int, int]] = []

    def __call__(
        self, runs: Sequence[Run], still_open: tuple[Group, ...], block: int, used_ns: int, next_block_ns: int
    ) -> StopDecision:
        self.calls.append((block, used_ns, next_block_ns))
        return StopDecision(still_open, "enough" if block == self.blocks else "", None, None)


def made(folder: Path, at_once: int, **changes: object) -> tuple[Experiment, Several, Counting, Path, SessionEnd]:
    (folder / "fake.toml").write_text(SPEC)
    subject = experiment(target=f"fake:{folder / 'fake.toml'}", **changes)
    target = Several(folder / "fake.toml", at_once)
    path = folder / f"record-{at_once}"
    rule = Counting(3)
    shown = LineProgress(print)
    shown.experiment_started(subject, "")
    with RecordWriter.create(path, subject) as writer:
        prepared = prepare(subject, target, shown.building, shown.note, keep_log=writer.keep_log)
        ending = Engine(subject, prepared, target, writer, stopping_rule=rule, progress=shown).run()
    return subject, target, rule, path, ending


def test_on_the_virtual_clock_there_is_no_warm_up_block(tmp_path: Path) -> None:
    *_, path, ending = made(tmp_path, 1, clock="virtual")
    assert {run.trial.block for run in load(path).runs} == {1, 2, 3}
    assert ending == SessionEnd("complete", "enough")


def test_on_the_wall_clock_block_0_warms_up(tmp_path: Path) -> None:
    *_, path, _ = made(tmp_path, 1)
    assert {run.trial.block for run in load(path).runs} == {0, 1, 2, 3}


def test_side_by_side_gives_the_runs_that_one_after_another_gives(tmp_path: Path) -> None:
    _, one, _, alone, _ = made(tmp_path, 1, clock="virtual")
    _, two, _, together, _ = made(tmp_path, 2, clock="virtual")
    times = {"started_unix_ns": 0, "elapsed_ns": 0}
    runs = [[msgspec.structs.replace(run, **times) for run in load(path).runs] for path in (alone, together)]
    assert runs[0] == runs[1] and len(runs[0]) == 12
    manifests = [load(path).manifest for path in (alone, together)]
    assert manifests[0] is not None and manifests[1] is not None
    assert manifests[0].passes == manifests[1].passes and manifests[0].passes[0][2] > 1
    assert len({thread for _, thread in one.asked}) == 1 < len({thread for _, thread in two.asked})


def test_a_run_keeps_its_name(tmp_path: Path) -> None:
    *_, path, _ = made(tmp_path, 1, clock="virtual")
    first = load(path).runs[0]
    assert first.name == f"name of {first.trial.block}-{first.trial.position}"


@pytest.mark.parametrize("at_once", [1, 2, 8])
def test_time_is_shared_by_what_runs_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(Several, "run", FakeTarget.run)  # no barrier: eight threads never meet for two workloads
    *_, rule, path, _ = made(tmp_path, at_once, clock="virtual")
    runs = load(path).runs
    for block, used_ns, next_block_ns in rule.calls:
        elapsed = [run.elapsed_ns for run in runs if run.trial.block <= block]
        last = sum(run.elapsed_ns for run in runs if run.trial.block == block)
        width = min(at_once, len(elapsed))  # after the first block there are four trials, later more than eight
        assert (used_ns, next_block_ns) == (sum(elapsed) // width, last // width)


def test_a_trial_that_ran_ahead_and_is_not_needed_is_discarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule closes a workload after the first block, when trials of later blocks have begun."""

    class Closing(Counting):
        def __call__(
            self, runs: Sequence[Run], still_open: tuple[Group, ...], block: int, used_ns: int, next_block_ns: int
        ) -> StopDecision:
            decision = super().__call__(runs, still_open, block, used_ns, next_block_ns)
            return StopDecision(still_open[:1], decision.stop, None, None)

    monkeypatch.setattr("tests.unit.run.test_engine.Counting", Closing)
    found = []
    for at_once in (1, 2):
        _, target, _, path, ending = made(tmp_path, at_once, clock="virtual", seed=7)
        runs = load(path).runs
        assert ending.why == "enough"
        found.append([(run.trial, run.status, dict(run.facts).keys()) for run in runs])
        begun = {name for name, _ in target.asked if not name.startswith("calibrate-")}
        assert len(found[-1]) == 4 + 2 + 2
        # The recorded trials of blocks 2 and 3 are at the positions 0 and 1; those that ran ahead were planned for four.
        assert len(begun) > 8 if at_once > 1 else len(begun) == 8
    assert found[0] == found[1]


def test_on_the_wall_clock_the_budget_holds_what_lies_between_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On storage that is slow to sync, writing the record takes longer than short trials."""
    append = RecordWriter.append

    def slow(writer: RecordWriter, run: Run) -> None:
        append(writer, run)
        time.sleep(0.02)

    monkeypatch.setattr(RecordWriter, "append", slow)
    *_, rule, path, _ = made(tmp_path, 1)
    runs = load(path).runs
    for block, used_ns, next_block_ns in rule.calls:
        slept_ns = 20_000_000 * sum(run.trial.block <= block for run in runs)
        last = [run.elapsed_ns for run in runs if run.trial.block == block]
        assert used_ns >= slept_ns + sum(run.elapsed_ns for run in runs if run.trial.block <= block)
        assert next_block_ns >= 20_000_000 * len(last) + sum(last)


@pytest.mark.parametrize("refused", [("libc=musl",), ("libc=glibc",), ("libc=glibc", "libc=musl")])
def test_variants_that_could_not_be_built_are_stored_with_the_reason(tmp_path: Path, refused: tuple[str, ...]) -> None:
    (tmp_path / "fake.toml").write_text(SPEC)
    subject = experiment(target=f"fake:{tmp_path / 'fake.toml'}", clock="virtual")
    target, rule, shown = FakeTarget(tmp_path / "fake.toml"), Counting(2), LineProgress(print)
    shown.experiment_started(subject, "")
    lost = {("libc", "b_malloc_tiny1", label): f"{label} is missing\nat all" for label in refused}
    with RecordWriter.create(tmp_path / "record", subject) as writer:
        prepared = prepare(subject, target, shown.building, shown.note, keep_log=writer.keep_log)
        prepared = msgspec.structs.replace(prepared, refused=lost)
        ending = Engine(subject, prepared, target, writer, stopping_rule=rule, progress=shown).run()
    runs = load(tmp_path / "record").runs
    found = [run for run in runs if run.status is Status.UNAVAILABLE]
    assert [(run.trial.variant, run.trial.block, run.status, run.reason, run.samples) for run in found] == [
        (label, 1, Status.UNAVAILABLE, f"{label} is missing | at all", ()) for label in refused
    ]
    assert [run.trial.position for run in found] == [("libc=glibc", "libc=musl").index(label) for label in refused]
    assert all(run.started_unix_ns > 10**18 for run in found)
    assert sum(run.trial.workload == "b_string_strlen" for run in runs) == 4 and ending.state == "complete"
