# SPDX-License-Identifier: MIT OR Apache-2.0
"""Boards that can't run trials, and the frequency governor that a session sets and restores; with a program in ssh's place."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from swapstone.core.model import UnavailableError, UserError
from swapstone.core.targets import TargetError, parse_target
from swapstone.core.wire import TrialRequest
from swapstone.parts.boards.targets import board_scripts
from swapstone.parts.boards.targets.board import BoardAnswer, BoardFolder, clean_board
from swapstone.parts.boards.targets.ssh_target import SshSpec, SshTarget
from tests.fake_ssh import HONEST, FakeSsh

PLACE = BoardFolder(host="board")
FAST = BoardFolder(host="board", governor="performance")


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSsh:
    found = FakeSsh(tmp_path / "board")
    monkeypatch.setenv("PATH", found.path)
    return found


@pytest.fixture
def governors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two processors, of which each has its own governor."""
    paths = [tmp_path / "cpus" / f"cpu{number}" / "cpufreq" / "scaling_governor" for number in (0, 1)]
    for path, name in zip(paths, ("ondemand", "schedutil"), strict=True):
        path.parent.mkdir(parents=True)
        path.write_text(f"{name}\n")
        (path.parent / "scaling_available_governors").write_text("ondemand schedutil performance\n")
    monkeypatch.setattr(board_scripts, "CPUFREQ", f"{tmp_path}/cpus/cpu[0-9]*/cpufreq")
    return paths


def values(paths: list[Path]) -> list[str]:
    return [path.read_text().strip() for path in paths]


def wait_for(paths: list[Path], expected: list[str]) -> None:
    until = time.monotonic() + 60
    while values(paths) != expected and time.monotonic() < until:
        time.sleep(0.02)
    assert values(paths) == expected


def test_a_governor_is_set_for_the_session_and_restored(ssh: FakeSsh, governors: list[Path]) -> None:
    with SshTarget(FAST) as target:
        assert values(governors) == ["performance", "performance"]
        assert dict(target.tools())["governor of the board"] == "performance, before the session ondemand, schedutil"
    wait_for(governors, ["ondemand", "schedutil"])
    assert not (ssh.board / "governors").exists()
    with SshTarget(PLACE) as target:
        assert values(governors) == ["ondemand", "schedutil"]
        assert "governor of the board" not in dict(target.tools())


def test_a_governor_is_restored_by_the_next_session_if_the_shell_was_killed(
    ssh: FakeSsh, governors: list[Path]
) -> None:
    target = SshTarget(FAST)
    ssh.cut()
    assert values(governors) == ["performance", "performance"]
    target.board.connect()  # the same session: the former governors are still those before it
    assert dict(target.tools())["governor of the board"] == "performance, before the session ondemand, schedutil"
    ssh.cut()
    target.close()
    assert values(governors) == ["performance", "performance"]
    with SshTarget(PLACE):
        assert values(governors) == ["ondemand", "schedutil"]


def test_target_clean_restores_a_governor(ssh: FakeSsh, governors: list[Path]) -> None:
    target = SshTarget(FAST)
    ssh.cut()
    target.close()
    clean_board(PLACE)
    assert values(governors) == ["ondemand", "schedutil"] and not ssh.board.exists()


def test_governors_of_an_earlier_boot_are_not_restored(ssh: FakeSsh, governors: list[Path]) -> None:
    with SshTarget(PLACE):
        pass
    (ssh.board / "governors").write_text(f"boot 00000000-0000-4000-8000-000000000000\n{governors[0]} powersave\n")
    with SshTarget(PLACE):
        assert values(governors) == ["ondemand", "schedutil"]
    assert not (ssh.board / "governors").exists()


