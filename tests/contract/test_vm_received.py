# SPDX-License-Identifier: MIT OR Apache-2.0
"""Machines that receive their programs after they were saved: equal to a cold start, and independent of other programs."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from swapstone.core.model import OwnProgram
from swapstone.core.model.cpio import file, link
from swapstone.core.targets.agent_build import sha256_of
from swapstone.core.targets.carried_files import CarriedFiles
from swapstone.core.wire import AgentAnswer, ProcessOutcome, TrialRequest
from swapstone.parts.build.subjects.own_program_carried import carried_files
from swapstone.parts.vm.machine.qemu import VmImage
from swapstone.parts.vm.machine.vm_target import VmOptions, VmTarget
from tests.contract.programs import contract_programs
from tests.contract.vm_images import image_parts
from tests.programs import require
from tests.shared import Shared
from tests.uncompared_snapshots import leave_out_cold_starts

pytestmark = pytest.mark.slow

COMPILERS = {"x86_64": "cc", "arm64": "aarch64-linux-gnu-gcc"}


def opened(parts: VmImage, options: VmOptions, programs: dict[str, Path]) -> tuple[VmTarget, str]:
    """Open a target with a static program, or on this machine's architecture with a dynamic one, its loader and libraries."""
    target = VmTarget(parts, options)
    if parts.machine.architecture != os.uname().machine:
        return target, target.put(programs["works-static"])
    path = str(programs["empty"])
    own = OwnProgram(name="empty", arguments=(path,), directory="/")
    target.put_files(carried_files(own, path, "/", parts.machine.architecture))
    return target, path


def run(target: VmTarget, path: str) -> AgentAnswer:
    return target.run(TrialRequest(id="1-0", arguments=(path, "100000"), cwd="/scratch", timeout_ms=20_000))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The machines of x86_64 that these tests save."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("architecture", ["x86_64", pytest.param("arm64", marks=pytest.mark.exhaustive)])
def test_a_restored_machine_that_receives_a_program_equals_a_cold_start(
    architecture: str, shared: Shared, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require(COMPILERS[architecture])
    leave_out_cold_starts(monkeypatch.setattr)  # the cold starts below are the comparison
    parts = image_parts(architecture)
    programs = contract_programs(shared, COMPILERS[architecture])
    folder = cache if architecture == "x86_64" else tmp_path
    answers = []
    for snapshots in (True, False):
        target, path = opened(parts, VmOptions(cache=folder, no_cache=True, snapshots=snapshots), programs)
        with target:
            answers.append(run(target, path))
    assert answers[0] == answers[1]
    assert answers[0].outcome is ProcessOutcome.EXITED
    assert len(saved_in(folder)) == 1


def saved_in(folder: Path) -> dict[Path, str]:
    """Return the digests of the saved machines of a cache folder."""
    return {path: sha256_of(path) for path in (folder / "snapshots").iterdir() if not path.suffix}


CHECK = b"""#!/bin/busybox sh
busybox sha256sum /home/p/*
busybox stat -c '%a %n' /home/check /home/p/1
[ $(busybox readlink /home/p/link) = 1 ] || exit 3
"""
CHECKED = TrialRequest(id="1-0", arguments=("/home/check",), cwd="/", timeout_ms=60_000, output_bytes=1 << 20)


@pytest.mark.parametrize(
    ("count", "large_bytes"), [(10, 1 << 20), pytest.param(700, 9 << 20, marks=pytest.mark.exhaustive)]
)
def test_each_pool_delivers_every_byte_and_leaves_the_saved_machine_as_it_was(
    count: int, large_bytes: int, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The small pool is that of the test above, which saves the machine and compares it with a cold start."""
    small = count == 10
    folder = cache if small else tmp_path
    if small:
        leave_out_cold_starts(monkeypatch.setattr)
    parts = image_parts("x86_64")
    contents = {f"/home/p/{number}": b"%d" % number * number for number in range(1, count)}
    contents["/home/p/large"] = os.urandom(large_bytes)
    files = {"/home/check": file(CHECK, executable=True), **{name: file(each) for name, each in contents.items()}}
    answers: list[AgentAnswer] = []
    before: dict[Path, str] = {}
    for neighbour in (b"", b"x" * 50_000):
        with VmTarget(parts, VmOptions(cache=folder, no_cache=True)) as target:
            if neighbour:
                target.put_files(CarriedFiles({"/home/neighbour": file(neighbour)}))
            target.put_files(CarriedFiles({**files, "/home/p/link": link("1")}))
            answers.append(target.run(CHECKED))
        before = before or saved_in(folder)
    assert answers[0] == answers[1]
    listed = {name: hashlib.sha256(each).hexdigest() for name, each in {**contents, "/home/p/link": b"1"}.items()}
    expected = [f"{listed[name]}  {name}" for name in sorted(listed)]
    assert sorted(answers[0].stdout.decode().splitlines()[:-2], key=lambda line: line[66:]) == expected
    assert answers[0].stdout.endswith(b"755 /home/check\n644 /home/p/1\n")
    assert saved_in(folder) == before and len(before) == 1, "one saved machine serves all programs"
    assert small or {path.stat().st_mode & 0o222 for path in before} == {0}
