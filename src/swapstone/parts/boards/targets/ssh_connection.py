# SPDX-License-Identifier: MIT OR Apache-2.0
"""A connection to another machine through the system's OpenSSH: the user's configuration, keys, jump hosts and known hosts.

One connection lasts from `SshConnection.open` to its `close`. Further sessions use it (OpenSSH's ControlMaster, whose socket is in a
private folder), and their standard input ends with it. Host keys are always checked, and ssh never asks a question.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import subprocess
import time
from pathlib import Path
from typing import IO

from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.model import UnavailableError, UserError, WireError
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.core.targets.agent_target import end_agents
from swapstone.parts.boards.model.ssh_address import SshAddress

CONNECT_S = 10
"""Limit for the connection, of ssh itself."""

ANSWER_S = 60.0
"""Limit for the answer of a script."""

SLOWEST_BYTES_S = 4096
"""A file that is copied has a second more for each of so many bytes: a serial line of 115200 baud carries 11 kB/s."""

MOST_BYTES = 16_384
"""Of an answer, and of what ssh prints as errors, unless the caller allows more."""

ALIVE_S = 15.0
"""A connection whose ssh server does not answer for so long counts as lost, unless `SshConnection.tolerate` allows more."""

_ASK_EACH_S = 5
_STOP_S = 5.0

_CONNECT_BY_HAND = "Connect once by hand and compare the host key that ssh shows: ssh {words} true"
_AGAIN = "This must work without a question: ssh -o BatchMode=yes {words} true"
_REFUSALS = {
    b"IDENTIFICATION HAS CHANGED": "The key in known_hosts is another one: find out why, before you change it (ssh-keygen -R). "
    + _AGAIN,
    b"Host key verification failed": _CONNECT_BY_HAND,
    b"host key is known": _CONNECT_BY_HAND,
    b"Permission denied": "Log in with a key: ssh-copy-id {words}, or ssh-add for a key with a passphrase. " + _AGAIN,
}
"""What ssh prints if waiting does not help, and what to do. The messages are those of OpenSSH's sshconnect.c and sshconnect2.c."""

_ONE_SESSION = b"Session open refused by peer"
"""What ssh prints where MaxSessions is reached (mux.c)."""

_SOCKET, _LONGEST_SOCKET = "s", 90
"""A socket's path has at most 107 bytes, and ssh adds 17 while it creates one."""

_OPTIONS = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",
    "ConnectTimeout": str(CONNECT_S),
    "ServerAliveInterval": str(_ASK_EACH_S),
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "RequestTTY": "no",
    "RemoteCommand": "none",
    "ControlPersist": "no",
    "LogLevel": "ERROR",
}


class ConnectionEndedError(UserError):
    """The connection has ended. Nothing that ran through it has an answer."""


class UnreachableError(UnavailableError):
    """No ssh server accepted the connection. A machine that boots may do so later; a key that is not accepted is no such error."""


