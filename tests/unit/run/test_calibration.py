# SPDX-License-Identifier: MIT OR Apache-2.0
"""Calibration: how many passes a trial makes, from the times that the baseline took."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from swapstone.core.model import Run, Status
from swapstone.core.plan.stopping import StopDecision
from swapstone.core.record import RecordView, RecordWriter, load
from swapstone.core.run.engine import Engine
from swapstone.core.run.prepare import prepare
from swapstone.core.run.subject import Judgement, Outcome
from swapstone.core.run.trials_ahead import TrialSpecs
from swapstone.core.session.progress import LineProgress
from swapstone.core.targets import MachineConfig
from swapstone.core.targets.fake import FakeTarget
from swapstone.core.targets.target import DEFAULT_MACHINE
from swapstone.core.wire import AgentAnswer, TrialRequest
from swapstone.core.wire.output_reading import Measured
from swapstone.parts.build.subjects.bundled import MOST_PASSES
from tests.unit.builders import experiment

NAME = "b_malloc_tiny1"


class Listed(FakeTarget):
    """A fake target that keeps the identifiers and the numbers of passes that were requested."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.requested: list[tuple[str, int]] = []

    def run(self, request: TrialRequest, config: MachineConfig = DEFAULT_MACHINE) -> AgentAnswer:
        self.requested.append((request.id, int(request.arguments[1])))
        return super().run(request, config)


def run(
    folder: Path, behaviour: str, *, earlier: tuple[Run, ...] = (), passes: Mapping[tuple[str, str], int] | None = None
) -> tuple[Listed, RecordView]:
    """Run the warm-up block of an experiment of one workload."""
    folder.mkdir(exist_ok=True)
    (folder / "fake.toml").write_text(behaviour)
    subject = experiment(target=f"fake:{folder / 'fake.toml'}", workloads=(("libc", NAME),))
    target = Listed(folder / "fake.toml")
    shown = LineProgress(print)
    shown.experiment_started(subject, "")
    with RecordWriter.create(folder / "record", subject) as writer:
        prepared = prepare(subject, target, shown.building, shown.note, keep_log=writer.keep_log)
        Engine(
            subject,
            prepared,
            target,
            writer,
            stopping_rule=lambda runs, still_open, block, used_ns, next_block_ns: StopDecision(
                still_open, "enough", None, None
            ),
            progress=shown,
            earlier=earlier,
            passes=passes,
        ).run()
    return target, load(folder / "record")


def calibrations(target: Listed) -> list[tuple[str, int]]:
    return [each for each in target.requested if each[0].startswith("calibrate")]


@pytest.mark.parametrize(
    ("wall_ns", "start_ns", "attempts", "passes"),
    [
        # 3.5 ms for 1 pass: 20 ms are 6 passes; 18.5 ms for those: 80 ms are 26.
        (3_000_000, 500_000, [1, 6], 26),
        # 0.5 ms for 1 pass, 40 for 20 ms; 0.54 ms for 40: as many as may be; 1.5 ms for those.
        (1_000, 500_000, [1, 40, MOST_PASSES], MOST_PASSES),
        # Longer than 80 ms: one pass.
        (10_000_000_000, 0, [1], 1),
        (50_000_000, 0, [1], 2),
        # 20 ms and no time outside the passes: no second attempt.
        (20_000_000, 0, [1], 4),
    ],
)
def test_a_trial_takes_about_80_ms_on_the_baseline(
    tmp_path: Path, wall_ns: int, start_ns: int, attempts: list[int], passes: int
) -> None:
    target, view = run(tmp_path, f"[[behaviour]]\nwall_ns = {wall_ns}\nstart_ns = {start_ns}\n")
    assert calibrations(target) == [(f"calibrate-0-{number}", made) for number, made in enumerate(attempts)]
    assert view.manifest is not None and view.manifest.passes == (("libc", NAME, passes),)
    assert {run.passes for run in view.runs} == {passes}
    assert all(made == passes for identity, made in target.requested if not identity.startswith("calibrate"))


def test_a_baseline_that_fails_makes_one_pass(tmp_path: Path) -> None:
    behaviour = '[[behaviour]]\nwall_ns = 1_000_000\nfaults = [{ kind = "crash", trials = ["calibrate-*"] }]\n'
    target, view = run(tmp_path, behaviour)
    assert calibrations(target) == [("calibrate-0-0", 1)]
    assert {(run.passes, run.status) for run in view.runs} == {(1, Status.OK)}


