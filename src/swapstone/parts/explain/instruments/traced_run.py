# SPDX-License-Identifier: MIT OR Apache-2.0
"""Start a tracee under an instrument, and end all of its processes."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from swapstone.core.model import UnavailableError, UserError
from swapstone.parts.explain.instruments.run_limit import RunLimit, limit_of, noted
from swapstone.parts.explain.instruments.server_run import ServerRun, drive_server
from swapstone.parts.explain.instruments.static_launcher import launched
from swapstone.parts.explain.instruments.tracee import Tracee

_KILL_S = 5.0
"""How long killed processes may take to end."""

PID_FILE = "server.pid"
"""Name of the file with the number of the first process, in the scratch folder of a run."""


@dataclasses.dataclass(frozen=True)
class TracedRun:
    """A finished run: output of the program and the instrument, exit status, duration, the load of a server, the process if noted."""

    stdout: bytes
    stderr: str
    status: int
    elapsed_ns: int
    driven: ServerRun | None = None
    pid: int = 0


def inner_command(tracee: Tracee, pid_file: Path | None = None) -> tuple[str, ...]:
    """Return the command that starts the program with its processors, priority and environment.

    The environment is set last, so that preloaded objects are not loaded into the commands before the program.

    Args:
        tracee: what to run.
        pid_file: gets the process's number, which all of these commands keep, and the program too; None for none.
    """
    request = tracee.request
    noted = (_tool("sh"), "-c", 'echo $$ >"$0" && exec "$@"', str(pid_file)) if pid_file else ()
    pinned = (_tool("taskset"), "-c", ",".join(map(str, request.cpus))) if request.cpus else ()
    nice = (_tool("nice"), "-n", str(request.nice)) if request.nice else ()
    variables = (f"{name}={value}" for name, value in request.environment)
    return (*noted, *pinned, *nice, _tool("env"), "-i", *variables, *request.arguments)


def run(
    before: Sequence[str],
    tracee: Tracee,
    folder: Path,
    limit: RunLimit | None = None,
    *,
    note_pid: bool = False,
    complete: bool = False,
) -> TracedRun:
    """Run a tracee to its end under an instrument.

    Args:
        before: the instrument's command; the tracee's command is appended.
        tracee: what to run.
        folder: a scratch folder for its output. It runs in the folder that its request names.
        limit: of the run's duration; None for one that follows from the request's time-out.
        note_pid: whether the result has the number of the program's first process.
        complete: whether `before` has the tracee's command, too.

    Returns:
        How it ended.

    Raises:
        UnavailableError: it did not end within the limit.
        UserError: the instrument can't be started, or the server or its load generator failed.
    """
    if tracee.renew is not None:
        tracee = dataclasses.replace(tracee, request=tracee.renew())
    request, driven = tracee.request, None
    limit = limit_of(request.timeout_ms / 1000, lambda _: None) if limit is None else limit
    pid_file = folder / PID_FILE if note_pid or request.load_generator is not None else None
    command = [*before]
    if not complete:
        by_launcher = launched(tracee.request, pid_file) if "perf" in before else None
        command += by_launcher or inner_command(tracee, pid_file)
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
        under = _instrument(before)
        what = f"for the end of {Path(tracee.program).name} under {under}"
        try:
            if request.load_generator is not None and tracee.load_generator is not None and pid_file is not None:
                driven = drive_server(process, pid_file, request.load_generator, tracee.load_generator, limit)
            with noted(what, limit.run_s, limit.notify):
                status = process.wait(limit.run_s)
        except subprocess.TimeoutExpired as error:
            raise UnavailableError(limit.reason(under)) from error
        finally:
            _end(process)
        elapsed = time.monotonic_ns() - start
        stdout.seek(0)
        stderr.seek(0)
        return TracedRun(
            stdout.read(), stderr.read().decode(errors="replace"), status, elapsed, driven, _noted(pid_file)
        )


def _noted(pid_file: Path | None) -> int:
    """Return the number of a process in a file; 0 for none."""
    with contextlib.suppress(OSError, ValueError):
        return int(pid_file.read_text()) if pid_file is not None else 0
    return 0


def _instrument(before: Sequence[str]) -> str:
    """Return the name of the instrument in a command, which may begin with others such as ``env`` or ``unshare``."""
    return next((name for name in ("perf", "strace", "valgrind") if name in before), Path(before[0]).name)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill all remaining processes of a run's session, those too whose parents have ended."""
    for pid in session_members(process.pid):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_KILL_S)


def session_members(session: int) -> list[int]:
    """Return the processes of a session, without its first one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != session:
            with contextlib.suppress(OSError, ValueError, IndexError):
                if int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[3]) == session:
                    found.append(int(entry.name))
    return sorted(found)


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise UserError(
            f"The command {name!r} is not installed; instruments start programs with it.",
            "Install coreutils and util-linux.",
        )
    return found
