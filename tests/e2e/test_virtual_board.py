# SPDX-License-Identifier: MIT OR Apache-2.0
"""Virtual boards: a comparison on an emulated machine whose connection is cut and which is reset, and nothing is lost or doubled."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.cli import command, environment, swapstone

CUT, RESET = "ssh", "qemu-system-"


def children(pid: int, name: str) -> list[int]:
    """Return the processes that a process has started, by the beginning of their names."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
            if int(fields["PPid"]) == pid and fields["Name"].strip().startswith(name):
                found.append(int(fields["Pid"]))
    return found


def kill(pid: int, name: str) -> int:
    """Kill what a comparison has started, and return how many processes that were."""
    found = children(pid, name)
    for each in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    return len(found)


def lines_of(record: Path) -> list[str]:
    path = record / "runs.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def compare(folder: Path, board: str, blocks: int, faults: tuple[str, ...]) -> list[dict[str, object]]:
    """Compare on a virtual board, with a fault after each second run; return the record's runs."""
    record = folder / "r"
    words = ("compare", "libc=glibc,musl", "--only", "b_malloc_tiny1", "--seed", "1", "--target", board, "--out")
    process = subprocess.Popen(
        command(*words, str(record), "--blocks", str(blocks)),
        env=environment(folder),
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    done = 0
    for number, fault in enumerate(faults):
        while process.poll() is None and len(lines_of(record)) < 2 * number + 3:
            time.sleep(0.02)
        done += kill(process.pid, fault) > 0
    assert process.stderr is not None
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(600) == 0, errors
    assert done == len(faults)
    runs: list[dict[str, object]] = [json.loads(line)["run"] for line in lines_of(record)]
    expected = 2 * blocks + 2
    assert len(runs) == expected and {run["status"] for run in runs} == {"ok"}
    assert len({json.dumps(run["trial"], sort_keys=True) for run in runs}) == expected
    swapstone(folder, "verify", str(record))
    return runs


def facts(runs: list[dict[str, object]], name: str) -> list[int]:
    return [dict(run["facts"]).get(name, 0) for run in runs]  # type: ignore[call-overload] # JSON


@pytest.mark.slow
def test_a_cut_connection_loses_and_doubles_nothing(tmp_path: Path, exhaustive: bool) -> None:
    """With --exhaustive the board is reset, too: tests/unit/targets/test_ssh_target.py has one that reboots."""
    runs = compare(tmp_path, "virtual-board", 3 if exhaustive else 2, (CUT, RESET) if exhaustive else (CUT,))
    assert max(facts(runs, "board_boots")) == exhaustive and sum(facts(runs, "reconnects")) == 1 + exhaustive
    shown = " ".join(swapstone(tmp_path, "show", str(tmp_path / "r"), "--all").stdout.split())
    assert "The board is emulated" in shown and ("The board rebooted once" in shown) == exhaustive
    assert f"The connection to the board ended during {'2 trials' if exhaustive else 'one trial'}" in shown
    tools = dict(json.loads((tmp_path / "r" / "manifest.json").read_text())["tools"])
    assert tools["board"] == "virtual-board:arm64, folder /root/.cache/swapstone-board"
    assert tools["emulator of the board"].startswith("QEMU emulator version")


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "faults"), [("armhf", 20 * (CUT,)), ("arm64", 5 * (RESET,))])
def test_many_cuts_and_resets_lose_and_double_nothing(
    tmp_path: Path, architecture: str, faults: tuple[str, ...]
) -> None:
    runs = compare(tmp_path, f"virtual-board:{architecture}", len(faults) + 4, faults)
    assert sum(facts(runs, "reconnects")) == len(faults)
    assert max(facts(runs, "board_boots")) == faults.count(RESET)