class SshConnection:
    """A connection to a machine.

    Args:
        machine: which.
        what: the machine in messages, as the subject of a sentence.
        purpose: of the private folder for ssh's socket: 1 to 20 letters.

    Attributes:
        folder: a private folder of this machine, until `close`: in /tmp if ssh's socket would have too long a path in ``TMPDIR``.

    Raises:
        UnavailableError: ssh is not installed.
    """

    def __init__(self, machine: SshAddress, what: str, purpose: str) -> None:
        self._machine = machine
        self._what = what
        self._ssh = _ssh()
        self._temporary = TemporaryFolder(purpose)
        if len(os.fsencode(self._temporary.path / _SOCKET)) > _LONGEST_SOCKET:
            self._temporary.close()
            self._temporary = TemporaryFolder(purpose, Path("/tmp"))  # noqa: S108 - a private folder in it
        self.folder = self._temporary.path
        self._socket = self.folder / _SOCKET
        self._alive_s = ALIVE_S
        self._first: subprocess.Popen[bytes] | None = None

    def tolerate(self, silent_s: float) -> None:
        """Let the machine's ssh server not answer for so long and `ALIVE_S`, from the next connection on."""
        self._alive_s = silent_s + ALIVE_S

    def move(self, machine: SshAddress) -> None:
        """Reach the machine at another address, from the next connection on."""
        self._machine = machine

    def open(self, script: bytes, until: bytes, most_bytes: int = MOST_BYTES) -> bytes:
        """Connect, and run a script in a shell that lasts as long as the connection and then gets the end of its input.

        Args:
            script: POSIX sh.
            until: the last bytes that it prints.
            most_bytes: of what it prints.

        Returns:
            What it printed.

        Raises:
            UnreachableError: no ssh server accepts the connection.
            UnavailableError: the machine accepts no key, runs no shell, or does not answer in time.
            WireError: it printed too much.
        """
        words = (*self._common(), "-o", "ControlMaster=yes", "--", self._machine.host.strip("[]"), "exec /bin/sh -s")
        first = self._first = _start((self._ssh, *words), subprocess.PIPE)
        output, errors = self._asked(first, script, until, most_bytes)
        if not output:
            raise (UnavailableError if any(text in errors for text in _REFUSALS) else UnreachableError)(
                f"{self._machine.name} can't be reached by ssh: {last_line(errors)}",
                next((step for text, step in _REFUSALS.items() if text in errors), _AGAIN).format(
                    words=self._machine.words
                ),
            )
        if not output.endswith(until):
            raise UnavailableError(
                f"{self._machine.name} ended the session: {last_line(output.rstrip() + b' ' + errors.strip())}",
                f"Its login shell must run commands. This must print yes: ssh -o BatchMode=yes {self._machine.words} echo yes",
            )
        return output

    def ask(self, script: bytes, until: bytes, most_bytes: int = MOST_BYTES, beside_s: float = 0.0) -> bytes:
        """Run a further script in the shell of `open`.

        Args:
            script: as of `open`; its commands read no standard input.
            until: as of `open`.
            most_bytes: as of `open`.
            beside_s: time that it may take beside `ANSWER_S`.

        Raises:
            ConnectionEndedError: the connection has ended.
            UnavailableError: there is no answer in time.
            WireError: the answer is too long.
        """
        if self._first is None:
            raise ConnectionEndedError(f"{self._what} is not connected.")
        output, errors = self._asked(self._first, script, until, most_bytes, beside_s)
        if not output.endswith(until):
            raise ConnectionEndedError(f"The connection to {self._machine.name} ended: {last_line(errors)}")
        return output

    def session(self, command: str) -> tuple[str, ...]:
        """Return the command of this machine that runs one there, in a session of the connection. It does not connect anew.

        Args:
            command: text for a shell there.
        """
        only = ("-o", "ControlMaster=no", "-o", "ProxyCommand=/bin/false")
        return (self._ssh, *self._common(), *only, "--", self._machine.host.strip("[]"), command)

    def call(self, command: str, content: IO[bytes] | None = None, most_bytes: int = MOST_BYTES) -> bytes:
        """Run a command there and return its output.

        Args:
            command: text for a shell there.
            content: its standard input; None for none.
            most_bytes: of its output.

        Raises:
            UnavailableError: the server allows one session for each connection.
            UserError: it failed, printed too much or did not end.
        """
        process = _start(self.session(command), content or subprocess.DEVNULL)
        try:
            size = max(os.fstat(content.fileno()).st_size if content else 0, most_bytes - MOST_BYTES)
            output, errors = self._read(process, most_bytes=most_bytes, beside_s=size / SLOWEST_BYTES_S)
            status = process.wait(_STOP_S)
        except subprocess.TimeoutExpired as error:
            raise UserError(f"A session of {self._machine.name} did not end.") from error
        finally:
            end_agents([process], 0.0)
        if status != 0 and _ONE_SESSION in errors:
            raise UnavailableError(
                f"The ssh server of {self._machine.name} refuses a second session of a connection.",
                "Set MaxSessions 10, its default, in the server's sshd_config, and restart the server.",
            )
        if status != 0:
            raise UserError(f"A command failed on {self._machine.name}: {last_line(errors)}")
        return output

    def disconnect(self) -> None:
        """End the connection. The folder stays."""
        first, self._first = self._first, None
        if first is None:
            return
        end_agents([first], _STOP_S)
        # A killed ssh leaves its socket, with which the next one would have no ControlMaster.
        self._socket.unlink(missing_ok=True)

    def close(self) -> None:
        """End the connection and remove the folder. May be called twice."""
        self.disconnect()
        self._temporary.close()

    def _common(self) -> tuple[str, ...]:
        every = {**_OPTIONS, "ServerAliveCountMax": str(math.ceil(self._alive_s / _ASK_EACH_S))}
        options = [word for name, value in every.items() for word in ("-o", f"{name}={value}")]
        config = ("-F", self._machine.config) if self._machine.config else ()
        port = ("-p", str(self._machine.port)) if self._machine.port else ()
        user = ("-l", self._machine.user) if self._machine.user else ()
        return (*config, *options, "-S", str(self._socket), *port, *user)

    def _asked(
        self, process: subprocess.Popen[bytes], script: bytes, until: bytes, most_bytes: int, beside_s: float = 0.0
    ) -> tuple[bytes, bytes]:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # then its errors state the reason
            process.stdin.write(script)
            process.stdin.flush()
        return self._read(process, until=until, most_bytes=most_bytes, beside_s=beside_s)

    def _read(
        self,
        process: subprocess.Popen[bytes],
        until: bytes = b"",
        most_bytes: int = MOST_BYTES,
        beside_s: float = 0.0,
    ) -> tuple[bytes, bytes]:
        """Read what a process prints to its end, or until its output ends with a text.

        Args:
            process: started with pipes.
            until: the end of the output; empty to read all.
            most_bytes: the limit of the output.
            beside_s: time that it may take beside `ANSWER_S`, such as that of a copy.

        Returns:
            Its output and its errors.

        Raises:
            UnavailableError: there was no end in time.
            WireError: it printed too much.
        """
        found: dict[int, bytearray] = {}
        limit_s = ANSWER_S + beside_s
        deadline = time.monotonic() + limit_s
        with selectors.DefaultSelector() as selector:
            for stream in (process.stdout, process.stderr):
                assert stream is not None
                found[stream.fileno()] = bytearray()
                selector.register(stream.fileno(), selectors.EVENT_READ)
            first, second = found
            limits = {first: most_bytes, second: MOST_BYTES}
            while selector.get_map():
                left = deadline - time.monotonic()
                if left <= 0:
                    raise UnavailableError(
                        f"{self._what} did not answer within {limit_s:.0f} s.",
                        f"This must work, and in less time: ssh -o BatchMode=yes {self._machine.words} true",
                    )
                for key, _ in selector.select(left):
                    data = os.read(key.fd, 1 << 16)
                    found[key.fd] += data
                    if not data:
                        selector.unregister(key.fd)
                    if len(found[key.fd]) > limits[key.fd]:
                        raise WireError(f"{self._what} printed more than {limits[key.fd]} bytes.")
                if until and found[first].endswith(until):
                    break
        return bytes(found[first]), bytes(found[second])


def _ssh() -> str:
    return str(Path(require_command("ssh", "Reaching another machine")).absolute())


def _start(command: tuple[str, ...], stdin: int | IO[bytes]) -> subprocess.Popen[bytes]:
    """Start ssh in a session of its own, so that Ctrl-C does not reach it."""
    return subprocess.Popen(
        command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, bufsize=0
    )


def last_line(errors: bytes) -> str:
    """Return the last line that a program printed, safe for a terminal."""
    lines = errors.decode(errors="replace").strip().splitlines()
    return safe_excerpt(lines[-1].strip(), 200) if lines else "it ended without a message"