def test_the_checksum_is_that_of_the_first_attempt_which_has_one() -> None:
    """A later attempt without a checksum does not remove it."""
    key, checks = ("libc", NAME), iter(("", "first", ""))
    answer = SimpleNamespace(facts=(("wall_ns", 1000),))
    subject = SimpleNamespace(
        max_passes=10**9,
        run=lambda *_: Outcome(Judgement(Status.OK, measured=Measured(check=next(checks))), answer, b""),  # type: ignore[arg-type]
    )
    specs: Any = SimpleNamespace(
        _prepared=SimpleNamespace(subjects={key: subject}, variants={"libc=glibc": None}),
        spec=lambda *_: None,
        _target=None,
    )
    assert TrialSpecs._calibrated(specs, (0, key))[1] == "first"


def test_a_calibration_without_an_answer_makes_one_pass() -> None:
    key = ("libc", NAME)
    subject = SimpleNamespace(
        max_passes=9, run=lambda *_: Outcome(Judgement(Status.OK, measured=Measured(check="c")), None, b"")
    )
    specs: Any = SimpleNamespace(
        _prepared=SimpleNamespace(subjects={key: subject}, variants={"libc=glibc": None}),
        spec=lambda *_: None,
        _target=None,
    )
    assert TrialSpecs._calibrated(specs, (0, key)) == (1, "")


@pytest.mark.parametrize(
    ("known", "measured"),
    [
        ((), ["more"]),
        (("more",), []),  # passes and checksum are known
        (("once",), ["more"]),
    ],
)
def test_only_workloads_that_repeat_their_work_are_calibrated(
    tmp_path: Path, known: tuple[str, ...], measured: list[str]
) -> None:
    (tmp_path / "fake.toml").write_text("[[behaviour]]\n")
    subjects = {("s", "once"): SimpleNamespace(max_passes=0), ("s", "more"): SimpleNamespace(max_passes=9)}
    called: list[tuple[int, tuple[str, str]]] = []
    checks: dict[tuple[str, str], str] = {("s", name): "known" for name in known}

    def calibrated(numbered: tuple[int, tuple[str, str]]) -> tuple[int, str]:
        called.append(numbered)
        return 7, "found"

    specs: Any = SimpleNamespace(
        _prepared=SimpleNamespace(subjects=subjects, runs=lambda *_: True),
        _target=FakeTarget(tmp_path / "fake.toml"),
        _calibrated=calibrated,
    )
    shown: list[tuple[int, int, str]] = []
    passes = {("s", name): 3 for name in known}
    made, found = TrialSpecs.calibrate(specs, passes, checks, lambda *line: shown.append(line))
    assert called == [(1, ("s", name)) for name in measured]
    assert made == {("s", "once"): 1, ("s", "more"): 3 if "more" in known else 7}
    assert found == {("s", name): "found" for name in measured}
    assert shown == [*((1, 2, name) for name in measured), (2, 2, "")]


def test_nothing_is_calibrated_where_every_workload_runs_once() -> None:
    subjects = {("s", "once"): SimpleNamespace(max_passes=0), ("s", "refused"): SimpleNamespace(max_passes=9)}
    specs: Any = SimpleNamespace(_prepared=SimpleNamespace(subjects=subjects, runs=lambda _, name: name != "refused"))
    made, found = TrialSpecs.calibrate(specs, {}, {}, lambda *_: None)  # calls nothing else
    assert (made, found) == ({("s", "once"): 1}, {})


def test_a_resumed_session_keeps_the_passes_of_the_record(tmp_path: Path) -> None:
    behaviour = "[[behaviour]]\nwall_ns = 3_000_000\n"
    _, first = run(tmp_path / "first", behaviour)
    target, view = run(tmp_path / "again", behaviour, passes={("libc", NAME): 7}, earlier=tuple(first.runs[:1]))
    assert view.manifest is not None and view.manifest.passes == (("libc", NAME, 7),)
    assert [passes for identity, passes in target.requested if not identity.startswith("calibrate")] == [7]
    # The checksum of the work is that of the baseline: it is known if the baseline's run is there.
    known = first.runs[0].trial.variant == "libc=glibc"
    assert bool(calibrations(target)) != known


def test_other_work_than_that_of_the_baseline_is_refused(tmp_path: Path) -> None:
    behaviour = (
        "[[behaviour]]\nwall_ns = 3_000_000\n"
        '[[behaviour]]\nvariant = "libc=musl"\nfaults = [{ kind = "other-work", probability = 1.0 }]\n'
    )
    _, view = run(tmp_path, behaviour)
    found = {run.trial.variant: (run.status, run.reason) for run in view.runs}
    assert found["libc=glibc"] == (Status.OK, "")
    status, reason = found["libc=musl"]
    assert status is Status.REFUSED
    assert reason.startswith("it did other work: its checksum is ")