def test_a_governor_that_can_t_be_set_is_refused_and_the_others_are_restored(
    ssh: FakeSsh, governors: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    governors[1].unlink()
    governors[1].symlink_to("/dev/null")  # accepts every name, and keeps none
    with pytest.raises(UnavailableError, match="can't be changed from") as caught:
        SshTarget(FAST)
    expected = "It has: ondemand schedutil performance." if os.geteuid() == 0 else "It needs root"
    assert caught.value.hint.startswith(expected)
    wait_for(governors[:1], ["ondemand"])
    monkeypatch.setattr(board_scripts, "CPUFREQ", f"{ssh.folder}/nothing")
    with pytest.raises(UnavailableError, match=r"no frequency governors \(cpufreq\)"):
        SshTarget(FAST)


def test_the_options_of_a_board() -> None:
    assert parse_target("ssh:b,governor=performance,folder=/x") == SshSpec(
        place=BoardFolder(host="b", folder="/x", governor="performance")
    )
    for text in ("ssh:b,governor=", "ssh:b,governor=a;b", "ssh:b,folder=/a,folder=/b", "ssh:b,governor=x,other=1"):
        with pytest.raises(UserError, match="names no board"):
            parse_target(text)


def programs(folder: Path, **replaced: str) -> str:
    """Return a folder with the programs that a board needs; those named are scripts."""
    folder.mkdir()
    for name in ("cat", "chmod", "dd", "df", "env", "id", "mkdir", "mv", "rm", "sha256sum", "sh", "sleep", "uname"):
        if name not in replaced:
            (folder / name).symlink_to(str(shutil.which(name)))
    for name, script in replaced.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return str(folder)


def board_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str) -> FakeSsh:
    found = FakeSsh(tmp_path / "board", f"{before}\n{HONEST}")
    monkeypatch.setenv("PATH", found.path)
    return found


def test_a_program_that_a_board_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = Path(programs(tmp_path / "few"))
    (few / "mv").unlink()
    board_with(tmp_path, monkeypatch, f"PATH={few}; export PATH")
    with pytest.raises(UnavailableError, match="lacks the program mv"):
        SshTarget(PLACE)


def test_a_full_file_system_is_an_error_and_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = board_with(tmp_path, monkeypatch, "")
    with SshTarget(PLACE) as target:
        place = target.put(Path("/bin/true"))
    few = programs(tmp_path / "few", mv="echo 'mv: write error: No space left on device' >&2; exit 1")
    script = (ssh.bin / "ssh").read_text().replace(HONEST, f"PATH={few}; export PATH\n{HONEST}")
    (ssh.bin / "ssh").write_text(script)
    with SshTarget(PLACE) as target:
        assert target.put(Path("/bin/true")) == place  # it is there already
        with pytest.raises(UserError, match=r"false can't be copied .*No space left on device") as caught:
            target.put(Path("/bin/false"))
    assert "swapstone target clean ssh:board" in caught.value.hint
    assert not list(ssh.folder.glob("swapstone-board-lock-*")) and Path(place).exists()


def test_a_folder_in_which_no_program_runs_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # chmod that gives no permission to execute, as if the file system were mounted with noexec.
    few = programs(tmp_path / "few", chmod=f'case $2 in *.try) exec {shutil.which("chmod")} 600 "$2" ;; esac')
    ssh = board_with(tmp_path, monkeypatch, f"PATH={few}; export PATH")
    with pytest.raises(UnavailableError, match=r"No program can run in the folder .*noexec") as caught:
        SshTarget(PLACE)
    assert "ssh:board,folder=/path" in caught.value.hint
    assert not list(ssh.folder.glob("swapstone-board-lock-*"))


@pytest.mark.slow
def test_a_board_that_reboots_again_and_again_fails_its_trial_and_the_session_goes_on(
    ssh: FakeSsh, monkeypatch: pytest.MonkeyPatch
) -> None:
    boots = iter(f"boot {number}" for number in range(100))
    with SshTarget(PLACE) as target:
        monkeypatch.setattr(BoardAnswer, "boot", property(lambda _: next(boots)))
        with pytest.raises(TargetError, match="ended 3 times during this trial") as caught:
            target.run(_asked(target, f"pids=$(cat {ssh.folder}/pids); : >{ssh.folder}/pids; kill -9 $pids; sleep 60"))
        assert caught.value.hint == "Observe it: ssh board dmesg"
        facts = dict(target.run(_asked(target, ":", trial="1-1")).facts)
    assert facts["board_boots"] == 3


def _asked(target: SshTarget, script: str, trial: str = "1-0") -> TrialRequest:
    words = ("/bin/sh", "-c", script)
    return TrialRequest(id=trial, arguments=words, environment=(), cwd=target.scratch(), timeout_ms=20_000)


def test_a_shell_that_is_stopped_keeps_the_lock(ssh: FakeSsh) -> None:
    with SshTarget(PLACE):
        first = int((ssh.folder / "pids").read_text().split()[0])
        os.kill(first, signal.SIGSTOP)
        try:
            with pytest.raises(UserError, match="in use by"):
                SshTarget(PLACE)
        finally:
            os.kill(first, signal.SIGCONT)
