# SPDX-License-Identifier: MIT OR Apache-2.0
"""Record runs with perf, read the recordings (samples with stacks, context switches, mappings), and add them up to profiles and results."""

from __future__ import annotations

import bisect
import collections
import contextlib
import dataclasses
import functools
import itertools
import math
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from swapstone.core.model import ROOT_FILES, UnavailableError, UserError, grouped
from swapstone.core.model.profile import KERNEL, NAMELESS, OWN_OBJECT, Frame, Profile, ProfileRun
from swapstone.parts.explain.explanation.by_function import without_template_arguments
from swapstone.parts.explain.instruments import requirements
from swapstone.parts.explain.instruments.symbol_tables import Table, debug_file_of, table_of
from swapstone.parts.explain.instruments.traced_run import (
    BRIEF_S,
    LONGEST_S,
    ReferenceRuns,
    Region,
    TracedRun,
    Tracee,
    noted,
    run,
)
from swapstone.parts.explain.instruments.unwind_tables import root_with_tables
from swapstone.parts.explain.model.explanation import InstrumentResult, SourceLine

FIELDS = "comm,pid,tid,time,event,ip,sym,dso,trace"
"""The fields that `decode_events` expects: ``perf script -F``."""

WITH_PROCESSORS = "comm,pid,tid,cpu,time,event,ip,sym,dso,trace"
"""The same, with the processor of each event."""

FLAGS = (
    "--no-inline",
    "--ns",
    "--show-task-events",
    "--show-switch-events",
    "--show-lost-events",
)
"""The other options that it expects."""

MOST_FRAMES = 256
"""The innermost functions of a stack that are kept. perf records 127 unless kernel.perf_event_max_stack is raised."""

# Every repetition before another one is bounded or can't match what follows: a line of a million blanks takes no longer than its length.
_HEAD = re.compile(
    r"(?<=\s)(?P<pid>-?[0-9]{1,10})/(?P<tid>-?[0-9]{1,10})\s{1,80}(?:\[(?P<cpu>[0-9]{1,6})\]\s{1,80})?(?P<s>[0-9]{1,12})\.(?P<ns>[0-9]{9}):\s"
)
_EVENT = re.compile(r"(?P<event>[\w.\-/]++(?::[\w.\-]++)?):\s*+(?P<trace>.*)$")
_FRAME = re.compile(r"\t\s*+(?P<ip>[0-9a-f]{1,16})\s(?P<symbol>.*) \((?P<dso>[^()]*+(?:\([^()]*+\)[^()]*+)*+)\)$")
_TASK_EVENTS = {
    "exec": re.compile(r"PERF_RECORD_COMM exec: (?P<trace>.*):[0-9]{1,10}/[0-9]{1,10}$"),
    "lost": re.compile(r"PERF_RECORD_LOST(?:_SAMPLES)? lost (?P<trace>[0-9]{1,18})"),
    "fork": re.compile(
        r"PERF_RECORD_FORK\((?P<pid>[0-9]{1,10}):(?P<tid>[0-9]{1,10})\)(?::\((?P<parent>[0-9]{1,10}):)?"
    ),
    "exit": re.compile(r"PERF_RECORD_EXIT\((?P<pid>[0-9]{1,10}):(?P<tid>[0-9]{1,10})\)"),
}


@dataclasses.dataclass(frozen=True)
class Event:
    """One record.

    Attributes:
        what: an event's name, or ``exec``, ``fork``, ``exit``, ``in``, ``out``, ``taken`` (out, though it could have gone on),
            or ``lost``.
        comm, pid, tid: whose.
        time_ns: when.
        trace: what a tracepoint prints of itself; the name of what was executed; the number of lost records.
        stack: pairs (address in the object's file, symbol, object's path), the innermost first.
        cpu: the processor; -1 if it was not printed.
        parent: of a ``fork``, the process that forked; -1 if it was not printed.
    """

    what: str
    comm: str
    pid: int
    tid: int
    time_ns: int
    trace: str = ""
    stack: tuple[tuple[int, str, str], ...] = ()
    cpu: int = -1
    parent: int = -1


