# SPDX-License-Identifier: MIT OR Apache-2.0
"""Start a tracee under an instrument, and end all of its processes."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import hashlib
import os
import resource
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import msgspec

from swapstone.core.artifacts.distribution_packages import install_command, require_command
from swapstone.core.model import ROOT_FILES, LoadGenerator, UnavailableError, UserError
from swapstone.core.model.directories import cache_dir
from swapstone.core.model.regular_file import text_of
from swapstone.core.run.variant_program import View
from swapstone.core.wire import LoadGeneratorRequest, TrialRequest
from swapstone.core.workloads.load_generators import read_load_report

MOST_TIMES = 20.0
"""A run under an instrument may take this many times as long as the longest run without it, or `SHORTEST_S` where that is longer."""

LONGEST_S = 120.0
"""What an instrument may add to a run, however long the run is without it."""

SHORTEST_S = 30.0
"""Shorter limits would measure the start of the instrument, and what else the machine does."""

BRIEF_S = 8.0
"""What an instrument may add to a run, and take for all runs of a variant, for a user whom the kernel refuses its samples: most of the
instruments can't answer such a user, and the others would take minutes."""

QUIET_S = 5.0
"""A longer wait prints what it waits for."""


@contextlib.contextmanager
def noted(
    what: str, within_s: float, notify: Callable[[str], None], late: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Report a wait that takes longer than `QUIET_S`.

    Args:
        what: is waited for, as a phrase: ``for the end of perf``.
        within_s: how long the wait may take.
        notify: called with a line, from another thread.
        late: called when it took as long as it may, from another thread.
    """
    line = f"waiting {what}, for at most {max(0.0, within_s - QUIET_S):.0f} s more"
    timers = [threading.Timer(QUIET_S, notify, (line,)), threading.Timer(within_s, late)]
    for timer in timers:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()


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
    reference: ReferenceRuns,
) -> ServerRun:
    """Send a server its load, then stop it.

    Args:
        process: the instrument, or another ancestor of the server.
        pid_file: has the number of the server's first process.
        request: port, load generator and times.
        generator: names the reader of the load generator's output.
        reference: limits each wait.

    Raises:
        UserError: the server accepts no connection in time, or does not end, or the load generator fails.
    """
    _wait_for_port(process, request, reference)
    pinned = ("/usr/bin/taskset", "-c", ",".join(map(str, request.cpus))) if request.cpus else ()
    command = [*pinned, *with_long_timeout(request.arguments)]
    if request.warm_ms:
        with contextlib.suppress(subprocess.TimeoutExpired):
            _end_of(command, request, request.warm_ms / 1000)
    start = time.monotonic_ns()
    output = _drive(command, request, reference)
    end = time.monotonic_ns()
    answered = read_load_report(generator.reader, output)
    requests = answered.requests or (answered.per_second or 0.0) * (end - start) / 1e9
    if not requests:
        raise UserError("The load generator got no response.")
    stop(process, pid_file, min(reference.limit_s, request.stop_ms * TIMEOUT_FACTOR / 1000), reference.notify)
    return ServerRun(start, end, float(requests))


def _drive(command: list[str], request: LoadGeneratorRequest, reference: ReferenceRuns) -> bytes:
    """Run the load generator to its end, and return its output.

    Raises:
        UserError: it can't be started, does not end in time, or fails.
    """
    name, within_s = Path(request.arguments[0]).name, min(DRIVER_S, reference.limit_s)
    what = f"for the end of the load generator {name}"
    with (
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
        noted(what, within_s, reference.notify),
    ):
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
    return subprocess.run(
        command,
        env=dict(request.environment),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        timeout=within_s,
        check=False,
    ).returncode


def with_long_timeout(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return a load generator's command with the time-out of `LONG_TIMEOUT_OPTIONS`, unless the command sets one."""
    return (arguments[0], *LONG_TIMEOUT_OPTIONS.get(Path(arguments[0]).name, ()), *arguments[1:])


def _wait_for_port(process: subprocess.Popen[bytes], request: LoadGeneratorRequest, reference: ReferenceRuns) -> None:
    start, within_s = time.monotonic(), min(reference.limit_s, request.ready_ms * TIMEOUT_FACTOR / 1000)
    with noted(f"until the server accepts a connection on port {request.port}", within_s, reference.notify):
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
    server = _noted(pid_file)
    if not server:
        raise UserError("The number of the server's process can't be read.")
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
    found = with_children(below)
    return sorted(found) if below == top or below in with_children(top) else []


def with_children(pid: int) -> set[int]:
    """Return a process and its descendants, which each of its threads may have forked."""
    found = {pid}
    for task in tasks_of(pid):
        found.update(*map(with_children, map(int, text_of(task / "children").split())))
    return found


def tasks_of(pid: int, proc: Path = Path("/proc")) -> list[Path]:
    """Return the folders of a process's threads, in order of their numbers as texts; none of a process that has ended."""
    try:
        return sorted((proc / str(pid) / "task").iterdir())
    except OSError:
        return []


_COMPILE_S = 60
_SOURCE = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
/* launch PID_FILE PROCESSORS NICE ROOT FOLDER NUMBER_OF_VARIABLES NAME=VALUE... PROGRAM ARGUMENT... */
static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return 127;
}
int main(int count, char **arguments) {
    cpu_set_t set;
    int variables = count > 7 ? atoi(arguments[6]) : -1;
    if (variables < 0 || variables > count - 8) return 125;
    if (*arguments[1]) {
        FILE *file = fopen(arguments[1], "w");
        if (!file || fprintf(file, "%d\n", (int)getpid()) < 0 || fclose(file) != 0) return failed(arguments[1]);
    }
    CPU_ZERO(&set);
    for (char *each = strtok(arguments[2], ","); each; each = strtok(NULL, ",")) CPU_SET(atoi(each), &set);
    if (CPU_COUNT(&set) && sched_setaffinity(0, sizeof set, &set) != 0) return failed("sched_setaffinity");
    if (atoi(arguments[3])) setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + atoi(arguments[3]));
    if (*arguments[4] && (chroot(arguments[4]) != 0 || chdir(arguments[5]) != 0)) return failed(arguments[5]);
    char **program = arguments + 7 + variables;
    char **environment = calloc((size_t)variables + 1, sizeof *environment);
    if (!environment) return failed("calloc");
    memcpy(environment, arguments + 7, (size_t)variables * sizeof *environment);
    execve(*program, program, environment);
    return failed(*program);
}
"""


def launched(request: TrialRequest, pid_file: Path | None = None) -> tuple[str, ...] | None:
    """Return the command that starts a program by the static launcher; None where that can't be compiled, or the program has no path.

    Args:
        request: arguments, environment, processors and priority.
        pid_file: gets the process's number, which the program keeps; None for none.
    """
    known = "/" in request.arguments[0] and all(cpu < _MOST_PROCESSORS for cpu in request.cpus)
    if not known or (launcher := _launcher()) is None:
        return None
    variables = [f"{name}={value}" for name, value in request.environment]
    place = (f"{request.root_layer}/root", request.cwd) if request.root else ("", "")
    words = (",".join(map(str, request.cpus)), str(request.nice or 0), *place, str(len(variables)))
    return (str(launcher), str(pid_file or ""), *words, *variables, *request.arguments)


_MOUNTS = """
set -e
root="$2/root"
mount -t tmpfs -o mode=755 tmpfs "$2"
mkdir "$root" "$2/upper" "$2/work"
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$root"
mkdir -p "$root/dev" "$root/proc" "$root/sys" "$root/tmp" "$root$4"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for each in null zero full random urandom; do
    : > "$root/dev/$each"
    mount --bind "/dev/$each" "$root/dev/$each"
