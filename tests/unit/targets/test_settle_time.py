# SPDX-License-Identifier: MIT OR Apache-2.0
"""How long a load runs before a measurement begins, where an instruction takes another time."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from swapstone.core.targets import MachineConfig
from swapstone.parts.vm.machine.emulator import EmulatedMachine
from tests.unit.targets.test_vm import Bench


@pytest.mark.parametrize(("scale", "line"), [(1, b"settle-ms 300\n"), (4, b"settle-ms 1200\n")])
def test_a_load_executes_as_many_instructions_before_the_measurement_on_each_clock(
    tmp_path: Path, scale: int, line: bytes
) -> None:
    """At 4 ns, 300 ms are a quarter of the instructions: the load `memory` has then not filled its memory."""
    bench = Bench(tmp_path)
    bench.parts = dataclasses.replace(bench.parts, machine=EmulatedMachine(ns_per_instruction=scale))
    with bench.target() as target:
        setup = target.named_run(bench.ask(target), MachineConfig(settle_ms=300)).setup
    assert line in setup.order
