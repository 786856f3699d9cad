# SPDX-License-Identifier: MIT OR Apache-2.0
"""Another machine on which load generators run, reached by ssh.

One connection lasts from `DriverHost` to its `close`; each load generator is a session of it (OpenSSH's ControlMaster). The standard
input of a session ends with the connection, and then that machine kills the load generator.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import selectors
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import IO

from swapstone.model import FrozenStruct, UnavailableError, UserError, WireError
from swapstone.model.driver_target import DriverTarget
from swapstone.model.safe_text import safe_excerpt
from swapstone.model.temporary_folder import TemporaryFolder
from swapstone.targets.driver_answer import FACTS, MOST_BYTES, decode_driver_answer, decode_program
from swapstone.targets.driver_scripts import END, keeper_script, octal

CONNECT_S = 10
"""Limit for the connection, of ssh itself."""

ANSWER_S = 60.0
"""Limit for the answer of a script."""

_STOP_S = 5.0
_MOST_COMMAND_BYTES = 100_000
"""Of the words of a load generator: they are one argument of ssh, which may have 128 KiB."""

_LONGEST_SOCKET = 90
"""A socket's path has at most 107 bytes, and ssh adds 17 while it creates one."""

_OPTIONS = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",
    "ConnectTimeout": str(CONNECT_S),
    "ServerAliveInterval": "5",
    "ServerAliveCountMax": "3",
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "RequestTTY": "no",
    "ControlPersist": "no",
    "LogLevel": "ERROR",
}


class RemoteProgram(FrozenStruct, frozen=True, kw_only=True):
    """A load generator on the other machine.

    Attributes:
        path: absolute path there.
        sha256: of its file, in hexadecimal.
    """

    path: str
    sha256: str


class DriverHost:
    """A connection to the machine of the load generators.

    Args:
        driver: the machine, and the address of this machine.

    Raises:
        UnavailableError: it can't be reached or lacks a program, or this machine lacks ssh or does not have the address.
        UserError: it answered something that is not valid.
    """

    def __init__(self, driver: DriverTarget) -> None:
        self.driver = driver
        self._folder = TemporaryFolder("driver")
        self._socket = self._folder.path / "s"
        self._endless = self._folder.path / "endless"
        self._there = f"/tmp/swapstone-driver-{secrets.token_hex(16)}"  # noqa: S108 - there; mkdir fails if it exists
        self._programs: dict[str, RemoteProgram] = {}
        self._keeper: subprocess.Popen[bytes] | None = None
        try:
            self._ssh = _ssh()
            self._check_socket()
            os.mkfifo(self._endless, 0o600)
            self._facts = self._connect()
            self.address = driver.address or self._facts.get("client", "")
            _check_address(self.address, given=bool(driver.address))
        except BaseException:
            self.close()
            raise

    def _check_socket(self) -> None:
        if len(os.fsencode(self._socket)) > _LONGEST_SOCKET:
            raise UnavailableError(
                f"The path of ssh's socket would be too long: {self._socket}.",
                "Set TMPDIR to a folder with a short path.",
            )

    @property
    def architecture(self) -> str:
        """Return its architecture, as ``uname -m`` prints it there."""
        return self._facts.get("architecture", "")

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (what, text) of what was observed of the machine and of the load generators there."""
        same = self._facts.get("boot", "") == _boot_id()
        return (
            ("load generators on", self.driver.name),
            *((f"load generators' machine: {key}", self._facts[key]) for key in FACTS if self._facts.get(key)),
            *([("load generators' machine: same kernel as the servers'", "yes")] if same else []),
            ("servers listen on", self.address),
            *(
                (f"driver {name}", f"{each.path}, sha256 {each.sha256}")
                for name, each in sorted(self._programs.items())
            ),
        )

    def find(self, name: str) -> RemoteProgram:
        """Return a program of that machine.

        Args:
            name: to be found in PATH there, or an absolute path there.

        Raises:
            UnavailableError: it is not there.
            UserError: the answer is not valid.
        """
        found = self._find(name)
        if found is None:
            raise UnavailableError(
                f"The load generator {safe_excerpt(name, 80)} is not installed on {self.driver.name}.",
                "Install it there, or name a file of this machine by its path: that is copied.",
            )
        return self._keep(Path(name).name, found)

    def copy(self, path: Path) -> RemoteProgram:
        """Copy a program to that machine and return it.

        Args:
            path: of this machine.

        Raises:
            UnavailableError: that machine has another architecture.
            UserError: it can't be copied, or arrived with another content.
        """
        here = os.uname().machine
        if self.architecture != here:
            raise UnavailableError(
                f"The load generator {path.name} is a program of {here}, and {self.driver.name} is {self.architecture}.",
                "Install it there and name it without a path.",
            )
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        with path.open("rb") as content:
            self._call("take", digest[:32], content)
        found = self._find(f"{self._there}/driver-{digest[:32]}")
        if found is None or found.sha256 != digest:
            raise UserError(
                f"The load generator {path.name} arrived on {self.driver.name} with another content.",
                f"There may be no room in /tmp there: ssh {self.driver.name} df /tmp",
            )
        return self._keep(path.name, found)

    def _keep(self, name: str, program: RemoteProgram) -> RemoteProgram:
        self._programs[name] = program
        return program

    def _find(self, name: str) -> RemoteProgram | None:
        found = decode_program(self._call("find", octal(name)))
        return RemoteProgram(path=found[0], sha256=found[1]) if found else None

    def command(self, program: RemoteProgram, words: tuple[str, ...], limit_s: int) -> tuple[str, ...]:
        """Return the command of this machine that executes a load generator there, with its output and status.

        Args:
            program: there.
            words: its arguments. None has a zero byte.
            limit_s: that machine kills it after this time, even if the connection hangs.

        Raises:
            UserError: the words are too long for a command line.
        """
        there = " ".join([program.sha256, str(limit_s), *map(octal, (program.path, *words))])
        if len(there) > _MOST_COMMAND_BYTES:
            raise UserError(
                "The command of the load generator is too long to be sent to another machine.", "Shorten it."
            )
        # Standard input that never ends: a FIFO that its reader has also opened for writing.
        shell = ("/bin/sh", "-c", 'exec "$@" <>"$0"', str(self._endless))
        return (*shell, *self._client("run", there))

    def close(self) -> None:
        """End the connection; that machine then kills what runs there and removes its folder. May be called twice."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            for stream in (keeper.stdin, keeper.stdout, keeper.stderr):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
            try:
                keeper.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                keeper.kill()
                keeper.wait()
        self._folder.close()

    def _common(self) -> tuple[str, ...]:
        options = [word for name, value in _OPTIONS.items() for word in ("-o", f"{name}={value}")]
        port = ("-p", str(self.driver.port)) if self.driver.port else ()
        user = ("-l", self.driver.user) if self.driver.user else ()
        return (*options, "-S", str(self._socket), *port, *user)

    def _client(self, script: str, argument: str) -> tuple[str, ...]:
        """Return the command of a session of the connection; it does not connect anew if that is gone."""
        there = f"exec /bin/sh {self._there}/{script} {argument}"
        only = ("-o", "ControlMaster=no", "-o", "ProxyCommand=/bin/false")
        return (self._ssh, *self._common(), *only, "--", self.driver.host.strip("[]"), there)

    def _connect(self) -> dict[str, str]:
        """Open the connection; return what the machine printed of itself."""
        words = (*self._common(), "-o", "ControlMaster=yes", "--", self.driver.host.strip("[]"), "exec /bin/sh -s")
        keeper = self._keeper = _start((self._ssh, *words), subprocess.PIPE)
        assert keeper.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # then its error says why
            keeper.stdin.write(keeper_script(self._there).encode())
            keeper.stdin.flush()
        output, errors = _read(keeper, until=f"\n{END}\n".encode())
        if not output:
            raise UnavailableError(
                f"{self.driver.name} can't be reached by ssh: {_last_line(errors)}",
                f"This must work without a question: ssh -o BatchMode=yes {self.driver.name} true",
            )
        found = decode_driver_answer(output)
        if missing := found.get("missing"):
            raise UnavailableError(
                f"{self.driver.name} lacks programs: {missing}.", "Install coreutils and util-linux there."
            )
        return found

    def _call(self, script: str, argument: str, content: IO[bytes] | None = None) -> bytes:
        """Run a script there and return its output."""
        process = _start(self._client(script, argument), content or subprocess.DEVNULL)
        try:
            output, errors = _read(process)
            status = process.wait(_STOP_S)
        except subprocess.TimeoutExpired as error:
            raise UserError(f"A session of {self.driver.name} did not end.") from error
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                assert stream is not None
                stream.close()
        if status != 0:
            raise UserError(f"A command failed on {self.driver.name}: {_last_line(errors)}")
        return output


