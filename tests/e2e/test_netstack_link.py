# SPDX-License-Identifier: MIT OR Apache-2.0
"""The deterministic link: equal commands give equal bytes and instruction counts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from benchmarks.netstack_costs import SUBJECT, TABLE, WORKS, Classes, callgrind, split
from benchmarks.netstack_link import PAIRS, build

from swapstone.core.artifacts.distribution_packages import is_installed
from tests.programs import require


@pytest.fixture(scope="module")
def binary() -> Path:
    if not all(map(is_installed, ("cargo", "rustc"))):
        pytest.skip("unavailable: cargo or rustc is missing or too old")
    return build()


def run_link(binary: Path, *arguments: str) -> str:
    command = (str(binary), "--bytes", "500000", "--loss-ppm", "10000", "--reorder-ppm", "10000", *arguments, "out")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("sender", "receiver"), PAIRS)
def test_the_same_command_twice_gives_the_same_bytes(binary: Path, sender: str, receiver: str) -> None:
    first = run_link(binary, "--stack", sender, "--peer", receiver)
    found = json.loads(first)
    assert (found["whole"], found["failed"], found["done"]) == (True, None, 500_000)
    assert len(found["digest"]) == 16
    assert found["stack"]["retransmitted"] > 0
    assert run_link(binary, "--stack", sender, "--peer", receiver) == first
    other = json.loads(run_link(binary, "--stack", sender, "--peer", receiver, "--seed", "2"))
    assert other["digest"] != found["digest"]


@pytest.mark.slow
@pytest.mark.parametrize("stack", ["lwip", "smoltcp"])
def test_instruction_counts_repeat_and_belong_to_the_stack(binary: Path, stack: str, tmp_path: Path) -> None:
    require("valgrind")
    # callgrind() raises an error if the two totals differ.
    costs = callgrind(binary, WORKS[0].arguments(100_000), stack, tmp_path)
    assert all(SUBJECT in cost.stack or len(cost.stack) >= 20 for cost in costs if cost.weight > 1000)
    found = split(costs, Classes(TABLE.read_text()))
    assert found["stack"] > 0
    assert found["other"] < sum(found.values()) / 100
    foreign = "smoltcp::socket" if stack == "lwip" else "tcp_input"
    assert not [cost for cost in costs if any(foreign in name for name in cost.stack)]
