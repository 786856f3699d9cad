# SPDX-License-Identifier: MIT OR Apache-2.0
"""Loads on machines that are not booted: they are those of virtual machines, need nothing of the machine, and have indicators."""

from __future__ import annotations

import pytest

from swapstone.core.model import IDLE, Load
from swapstone.core.workloads import find_load, shared_machine_load
from swapstone.core.workloads.shared_machine_loads import LOADS, PROGRAMS, filled_load, programs_of
from swapstone.parts.vm.artifacts.image_catalog import PARTS

WORDS = {name: f"/d/ld --library-path /d /d/{name}" for name in PROGRAMS}


def test_each_has_the_name_of_a_load_of_virtual_machines() -> None:
    assert [load.name for load in LOADS] == ["idle", "cpu", "memory", "io", "network", "cyclictest"]
    assert all(find_load(load.name).beside or load.name == IDLE.name for load in LOADS)
    assert shared_machine_load("planted") is None  # it needs a kernel module of this project


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_a_load_needs_packaged_programs_alone(load: Load) -> None:
    assert not load.machine.prepare and not load.machine.modules and not load.machine.parts
    assert set(programs_of(load)) <= {part.name for part in PARTS}
    filled = filled_load(load, WORDS, "/folder", 12)
    assert not any("{" in command or "/tmp" in command for command in filled.beside)
    assert all("/d/ld --library-path" in command for command in filled.beside)
    assert bool(load.beside) == bool(load.indicators)


def test_a_load_of_the_processors_has_a_process_for_each() -> None:
    (command,) = filled_load(LOADS[1], WORDS, "/folder", 12).beside
    assert " --cpu 12 " in command
    assert " --cpu 4 " in filled_load(LOADS[1], WORDS, "/folder", 2).beside[0]
