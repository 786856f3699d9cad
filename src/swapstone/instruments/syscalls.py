"""System calls by name: by tracepoints, or by ptrace (strace) where there are none."""

from __future__ import annotations

import collections
import functools
import re
import subprocess
import time
from collections.abc import Iterable

from swapstone.instruments import requirements
from swapstone.instruments.instrument_result import Known, operations_in, result
from swapstone.instruments.measured_region import passes
from swapstone.instruments.perf import lost_note, record
from swapstone.instruments.perf_script import Event
from swapstone.instruments.profile_builder import Adder
from swapstone.instruments.symbolizer import Namer
from swapstone.instruments.traced_run import run
from swapstone.instruments.tracee import Region, Subject
from swapstone.model import KERNEL, Amount, Frame, Instrumented, UnavailableError, UserError

NAME = "syscalls"
WORK_NS = 0.3e9
STACK_BYTES = 1024
MOST_STACKS = 20_000
"""With more calls than this they are counted without stacks."""

_EVENT = "raw_syscalls:sys_enter"
_NUMBER = re.compile(r"NR (-?\d+) ")
_DEFINE = re.compile(r"#define __NR_(\w+) (\d+)")
_LINE = re.compile(r"^(?P<pid>\d+) +(?P<s>\d+)\.(?P<us>\d+) (?P<name>\w+)\((?P<rest>.*)")
HARNESS = {"getrusage": 99, "clock_gettime": 2}
"""What our harness itself calls between the marks of a pass, and how often at most."""


@functools.cache
def names() -> dict[int, str]:
    """Return the names of this machine's system calls by their numbers, from the headers that programs are compiled with.

    Raises:
        UnavailableError: there is no C compiler, or it has no such header.
    """
    command = ("cc", "-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "/dev/null")
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise UnavailableError(
            "system calls get their names from sys/syscall.h, by cc", "sudo apt-get install gcc libc6-dev"
        ) from error
    return {int(number): name for name, number in _DEFINE.findall(said.stdout)}


def measure(subject: Subject, known: Known) -> Instrumented:
    """Count a run's system calls by name.

    Raises:
        UnavailableError: neither tracepoints nor strace can be used here.
        UserError: the run failed.
    """
    subject = known.passes_for(subject, WORK_NS)
    try:
        return _by_tracepoints(subject, known)
    except UnavailableError as error:
        if requirements.tool_barrier("strace", "strace") is not None or subject.region in {
            Region.ATTACHED,
            Region.DRIVEN,
        }:
            raise
        return _by_ptrace(subject, known, error.message)


def _by_tracepoints(subject: Subject, known: Known) -> Instrumented:
    options: tuple[str, ...] = ("-e", _EVENT, "-c", "1", "-m", "8192")
    recording = record(subject, options, known.folder, tracepoints=True)
    if len(recording.events) < MOST_STACKS:  # reading a stack takes a hundred times as long as reading a call
        recording = record(subject, (*options, "--call-graph", f"dwarf,{STACK_BYTES}"), known.folder, tracepoints=True)
    namer, adder, counted = Namer(subject), Adder(), collections.Counter[str]()
    known_names = names()
    for event in recording.events:
        if event.what == _EVENT and event.pid != recording.windows.pid and recording.windows.holds(event.time_ns):
            name = _name(event, known_names)
            counted[name] += 1
            user = tuple(frame for frame in namer.stack(event) if frame.object != KERNEL)
            adder.add((*user, Frame(symbol=name, object=KERNEL)), 1.0)
    operations = operations_in(recording, subject)
    notes = lost_note(recording, [_EVENT])
    amounts = _amounts(counted, subject, len(recording.windows.pieces), operations)
    profile = adder.profile(NAME, "1", operations, notes)
    return result(NAME, subject, known, recording, amounts=amounts, profile=profile, notes=notes)


def _name(event: Event, known_names: dict[int, str]) -> str:
    found = _NUMBER.match(event.trace)
    number = int(found[1]) if found else -1
    return known_names.get(number, f"number {number}")


def _amounts(counted: collections.Counter[str], subject: Subject, pieces: int, operations: float) -> tuple[Amount, ...]:
    """Return what was counted per operation, less what our harness does itself."""
    own = {name: times * pieces for name, times in HARNESS.items()} if subject.region is Region.PASSES else {}
    left = {name: max(0, times - own.get(name, 0)) for name, times in counted.items()}
    return tuple(
        Amount(group="system calls", name=name, value=times / operations)
        for name, times in sorted(left.items(), key=lambda one: (-one[1], one[0]))
        if times
    )


def _by_ptrace(subject: Subject, known: Known, why: str) -> Instrumented:
    file = known.folder / "strace"
    before = ("strace", "-f", "-qq", "-ttt", "-s", "0", "-e", "signal=none", "-o", str(file))
    start = time.monotonic_ns()
    ended = run(before, subject, known.folder)
    if ended.status != 0:
        raise UserError(f"strace ended with status {ended.status}; its last words: {ended.stderr.strip()[-200:]}")
    elapsed = time.monotonic_ns() - start
    counted, pieces, span_ns = counted_by_strace(
        file.read_text(errors="replace").splitlines(), subject.region, subject.program
    )
    file.unlink()
    operations = pieces * subject.operations if subject.region is Region.PASSES else subject.operations
    if not operations:
        raise UserError("What strace wrote holds no sign of where the work begins and ends.")
    took = (span_ns or elapsed) / operations
    return Instrumented(
        instrument=NAME,
        tool=requirements.version_of("strace"),
        variant=subject.variant,
        command=" ".join((*before[:-2], *subject.request.arguments)),
        operations=operations,
        overhead=took / known.wall_ns if known.wall_ns else None,
        amounts=_amounts(counted, subject, pieces, operations),
        notes=(
            f"counted by strace, because tracepoints are unavailable: {why}",
            "strace stops a thread at each call: threads meet at locks more or less often than without it",
        ),
    )


def counted_by_strace(lines: Iterable[str], region: Region, program: str) -> tuple[collections.Counter[str], int, int]:
    """Count the calls in what ``strace -f -ttt`` wrote.

    Args:
        lines: as written.
        region: which part is the work.
        program: path of what was executed.

    Returns:
        Calls by name, how many passes, and how long they took in ns.
    """
    calls: list[tuple[int, int, str]] = []
    started = False
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            continue
        if not started:
            started = found["name"] == "execve" and found["rest"].startswith(f'"{program}"')
            continue
        calls.append((int(found["pid"]), int(found["s"]) * 10**9 + int(found["us"]) * 1000, found["name"]))
    if region is not Region.PASSES:
        span = calls[-1][1] - calls[0][1] if calls else 0
        return collections.Counter(name for _, _, name in calls), 1, span
    pieces = passes((pid, at) for pid, at, name in calls if name == "getrusage")
    counted = collections.Counter(name for _, at, name in calls if any(begin < at < end for begin, end in pieces))
    return counted, len(pieces), sum(end - begin for begin, end in pieces)
