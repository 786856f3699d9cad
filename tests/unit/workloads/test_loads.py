# SPDX-License-Identifier: MIT OR Apache-2.0
"""Declarations of loads, and the machines that they need."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from swapstone.core.model import IDLE, Load, UserError
from swapstone.core.workloads import LOADS, find_load
from swapstone.parts.vm.artifacts.image_catalog import PARTS

DOCUMENT = (Path(__file__).parents[3] / "docs" / "latency.md").read_text()
PROGRAMS = {"stress-ng", "memtester", "iperf3", "cyclictest", "mke2fs"}


def test_the_published_loads_exist() -> None:
    assert [load.name for load in LOADS][:6] == ["idle", "cpu", "memory", "io", "network", "cyclictest"]
    assert LOADS[0] is IDLE
    assert len({load.name for load in LOADS}) == len(LOADS)


def test_an_unknown_load_is_an_error_with_similar_names() -> None:
    with pytest.raises(UserError) as caught:
        find_load("memori")
    assert caught.value.message == "There is no load named 'memori'."
    assert "Did you mean 'memory'" in caught.value.hint


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_a_load_has_the_programs_that_it_starts(load: Load) -> None:
    commands = " ".join((*load.beside, *load.machine.prepare))
    started = {name for name in PROGRAMS if re.search(rf"(^|[ /]){name} ", commands)}
    assert started <= set(load.machine.parts) <= {part.name for part in PARTS}


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_background_commands_run_until_they_are_stopped(load: Load) -> None:
    for command in load.beside:
        # Without a time limit stress-ng and cyclictest run until they are stopped, and memtester without a number of rounds. iperf3
        # needs a limit: one day is a thousand times longer than any measurement.
        assert not re.search(r"--timeout|--loops|-[lD] ?\d|--[a-z-]*-ops", command)
        assert "iperf3 -c" not in command or "-t 86400" in command
    assert bool(load.beside) <= (load.settle_ms >= 100)


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_the_documentation_lists_each_load_with_its_commands(load: Load) -> None:
    rows = [line for line in DOCUMENT.partition("## Loads")[2].splitlines() if line.startswith(f"| `{load.name}` |")]
    assert len(rows) == 1
    for command in load.beside:
        assert f"`{command.removeprefix('exec ')}`" in rows[0]
