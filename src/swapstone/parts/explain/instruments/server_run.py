# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run a server under an instrument: wait for its port, warm it up, send the measured requests, and stop it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from swapstone.core.model import LoadGenerator, UserError
from swapstone.core.wire import LoadGeneratorRequest
from swapstone.core.workloads.load_generators import read_load_report
from swapstone.parts.explain.instruments.run_limit import RunLimit, noted

TIMEOUT_FACTOR = 10
"""Time-outs for the server's start and end are multiplied by this under an instrument."""

DRIVER_S = 600

LONG_TIMEOUT_OPTIONS = {"wrk": ("--timeout", f"{DRIVER_S}s"), "ab": ("-s", str(DRIVER_S))}
"""Options that raise the time-out of a load generator for a response. A request may take longer under an instrument than the
time-outs of wrk (2 s, its SOCKET_TIMEOUT_MS) and ab (30 s). They don't change the number of requests."""


@dataclasses.dataclass(frozen=True)
class ServerRun:
    """The measured window of a server (CLOCK_MONOTONIC, ns), and the number of answered requests."""

    start_ns: int
    end_ns: int
    requests: float


def drive_server(
    process: subprocess.Popen[bytes],
    pid_file: Path,
    request: LoadGeneratorRequest,
    generator: LoadGenerator,
    limit: RunLimit,
) -> ServerRun:
    """Send a server its load, then stop it.

    Args:
        process: the instrument, or another ancestor of the server.
        pid_file: has the number of the server's first process.
        request: port, load generator and times.
        generator: names the reader of the load generator's output.
        limit: of each wait.

    Raises:
        UserError: the server accepts no connection in time, or does not end, or the load generator fails.
    """
    _wait_for_port(process, request, limit)
    pinned = ("/usr/bin/taskset", "-c", ",".join(map(str, request.cpus))) if request.cpus else ()
    command = [*pinned, *with_long_timeout(request.arguments)]
    if request.warm_ms:
        with contextlib.suppress(subprocess.TimeoutExpired):
            _end_of(command, request, request.warm_ms / 1000)
    start = time.monotonic_ns()
    output = _drive(command, request, limit)
    end = time.monotonic_ns()
    answered = read_load_report(generator.reader, output)
    requests = answered.requests or (answered.per_second or 0.0) * (end - start) / 1e9
    if not requests:
        raise UserError("The load generator got no response.")
    stop(process, pid_file, min(limit.run_s, request.stop_ms * TIMEOUT_FACTOR / 1000), limit.notify)
    return ServerRun(start, end, float(requests))


def _drive(command: list[str], request: LoadGeneratorRequest, limit: RunLimit) -> bytes:
    """Run the load generator to its end, and return its output.

    Raises:
        UserError: it can't be started, does not end in time, or fails.
    """
    name, within_s = Path(request.arguments[0]).name, min(DRIVER_S, limit.run_s)
    what = f"for the end of the load generator {name}"
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr, noted(what, within_s, limit.notify):
        try:
            status = _end_of(command, request, within_s, stdout, stderr)
        except OSError as error:
            raise UserError(f"The load generator {request.arguments[0]} failed: {error}") from error
        except subprocess.TimeoutExpired as error:
            raise UserError(f"The load generator {name} did not end within {within_s:.0f} s.") from error
        stdout.seek(0)
        stderr.seek(0)
        if status != 0:
            raise UserError(
                f"The load generator ended with status {status}: {stderr.read().decode(errors='replace')[-200:]}"
            )
        return stdout.read()


def _end_of(
    command: list[str],
    request: LoadGeneratorRequest,
    within_s: float,
    stdout: IO[bytes] | int = subprocess.DEVNULL,
    stderr: IO[bytes] | int = subprocess.DEVNULL,
) -> int:
    """Run a load generator to its end, and return its status.

    Raises:
        subprocess.TimeoutExpired: it did not end in time, and was killed.
    """
    environment = dict(request.environment)
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, timeout=within_s, check=False
    ).returncode


def with_long_timeout(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return a load generator's command with the time-out of `LONG_TIMEOUT_OPTIONS`, unless the command sets one."""
    return (arguments[0], *LONG_TIMEOUT_OPTIONS.get(Path(arguments[0]).name, ()), *arguments[1:])


def _wait_for_port(process: subprocess.Popen[bytes], request: LoadGeneratorRequest, limit: RunLimit) -> None:
    start, within_s = time.monotonic(), min(limit.run_s, request.ready_ms * TIMEOUT_FACTOR / 1000)
    with noted(f"until the server accepts a connection on port {request.port}", within_s, limit.notify):
        while time.monotonic() - start < within_s and process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", request.port), 1):
                return
            time.sleep(0.01)
    if process.poll() is not None:
        raise UserError("The server, or the instrument above it, ended before it accepted a connection.")
    raise UserError(f"The server accepted no connection on its port within {within_s:.0f} s under the instrument.")


def stop(process: subprocess.Popen[bytes], pid_file: Path, within_s: float, notify: Callable[[str], None]) -> None:
    """Send SIGTERM to the server below a process, so that the instrument above it ends too; kill the server if it stays.

    The server is its first process: whatever this has executed since, and whatever its file is.

    Args:
        process: the instrument.
        pid_file: has the number of the server's first process.
        within_s: how long the server and the instrument may take.
        notify: called with a line when that takes long.

    Raises:
        UserError: the number of the process can't be read, or the instrument does not end either.
    """
    try:
        server = int(pid_file.read_text())
    except (OSError, ValueError) as error:
        raise UserError("The number of the server's process can't be read.") from error
    for number in (signal.SIGTERM, signal.SIGKILL):
        members = [server] if number == signal.SIGTERM else _descendants(process.pid, below=server)
        for pid in members:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        what = f"for the end of the server after {number.name}"
        with contextlib.suppress(subprocess.TimeoutExpired), noted(what, within_s, notify):
            process.wait(within_s)
            return
    raise UserError(f"The instrument did not end within {within_s:.0f} s after its server was killed.")


def _descendants(top: int, below: int) -> list[int]:
    """Return a process and its descendants; none if it is not below another one any more, nor that itself."""
    found = _with_children(below)
    return sorted(found) if below == top or below in _with_children(top) else []


def _with_children(pid: int) -> set[int]:
    """Return a process and its descendants, which each of its threads may have forked."""
    found = {pid}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found.update(*(map(_with_children, map(int, task.read_text().split()))))
    return found
