# SPDX-License-Identifier: MIT OR Apache-2.0
"""The swap device of a board: a program in ssh's place, and files and programs in the place of the kernel's swap, zram and cgroups."""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from swapstone.core.factors import Evidence
from swapstone.core.model import UnavailableError, UserError
from swapstone.core.targets import MachineConfig, TargetError
from swapstone.core.targets.health import State
from swapstone.core.wire import AgentAnswer, TrialRequest
from swapstone.parts.boards.session import boards
from swapstone.parts.boards.targets import board_scripts, board_swap
from swapstone.parts.boards.targets.board import BoardAnswer, BoardFolder, clean_board
from swapstone.parts.boards.targets.board_swap import PROBE_STEP, missing_for_swap
from swapstone.parts.boards.targets.ssh_connection import ConnectionEndedError
from swapstone.parts.boards.targets.ssh_target import SshTarget
from swapstone.parts.vm.factors.swap import BOARD_MEMORY_BYTES, SWAP
from tests.fake_ssh import HONEST, FakeSsh

PLACE = BoardFolder(host="board")
HEAD = "Filename Type Size Used Priority\n"
FORMER = f"{HEAD}/dev/mmcblk0p3 partition 524284 1024 5\n/dev/zram0 partition 262140 0 -2\n"
LATER_BOOT = "boot 00000000-0000-4000-8000-000000000000\n"

KERNEL = r"""
swap_write() {
    case $1 in
    */comp_algorithm)
        swap_new=
        for swap_each in lzo lzo-rle lz4 zstd; do
            [ "$swap_each" = "$2" ] && swap_each="[$2]"
            swap_new="$swap_new$swap_each "
        done
        case $swap_new in *\[*) echo "$swap_new" >"$1" ;; *) return 1 ;; esac ;;
    */reset) echo 0 >"${1%reset}disksize" ;;
    */hot_remove) rm -r "@ROOT@/sys/block/zram$2" "@ROOT@/dev/zram$2" ;;
    *) echo "$2" >"$1" ;;
    esac
}
swap_take() {
    case $1 in
    */hot_add)
        mkdir -p @ROOT@/sys/block/zram7 @ROOT@/dev
        echo 'lzo [lzo-rle] lz4 zstd' >@ROOT@/sys/block/zram7/comp_algorithm
        echo 4096 73 >@ROOT@/sys/block/zram7/mm_stat
        : >@ROOT@/dev/zram7
        echo 7 ;;
    *) cat "$1" ;;
    esac
}
"""
"""What the kernel does when its files are written and read."""

PROGRAMS = {
    "mkswap": "",
    "swapon": """
priority=-3
[ "$1" != -p ] || { priority=$2; shift 2; }
name=${1#@ROOT@}
case $(cat @ROOT@/refused 2>/dev/null) in *"on $name"*) echo "swapon: $name: Invalid argument" >&2; exit 255 ;; esac
case $name in /dev/*) kind=partition ;; *) kind=file ;; esac
echo "$name $kind 196604 0 $priority" >>@ROOT@/proc/swaps
""",
    "swapoff": """
case $(cat @ROOT@/refused 2>/dev/null) in *"off $1"*) echo "swapoff: $1: Cannot allocate memory" >&2; exit 255 ;; esac
grep -v "^$1 " @ROOT@/proc/swaps >@ROOT@/proc/new && mv @ROOT@/proc/new @ROOT@/proc/swaps
""",
    "rmdir": """
case $1 in */swapstone-board) ;; *) exec /bin/rmdir "$@" ;; esac
[ -d "$1" ] || exit 1
for process in $(cat "$1/cgroup.procs" 2>/dev/null); do
    ! kill -0 "$process" 2>/dev/null || exit 1
done
rm -r "$1"
""",
    "modprobe": "[ ! -e @ROOT@/module ] || mkdir -p @ROOT@/sys/class/zram-control",
    "rmmod": "rm -r @ROOT@/sys/class/zram-control",
    "id": "echo 0",
}