done
ln -s /proc/self/fd "$root/dev/fd"
ln -s fd/0 "$root/dev/stdin"
ln -s fd/1 "$root/dev/stdout"
ln -s fd/2 "$root/dev/stderr"
mkdir -m 1777 "$root/dev/shm"
chmod 1777 "$root/tmp"
mount --rbind /proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --bind "$3" "$root$4"
mount -o remount,bind,ro "$root$4"
shift 4
exec "$@"
"""
"""Makes the mounts of native/agent/root.c for a program under an instrument; the arguments are root, layer, files, and their folder."""


def mounted(request: TrialRequest) -> tuple[str, ...]:
    """Return the command before an instrument that mounts the root file system of a program; none if it has none of its own.

    Raises:
        UserError: unshare is not installed.
    """
    if not request.root:
        return ()
    user = () if os.geteuid() == 0 else ("--user", "--map-current-user", "--keep-caps")
    paths = (request.root, request.root_layer, request.root_files, ROOT_FILES)
    return (_tool("unshare"), *user, "--mount", "--propagation", "private", "sh", "-c", _MOUNTS, "sh", *paths)


_MOST_PROCESSORS = 1024  # CPU_SETSIZE


@functools.cache
def _launcher() -> Path | None:
    """Return the launcher, compiled now or before; None if it can't be."""
    path = cache_dir() / "instruments" / f"launch-{hashlib.sha256(_SOURCE.encode()).hexdigest()[:16]}"
    if path.is_file():
        return path
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        compile_c(_SOURCE, part, "-static")
        part.replace(path)
    except (OSError, subprocess.SubprocessError):
        return None
    return path


