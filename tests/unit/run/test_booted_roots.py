# SPDX-License-Identifier: MIT OR Apache-2.0
"""A target that boots root file systems: each trial names its root, a block has one boot of each, and the level found there is judged."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import msgspec

from swapstone.core.factors.factor import BOOTED_ROOT
from swapstone.core.model import BOOT_ORDER, FactorLevels, Status
from swapstone.core.record import RecordWriter, load
from swapstone.core.run.engine import Engine
from swapstone.core.run.prepare import prepare
from swapstone.core.session.progress import LineProgress
from swapstone.core.session.sample_check import derive
from swapstone.core.targets import MachineConfig
from swapstone.core.targets.fake import FakeTarget
from swapstone.core.targets.target import DEFAULT_MACHINE, REBOOTED
from swapstone.core.wire import AgentAnswer, TrialRequest
from tests.unit.builders import experiment
from tests.unit.run.test_engine import SPEC, Counting

ROOTS = (FactorLevels(factor="rootfs", levels=("musl", "/images/glibc.img")),)


class Board(FakeTarget):
    """A board whose strategy deploys the root that a trial names, or always the same one."""

    offers = FakeTarget.offers | {"reboots"}

    def __init__(self, path: Path, deployed: str = "") -> None:
        super().__init__(path)
        self.deployed = deployed
        self.starts: list[str] = []
        self.roots: list[str] = []

    def path_of(self, variant: str, workload: str) -> str:
        return super().path_of("libc=glibc" if variant.startswith("rootfs=") else variant, workload)

    def begin(self, start: str) -> None:
        self.starts.append(start)

    def run(self, request: TrialRequest, config: MachineConfig = DEFAULT_MACHINE) -> AgentAnswer:
        self.roots.append(config.root)
        answer = super().run(request)
        return msgspec.structs.replace(
            answer, machine=((REBOOTED, "the test"), (BOOTED_ROOT, self.deployed or config.root))
        )


def made(folder: Path, deployed: str = "") -> tuple[Board, Path]:
    (folder / "fake.toml").write_text(SPEC)
    works = (("libc", "b_malloc_tiny1"), ("libc", "b_malloc_tiny2"))
    subject = experiment(
        target=f"fake:{folder / 'fake.toml'}", factors=ROOTS, order=BOOT_ORDER, workloads=works, blocks=2
    )
    target, shown = Board(folder / "fake.toml", deployed), LineProgress(print)
    shown.experiment_started(subject, "")
    with RecordWriter.create(folder / "record", subject) as writer:
        prepared = prepare(subject, target, shown.building, shown.note, keep_log=writer.keep_log)
        Engine(subject, prepared, target, writer, stopping_rule=Counting(2), progress=shown).run()
    return target, folder / "record"


def test_each_trial_names_its_root_and_a_block_has_one_start_of_each(tmp_path: Path) -> None:
    target, path = made(tmp_path)
    runs = load(path).runs
    assert {run.status for run in runs} == {Status.OK}
    assert [dict(run.observed)["rootfs"] for run in runs] == target.roots[-len(runs) :]
    assert {(run.trial.variant, dict(run.observed)["rootfs"]) for run in runs} == {
        ("rootfs=musl", "musl"),
        ("rootfs=/images/glibc.img", "/images/glibc.img"),
    }
    starts = [start for start, _ in groupby(target.starts)]
    assert len(starts) == len(set(starts)), "the trials of a start follow each other"


def test_a_run_on_another_root_is_refused(tmp_path: Path) -> None:
    _, path = made(tmp_path, "another root: Debian")
    runs = load(path).runs
    assert runs and {run.status for run in runs} == {Status.REFUSED}
    assert all("another root: Debian" in run.reason for run in runs)


def test_the_raw_output_shows_the_root_of_each_run_again(tmp_path: Path) -> None:
    _, path = made(tmp_path)
    found = derive(load(path))
    assert found.whole == found.runs > 0 and not found.problems
    assert "rootfs" not in dict(found.levels)