def decode_events(lines: Iterable[str]) -> Iterator[Event]:
    """Decode what `perf script` prints.

    Args:
        lines: as printed with `FIELDS` and `FLAGS`.

    Yields:
        One event for each record that is understood; lines of any other form are skipped.
    """
    head: Event | None = None
    stack: list[tuple[int, str, str]] = []
    for line in itertools.chain(lines, ("",)):
        if head is not None and (frame := _FRAME.match(line)):
            if len(stack) < MOST_FRAMES:
                stack.append((int(frame["ip"], 16), frame["symbol"].strip(), frame["dso"]))
            continue
        if head is not None:
            yield dataclasses.replace(head, stack=tuple(stack)) if stack else head
        found = _HEAD.search(line)
        head, stack = _event(found) if found is not None else None, []


def _event(found: re.Match[str]) -> Event | None:
    comm, rest = found.string[: found.start()].strip(), found.string[found.end() :].strip()
    time_ns = int(found["s"]) * 1_000_000_000 + int(found["ns"])
    whose = (comm, int(found["pid"]), int(found["tid"]), time_ns)
    cpu = int(found["cpu"] or -1)
    if not rest.startswith("PERF_RECORD_"):
        event = _EVENT.match(rest)
        return Event(event["event"], *whose, trace=event["trace"], cpu=cpu) if event else None
    if rest.startswith("PERF_RECORD_SWITCH"):
        words = rest.split()
        return Event("in" if words[1:2] == ["IN"] else "taken" if "preempt" in words else "out", *whose)
    for what, pattern in _TASK_EVENTS.items():
        if hit := pattern.match(rest):
            named = hit.groupdict()
            pid, tid = (int(named.get(name) or found[name]) for name in ("pid", "tid"))
            parent = int(named.get("parent") or -1)
            return Event(what, comm, pid, tid, time_ns, trace=named.get("trace", ""), parent=parent)
    return None


MARKER = "syscalls:sys_enter_getrusage"
"""The event that delimits a pass. The workload harness calls getrusage twice before a pass and twice after it; no C library calls it
by itself."""