def compile_c(source: str, made: Path, *options: str) -> None:
    """Compile a C source to a program, or with options to something else.

    Raises:
        OSError, subprocess.SubprocessError: there is no compiler, or it fails.
    """
    command = ("cc", "-O2", "-o", str(made), "-x", "c", "-", *options)
    subprocess.run(command, input=source.encode(), check=True, capture_output=True, timeout=_COMPILE_S)


class Region(enum.Enum):
    """What delimits the work."""

    PASSES = "passes"  # each pass: the harness calls getrusage before and after it
    PROGRAM = "program"  # the whole run of the program
    DRIVEN = "driven"  # of a server: while its load generator runs


@dataclasses.dataclass(frozen=True)
class Tracee:
    """A command that runs under an instrument.

    Attributes:
        variant: label of its variant.
        request: arguments, environment, folder, processors and limits.
        region: what delimits the work.
        operations: operations per pass, or in the whole run.
        symbols: an unstripped build of the program with the same addresses; None if the program has symbols.
        renew: makes a new request for each run, if the request names a port; else None.
        load_generator: sends the requests, for `Region.DRIVEN`.
        view: the files of its root file system; None for those of this machine.
    """

    variant: str
    request: TrialRequest
    region: Region
    operations: float = 1.0
    symbols: Path | None = None
    renew: Callable[[], TrialRequest] | None = None
    load_generator: LoadGenerator | None = None
    view: View | None = None

    @property
    def program(self) -> str:
        """Return the path of the program, in its root file system if it has one."""
        return self.request.arguments[0]

    @property
    def mapped_program(self) -> str:
        """Return the same without links, as the kernel lists it."""
        return str(Path(self.program).resolve()) if self.view is None else self.view.real(self.program) or self.program

    def file_of(self, path: str) -> Path:
        """Return the file of this machine that a mapped path is; one that can't be opened if its root file system has none."""
        return Path(path) if self.view is None else self.view.place(path) or Path(os.devnull, "none")

    @property
    def passes(self) -> int:
        """Return the number of passes of a run; 1 for a program without passes."""
        return int(self.request.arguments[1]) if self.region is Region.PASSES else 1

    def with_passes(self, passes: int) -> Tracee:
        """Return the same with another number of passes; unchanged for a program without passes."""
        if self.region is not Region.PASSES:
            return self
        arguments = (self.request.arguments[0], str(passes), *self.request.arguments[2:])
        return dataclasses.replace(self, request=msgspec.structs.replace(self.request, arguments=arguments))


@dataclasses.dataclass(frozen=True)
class ReferenceRuns:
    """What the reference runs of a variant gave.

    Attributes:
        metrics: medians by name: ``wall``, ``cpu`` per operation in ns, ``nvcsw`` and others per pass.
        objects: files that the process had mapped executable.
        folder: a scratch folder.
        longest_s: duration of the longest reference run, with the start and the end of its processes.
        notify: called with a line when a wait takes longer than `QUIET_S`.
        brief: whether runs under instruments have the limits of `BRIEF_S`.
    """

    metrics: Mapping[str, float]
    objects: tuple[str, ...]
    folder: Path
    longest_s: float = 1.0
    notify: Callable[[str], None] = lambda _: None
    brief: bool = False

    @property
    def wall_ns(self) -> float:
        """Return the elapsed time of an operation in ns."""
        return self.metrics.get("wall", 0.0)

    @property
    def limit_s(self) -> float:
        """Return how long a run under an instrument may take."""
        most_s = BRIEF_S if self.brief else min(LONGEST_S, max(SHORTEST_S, (MOST_TIMES - 1) * self.longest_s))
        return self.longest_s + most_s

    def passes_for(self, tracee: Tracee, work_ns: float, most: int = 20_000, *, marked: bool = True) -> Tracee:
        """Return the tracee with the number of passes that takes about this long without an instrument.

        If its passes can't be marked, the work is its whole run.
        """
        one = max(1.0, self.wall_ns * tracee.operations)
        found = tracee.with_passes(max(1, min(most, round(work_ns / one))))
        if marked or found.region is not Region.PASSES:
            return found
        return dataclasses.replace(found, region=Region.PROGRAM, operations=found.operations * found.passes)


_KILL_S = 5.0
"""How long killed processes may take to end."""

PID_FILE = "server.pid"
"""Name of the file with the number of the first process, in the scratch folder of a run."""


CUT = -1000
"""Status of a run that was ended at its limit."""


