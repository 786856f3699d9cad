"""A server under an instrument: awaited, warmed up, driven while it is looked at, and stopped."""

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

SLOWEST = 10
"""How much longer than without an instrument a server may take until it answers, and until it has ended."""

DRIVER_S = 600

PATIENT = {"wrk": ("--timeout", f"{DRIVER_S}s"), "ab": ("-s", str(DRIVER_S))}
"""What makes a driver wait longer for an answer, by its name: under an instrument on a busy machine a request may take longer than the
2 s after which wrk calls it an error (its SOCKET_TIMEOUT_MS), or ab's 30 s. How many requests are answered does not depend on it."""


@dataclasses.dataclass(frozen=True)
class Driven:
    """What came of driving a server: from when to when (CLOCK_MONOTONIC, ns), and how many requests were answered."""

    start_ns: int
    end_ns: int
    requests: float


def drive_it(
    process: subprocess.Popen[bytes], program: str, request: LoadGeneratorRequest, generator: LoadGenerator
) -> Driven:
    """Drive a server that was just started, and tell it to end.

    Args:
        process: the instrument, or whatever the server is below.
        program: path of the server.
        request: port, driver and times.
        generator: how the driver's output is read.

    Raises:
        UserError: the server doesn't answer in time, or the driver fails.
    """
    _await(process, request)
    command = [*_pinned(request.cpus), *patient(request.arguments)]
    if request.warm_ms:
        _warm(command, request)
    start = time.monotonic_ns()
    try:
        said = subprocess.run(
            command,
            env=dict(request.environment),
            capture_output=True,
            timeout=DRIVER_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"The driver {request.arguments[0]} failed: {error}") from error
    end = time.monotonic_ns()
    if said.returncode != 0:
        raise UserError(
            f"The driver ended with status {said.returncode}: {said.stderr.decode(errors='replace')[-200:]}"
        )
    answered = read_load_report(generator.reader, said.stdout)
    requests = answered.requests or (answered.per_second or 0.0) * (end - start) / 1e9
    if not requests:
        raise UserError("The driver got no answer.")
    stop(process, program, request.stop_ms * SLOWEST / 1000)
    return Driven(start, end, float(requests))


def patient(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return a driver's command that waits for answers as long as an instrument may hold them up; a time-out of the user's own stays."""
    return (arguments[0], *PATIENT.get(Path(arguments[0]).name, ()), *arguments[1:])


def _pinned(cpus: tuple[int, ...]) -> tuple[str, ...]:
    return ("/usr/bin/taskset", "-c", ",".join(map(str, cpus))) if cpus else ()


def _await(process: subprocess.Popen[bytes], request: LoadGeneratorRequest) -> None:
    until = time.monotonic() + request.ready_ms * SLOWEST / 1000
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", request.port), 1):
            return
        time.sleep(0.01)
    raise UserError("The server accepted no connection on its port in time, under the instrument.")


def _warm(command: list[str], request: LoadGeneratorRequest) -> None:
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
    """Tell the server below a process to end, so that the instrument above it ends too."""
    for pid in _below(process.pid):
        with contextlib.suppress(OSError):
            if os.path.samefile(f"/proc/{pid}/exe", program):  # noqa: PTH121 - a link that names no path of ours
                os.kill(pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(within_s)


def _below(top: int) -> list[int]:
    """Return the processes below one, by who started whom."""
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