@dataclasses.dataclass(frozen=True)
class MeasuredWindows:
    """Disjoint time windows, in order of time.

    Attributes:
        pieces: pairs (from, to) in ns.
        pid: the harness process, which waits for its children and is no part of the work; 0 for none.
    """

    pieces: tuple[tuple[int, int], ...]
    pid: int = 0

    @property
    def total_ns(self) -> int:
        """Return their total length in ns."""
        return sum(end - start for start, end in self.pieces)

    def contains(self, time_ns: int) -> bool:
        """Return whether a time lies in one of them."""
        at = bisect.bisect_right(self.pieces, (time_ns, 1 << 63)) - 1
        return at >= 0 and time_ns < self.pieces[at][1]

    def part_of(self, time_ns: int, parts: int) -> int:
        """Return in which of some parts of equal length a time lies, from 0: of the time from the first window to the end of the last."""
        start, end = self.pieces[0][0], self.pieces[-1][1]
        return max(0, min(parts - 1, (time_ns - start) * parts // max(1, end - start)))

    def overlap_ns(self, start: int, end: int) -> int:
        """Return the length of an interval's intersection with them, in ns."""
        at = max(0, bisect.bisect_right(self.pieces, (start, 1 << 63)) - 1)
        before_end = itertools.takewhile(lambda piece: piece[0] < end, self.pieces[at:])
        return sum(max(0, min(end, other) - max(start, one)) for one, other in before_end)


def windows(events: Sequence[Event], region: Region, program: str) -> MeasuredWindows:
    """Find the work in a recording.

    Args:
        events: all events of a recording.
        region: what delimits the work.
        program: the kernel's name of the program (``comm``), at most 15 bytes.

    Returns:
        The windows; none if the markers are missing.
    """
    first = next((event for event in events if event.what == "exec" and event.trace == program), None)
    if first is None:
        return MeasuredWindows(())
    if region is Region.PASSES:
        marks = ((event.pid, event.time_ns) for event in events if event.what == MARKER)
        return MeasuredWindows(passes(marks), first.pid)
    ends = [event.time_ns for event in events if event.what == "exit" and event.pid == first.pid == event.tid]
    ends.append(max(event.time_ns for event in events))
    return MeasuredWindows(((first.time_ns, ends[0]),))


def passes(marks: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the passes between markers: of each four calls of one process, from the second to the third.

    Args:
        marks: pairs (process, time in ns), ascending by time.
    """
    of = grouped(marks, lambda mark: mark[0]).values()
    return tuple(sorted((times[at + 1][1], times[at + 2][1]) for times in of for at in range(0, len(times) - 3, 4)))


COMM_BYTES = 15
_DATA = "perf.data"


class TooLargeError(Exception):
    """A recording that is too large to read."""


@dataclasses.dataclass(frozen=True)
class Recording:
    """What perf recorded of a run.

    events: in order of time.
    windows: the work.
    ended: how the run ended.
    lost: number of records that perf lost because its buffer was full.
    command: of perf, as typed in a shell.
    tree: the processes that were started, of a recording of the whole machine.
    """

    events: list[Event]
    windows: MeasuredWindows
    ended: TracedRun
    lost: int
    command: str
    tree: Collection[int] = ()

    def work(self, kind: str) -> Iterator[Event]:
        """Yield the events of a kind in the windows, whatever its modifiers are, without those of the harness process."""
        for event in self.events:
            if event.what.startswith(kind) and event.pid != self.windows.pid and self.windows.contains(event.time_ns):
                yield event


def record(
    tracee: Tracee,
    options: Sequence[str],
    reference: ReferenceRuns,
    *,
    tracepoints: bool = False,
    kernel: bool = True,
    most_bytes: int | None = None,
    whole_machine: bool = False,
    mapped: Sequence[str] = (),
) -> Recording:
    """Record a run.

    Args:
        tracee: what to run.
        options: of ``perf record``: events, stacks.
        reference: has a scratch folder, and limits the run's duration.
        tracepoints: whether one of the events is a tracepoint.
        kernel: whether the kernel is sampled, too.
        most_bytes: limit of the recording's size.
        whole_machine: whether the options record all processes; events then have their processor.
        mapped: files that the program maps; those without unwind tables get derived ones.

    Raises:
        TooLargeError: the recording is larger than that.
        UnavailableError: perf can't be used, or the run takes longer than the limit.
        UserError: the program, or perf, failed.
    """
    traced = tracepoints or tracee.region is Region.PASSES
    samples = requirements.missing_perf if kernel else requirements.missing_user_samples
    requirements.require(requirements.missing_tracepoints() if traced else samples())
    wrapper = requirements.tracing_wrapper()[0] if traced else ()
    # The clock of a server's recording is that of the load generator's start and end.
    markers = {Region.PASSES: ("-e", MARKER), Region.DRIVEN: ("-k", "CLOCK_MONOTONIC")}.get(tracee.region, ())
    data = reference.folder / _DATA
    # In a root file system perf would take the build IDs of this machine's files.
    unnamed = ("-B",) if tracee.view is not None else ()
    command = (*wrapper, "perf", "record", "-q", "-N", *unnamed, "-o", str(data), *options, *markers, "--")
    ended = run(command, tracee, reference, note_pid=whole_machine)
    if (ended.status != 0 and ended.driven is None) or not data.is_file():
        *_, last_line = ("nothing", *ended.stderr.strip().splitlines())
        raise UserError(f"perf record ended with status {ended.status}: {last_line[:200]}")
    try:
        if most_bytes is not None and (size := data.stat().st_size) > most_bytes:
            raise TooLargeError(f"{size / most_bytes:.1f} times too large")
        root = _root_of(tracee, mapped, reference.folder)
        fields = WITH_PROCESSORS if whole_machine else FIELDS
        events = read(data, fields, root, reference.notify)
    finally:
        data.unlink()
    name = Path(tracee.program).name[:COMM_BYTES]
    tree = process_tree(events, ended.pid) if whole_machine else frozenset[int]()
    where = (
        MeasuredWindows(((ended.driven.start_ns, ended.driven.end_ns),))
        if ended.driven is not None
        else windows([each for each in events if each.pid in tree] if whole_machine else events, tracee.region, name)
    )
    if not where.pieces:
        raise UserError("The recording has no markers of the work's begin and end.")
    lost = sum(int(event.trace) for event in events if event.what == "lost")
    shown = " ".join(("perf", "record", *options, *markers, "--", *tracee.request.arguments))
    return Recording(events, where, ended, lost, shown, tree)


def _root_of(tracee: Tracee, mapped: Sequence[str], folder: Path) -> Path | None:
    """Return where perf looks for files; None for those of this machine. Arguments as `record`; the folder is a scratch folder."""
    if tracee.view is None and not mapped:
        return None
    request, files = tracee.request, map(tracee.file_of, (tracee.program, *mapped))
    if tracee.view is None:
        return root_with_tables(files, folder)
    return root_with_tables(files, folder, Path(request.root), {ROOT_FILES.lstrip("/"): Path(request.root_files)})


def process_tree(events: Iterable[Event], root: int) -> frozenset[int]:
    """Return a process and its descendants, by the records of forks in order of time."""
    found = {root}
    for event in events:
        if event.what == "fork" and event.parent in found:
            found.add(event.pid)
    return frozenset(found)


def read(
    data: Path,
    fields: str = FIELDS,
    root: Path | None = None,
    notify: Callable[[str], None] = lambda _: None,
) -> list[Event]:
    """Read a recording.

    Args:
        data: perf's file.
        fields: `FIELDS` or `WITH_PROCESSORS`.
        root: below which perf looks for the files that were mapped; None for this machine's.
        notify: called with a line when that takes long.

    Raises:
        UnavailableError: reading takes longer than `LONGEST_S`.
        UserError: perf can't read it.
    """
    # With a root perf takes no names from the running kernel by itself.
    files = () if root is None else ("--symfs", str(root), "--kallsyms", "/proc/kallsyms")
    command = ("perf", "script", "-i", str(data), "-F", fields, *FLAGS, *files)
    what = f"for perf script, which reads a recording of {data.stat().st_size >> 20} MiB"
    start = time.monotonic()
    with (
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace"
        ) as process,
        noted(what, LONGEST_S, notify, process.kill),
    ):
        assert process.stdout is not None
        events = list(decode_events(process.stdout))
    if time.monotonic() - start >= LONGEST_S:
        raise UnavailableError(f"its recording is so large that reading it takes longer than {LONGEST_S:.0f} s")
    if process.returncode != 0:
        raise UserError(f"perf script ended with status {process.returncode}.")
    return once(sorted(events, key=lambda event: event.time_ns))


def once(events: Sequence[Event]) -> list[Event]:
    """Remove duplicate records.

    perf sometimes writes a few records of a long recording twice, equal to the nanosecond (up to 22 of 300,000 were observed).

    Args:
        events: in order of time.

    Returns:
        Each event once, in the same order.
    """
    return [*{(event, number * (event.what == "lost")): event for number, event in enumerate(events)}.values()]


@dataclasses.dataclass
class RecordedRuns:
    """Sums over the recordings of one instrument.

    Attributes:
        operations: number of operations.
        took_ns: length of the measured windows.
        lost, kept: number of records that perf lost, and of those that it kept.
        command: of perf, as typed in a shell.
        number: of recordings.
    """

    operations: float = 0.0
    took_ns: int = 0
    lost: int = 0
    kept: int = 0
    command: str = ""
    number: int = 0

    def add(self, recording: Recording, tracee: Tracee, kinds: Collection[str]) -> RecordedRuns:
        """Add a recording, in which the events of some kinds are counted; return the sums."""
        passes = len(recording.windows.pieces) if tracee.region is Region.PASSES else 1
        driven = recording.ended.driven
        self.operations += passes * tracee.operations if driven is None else driven.requests
        self.took_ns += recording.windows.total_ns
        self.lost += recording.lost
        self.kept += sum(event.what in kinds for event in recording.events)
        self.command = recording.command
        self.number += 1
        return self

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return the arguments of `result` that follow from the recordings."""
        return {"operations": self.operations, "took_ns": self.took_ns, "tool": "perf", "command": self.command}

    def notes(self) -> tuple[str, ...]:
        """Return a note on lost records; none if no record was lost."""
        text = f"{self.lost} records were lost because the kernel's buffer was full; {self.kept} were kept"
        return (text,) if self.lost else ()


def result(
    name: str,
    tracee: Tracee,
    reference: ReferenceRuns,
    *,
    operations: float,
    took_ns: float,
    tool: str = "",
    command: str = "",
    lines: Mapping[Frame, str] = MappingProxyType({}),
    **measured: Any,  # noqa: ANN401 - as the fields have it
) -> InstrumentResult:
    """Build an instrument's result for one variant, with the instrument's overhead.

    Args:
        name: of the instrument.
        tracee: what ran.
        reference: the reference runs.
        operations: in the runs under the instrument.
        took_ns: elapsed time of all of them; 0 if it shows no overhead.
        tool: the command that the instrument needs; empty for none.
        command: as typed in a shell; empty for that of the program.
        lines: source lines of functions.
        measured: what the instrument measured, and its other fields.
    """
    names = demangled(frame.symbol for frame in lines)
    return InstrumentResult(
        instrument=name,
        tool=requirements.version_of(tool),
        variant=tracee.variant,
        command=command or " ".join(tracee.request.arguments),
        operations=operations,
        overhead=took_ns / operations / reference.wall_ns if took_ns and reference.wall_ns else None,
        lines=tuple(
            SourceLine(symbol=names.get(frame.symbol, frame.symbol), object=frame.object, line=line)
            for frame, line in lines.items()
        ),
        **measured,
    )


RUNS = 8
"""At least as many runs, if the time allows."""

MOST_RUNS = 60

BUDGET_S = 30.0
"""After this time no run of an instrument and a variant is begun, if there are `FEW_RUNS`, or as many parts of runs."""

MOST_S = 60.0
"""After this time none is begun in any case: on a busy machine the start of perf may take longer than all the rest."""

FEW_RUNS = 5
"""As many are planned if they take no longer than `MOST_S`. Fewer are divided into parts of equal length, so that there are `RUNS` parts:
the intervals are then of parts of runs, and wide if a program has phases."""

BRIEF_TIMES = 3
"""With `ReferenceRuns.brief`, `FEW_RUNS` are planned if they take no longer than this many times `BRIEF_S`."""

_SWITCH_S = 3e-4
"""Approximate time to read a switch with its stack."""

_START_S = 0.5
"""Approximate duration of the start of perf, and of the reading of a small recording."""


@dataclasses.dataclass(frozen=True)
class RunPlan:
    """How often to run, into how many parts of equal length each run is divided, and the times after which no more is begun.

    Attributes:
        runs, parts: both numbers.
        budget_s: after which none is begun, if there are `FEW_RUNS`, or as many parts of runs.
        most_s: after which none is begun in any case.
    """

    runs: int
    parts: int
    budget_s: float = BUDGET_S
    most_s: float = MOST_S


def planned_runs(
    tracee: Tracee, reference: ReferenceRuns, *, samples: int = 0, rate_hz: float = 0.0, switches: bool = False
) -> RunPlan:
    """Return how often to run a tracee.

    Args:
        tracee: what to run.
        reference: its runs without an instrument.
        samples: wanted in all runs together; 0 if the number of samples does not matter.
        rate_hz: samples in a second of processor time.
        switches: whether each switch of a thread is recorded, which then takes most of the time.
    """
    run_s = reference.longest_s
    if tracee.region is Region.PASSES:
        run_s = reference.wall_ns * tracee.operations * tracee.passes / 1e9
    wanted = RUNS
    if samples:
        busy = reference.metrics.get("cpu", 0.0) / reference.wall_ns if reference.wall_ns else 0.0
        wanted = max(RUNS, min(MOST_RUNS, math.ceil(samples / max(1.0, busy * run_s * rate_hz))))
    read_s = _switches(tracee, reference, run_s) * _SWITCH_S if switches else 0.0
    budget_s, most_s = (BRIEF_S, BRIEF_TIMES * BRIEF_S) if reference.brief else (BUDGET_S, MOST_S)
    one_s = 2 * run_s + read_s + _START_S
    runs = max(1, min(wanted, int(budget_s / one_s)))
    if FEW_RUNS * one_s <= most_s:
        runs = max(FEW_RUNS, runs)
    return RunPlan(runs, 1 if runs >= FEW_RUNS else math.ceil(RUNS / runs), budget_s, most_s)


def _switches(tracee: Tracee, reference: ReferenceRuns, run_s: float) -> float:
    """Return the number of switches in a run, as the kernel counts them: of a pass, of a program, or of a request."""
    counted = sum(reference.metrics.get(name, 0.0) for name in ("nvcsw", "nivcsw"))
    if tracee.region is Region.DRIVEN:
        return counted * run_s * 1e9 / reference.wall_ns if reference.wall_ns else 0.0
    return counted * tracee.passes


def repeat(plan: RunPlan, enough: Callable[[], bool] = lambda: True) -> Iterator[int]:
    """Yield the number of each run, from 0, until there are as many as planned and enough samples, or the time is over.

    Args:
        plan: how many runs.
        enough: whether there are enough samples.
    """
    start, made = time.monotonic(), 0
    while made < plan.runs or not (enough() or made >= MOST_RUNS or plan.parts > 1):
        yield made
        made += 1
        spent = time.monotonic() - start
        if spent > plan.budget_s and (made * plan.parts >= FEW_RUNS or spent > plan.most_s):
            break


def recordings(
    tracee: Tracee,
    make: Callable[[], Recording],
    kind: str,
    *,
    plan: RunPlan,
    runs: RecordedRuns,
    enough: Callable[[], bool] = lambda: True,
) -> Iterator[tuple[int, Recording]]:
    """Record one run after another.

    Args:
        tracee: what runs.
        make: records one run. Its errors are those of this function.
        kind: the event, with stacks.
        plan: how many runs.
        runs: to which each recording is added.
        enough: whether there are enough samples.

    Yields:
        The number of the recording's first part among the parts of all runs, and the recording.
    """
    for number in repeat(plan, enough):
        recording = make()
        runs.add(recording, tracee, [kind])
        yield number * plan.parts, recording


class ProfileBuilder:
    """Sums up weights by stack, of one run or of several."""

    def __init__(self) -> None:
        self._runs = collections.defaultdict[int, collections.Counter[tuple[Frame, ...]]](collections.Counter)
        self._samples = collections.Counter[int]()

    def add(self, frames: tuple[Frame, ...], weight: float, run: int = 0) -> None:
        """Add a weight to a stack, given from the outermost frame, in a run, or a part of one, by its number."""
        self._runs[run][frames] += weight  # type: ignore[assignment]  # a Counter adds floats as well
        self._samples[run] += 1

    def add_share(self, frames: tuple[Frame, ...], share: float) -> None:
        """Add a stack that has a share, below 1, of each run's weight then, such as that of time that could not be sampled."""
        for part in [*self._runs] if 0 < share < 1 else ():
            self.add(frames, sum(self._runs[part].values()) * share / (1 - share), part)

    @property
    def total(self) -> float:
        """Return the sum of all weights."""
        return float(sum(sum(run.values()) for run in self._runs.values()))

    @property
    def samples(self) -> int:
        """Return the number of weights that were added."""
        return self._samples.total()

    def profile(
        self, kind: str, unit: str, operations: float, notes: tuple[str, ...] = (), *, parts: int = 1
    ) -> Profile:
        """Return the profile, heaviest stacks first. It keeps the parts of runs apart, if there are several."""
        whole: collections.Counter[tuple[Frame, ...]] = collections.Counter()
        for each in self._runs.values():
            whole.update(each)
        ordered = dict(sorted(whole.items(), key=lambda one: (-one[1], [frame.symbol for frame in one[0]])))
        places = {frames: place for place, frames in enumerate(ordered)}
        runs = tuple(
            ProfileRun(
                samples=self._samples[part],
                weights=tuple(sorted((places[frames], float(weight)) for frames, weight in self._runs[part].items())),
            )
            for part in range(parts)
        )
        facts = {"kind": kind, "unit": unit, "operations": operations, "notes": notes}
        profile = Profile.of(ordered, **facts, runs=runs if parts > 1 else ())
        names = demangled(frame.symbol for frame in profile.frames)
        frames = {
            each: msgspec.structs.replace(each, symbol=names.get(each.symbol, each.symbol)) for each in profile.frames
        }
        return profile.mapped(lambda stack: tuple(frames[each] for each in stack)) if names else profile


_LONGEST_NAME = 512
"""Longer mangled names stay: what they stand for may be very long."""
_MANGLED = re.compile(r"_Z[\w.]+")


def demangled(names: Iterable[str]) -> Mapping[str, str]:
    """Return C++ names as c++filt(1) prints them, without parameters, long ones without template arguments; none without c++filt."""
    mangled = [name for name in dict.fromkeys(names) if _MANGLED.fullmatch(name) and len(name) <= _LONGEST_NAME]
    tool = shutil.which("c++filt") if mangled else None
    if tool is None:
        return {}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        printed = subprocess.run(
            [tool, "-p"], input="\n".join(mangled), capture_output=True, text=True, timeout=60, check=True
        ).stdout
        whole = (
            each if len(each) <= _LONGEST_NAME else without_template_arguments(each) for each in printed.splitlines()
        )
        return dict(zip(mangled, (each[:_LONGEST_NAME] for each in whole), strict=False))
    return {}


MOST_LINES = 200
"""Functions whose source lines are looked up."""
ADDR2LINE_S = 20
_LINE = re.compile(r"(?:.*/)?([^/]{1,120}:[1-9][0-9]{0,8})(?: \(discriminator [0-9]+\))?$")
_ADDRESS = re.compile(r"^0x[0-9a-f]+\n", re.MULTILINE)
_SHARED = re.compile(r"\.so(?:$|[.\d])")
_GENERATED = re.compile(r"perf-\d+\.map")
"""Files in which processes list the code that they generate (tools/perf/Documentation/jit-interface.txt of Linux)."""


class Symbolizer:
    """Names the frames of one tracee's stacks.

    The program's own frames are those of its file, and those of the code that it generates. A script executes another file: then those of
    every mapped file are that is no shared object by its name.

    Args:
        tracee: what ran.
    """

    def __init__(self, tracee: Tracee) -> None:
        self._program = tracee.mapped_program
        self._twin = tracee.symbols
        self._file_of = tracee.file_of
        self._script = _is_script(tracee.file_of(self._program))
        self._places = collections.defaultdict[Frame, collections.Counter[tuple[str, int]]](collections.Counter)
        self.frame = functools.lru_cache(maxsize=1 << 16)(self._frame)

    def stack(self, event: Event) -> tuple[Frame, ...]:
        """Return an event's stack, the outermost frame first.

        Where the copied part of a stack ends inside a frame, perf prints addresses in no file above it: they are left out.
        """
        frames = list(event.stack)
        while len(frames) > 1 and frames[-1][2] == NAMELESS:
            frames.pop()
        stack = tuple(self.frame(*each) for each in reversed(frames))
        for number, (frame, (offset, _, path)) in enumerate(zip(reversed(stack), frames, strict=True)):
            self._places[frame][path, offset - (number > 0)] += 1  # a caller's address is behind its call
        return stack

    def lines(self) -> dict[Frame, str]:
        """Return the source line with most samples of each function, of the `MOST_LINES` with the most, without those that have none."""
        most = sorted(self._places, key=lambda frame: -self._places[frame].total())[:MOST_LINES]
        found = {frame: self._places[frame].most_common(1)[0][0] for frame in most if frame.object != KERNEL}
        tables = {path: table for path, _ in found.values() if (table := self.table(path)) is not None}
        places = {frame: (path, tables[path].address_of(at)) for frame, (path, at) in found.items() if path in tables}
        known = {
            path: source_lines(self._file(path), [at for other, at in places.values() if other == path])
            for path in tables
        }
        return {frame: line for frame, (path, at) in places.items() if (line := known[path].get(at))}

    def _file(self, path: str) -> Path:
        """Return the file with the symbols of a mapped one."""
        return self._twin if path == self._program and self._twin is not None else self._file_of(path)

    def object_of(self, path: str) -> str:
        """Return the object name of frames in a file."""
        if path.startswith("[kernel") or path.endswith(".ko") or path == "[guest.kernel.kallsyms]":
            return KERNEL
        name = Path(path).name
        executed = self._script and path.startswith("/") and not _SHARED.search(name)
        return OWN_OBJECT if executed or path == self._program or _GENERATED.fullmatch(name) else name

    def table(self, path: str) -> Table | None:
        """Return the functions of a mapped file."""
        return table_of(self._file(path)) if path.startswith("/") else None

    def _frame(self, offset: int, symbol: str, path: str) -> Frame:
        where = self.object_of(path)
        if where == KERNEL:
            return Frame(symbol=symbol, object=KERNEL)
        table = self.table(path)
        own = table.name_at(table.address_of(offset)) if table else ""
        # In a stripped file perf reports the nearest preceding symbol, which may be another function.
        fallback = NAMELESS if table else symbol
        return Frame(symbol=(own or fallback).split("@@")[0], object=where)


def source_lines(file: Path, addresses: Collection[int]) -> dict[int, str]:
    """Return the source lines of addresses as addr2line(1) prints them, without folders: ``scan.c:14``.

    Of a call that the compiler put in place of a function it is the line of the call: that is in the function that has a symbol.

    Args:
        file: with debug information, or with a debug file of its build ID.
        addresses: of the file. Those without a line are left out; all if the command fails, or takes longer than `ADDR2LINE_S`.
    """
    command = ("addr2line", "-a", "-i", "-e", str(debug_file_of(file) or file), *map(hex, addresses))
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        printed = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=ADDR2LINE_S, check=True
        )
        outermost = (each.rstrip().rpartition("\n")[2] for each in _ADDRESS.split(printed.stdout)[1:])
        hits = zip(addresses, map(_LINE.match, outermost), strict=False)
        return {at: hit[1] for at, hit in hits if hit is not None}
    return {}


def _is_script(path: Path) -> bool:
    """Return whether a file is executed by an interpreter that its first line names."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(2) == b"#!"
    return False