@dataclasses.dataclass(frozen=True)
class TracedRun:
    """A finished run: standard error of the program and the instrument, exit status, duration, the load of a server, the process if noted.

    Attributes:
        user_s, system_s: processor time in user mode and in the kernel, with that of the instrument.
    """

    stderr: str
    status: int
    elapsed_ns: int
    driven: ServerRun | None = None
    pid: int = 0
    user_s: float = 0.0
    system_s: float = 0.0


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
    reference: ReferenceRuns,
    *,
    note_pid: bool = False,
    complete: bool = False,
    partial: bool = False,
) -> TracedRun:
    """Run a tracee to its end under an instrument.

    Args:
        before: the instrument's command; the tracee's command is appended.
        tracee: what to run.
        reference: has the scratch folder, and limits its duration. It runs in the folder that its request names.
        note_pid: whether the result has the number of the program's first process.
        complete: whether `before` has the tracee's command, too.
        partial: whether a run that takes longer than the limit is ended, and no error.

    Returns:
        How it ended.

    Raises:
        UnavailableError: it did not end within the limit.
        UserError: the instrument can't be started, or the server or its load generator failed.
    """
    if tracee.renew is not None:
        tracee = dataclasses.replace(tracee, request=tracee.renew())
    request, driven = tracee.request, None
    pid_file = reference.folder / PID_FILE if note_pid or request.load_generator is not None else None
    command = [*before]
    if not complete:
        by_launcher = launched(tracee.request, pid_file) if "perf" in before or request.root else None
        if request.root and by_launcher is None:
            raise UnavailableError(
                "a program in a root file system is started by a launcher, which needs a C compiler",
                install_command("gcc libc6-dev"),
            )
        command = [*mounted(request), *command, *(by_launcher or inner_command(tracee, pid_file))]
    start, before_s = time.monotonic_ns(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with (
        Path(request.stdin or os.devnull).open("rb") as stdin,
        tempfile.TemporaryFile(dir=reference.folder) as stdout,  # not read, but /dev/null would take less time
        tempfile.TemporaryFile(dir=reference.folder) as stderr,
    ):
        try:
            process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd="/" if request.root else request.cwd,
                start_new_session=True,
            )
        except OSError as error:
            raise UserError(f"{command[0]} can't be started: {error.strerror}.") from error
        under = _instrument(before)
        what = f"for the end of {Path(tracee.program).name} under {under}"
        try:
            if request.load_generator is not None and tracee.load_generator is not None and pid_file is not None:
                driven = drive_server(process, pid_file, request.load_generator, tracee.load_generator, reference)
            with noted(what, reference.limit_s, reference.notify):
                status = process.wait(reference.limit_s)
        except subprocess.TimeoutExpired as error:
            if partial:
                return TracedRun("", CUT, time.monotonic_ns() - start)
            raise UnavailableError(
                f"a run took longer than {reference.limit_s:.0f} s under {under}; without it the longest took "
                f"{reference.longest_s:.3g} s"
            ) from error
        finally:
            _end(process)
        elapsed, after_s = time.monotonic_ns() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        stderr.seek(0)
        return TracedRun(
            stderr.read().decode(errors="replace"),
            status,
            elapsed,
            driven,
            _noted(pid_file),
            after_s.ru_utime - before_s.ru_utime,
            after_s.ru_stime - before_s.ru_stime,
        )


def run_with_reader(
    tracee: Tracee, reference: ReferenceRuns, interval_s: Callable[[float], float], read: Callable[[int], None]
) -> TracedRun:
    """Run a program to its end, and read it meanwhile.

    Args:
        tracee: the program.
        reference: its runs without an instrument.
        interval_s: returns the time until the next reading in seconds; given is that since the first.
        read: called with the number of its first process, as soon as that is known.

    Raises:
        UserError: the run failed.
    """
    pid_file = reference.folder / PID_FILE
    pid_file.unlink(missing_ok=True)  # of an earlier run
    start, over = time.monotonic(), threading.Event()

    def follow() -> None:
        while not over.wait(interval_s(time.monotonic() - start)):
            if (pid := text_of(pid_file)).isdecimal():
                read(int(pid))

    reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    try:
        ended = run(("env",), tracee, reference, note_pid=True)
    finally:
        over.set()
        reader.join(QUIET_S)  # the kernel may delay the last reading
    if ended.status != 0 and ended.driven is None:
        raise UserError(f"The run ended with status {ended.status}.")
    return ended


def _noted(pid_file: Path | None) -> int:
    """Return the number of a process in a file; 0 for none."""
    number = text_of(pid_file) if pid_file is not None else ""
    return int(number) if number.isdecimal() else 0


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


_tool = functools.partial(require_command, what="Starting a program under an instrument")
