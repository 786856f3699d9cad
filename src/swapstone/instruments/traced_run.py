# SPDX-License-Identifier: MIT OR Apache-2.0
"""Start a tracee under an instrument, and end all of its processes."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from swapstone.instruments.server_run import ServerRun, drive_server
from swapstone.instruments.tracee import Region, Tracee
from swapstone.model import UserError

TIMEOUT_FACTOR = 60
"""A run's own time-out is multiplied by this under an instrument."""


@dataclasses.dataclass(frozen=True)
class TracedRun:
    """A finished run: output of the program and the instrument, exit status, duration, and the load of a server."""

    stdout: bytes
    stderr: str
    status: int
    elapsed_ns: int
    driven: ServerRun | None = None


def inner_command(tracee: Tracee) -> tuple[str, ...]:
    """Return the command that starts the program with its processors, priority and environment.

    The environment is set last, so that preloaded objects are not loaded into the commands before the program.
    """
    request = tracee.request
    pinned = (_tool("taskset"), "-c", ",".join(map(str, request.cpus))) if request.cpus else ()
    nice = (_tool("nice"), "-n", str(request.nice)) if request.nice else ()
    variables = (f"{name}={value}" for name, value in request.environment)
    return (*pinned, *nice, _tool("env"), "-i", *variables, *request.arguments)


def run(before: Sequence[str], tracee: Tracee, folder: Path) -> TracedRun:
    """Run a tracee to its end under an instrument.

    Args:
        before: the instrument's command; the tracee's command is appended, except for `Region.ATTACHED`.
        tracee: what to run.
        folder: a scratch folder for its output. It runs in the folder that its request names.

    Returns:
        How it ended.

    Raises:
        UserError: it did not end in time, or the instrument can't be started.
    """
    if tracee.renew is not None:
        tracee = dataclasses.replace(tracee, request=tracee.renew())
    request, driven = tracee.request, None
    command = [*before] if tracee.region is Region.ATTACHED else [*before, *inner_command(tracee)]
    start = time.monotonic_ns()
    with (
        Path(request.stdin or os.devnull).open("rb") as stdin,
        tempfile.TemporaryFile(dir=folder) as stdout,
        tempfile.TemporaryFile(dir=folder) as stderr,
    ):
        try:
            process = subprocess.Popen(
                command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=request.cwd, start_new_session=True
            )
        except OSError as error:
            raise UserError(f"{command[0]} can't be started: {error.strerror}.") from error
        try:
            if request.load_generator is not None and tracee.load_generator is not None:
                driven = drive_server(process, tracee.program, request.load_generator, tracee.load_generator)
            status = process.wait(request.timeout_ms / 1000 * TIMEOUT_FACTOR)
        except subprocess.TimeoutExpired as error:
            raise UserError(f"{tracee.program} did not end within its time under {command[0]}.") from error
        finally:
            _end(process)
        elapsed = time.monotonic_ns() - start
        stdout.seek(0)
        stderr.seek(0)
        return TracedRun(stdout.read(), stderr.read().decode(errors="replace"), status, elapsed, driven)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill all remaining processes of a run's session."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise UserError(
            f"The command {name!r} is not installed; instruments start programs with it.",
            "Install coreutils and util-linux.",
        )
    return found
