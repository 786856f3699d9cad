# SPDX-License-Identifier: MIT OR Apache-2.0
"""Machines with several processors: all of them execute programs, each trial boots, and a result is kept by its name."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import UnavailableError
from swapstone.core.wire import ProcessOutcome
from swapstone.parts.vm.machine.emulator import EmulatedMachine, find_emulator
from swapstone.parts.vm.machine.vm_target import VmOptions
from tests.contract.test_vm_images import BUSYBOX, run
from tests.contract.vm_images import image_parts

_ONE = f"{BUSYBOX} dd if=/dev/zero of=/dev/null bs=4096 count=200"
BOTH = (
    *(BUSYBOX, "sh", "-c"),
    f"{BUSYBOX} taskset 1 {_ONE} & {BUSYBOX} taskset 2 {_ONE} && wait && {BUSYBOX} grep ^cpu[0-9] /proc/stat",
)
"""A program on each of two processors at once."""


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["arm64", pytest.param("x86_64", marks=pytest.mark.exhaustive)])
def test_both_processors_execute_programs_and_take_turns(architecture: str, tmp_path: Path) -> None:
    """Whether two runs are equal is not tested: most are, and not all (docs/virtual-machine-processors.md)."""
    parts = image_parts(architecture)
    machine = msgspec.structs.replace(parts.machine, processors=2)
    try:
        find_emulator(EmulatedMachine(architecture=machine.architecture, processors=2))
    except UnavailableError as error:
        pytest.skip(error.message)
    parts = dataclasses.replace(parts, machine=machine)
    answer = run(parts, VmOptions(cache=tmp_path), BOTH)
    assert (answer.outcome, answer.code) == (ProcessOutcome.EXITED, 0), answer.stderr
    assert [line.split()[0] for line in answer.stdout.decode().splitlines()] == ["cpu0", "cpu1"]
    assert dict(answer.machine)["/sys/devices/system/cpu/online"].strip() == "0-1"
    assert (
        run(parts, VmOptions(cache=tmp_path), BOTH) == answer
    )  # from the cache: equal inputs have one name and one result
    assert not (tmp_path / "snapshots").exists()