def _ssh() -> str:
    found = shutil.which("ssh")
    if found is None:
        raise UnavailableError(
            "ssh is not installed on this machine.", "On Debian: sudo apt-get install openssh-client"
        )
    return str(Path(found).absolute())


def _start(command: tuple[str, ...], stdin: int | IO[bytes]) -> subprocess.Popen[bytes]:
    """Start ssh in a session of its own, so that Ctrl-C does not reach it."""
    return subprocess.Popen(
        command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, bufsize=0
    )


def _read(process: subprocess.Popen[bytes], until: bytes = b"") -> tuple[bytes, bytes]:
    """Read what a process prints to its end, or until its output ends with a text.

    Returns:
        Its output and its errors.

    Raises:
        UserError: there was no end in time.
        WireError: it printed more than `MOST_BYTES`.
    """
    found: dict[int, bytearray] = {}
    deadline = time.monotonic() + ANSWER_S
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            found[stream.fileno()] = bytearray()
            selector.register(stream.fileno(), selectors.EVENT_READ)
        first, second = found
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                raise UnavailableError(f"The load generators' machine did not answer within {ANSWER_S:g} s.")
            for key, _ in selector.select(left):
                data = os.read(key.fd, 4096)
                found[key.fd] += data
                if not data:
                    selector.unregister(key.fd)
                if len(found[key.fd]) > MOST_BYTES:
                    raise WireError(f"The load generators' machine printed more than {MOST_BYTES} bytes.")
            if until and found[first].endswith(until):
                break
    return bytes(found[first]), bytes(found[second])


def _last_line(errors: bytes) -> str:
    lines = errors.decode(errors="replace").strip().splitlines()
    return safe_excerpt(lines[-1].strip(), 200) if lines else "it ended without a message"


def _check_address(address: str, *, given: bool) -> None:
    """Check that servers of this machine can listen on an address.

    Raises:
        UnavailableError: they can't.
    """
    hint = "Name the address of this machine that the other one reaches: --server-address ADDRESS (ip -4 address)"
    what = (
        f"--server-address {address}"
        if given
        else f"The address from which ssh came, {safe_excerpt(address, 60) or 'unknown'},"
    )
    with socket.socket() as candidate:
        try:
            candidate.bind((socket.inet_ntoa(socket.inet_aton(address)), 0))
        except (OSError, ValueError) as error:
            raise UnavailableError(
                f"{what} is no address of this machine on which a server can listen.", hint
            ) from error


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
