# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run a server under an instrument: wait for its port, warm it up, send the measured requests, and stop it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from swapstone.model import LoadGenerator, UserError
from swapstone.wire import LoadGeneratorRequest
from swapstone.workloads.load_generators import read_load_report

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
    process: subprocess.Popen[bytes], program: str, request: LoadGeneratorRequest, generator: LoadGenerator
) -> ServerRun:
    """Send a server its load, then stop it.

    Args:
        process: the instrument, or another ancestor of the server.
        program: path of the server.
        request: port, load generator and times.
        generator: names the reader of the load generator's output.

    Raises:
        UserError: the server accepts no connection in time, or the load generator fails.
    """
    _wait_for_port(process, request)
    command = [*_pinned(request.cpus), *with_long_timeout(request.arguments)]
    if request.warm_ms:
        _warm_up(command, request)
    start = time.monotonic_ns()
    try:
        finished = subprocess.run(
            command,
            env=dict(request.environment),
            capture_output=True,
            timeout=DRIVER_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"The load generator {request.arguments[0]} failed: {error}") from error
    end = time.monotonic_ns()
    if finished.returncode != 0:
        raise UserError(
            f"The load generator ended with status {finished.returncode}: {finished.stderr.decode(errors='replace')[-200:]}"
        )
    answered = read_load_report(generator.reader, finished.stdout)
    requests = answered.requests or (answered.per_second or 0.0) * (end - start) / 1e9
    if not requests:
        raise UserError("The load generator got no response.")
    stop(process, program, request.stop_ms * TIMEOUT_FACTOR / 1000)
    return ServerRun(start, end, float(requests))


def with_long_timeout(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return a load generator's command with the time-out of `LONG_TIMEOUT_OPTIONS`, unless the command sets one."""
    return (arguments[0], *LONG_TIMEOUT_OPTIONS.get(Path(arguments[0]).name, ()), *arguments[1:])


def _pinned(cpus: tuple[int, ...]) -> tuple[str, ...]:
    return ("/usr/bin/taskset", "-c", ",".join(map(str, cpus))) if cpus else ()


def _wait_for_port(process: subprocess.Popen[bytes], request: LoadGeneratorRequest) -> None:
    until = time.monotonic() + request.ready_ms * TIMEOUT_FACTOR / 1000
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", request.port), 1):
            return
        time.sleep(0.01)
    raise UserError("The server accepted no connection on its port in time under the instrument.")


def _warm_up(command: list[str], request: LoadGeneratorRequest) -> None:
    with subprocess.Popen(
        command,
        env=dict(request.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as driver:
        try:
            driver.wait(request.warm_ms / 1000)
        except subprocess.TimeoutExpired:
            driver.kill()


def stop(process: subprocess.Popen[bytes], program: str, within_s: float) -> None:
    """Send SIGTERM to the server below a process, so that the instrument above it ends too."""
    for pid in _descendants(process.pid):
        with contextlib.suppress(OSError):
            if os.path.samefile(f"/proc/{pid}/exe", program):  # noqa: PTH121 - a link in procfs
                os.kill(pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(within_s)


def _descendants(top: int) -> list[int]:
    """Return the descendants of a process."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found, grown = {top}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        grown = bool(more)
        found |= more
    return sorted(found - {top})
