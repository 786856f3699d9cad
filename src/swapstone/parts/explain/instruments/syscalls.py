# SPDX-License-Identifier: MIT OR Apache-2.0
"""Count system calls by name, by tracepoints, or by ptrace (strace) if there are none."""

from __future__ import annotations

import collections
import dataclasses
import functools
import re
import subprocess
from collections.abc import Iterable

from swapstone.core.artifacts.distribution_packages import install_command
from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.profile import KERNEL, Frame
from swapstone.parts.explain.instruments import requirements
from swapstone.parts.explain.instruments.perf import ProfileBuilder, RecordedRuns, Symbolizer, passes, record, result
from swapstone.parts.explain.instruments.traced_run import CUT, ReferenceRuns, Region, Tracee, run
from swapstone.parts.explain.model.explanation import Amount, InstrumentResult

NAME = "syscalls"
WORK_NS = 0.3e9
STACK_BYTES = 1024
MOST_STACKS = 20_000
"""More calls than this are counted without stacks."""

_EVENT = "raw_syscalls:sys_enter"
_NUMBER = re.compile(r"NR (-?[0-9]{1,10}) ")
_DEFINE = re.compile(r"#define __NR_(\w+) ([0-9]{1,10})")
_LINE = re.compile(r"(?P<pid>[0-9]{1,10}) +(?P<s>[0-9]{1,12})\.(?P<us>[0-9]{1,6}) (?P<name>\w+)\((?P<rest>.*)")
HARNESS = {"getrusage": 99, "clock_gettime": 2}
"""System calls of the harness between the markers of a pass, with their maximum number."""


@functools.cache
def names() -> dict[int, str]:
    """Return this machine's system calls by number, from the C headers.

    Raises:
        UnavailableError: there is no C compiler, or no such header.
    """
    command = ("cc", "-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "/dev/null")
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise UnavailableError(
            "names of system calls come from sys/syscall.h, read by cc", install_command("gcc libc6-dev")
        ) from error
    return {int(number): name for name, number in _DEFINE.findall(result.stdout)}


def measure(tracee: Tracee, reference: ReferenceRuns) -> InstrumentResult:
    """Count a run's system calls by name.

    Raises:
        UnavailableError: neither tracepoints nor strace can be used.
        UserError: the run failed.
    """
    tracee = reference.passes_for(tracee, WORK_NS)
    try:
        return _by_tracepoints(tracee, reference)
    except UnavailableError as error:
        if tracee.region is Region.DRIVEN:
            raise
        if missing := requirements.missing_tool("strace", "strace"):
            raise UnavailableError(f"{error.message}; {missing.reason}", missing.remedy) from error
        return _by_ptrace(tracee, reference, error.message)


def _by_tracepoints(tracee: Tracee, reference: ReferenceRuns) -> InstrumentResult:
    options: tuple[str, ...] = ("-e", _EVENT, "-c", "1", "-m", "8192")
    recording = record(tracee, options, reference, tracepoints=True)
    if len(recording.events) < MOST_STACKS:  # reading a stack takes a hundred times as long as a count
        options = (*options, "--call-graph", f"dwarf,{STACK_BYTES}")
        recording = record(tracee, options, reference, tracepoints=True, mapped=reference.objects)
    symbolizer, adder, counted = Symbolizer(tracee), ProfileBuilder(), collections.Counter[str]()
    known_names = names()
    for event in recording.work(_EVENT):
        found = _NUMBER.match(event.trace)
        number = int(found[1]) if found else -1
        name = known_names.get(number, f"number {number}")
        counted[name] += 1
        user = tuple(frame for frame in symbolizer.stack(event) if frame.object != KERNEL)
        adder.add((*user, Frame(symbol=name, object=KERNEL)), 1.0)
    runs = RecordedRuns().add(recording, tracee, [_EVENT])
    amounts = _amounts(counted, tracee, len(recording.windows.pieces), runs.operations)
    return result(
        NAME,
        tracee,
        reference,
        **runs.facts,
        amounts=amounts,
        profile=adder.profile(NAME, "1", runs.operations, runs.notes()),
        notes=runs.notes(),
    )


def _amounts(counted: collections.Counter[str], tracee: Tracee, pieces: int, operations: float) -> tuple[Amount, ...]:
    """Return the calls per operation, without those of the harness."""
    own = {name: times * pieces for name, times in HARNESS.items()} if tracee.region is Region.PASSES else {}
    left = {name: max(0, times - own.get(name, 0)) for name, times in counted.items()}
    return tuple(
        Amount(group="system calls", name=name, value=times / operations)
        for name, times in sorted(left.items(), key=lambda one: (-one[1], one[0]))
        if times
    )


def _by_ptrace(tracee: Tracee, reference: ReferenceRuns, why: str) -> InstrumentResult:
    file, limit = reference.folder / "strace", dataclasses.replace(reference, brief=True)
    before = ("strace", "-f", "-qq", "-ttt", "-s", "0", "-e", "signal=none", "-o", str(file))
    ended = run(before, tracee, limit, partial=True)
    if ended.status not in {0, CUT}:
        raise UserError(f"strace ended with status {ended.status}: {ended.stderr.strip()[-200:]}")
    counted, pieces, span_ns = counted_by_strace(
        file.read_text(errors="replace").splitlines(), tracee.region, tracee.program
    )
    file.unlink()
    cut = ended.status == CUT and tracee.region is not Region.PASSES  # passes that ended are whole
    operations = pieces * tracee.operations if tracee.region is Region.PASSES else tracee.operations
    if not operations:
        raise UserError("The output of strace has no markers of the work's begin and end.")
    return result(
        NAME,
        tracee,
        reference,
        operations=operations,
        took_ns=span_ns or ended.elapsed_ns,
        tool="strace",
        command=" ".join((*before[:-2], *tracee.request.arguments)),
        amounts=_amounts(counted, tracee, pieces, operations),
        notes=(
            f"counted by strace, because tracepoints are unavailable: {why}",
            "strace stops a thread at each call, which changes how often threads contend for locks",
            *((f"strace was ended after {limit.limit_s:.0f} s, so its counts are partial",) if cut else ()),
        ),
        partial=cut,
    )


def counted_by_strace(lines: Iterable[str], region: Region, program: str) -> tuple[collections.Counter[str], int, int]:
    """Count the calls in the output of ``strace -f -ttt``.

    Args:
        lines: of the output.
        region: what delimits the work.
        program: path of the executed program.

    Returns:
        Number of calls by name, number of passes, and their duration in ns.
    """
    calls: list[tuple[int, int, str]] = []
    started = False
    for line in lines:
        found = _LINE.match(line)
        if found is not None and started:
            calls.append((int(found["pid"]), int(found["s"]) * 10**9 + int(found["us"]) * 1000, found["name"]))
        elif found is not None:
            started = found["name"] == "execve" and found["rest"].startswith(f'"{program}"')
    if region is not Region.PASSES:
        span = calls[-1][1] - calls[0][1] if calls else 0
        return collections.Counter(name for _, _, name in calls), 1, span
    pieces = passes((pid, at) for pid, at, name in calls if name == "getrusage")
    counted = collections.Counter(name for _, at, name in calls if any(begin < at < end for begin, end in pieces))
    return counted, len(pieces), sum(end - begin for begin, end in pieces)
