# SPDX-License-Identifier: MIT OR Apache-2.0
"""What displays receive while an experiment is built, calibrated and run: done, of how many, and what is next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from swapstone.core import plan
from swapstone.core.model import Run, Trial
from swapstone.core.plan import Group
from swapstone.core.plan.stopping import StopDecision
from swapstone.core.record import RecordWriter, load
from swapstone.core.run.engine import Engine
from swapstone.core.run.prepare import prepare
from swapstone.core.targets.fake import FakeTarget
from tests.unit.builders import experiment


class Seen:
    """Keeps what it receives."""

    def __init__(self) -> None:
        self.built: list[tuple[int, int, str]] = []
        self.calibrated: list[tuple[int, int, str]] = []
        self.trials: list[tuple[Trial, int, int]] = []
        self.measured_runs: list[Run] = []
        self.blocks: list[tuple[int, int]] = []

    def building(self, done: int, total: int, what: str) -> None:
        self.built.append((done, total, what))

    def calibrating(self, done: int, total: int, workload: str) -> None:
        self.calibrated.append((done, total, workload))

    def trial(self, trial: Trial, done: int, total: int) -> None:
        self.trials.append((trial, done, total))

    def measured(self, run: Run) -> None:
        self.measured_runs.append(run)

    def block_done(self, decision: StopDecision, block: int, used_ns: int) -> None:
        assert decision.still_open
        self.blocks.append((block, used_ns))


def made(folder: Path, *, blocks: int = 1, earlier: Sequence[Run] = (), **engine: Any) -> tuple[Seen, Path]:
    """Run an experiment of two workloads to a block, in a new record."""
    folder.mkdir(exist_ok=True)
    (folder / "fake.toml").write_text("[[behaviour]]\nwall_ns = 3_000_000\n")
    subject = experiment(target=f"fake:{folder / 'fake.toml'}")
    target, seen = FakeTarget(folder / "fake.toml"), Seen()

    def stop(
        runs: Sequence[Run], still_open: tuple[Group, ...], block: int, used_ns: int, next_block_ns: int
    ) -> StopDecision:
        del runs, used_ns, next_block_ns
        return StopDecision(still_open, "enough" if block == blocks else "", None, None)

    with RecordWriter.create(folder / "record", subject) as writer:
        prepared = prepare(subject, target, seen.building)
        Engine(
            subject,
            prepared,
            target,
            writer,
            stopping_rule=stop,
            progress=seen,
            earlier=earlier,
            **engine,
        ).run()
    return seen, folder / "record"


def test_each_step_is_counted(tmp_path: Path) -> None:
    seen, path = made(tmp_path / "a")
    assert [(done, total) for done, total, _ in seen.built] == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    assert seen.built[-1][2] == ""
    assert seen.calibrated == [(0, 2, "b_malloc_tiny1"), (1, 2, "b_string_strlen"), (2, 2, "")]
    trials = [trial for number in (0, 1) for trial in plan.block(experiment(), number, plan.groups(experiment()))]
    assert [(trial, done, total) for trial, done, total in seen.trials] == [
        (trial, number % 4, 4) for number, trial in enumerate(trials)
    ]
    assert tuple(seen.measured_runs) == load(path).runs
    elapsed = [run.elapsed_ns for run in load(path).runs]
    assert [block for block, _ in seen.blocks] == [0, 1]
    assert all(used >= sum(elapsed[: 4 * (block + 1)]) for block, used in seen.blocks)


def test_what_a_record_has_already_counts_as_done(tmp_path: Path) -> None:
    _, path = made(tmp_path / "a")
    runs = load(path).runs[:6]
    passes = {("libc", "b_malloc_tiny1"): 7, ("libc", "b_string_strlen"): 9}
    seen, again = made(tmp_path / "b", earlier=runs, passes=passes)
    assert seen.calibrated == [(2, 2, "")]
    assert [(done, total) for _, done, total in seen.trials] == [(2, 4), (3, 4)]
    assert tuple(seen.measured_runs) == load(again).runs
    assert [run.passes for run in load(again).runs] == [passes["libc", run.trial.workload] for run in load(again).runs]
    partly, _ = made(tmp_path / "c", earlier=runs[:1], passes={("libc", "b_malloc_tiny1"): 7})
    known = {runs[0].trial.workload} if runs[0].trial.variant == "libc=glibc" else set()
    left = [name for name in ("b_malloc_tiny1", "b_string_strlen") if name not in known or name == "b_string_strlen"]
    assert [name for _, _, name in partly.calibrated] == [*left, ""]
