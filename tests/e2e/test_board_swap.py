# SPDX-License-Identifier: MIT OR Apache-2.0
"""Swap devices on an emulated board, whose kernel swaps, compresses and limits: from the command line, and with swap of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from swapstone.core.factors import Evidence
from swapstone.core.model import UnavailableError
from swapstone.core.targets import MachineConfig
from swapstone.core.wire import AgentAnswer, TrialRequest
from swapstone.parts.boards.session import board_images
from swapstone.parts.boards.targets import virtual_board
from swapstone.parts.boards.targets.ssh_connection import SshConnection
from swapstone.parts.boards.targets.ssh_target import SshTarget
from swapstone.parts.boards.targets.virtual_board import EmulatedBoard
from swapstone.parts.vm.factors.swap import SWAP
from tests.e2e.cli import runs_of, swapstone
from tests.programs import needs

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]
"""tests/unit/targets/test_board_swap.py sets, restores and refuses each level on a board with a simulated kernel; test_virtual_board.py
cuts the connection to an emulated board, and test_swap_factor.py swaps in a real kernel."""

OWN_SWAP = """
echo 67108864 >/sys/block/zram0/disksize && mkswap /dev/zram0 && swapon -p 7 /dev/zram0 &&
mkdir /disk && dd if=/dev/zero of=/root/disk bs=1048576 count=0 seek=256 && losetup /dev/loop0 /root/disk &&
mkfs.ext2 /dev/loop0 && mount -t ext2 /dev/loop0 /disk && echo mounted
"""
"""The board's own zram, and a file system that holds a swap file."""


def test_swap_devices_are_compared_on_a_board_and_verified(tmp_path: Path) -> None:
    record = tmp_path / "r"
    words = ("swap=none,zram:lzo-rle", "--only", "fill (0 % random)", "--blocks", "1", "--seed", "1")
    swapstone(tmp_path, "compare", *words, "--target", "virtual-board", "--out", str(record))
    runs = [run for run in runs_of(record) if run["trial"]["block"] == 1]
    figures = {}
    for run in runs:
        assert run["status"] == "ok", run["reason"]
        level = dict(run["observed"])["swap"]
        assert run["trial"]["variant"] == f"swap={level}"
        figures[level] = {sample["metric"]: sample["values"] for sample in run["samples"]}
    (reached,), (reached_zram,) = figures["none"]["reached"], figures["zram:lzo-rle"]["reached"]
    assert reached < 96 << 20, "the cgroup limits the program"
    assert reached + (150 << 20) < reached_zram < (96 + 192) << 20, "the rest is in zram"
    assert figures["none"]["swapped_out"] == [0.0]
    assert figures["zram:lzo-rle"]["compression"][0] > 5
    swapstone(tmp_path, "verify", str(record))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedBoard]:
    monkeypatch.setattr(board_images, "BOARD_MODULES", (*board_images.BOARD_MODULES, "loop", "ext4"))
    monkeypatch.setattr(virtual_board, "MEMORY_MIB", 1024)  # the file system is in memory
    image = board_images.board_image("arm64", print)
    found = EmulatedBoard(image, "arm64")
    try:
        yield found
    finally:
        found.close()


def _called(machine: EmulatedBoard, script: str) -> str:
    connection = SshConnection(machine.place, "the board", "test")
    try:
        return connection.open(f"{{ {script}\n}} </dev/null 2>&1; echo; echo done\n".encode(), b"\ndone\n").decode()
    finally:
        connection.close()


def _trial(target: SshTarget, level: str) -> AgentAnswer:
    request = TrialRequest(
        id="1-0", arguments=("/bin/cat", "/proc/self/cgroup"), environment=(), cwd=target.scratch(), timeout_ms=60_000
    )
    return target.run(request, MachineConfig(swap=level))


def test_a_board_has_its_own_swap_back_after_a_session_and_after_a_lost_connection(machine: EmulatedBoard) -> None:
    made = _called(machine, f"{OWN_SWAP}\ncat /proc/swaps")
    assert "/dev/zram0" in made and "mounted" in made, made
    place = msgspec.structs.replace(machine.place, folder="/disk/swapstone")
    with SshTarget(place) as target:
        for level in ("file", "zram:zstd"):
            answer = _trial(target, level)
            assert SWAP.observe(Evidence(interp=None, objects=(), machine=answer.machine)) == level
            assert b"/swapstone-board" in answer.stdout
        with pytest.raises(UnavailableError, match="zram has no algorithm 842; it has: lzo"):
            target.try_levels("swap", ("zram:842",))
        target.try_levels("swap", ("file",))
        assert dict(target.tools())["swap of the board"] == "before the session /dev/zram0"
        first = target.board.connection._first
        assert first is not None
        os.kill(first.pid, signal.SIGKILL)
    deadline = time.monotonic() + 300
    while (shown := _called(machine, "cat /proc/swaps; ls /disk/swapstone /sys/fs/cgroup")).count("zram0") != 1:
        assert time.monotonic() < deadline, shown
        time.sleep(1)
    fields = next(line.split() for line in shown.splitlines() if "zram0" in line)
    assert (fields[0], fields[4]) == ("/dev/zram0", "7")
    assert "swapstone-swap" not in shown and "swapstone-board" not in shown


@needs("aarch64-linux-gnu-gcc")
def test_what_is_written_to_the_disk_of_a_swap_file_is_counted(machine: EmulatedBoard, tmp_path: Path) -> None:
    sources = Path(__file__).parents[2] / "native" / "workloads"
    fill = tmp_path / "fill"
    command = (
        "aarch64-linux-gnu-gcc",
        "-std=gnu11",
        "-O2",
        "-static",
        f"-I{sources}",
        "-o",
        str(fill),
        f"{sources}/fill.c",
    )
    subprocess.run(command, check=True)
    assert "mounted" in _called(machine, OWN_SWAP)
    with SshTarget(msgspec.structs.replace(machine.place, folder="/disk/swapstone")) as target:
        request = TrialRequest(
            id="1-0", arguments=(target.put(fill), "0"), cwd=target.scratch(), timeout_ms=600_000, observe=()
        )
        answer = target.run(request, MachineConfig(swap="file"))
    figures = dict(line.split()[1:3] for line in answer.stdout.decode().splitlines() if line.startswith("figure "))
    swapped, written = int(figures["swapped_out"]), int(figures["flash_written"])
    assert 100 << 20 < swapped <= written < swapped + (16 << 20), (
        "other blocks of the disk are written, too, such as inodes"
    )


def test_a_board_without_a_file_system_for_swap_files_has_the_other_levels(machine: EmulatedBoard) -> None:
    with SshTarget(machine.place) as target:
        with pytest.raises(UnavailableError, match=r"swapon: .*Invalid argument") as caught:
            target.try_levels("swap", ("none", "file"))
        assert "not tmpfs" in caught.value.hint
        assert _trial(target, "none").stdout.endswith(b"/swapstone-board\n")
