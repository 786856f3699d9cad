# SPDX-License-Identifier: MIT OR Apache-2.0
"""Virtual boards: keys, the emulator's start and end with a program in its place, and the target's text."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.cpio import archive, file, unpack
from swapstone.core.targets import TargetOptions, parse_target
from swapstone.parts.boards.session.virtual_board_kind import VirtualBoardSpec
from swapstone.parts.boards.targets import virtual_board
from swapstone.parts.boards.targets.virtual_board import BoardKeys, EmulatedBoard
from swapstone.parts.vm.machine.emulator import EmulatedMachine, Emulator
from swapstone.parts.vm.machine.qemu import VmImage
from tests.processes import ends

SERVER = """#!{python}
import re, socket, sys, pathlib
words = " ".join(sys.argv)
pathlib.Path("{folder}/called").open("a").write(words + "\\n")
{start}
server = socket.socket()
server.bind(("127.0.0.1", int(re.search("hostfwd=tcp:127.0.0.1:([0-9]+)-:22", words)[1])))
server.listen()
while True:
    connection, _ = server.accept()
    connection.sendall(b"SSH-2.0-test\\r\\n")
    connection.close()
"""


@pytest.fixture
def image(tmp_path: Path) -> VmImage:
    kernel, initrd = tmp_path / "kernel", tmp_path / "initrd"
    kernel.write_bytes(b"kernel")
    initrd.write_bytes(archive({"bin/sh": file(b"shell")}))
    return VmImage(kernel, initrd, EmulatedMachine(architecture="aarch64"))


def emulator(folder: Path, start: str = "", monkeypatch: pytest.MonkeyPatch | None = None) -> Emulator:
    """Let a program be the emulator: it runs statements, and then serves the banner of an ssh server."""
    program = folder / "qemu"
    program.write_text(SERVER.format(python=sys.executable, folder=folder, start=start))
    program.chmod(0o755)
    found = Emulator(path=str(program), version="version 9.9", build="x")
    if monkeypatch:
        monkeypatch.setattr(virtual_board, "find_emulator", lambda _: found)
    return found


def test_the_server_s_key_is_in_the_form_of_dropbear(tmp_path: Path) -> None:
    keys = BoardKeys(tmp_path)
    public = base64.b64decode((tmp_path / "server.pub").read_text().split()[1])[-32:]
    key = keys.server_key()
    assert key[:19] == b"\0\0\0\x0bssh-ed25519\0\0\0\x40"
    assert len(key) == 19 + 64 and key.endswith(public) and key[19:51] != bytes(32)
    assert keys.authorized().startswith(b"ssh-ed25519 ") and public not in base64.b64decode(
        keys.authorized().split()[1]
    )
    assert (tmp_path / "server").stat().st_mode & 0o077 == 0


def test_ssh_uses_these_keys_and_no_others(tmp_path: Path) -> None:
    keys = BoardKeys(tmp_path)
    shown = subprocess.run(
        ("ssh", "-F", str(keys.config), "-G", "127.0.0.1"), capture_output=True, text=True, check=True
    )
    lines = shown.stdout.splitlines()
    assert f"identityfile {tmp_path}/user" in lines and "identitiesonly yes" in lines and "identityagent none" in lines
    assert f"userknownhostsfile {tmp_path}/known_hosts" in lines and "globalknownhostsfile /dev/null" in lines
    found = subprocess.run(
        ("ssh-keygen", "-F", "swapstone-virtual-board", "-f", str(tmp_path / "known_hosts")),
        capture_output=True,
        text=True,
        check=True,
    )
    assert (tmp_path / "server.pub").read_text().split()[1] in found.stdout


def test_a_board_is_switched_on_reset_and_off(tmp_path: Path, image: VmImage, monkeypatch: pytest.MonkeyPatch) -> None:
    emulator(tmp_path, monkeypatch=monkeypatch)
    board = EmulatedBoard(image, "arm64")
    try:
        first, place = board.pid, board.place
        assert first and (place.host, place.user, place.name) == ("127.0.0.1", "root", "virtual-board:arm64")
        assert f"-F {place.config} -p {place.port} root@127.0.0.1" == place.words
        root = unpack((Path(place.config).parent / "initrd").read_bytes())
        assert root is not None and set(root) >= {"bin/sh", "board-init", "etc/dropbear/authorized_keys"}
        board.power_on()
        assert board.pid == first
        os.kill(first, signal.SIGKILL)
        assert board._process is not None
        board._process.wait(10)
        assert board.pid == 0
        board.power_on()
        assert board.pid not in {0, first}
        assert board.place.config == place.config
    finally:
        board.close()
    assert board.pid == 0 and not Path(place.config).parent.exists()
    words = (tmp_path / "called").read_text()
    assert words.count("restrict=on") == 2 and "console=ttyAMA0 rdinit=/board-init" in words


def test_a_port_that_is_taken_meanwhile_is_replaced(
    tmp_path: Path, image: VmImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = f"if pathlib.Path('{tmp_path}/called').read_text().count('hostfwd') < 3: sys.exit('Could not set up host forwarding rule')"
    emulator(tmp_path, taken, monkeypatch)
    board = EmulatedBoard(image, "arm64")
    board.close()
    assert (tmp_path / "called").read_text().count("hostfwd") == 3


def test_a_machine_that_ends_while_it_boots_is_an_error_with_its_last_lines(
    tmp_path: Path, image: VmImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator(tmp_path, "sys.exit('no such \\x1b[31mmachine')", monkeypatch)
    with pytest.raises(UnavailableError, match=r"ended while it booted: .*no such .*machine") as caught:
        EmulatedBoard(image, "arm64")
    assert "\x1b" not in caught.value.message
    assert caught.value.hint.endswith("swapstone image boot --libc musl --arch arm64")
    assert (tmp_path / "called").read_text().count("hostfwd") == 1


@pytest.mark.slow
def test_a_machine_that_does_not_answer_is_ended(
    tmp_path: Path, image: VmImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator(
        tmp_path,
        f"import os, time; pathlib.Path('{tmp_path}/pid').write_text(str(os.getpid())); time.sleep(60)",
        monkeypatch,
    )
    monkeypatch.setattr(virtual_board, "BOOT_S", 1.0)
    with pytest.raises(UnavailableError, match="did not answer within 1 s"):
        EmulatedBoard(image, "arm64")
    assert not (tmp_path / "pid").exists() or not Path("/proc", (tmp_path / "pid").read_text()).exists()


@pytest.mark.slow
def test_the_machine_ends_with_a_program_that_is_killed(tmp_path: Path, image: VmImage) -> None:
    found = emulator(tmp_path)
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from swapstone.parts.boards.targets import virtual_board\n"
        "from swapstone.parts.vm.machine.qemu import VmImage\n"
        "from swapstone.parts.vm.machine.emulator import Emulator\n"
        "from swapstone.parts.vm.machine.emulator import EmulatedMachine\n"
        f"virtual_board.find_emulator = lambda _: Emulator(path={found.path!r}, version='9', build='x')\n"
        f"image = VmImage(Path({str(image.kernel)!r}), Path({str(image.initrd)!r}), EmulatedMachine(architecture='aarch64'))\n"
        "board = virtual_board.EmulatedBoard(image, 'arm64')\n"
        "print(board.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen((sys.executable, "-c", script), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        process.kill()
    assert ends(pid)


def test_the_target_s_text() -> None:
    assert parse_target("virtual-board") == VirtualBoardSpec(architecture="arm64")
    assert parse_target("virtual-board:armhf") == VirtualBoardSpec(architecture="armhf")
    assert parse_target("virtual-board", TargetOptions(architecture="riscv64")) == VirtualBoardSpec(
        architecture="riscv64"
    )
    with pytest.raises(UserError, match="no architecture of a virtual board named 'mips'"):
        parse_target("virtual-board:mips")
    with pytest.raises(UserError, match="runs no programs of armhf"):
        parse_target("virtual-board:arm64", TargetOptions(architecture="armhf"))
