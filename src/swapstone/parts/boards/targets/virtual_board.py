# SPDX-License-Identifier: MIT OR Apache-2.0
"""A board that everyone has: an emulated machine that this target boots, and then reaches by ssh as any other board. See docs/boards.md."""

from __future__ import annotations

import base64
import contextlib
import shlex
import socket
import subprocess
import time
from pathlib import Path

from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.model import UnavailableError, cpio, undone_on_error
from swapstone.core.model.directories import share_dir
from swapstone.core.model.regular_file import tail_of
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.parts.boards.targets.board import BoardFolder
from swapstone.parts.boards.targets.ssh_target import SshTarget
from swapstone.parts.vm.machine.emulator import BARE, EmulatedMachine, find_emulator
from swapstone.parts.vm.machine.qemu import VmImage, last_lines

_ALIAS = "swapstone-virtual-board"
_KIND = b"\0\0\0\x0bssh-ed25519"
"""The name of the kind as a string of RFC 4251."""

_PUBLIC, _PRIVATE = 4 + 32, 4 + 64
"""Bytes of a key as a string of RFC 4251."""

_KEYGEN_S = 30


class BoardKeys:
    """Two new pairs of Ed25519 keys in a folder, without passphrases.

    Args:
        folder: private and empty. Another user who can write there can replace the keys.

    Attributes:
        config: an ssh configuration with which ssh reads no other: it offers the user's key, and accepts the server's key alone.

    Raises:
        UnavailableError: ssh-keygen is missing or fails.
    """

    def __init__(self, folder: Path) -> None:
        self._server, self._user = folder / "server", folder / "user"
        self.config = folder / "config"
        for path in (self._server, self._user):
            _make(path)
        known = folder / "known_hosts"
        known.write_text(f"{_ALIAS} {_public(self._server)}")
        self.config.write_text(
            f'HostKeyAlias {_ALIAS}\nUserKnownHostsFile "{known}"\nGlobalKnownHostsFile /dev/null\n'
            f'IdentityFile "{self._user}"\nIdentitiesOnly yes\nIdentityAgent none\n'
        )

    def server_key(self) -> bytes:
        """Return the server's private key as dropbear reads it: two strings of RFC 4251, the name of the kind and the 64 bytes of the key.

        OpenSSH's form is that of its PROTOCOL.key: the kind's name comes last before the private key, and the public half after it.
        Dropbear's is that of its function ``buf_put_ed25519_priv_key``.
        """
        pair = base64.b64decode("".join(self._server.read_text().splitlines()[1:-1])).rpartition(_KIND)[2]
        return _KIND + pair[_PUBLIC : _PUBLIC + _PRIVATE]

    def authorized(self) -> bytes:
        """Return the user's public key, as a line of ``authorized_keys``."""
        return _public(self._user).encode()


