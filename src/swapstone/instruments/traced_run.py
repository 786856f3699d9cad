"""Starting a subject under an instrument, and ending all of it."""

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

from swapstone.instruments.server_run import Driven, drive_it
from swapstone.instruments.tracee import Region, Subject
from swapstone.model import UserError

SLOWEST = 60
"""How much longer than its own time-out a run may take under an instrument."""


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a run ended: what the program and its instrument printed, the exit status, how long it all took, and what driving it gave."""

    stdout: bytes
    stderr: str
    status: int
    elapsed_ns: int
    driven: Driven | None = None


def inner_command(subject: Subject) -> tuple[str, ...]:
    """Return the command that starts the subject's program with its processors, priority and environment, and nothing else of ours.

    The environment is set by the last command before the program: what is preloaded into it is not for its helpers.
    """
    request = subject.request
    pinned = (_tool("taskset"), "-c", ",".join(map(str, request.cpus))) if request.cpus else ()
    nice = (_tool("nice"), "-n", str(request.nice)) if request.nice else ()
    variables = (f"{name}={value}" for name, value in request.environment)
    return (*pinned, *nice, _tool("env"), "-i", *variables, *request.arguments)


def run(before: Sequence[str], subject: Subject, folder: Path) -> Ended:
    """Run a subject to its end under an instrument.

    Args:
        before: the instrument's command, to which the subject's is appended; for `Region.ATTACHED` it stands alone.
        subject: what.
        folder: scratch, for its output; it runs in the folder that its request names.

    Returns:
        How it ended.

    Raises:
        UserError: it did not end within its time; or the instrument can't be started.
    """
    if subject.renew is not None:
        subject = dataclasses.replace(subject, request=subject.renew())
    request, driven = subject.request, None
    command = [*before] if subject.region is Region.ATTACHED else [*before, *inner_command(subject)]
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
            if request.load_generator is not None and subject.load_generator is not None:
                driven = drive_it(process, subject.program, request.load_generator, subject.load_generator)
            status = process.wait(request.timeout_ms / 1000 * SLOWEST)
        except subprocess.TimeoutExpired as error:
            raise UserError(f"{subject.program} did not end within its time under {command[0]}.") from error
        finally:
            _end(process)
        elapsed = time.monotonic_ns() - start
        stdout.seek(0)
        stderr.seek(0)
        return Ended(stdout.read(), stderr.read().decode(errors="replace"), status, elapsed, driven)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End whatever is left of the session that a run had."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise UserError(
            f"The command {name!r} is not there; instruments start programs with it.",
            "It is in Debian's coreutils and util-linux.",
        )
    return found