class FakeBoard:
    """A board with two swap devices of its own, zram and cgroups of version 2."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.swaps, self.top = self.root / "proc/swaps", self.root / "sys/fs/cgroup"
        for each in (self.root / "proc", self.top, self.root / "sys/class/zram-control", self.root / "sys/block"):
            each.mkdir(parents=True)
        self.swaps.write_text(FORMER)
        self.memory(500)
        (self.root / "proc/mounts").write_text("none /proc proc rw 0 0\nnone /sys/fs/cgroup cgroup2 rw 0 0\n")
        (self.top / "cgroup.controllers").write_text("cpu memory pids\n")
        (self.top / "cgroup.subtree_control").write_text("cpu memory\n")
        (self.root / "module").write_text("")
        self.programs = folder / "programs"
        self.programs.mkdir()
        for name, script in PROGRAMS.items():
            self.program(name, script)
        self.ssh = FakeSsh(folder / "board", f"PATH={self.programs}:$PATH; export PATH\n{HONEST}")
        self.state = self.ssh.board / "swaps"
        self.group = self.top / "swapstone-board"

    def program(self, name: str, script: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n".replace("@ROOT@", str(self.root)))
        path.chmod(0o755)

    def memory(self, available_mib: int) -> None:
        (self.root / "proc/meminfo").write_text(f"MemTotal: 1000 kB\nMemAvailable: {available_mib << 10} kB\n")

    def refuse(self, *what: str) -> None:
        """Let swapon and swapoff fail, each as ``on DEVICE`` or ``off DEVICE``."""
        (self.root / "refused").write_text("\n".join(what))

    def devices(self) -> list[str]:
        """Return the active devices with their priorities, without the folder of a swap file."""
        fields = [line.split() for line in self.swaps.read_text().splitlines()[1:]]
        return [f"{each[0].removeprefix(str(self.ssh.board))} {each[4]}" for each in fields]

    def wait_for_former(self) -> None:
        """Wait until the shell of a session has ended and restored."""
        until = time.monotonic() + 60
        while self.state.exists() and time.monotonic() < until:
            time.sleep(0.02)
        assert not self.state.exists()
        assert self.devices() == ["/dev/mmcblk0p3 5", "/dev/zram0 -3"], "a priority of the kernel's is set anew"


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeBoard:
    found = FakeBoard(tmp_path)
    monkeypatch.setenv("PATH", found.ssh.path)
    monkeypatch.setattr(board_scripts, "ROOT", str(found.root))
    monkeypatch.setattr(board_scripts, "FUNCTIONS", board_scripts.FUNCTIONS + KERNEL)
    return found


@pytest.fixture
def target(board: FakeBoard, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshTarget]:
    monkeypatch.setattr(board_swap, "GROUP", "")  # processes of this machine are in no group of the test's
    with SshTarget(PLACE) as found:
        yield found


def asked(target: SshTarget, script: str, trial: str = "1-0") -> TrialRequest:
    words = ("/bin/sh", "-c", script)
    return TrialRequest(id=trial, arguments=words, environment=(), cwd=target.scratch(), timeout_ms=20_000)


def level_of(answer: AgentAnswer) -> str | None:
    return SWAP.observe(Evidence(interp=None, objects=(), machine=answer.machine))


def test_each_level_is_the_only_device_and_the_former_ones_are_restored(board: FakeBoard) -> None:
    (board.top / "cgroup.subtree_control").write_text("cpu\n")
    with SshTarget(PLACE) as target:
        assert board.devices() == ["/dev/mmcblk0p3 5", "/dev/zram0 -2"], "no swap is changed before a level is set"
        for level, device in (
            ("zram:zstd", ["/dev/zram7 -3"]),
            ("file", ["/swapstone-swap -3"]),
            ("none", []),
            ("zram:lz4", ["/dev/zram7 -3"]),
        ):
            target.try_levels("swap", (level,))
            assert board.devices() == device
            assert (board.group / "memory.max").read_text().strip() == str(BOARD_MEMORY_BYTES)
        assert (board.ssh.board / "swapstone-swap").stat().st_size == 192 << 20
        assert (board.top / "cgroup.subtree_control").read_text() == "+memory\n"
        assert dict(target.tools())["swap of the board"] == "before the session /dev/mmcblk0p3, /dev/zram0"
    board.wait_for_former()
    assert not board.group.exists() and not (board.ssh.board / "swapstone-swap").exists()
    assert not (board.root / "sys/block/zram7").exists()
    assert (board.top / "cgroup.subtree_control").read_text() == "-memory\n"


def test_a_trial_shows_its_device_and_has_its_limit_in_the_environment(board: FakeBoard, target: SshTarget) -> None:
    for number, level in enumerate(("zram:lzo-rle", "file", "none")):
        answer = target.run(asked(target, "env; cat /proc/$PPID/stat", f"1-{number}"), MachineConfig(swap=level))
        assert level_of(answer) == level
        assert f"SWAPSTONE_MEMORY_BYTES={BOARD_MEMORY_BYTES}" in answer.stdout.decode().splitlines()
        assert dict(answer.machine)["board memory limit"] == str(BOARD_MEMORY_BYTES)
        assert (board.group / "cgroup.procs").read_text().strip().isdecimal(), "the agent has entered the group"
    assert target.run(asked(target, "env", "1-3")).machine == ()


def test_another_device_than_the_level_s_is_observed(board: FakeBoard, target: SshTarget) -> None:
    def observed(script: str, level: str = "zram:zstd") -> str | None:
        return level_of(target.run(asked(target, script), MachineConfig(swap=level)))

    sys = board.root / "sys/block/zram7"
    assert observed(f"echo 'lzo [lz4] zstd' >{sys}/comp_algorithm") == "zram:lz4"
    assert observed(f"echo '{HEAD}' >{board.swaps}") == "none"
    assert observed(f"echo '/dev/sda1 partition 4092 0 1' >>{board.swaps}") == "/dev/sda1+zram:zstd"
    assert observed(f": >{board.swaps}") is None
    board.swaps.write_text(HEAD)
    assert observed(f"sed -i s/196604/4092/ {board.swaps}", "file") == f"{board.ssh.board}/swapstone-swap of 4092 KiB"


def test_a_trial_whose_memory_was_not_limited_has_no_result(board: FakeBoard, target: SshTarget) -> None:
    with pytest.raises(TargetError, match=f"was 12 bytes, and {BOARD_MEMORY_BYTES} had been set"):
        target.run(asked(target, f"echo 12 >{board.group}/memory.max"), MachineConfig(swap="none"))


def test_a_trial_outside_of_the_group_has_no_result(board: FakeBoard) -> None:
    with SshTarget(PLACE) as target, pytest.raises(TargetError, match="left the memory cgroup"):
        target.run(asked(target, ":"), MachineConfig(swap="none"))
    board.wait_for_former()


def test_the_next_session_restores_if_the_shell_was_killed(board: FakeBoard) -> None:
    target = SshTarget(PLACE)
    target.try_levels("swap", ("zram:zstd",))
    board.ssh.cut()
    target.close()
    assert board.devices() == ["/dev/zram7 -3"]
    with SshTarget(PLACE):
        board.wait_for_former()


def test_target_clean_restores(board: FakeBoard) -> None:
    target = SshTarget(PLACE)
    target.try_levels("swap", ("file",))
    board.ssh.cut()
    target.close()
    clean_board(PLACE)
    board.wait_for_former()
    assert not board.ssh.board.exists()


def test_a_lost_connection_sets_the_level_again(board: FakeBoard, target: SshTarget) -> None:
    first = f"[ -e {board.root}/cut ] && exit; : >{board.root}/cut; pids=$(cat {board.ssh.folder}/pids); : >{board.ssh.folder}/pids"
    answer = target.run(asked(target, f"{first}; kill -9 $pids; sleep 60"), MachineConfig(swap="zram:lz4"))
    assert (level_of(answer), dict(answer.facts)["reconnects"]) == ("zram:lz4", 1)


def test_after_a_reboot_the_level_is_set_again_and_what_was_before_the_boot_is_forgotten(
    board: FakeBoard, target: SshTarget
) -> None:
    target.try_levels("swap", ("zram:zstd",))
    lines = board.state.read_text().splitlines()[1:]
    board.state.write_text(LATER_BOOT + "\n".join([*lines, "was /dev/gone 1", ""]))
    shutil.rmtree(board.root / "sys/block/zram7")
    shutil.rmtree(board.group)
    board.swaps.write_text(FORMER)
    assert level_of(target.run(asked(target, ":"), MachineConfig(swap="zram:lz4"))) == "zram:lz4"
    assert "/dev/gone" not in board.state.read_text()
    target.close()
    board.wait_for_former()


def test_a_state_of_an_earlier_boot_is_removed_and_restores_nothing(board: FakeBoard) -> None:
    with SshTarget(PLACE):
        pass
    board.state.write_text(f"{LATER_BOOT}was /dev/gone 1\nzram 0\n")
    (board.ssh.board / "swapstone-swap").write_text("")
    with SshTarget(PLACE):
        assert board.devices() == ["/dev/mmcblk0p3 5", "/dev/zram0 -2"]
    assert not board.state.exists() and not (board.ssh.board / "swapstone-swap").exists()


def test_a_device_that_can_t_be_restored_is_tried_again_by_the_next_session(board: FakeBoard) -> None:
    with SshTarget(PLACE) as target:
        target.try_levels("swap", ("none",))
        board.refuse("on /dev/zram0")
    until = time.monotonic() + 60
    while "zram" not in (state := board.state.read_text()) or "group" in state:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert board.devices() == ["/dev/mmcblk0p3 5"] and state.splitlines()[1:] == ["was /dev/zram0 -2"]
    board.refuse()
    with SshTarget(PLACE):
        board.wait_for_former()


def test_zram_is_loaded_and_unloaded_again(board: FakeBoard) -> None:
    (board.root / "sys/class/zram-control").rmdir()
    with SshTarget(PLACE) as target:
        target.try_levels("swap", ("zram:zstd",))
        assert "module" in board.state.read_text().splitlines()
    board.wait_for_former()
    assert not (board.root / "sys/class/zram-control").exists()


def test_what_runs_in_the_group_is_killed(board: FakeBoard, target: SshTarget) -> None:
    target.try_levels("swap", ("none",))
    with subprocess.Popen(["sleep", "100"]) as process:
        (board.group / "cgroup.procs").write_text(f"{process.pid}\n")
        thread = threading.Thread(target=target.board.ask, args=("swap_end_group",))
        thread.start()
        assert process.wait(60) == -signal.SIGKILL  # as a parent, this process must wait for it
        thread.join()
    assert not board.group.exists()


def test_cgroups_of_version_1_limit_the_memory(board: FakeBoard) -> None:
    board.top.joinpath("cgroup.controllers").write_text("pids\n")
    mounts = "none /sys/fs/cgroup cgroup2 rw 0 0\nnone /sys/fs/memory cgroup rw,relatime,memory 0 0\n"
    (board.root / "proc/mounts").write_text(mounts)
    (board.root / "sys/fs/memory").mkdir()
    with SshTarget(PLACE) as target:
        target.try_levels("swap", ("none",))
        limit = board.root / "sys/fs/memory/swapstone-board/memory.limit_in_bytes"
        assert limit.read_text().strip() == str(BOARD_MEMORY_BYTES)
    board.wait_for_former()


REFUSALS = {
    "user": ("zram:zstd", "it needs root", "ssh:root@BOARD"),
    "kernel": ("none", r"its kernel has no swap \(CONFIG_SWAP\)", "CONFIG_SWAP=y"),
    "busy": ("none", "has 1 MiB in use, and only 20 MiB of memory are available", "swapoff -a"),
    "off": ("file", "/dev/zram0 swapoff: /dev/zram0: Cannot allocate memory", "swapoff -a"),
    "memory": ("none", "300 MiB of memory are available there without swap, and a trial needs 320 MiB", "--target vm"),
    "controller": ("none", "it has no memory cgroup", "mount -t cgroup2"),
    "zram": ("zram:zstd", r"no zram that adds devices \(CONFIG_ZRAM", "CONFIG_ZRAM=m"),
    "algorithm": ("zram:842", r"zram has no algorithm 842; it has: lzo \[lzo-rle\] lz4 zstd", "zram:ALGORITHM"),
    "start": ("zram:lz4", "swapon: /dev/zram7: Invalid argument", "ext4"),
    "space": ("file", "no room for a swap file of 192 MiB: dd: No space left", "folder=/path"),
    "name": ("none", "its active swap /swap;file could not be restored", "swapoff"),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_level_that_can_t_be_set_is_unavailable_and_nothing_stays_changed(board: FakeBoard, reason: str) -> None:
    with SshTarget(PLACE) as target:
        match reason:
            case "user":
                board.program("id", "echo 1000")
            case "kernel":
                board.swaps.unlink()
            case "busy":
                board.memory(20)
            case "off":
                board.refuse("off /dev/zram0")
            case "memory":
                board.memory(300)
            case "controller":
                (board.root / "proc/mounts").write_text("")
            case "zram":
                (board.root / "sys/class/zram-control").rmdir()
                (board.root / "module").unlink()
            case "start":
                board.refuse("on /dev/zram7")
            case "space":
                board.program("dd", "echo 'dd: No space left' >&2; exit 1")
            case "name":
                board.swaps.write_text(FORMER.replace("/dev/zram0", "/swap;file"))
        before = board.swaps.read_text() if board.swaps.exists() else ""
        level, message, hint = REFUSALS[reason]
        with pytest.raises(UnavailableError, match=message) as caught:
            target.try_levels("swap", (level,))
        assert hint in caught.value.hint
        target.board.ask(":")  # it is connected again
        now = board.swaps.read_text() if board.swaps.exists() else ""
        assert sorted(line.split()[0] for line in now.splitlines()) == sorted(
            line.split()[0] for line in before.splitlines()
        )
    assert not board.state.exists() and not board.group.exists()
    assert not list(board.ssh.board.glob("swapstone-swap*"))


def test_a_board_without_mkswap_is_named(board: FakeBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = tmp_path / "few"
    few.mkdir()
    for name in ("cat", "chmod", "dd", "df", "env", "mkdir", "mv", "rm", "sha256sum", "sh", "uname"):
        (few / name).symlink_to(str(shutil.which(name)))
    (board.programs / "mkswap").unlink()
    script = (board.ssh.bin / "ssh").read_text().replace(":$PATH", f":{few}")
    (board.ssh.bin / "ssh").write_text(script)
    functions = board_scripts.FUNCTIONS.replace(":/usr/sbin:/sbin", "")  # this machine has the program there
    monkeypatch.setattr(board_scripts, "FUNCTIONS", functions)
    with SshTarget(PLACE) as target, pytest.raises(UnavailableError, match="it lacks the program mkswap") as caught:
        target.try_levels("swap", ("none",))
    assert caught.value.hint == "Install busybox or util-linux there."


def test_a_probe_states_what_is_missing_and_changes_nothing(board: FakeBoard) -> None:
    with SshTarget(PLACE) as target:
        answer = target.board.ask(PROBE_STEP)
        assert missing_for_swap(answer, is_root=True) == ("", "") and "probe-zram" in answer.parts
        assert missing_for_swap(answer, is_root=False)[0] == "it needs root"
        (board.root / "proc/mounts").write_text("")
        (board.root / "sys/class/zram-control").rmdir()
        answer = target.board.ask(PROBE_STEP)
        assert (
            missing_for_swap(answer, is_root=True)[0].startswith("it has no memory cgroup")
            and "probe-zram" not in answer.parts
        )
        board.swaps.rename(board.root / "proc/kept")
        assert missing_for_swap(target.board.ask(PROBE_STEP), is_root=True)[0] == "its kernel has no swap (CONFIG_SWAP)"
        (board.root / "proc/kept").rename(board.swaps)
    assert board.swaps.read_text() == FORMER and not board.state.exists()
    shown = boards.swap_finding(BoardAnswer({"probe-zram": b""}, {}), is_root=True)
    assert (shown.state, shown.found[:40]) == (State.GOOD, "none, zram:ALGORITHM (zram is there), an")
    assert "modprobe zram is tried" in boards.swap_finding(BoardAnswer({}, {}), is_root=True).found
    refused = boards.swap_finding(BoardAnswer({}, {}), is_root=False)
    assert (refused.state, refused.meaning, refused.remedy[:14]) == (State.MISSING, "it needs root", "Log in as root")
    lacking = BoardAnswer({"probe-program": b"swapon\n"}, {})
    assert missing_for_swap(lacking, is_root=True)[0] == "it lacks the program swapon"


@pytest.mark.parametrize("level", ["flash", "file;reboot", "zram:", "zram:lz4 x", ""])
def test_only_a_level_of_boards_becomes_a_part_of_a_command(level: str) -> None:
    with pytest.raises(UserError, match="is no swap device of a board"):
        board_swap.swap_step("set", level)


@pytest.mark.parametrize("group", ["", "relative/swapstone-board", "/x/other", "/$(reboot)/swapstone-board"])
def test_a_group_of_another_form_is_refused(group: str) -> None:
    with pytest.raises(UserError, match="is not valid"):
        board_swap.check_set(BoardAnswer({"swap-group": group.encode()}, {}), "b", "b")


def test_a_reason_that_is_unknown_is_no_traceback() -> None:
    with pytest.raises(UnavailableError, match="no reason given"):
        board_swap.check_set(BoardAnswer({"no-swap": b"{x} {0}"}, {}), "b", "b")
    with pytest.raises(UnavailableError, match=r"has \? MiB in use, and only \? MiB"):
        board_swap.check_set(BoardAnswer({"no-swap": b"busy x" + b"9" * 300}, {}), "b", "b")


def test_a_connection_that_ended_is_its_own_error(board: FakeBoard) -> None:
    with SshTarget(PLACE) as target:
        board.ssh.cut()
        with pytest.raises(ConnectionEndedError):
            target.try_levels("swap", ("none",))