def _make(path: Path) -> None:
    program = require_command("ssh-keygen", "A virtual board")
    made = subprocess.run(
        (program, "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_KEYGEN_S,
    )
    if made.returncode != 0:
        raise UnavailableError(f"ssh-keygen made no key: {(made.stderr.strip().splitlines() or ['no message'])[-1]}.")


def _public(path: Path) -> str:
    return path.with_suffix(".pub").read_text().strip() + "\n"


BOOT_S = 300.0
"""Limit for a boot, until the ssh server answers. It takes 10 to 40 s on a machine that does nothing else."""

MEMORY_MIB = 512

_ADDRESS, _PORTS, _BANNER = "127.0.0.1", 5, b"SSH-2.0-"
_INIT = "native/images/board-init"
_OPTIONS = ("rdinit=/board-init", "quiet", "panic=-1", "cryptomgr.notests", "random.trust_bootloader=on")
_POLL_S, _TAIL_BYTES = 0.25, 8192
_TAKEN = "Could not set up host forwarding rule"


class EmulatedBoard:
    """An emulated machine, switched on.

    It has a folder of its own with its keys; it reaches no network, and of this machine's addresses only `_ADDRESS` reaches it.

    Args:
        image: what it boots.
        architecture: in names.

    Attributes:
        version: of the emulator.

    Raises:
        UnavailableError: the emulator or ssh-keygen is missing, or the machine does not start.
    """

    def __init__(self, image: VmImage, architecture: str) -> None:
        self._image, self._architecture = image, architecture
        self._process: subprocess.Popen[bytes] | None = None
        emulator = find_emulator(image.machine)
        self.version = emulator.version
        self._emulator = emulator.command
        self._temporary = TemporaryFolder("emulated")
        folder = self._temporary.path
        self._console, self._initrd = folder / "console", folder / "initrd"
        with undone_on_error(self.close):
            self._keys = BoardKeys(folder)
            base = image.initrd.read_bytes()
            added = cpio.archive(added_files(self._keys))
            self._initrd.write_bytes(base + bytes(-len(base) % 4) + added)
            self._port = 0
            self.power_on()

    @property
    def place(self) -> BoardFolder:
        """How it is reached, until it is switched off."""
        return BoardFolder(
            host=_ADDRESS,
            user="root",
            port=self._port,
            config=str(self._keys.config),
            own_target=f"virtual-board:{self._architecture}",
        )

    @property
    def pid(self) -> int:
        """The emulator's process; 0 if it is switched off."""
        return self._process.pid if self._process and self._process.poll() is None else 0

    def power_on(self) -> None:
        """Start the machine if it does not run, and wait until its ssh server answers.

        Raises:
            UnavailableError: it does not, within `BOOT_S`.
        """
        if self.pid:
            return
        until = time.monotonic() + BOOT_S
        for attempt in range(_PORTS):
            self._port = free_port()
            self._start()
            while time.monotonic() < until and self.pid:
                if self._answers():
                    return
                time.sleep(_POLL_S)
            if self.pid or attempt + 1 == _PORTS or _TAKEN not in self._messages():
                break  # another program may have taken the port since it was found free
        state = f"did not answer within {BOOT_S:g} s" if self.pid else "ended while it booted"
        messages = self._messages()
        self.power_off()
        raise UnavailableError(
            f"The virtual board {state}: {safe_excerpt(messages.replace(chr(10), ' / '), 300) or 'no message'}",
            f"Boot such a machine by hand: swapstone image boot --libc musl --arch {self._architecture}",
        )

    def power_off(self) -> None:
        """Kill the machine, as a power failure does."""
        process, self._process = self._process, None
        if process:
            process.kill()
            process.wait()

    def close(self) -> None:
        """End the machine and remove its folder. May be called twice."""
        self.power_off()
        self._temporary.close()

    def _start(self) -> None:
        model = self._image.machine.model
        command = (
            *("setpriv", "--pdeathsig", "KILL", "--", *self._emulator),
            *("-M", model.machine, "-cpu", model.cpu, "-m", f"{MEMORY_MIB}M"),
            *(
                "-serial",
                f"file:{str(self._console).replace(',', ',,')}",
            ),  # in an option of the emulator, two commas are one
            *("-kernel", str(self._image.kernel), "-initrd", str(self._initrd), "-append"),
            " ".join(boot_words(self._image.machine)),
            *device_words(self._port),
        )
        with (self._console.with_suffix(".errors")).open("wb") as errors:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                    env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
                    start_new_session=True,
                )
            except OSError as error:
                raise UnavailableError(
                    f"The virtual board can't be started: {error.strerror}.",
                    f"Try: {shlex.join(command[:1])} --version",
                ) from error

    def _answers(self) -> bool:
        """Return whether an ssh server answers. The emulator itself accepts the connection at once."""
        with contextlib.suppress(OSError), socket.create_connection((_ADDRESS, self._port), 5) as connection:
            return connection.recv(len(_BANNER)) == _BANNER
        return False

    def _messages(self) -> str:
        """Return the last lines of the emulator's messages and of the console."""
        return last_lines(
            "\n".join(tail_of(path, _TAIL_BYTES) for path in (self._console, self._console.with_suffix(".errors")))
        )


def added_files(keys: BoardKeys) -> dict[str, cpio.Entry]:
    """Return the files of a board beside those of its image: its first process and its keys."""
    return {
        "board-init": cpio.file((share_dir() / _INIT).read_bytes(), executable=True),
        "etc/dropbear/dropbear_ed25519_host_key": cpio.file(keys.server_key()),
        "etc/dropbear/authorized_keys": cpio.file(keys.authorized()),
    }


def boot_words(machine: EmulatedMachine) -> tuple[str, ...]:
    """Return the parameters of the kernel's command line."""
    return (*(word for word in machine.model.options if word.startswith("console=")), *_OPTIONS)


def device_words(port: int) -> tuple[str, ...]:
    """Return options of the emulator: no devices but a network card, whose only way in is a port of `_ADDRESS` to the ssh server."""
    return (
        *(*BARE, "-accel", "tcg"),
        *("-netdev", f"user,id=net,restrict=on,ipv6=off,hostfwd=tcp:{_ADDRESS}:{port}-:22"),
        *("-device", "virtio-net-pci,netdev=net,romfile="),
    )


def free_port() -> int:
    """Return a port of the loopback device that no program has now."""
    with socket.socket() as candidate:
        candidate.bind((_ADDRESS, 0))
        port: int = candidate.getsockname()[1]
        return port


ARCHITECTURES = ("arm64", "armhf", "riscv64", "x86_64")
"""Names of `swapstone.core.model.architectures`; the first is the default."""


class VirtualBoardTarget(SshTarget):
    """Boots a machine, runs trials there as on a board, and ends it.

    The machine ends with `close`, with this program, and with its death by SIGKILL.

    Args:
        image: what it boots.
        architecture: one of `ARCHITECTURES`.

    Raises:
        UserError: it can't be booted.
    """

    name = "virtual-board"
    emulated = True

    def __init__(self, image: VmImage, architecture: str) -> None:
        self.machine = EmulatedBoard(image, architecture)
        with undone_on_error(self.machine.close):
            super().__init__(self.machine.place)

    def tools(self) -> tuple[tuple[str, str], ...]:
        """Return the tools of a board, and the emulator."""
        return (*super().tools(), ("emulator of the board", self.machine.version))

    def _before_connecting(self) -> None:
        """Boot the machine again if it has ended."""
        self.machine.power_on()
        self.board.move(self.machine.place)

    def close(self) -> None:
        """End the agent, the connection and the machine."""
        super().close()
        self.machine.close()
