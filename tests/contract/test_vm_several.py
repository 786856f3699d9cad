# SPDX-License-Identifier: MIT OR Apache-2.0
"""Machines with several processors: a run is equal on a busy host whose emulator is queried, and all processors execute programs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest
from benchmarks.poking import poked

from swapstone.model import UnavailableError
from swapstone.targets.vm.emulator import find_emulator
from swapstone.targets.vm.machine_models import EmulatedMachine
from swapstone.targets.vm.vm_target import VmOptions
from swapstone.wire import ProcessOutcome
from tests.contract.test_vm import hog
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
def test_a_run_on_two_processors_is_equal_beside_busy_programs_and_under_queries(
    architecture: str, tmp_path: Path
) -> None:
    parts = image_parts(architecture)
    machine = msgspec.structs.replace(parts.machine, processors=2)
    try:
        find_emulator(EmulatedMachine(architecture=machine.architecture, processors=2))
    except UnavailableError as error:
        pytest.skip(error.message)
    parts = dataclasses.replace(parts, machine=machine)
    options = VmOptions(cache=tmp_path, no_cache=True)
    alone = run(parts, options, BOTH)
    assert (alone.outcome, alone.code) == (ProcessOutcome.EXITED, 0), alone.stderr
    assert [line.split()[0] for line in alone.stdout.decode().splitlines()] == ["cpu0", "cpu1"]
    with hog(), poked() as queries:
        assert run(parts, options, BOTH) == alone
    assert min(queries) > 100
