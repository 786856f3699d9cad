# SPDX-License-Identifier: MIT OR Apache-2.0
"""Off-CPU time: each time a thread is switched out, its stack and the time until it runs again.

Users whom the kernel refuses perf's samples get the waits of their threads from /proc, read at intervals.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import itertools
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from swapstone.core.model import UnavailableError
from swapstone.core.model.profile import KERNEL, Frame
from swapstone.core.model.regular_file import text_of
from swapstone.parts.explain.instruments import requirements, syscalls
from swapstone.parts.explain.instruments.perf import (
    RUNS,
    Event,
    MeasuredWindows,
    ProfileBuilder,
    RecordedRuns,
    Recording,
    Symbolizer,
    planned_runs,
    record,
    recordings,
    result,
)
from swapstone.parts.explain.instruments.traced_run import (
    ReferenceRuns,
    Region,
    Tracee,
    run_with_reader,
    tasks_of,
    with_children,
)
from swapstone.parts.explain.model.explanation import (
    KERNEL_LOCKS,
    NO_PROCESSOR_FRAME,
    ElapsedRun,
    ElapsedTime,
    InstrumentResult,
)

NAME = "off-cpu"
WORK_NS = 0.8e9
"""Of all runs together, for a program with passes."""
STACK_BYTES = 2048
MOST_SWITCHES_S = 5000
"""Above this rate a server's user stacks are not unwound: copying 2 KiB of stack at each switch takes more CPU time of a small
machine than the server does, and the load generator times out."""

_EVENT = "context-switches"
_NOTE = (
    "off-CPU time includes the wait for a processor after the wake-up; elapsed time is divided among threads that run, are ready or"
    " wait for a lock; while no thread does, it is attributed to the wait that ends first"
)
_LOCK_CALLS = ("futex", "futex_wait", "futex_waitv", "futex_lock_pi")
_NOT_LOCKS = (
    "pthread_join",
    "pthread_clockjoin",
    "pthread_timedjoin",
    "cond_wait",
    "cond_timedwait",
    "cond_clockwait",
    "sem_wait",
    "barrier",
    "futex_abstimed_wait",  # glibc's innermost function of all these, for stacks without callers
    "__syscall_cp_asm",  # musl's cancellable waits; its mutexes and rwlocks wait without cancellation
)
_LOCKING = ("mutex_lock", "rwlock", "lll_lock")
_DOING = {"fork": "ready", "exec": "run", "in": "run", "taken": "ready", "out": "wait"}
"""What a thread does after an event: as in `_Thread`."""


@dataclasses.dataclass
class _Thread:
    """The state of a thread.

    Attributes:
        pid: its process.
        doing: ``run``, ``ready`` or ``wait``.
        stack: with which it was switched out.
        contends: whether it waits for a lock.
    """

    pid: int
    doing: str
    stack: tuple[Frame, ...] = ()
    contends: bool = False

    @property
    def counts(self) -> bool:
        return self.doing != "wait" or self.contends


def contends(stack: tuple[Frame, ...], *, main_of_several: bool) -> bool:
    """Return whether a thread that was switched out with this stack waits for a lock that another thread holds.

    Joins, conditions and semaphores wait on a futex too. If neither the caller (musl has no unwind tables) nor the innermost function
    distinguishes them, the main thread of a process is assumed to wait for its threads, and any other thread for a lock.

    Args:
        stack: the outermost frame first.
        main_of_several: whether it is the main thread of a process with several threads.
    """
    kernel = [frame.symbol for frame in stack if frame.object == KERNEL]
    if any(name.startswith(KERNEL_LOCKS) for name in kernel):
        return True
    if not any(name.rpartition("_sys_")[2] in _LOCK_CALLS for name in kernel):
        return False
    user = [frame.symbol for frame in stack if frame.object != KERNEL]
    if any(name == "__lock" or part in name for name in user for part in _LOCKING):
        return True
    if any(part in name for name in user for part in _NOT_LOCKS):
        return False
    return not main_of_several


class Timeline:
    """Divides the elapsed time of recordings among the active threads, and sums it up by part of a run.

    Args:
        symbolizer: names their stacks.
        callers: whether stacks have functions of the program; without them a wait on a futex counts as none for a lock.

    Attributes:
        off: stacks of waiting threads, with their share of the time, and of preempted threads, each below `NO_PROCESSOR_FRAME`.
    """

    def __init__(self, symbolizer: Symbolizer, *, callers: bool = True) -> None:
        self._namer, self._callers = symbolizer, callers
        self._waits, self.off = ProfileBuilder(), ProfileBuilder()
        self._wall_ns = self._most = 0
        self._spent = collections.defaultdict[tuple[str, int], float](float)

    def elapsed(self, operations: float, notes: tuple[str, ...], parts: int = 1) -> ElapsedTime:
        """Return the division of the elapsed time, by part if there are several."""
        running, ready, cpu = ([self._spent[what, part] for part in range(parts)] for what in ("run", "ready", "cpu"))
        runs = (ElapsedRun(running_ns=a, ready_ns=b, cpu_ns=c) for a, b, c in zip(running, ready, cpu, strict=True))
        return ElapsedTime(
            wall_ns=float(self._wall_ns),
            running_ns=sum(running),
            ready_ns=sum(ready),
            waits=self._waits.profile(NAME, "ns", operations, notes, parts=parts),
            most_threads=self._most,
            cpu_ns=sum(cpu),
            runs=tuple(runs) if parts > 1 else (),
        )

    def follow(self, recording: Recording, first: int = 0, parts: int = 1) -> None:
        """Add a recording.

        Args:
            recording: with samples of context switches and the switches themselves.
            first: number of its first part.
            parts: of equal length, into which it is divided.
        """
        self._threads: dict[int, _Thread] = {}
        self._leaving: dict[int, tuple[Frame, ...]] = {}
        self._idle_ns, self._part = 0.0, first
        before, windows = 0, recording.windows
        self._wall_ns += windows.total_ns
        for event in recording.events:
            if before and event.time_ns > before:
                self._divide(windows.overlap_ns(before, event.time_ns))
            before, self._part = event.time_ns, first + windows.part_of(event.time_ns, parts)
            if event.tid != windows.pid:
                self._take(event)
        self._charge_idle([thread for thread in self._threads.values() if thread.doing == "wait"])

    def _divide(self, length_ns: int) -> None:
        if not length_ns or not self._threads:
            return
        self._spent["cpu", self._part] += length_ns * sum(thread.doing == "run" for thread in self._threads.values())
        working = [thread for thread in self._threads.values() if thread.counts]
        self._most = max(self._most, len(working))
        if not working:
            self._idle_ns += length_ns
        for thread in working:
            if thread.doing == "wait":
                self._charge(thread, length_ns / len(working))
            else:
                self._spent[thread.doing, self._part] += length_ns / len(working)
                if thread.doing == "ready":
                    self.off.add((*thread.stack, NO_PROCESSOR_FRAME), length_ns / len(working), self._part)

    def _charge(self, thread: _Thread, length_ns: float) -> None:
        for sums in (self._waits, self.off):
            sums.add(thread.stack, length_ns, self._part)

    def _charge_idle(self, threads: list[_Thread]) -> None:
        """Attribute time in which no thread was active to the thread that ended it, or to all threads equally if none did."""
        if not threads or not self._idle_ns:
            return
        for thread in threads:
            self._charge(thread, self._idle_ns / len(threads))
        self._idle_ns = 0.0

    def _take(self, event: Event) -> None:
        tid, what = event.tid, event.what
        if tid <= 0:
            return
        if what == "exit":
            self._threads.pop(tid, None)
        elif what.startswith(_EVENT):
            self._leaving[tid] = self._namer.stack(event)
        elif what in _DOING:
            known = self._threads.get(tid)
            if what == "in" and known is not None and known.doing == "wait":
                self._charge_idle([known])
            stack = self._leaving.pop(tid, ()) if what in {"taken", "out"} else ()
            several = any(other != event.pid and one.pid == event.pid for other, one in self._threads.items())
            waits = (tid == event.pid and several) or not self._callers
            held = what == "out" and contends(stack, main_of_several=waits)
            self._threads[tid] = _Thread(event.pid, _DOING[what], stack, held)


def stacks_of(tracee: Tracee, reference: ReferenceRuns) -> tuple[str, tuple[str, ...]]:
    """Return how stacks are taken: by DWARF unwinding, or for a server that switches often without user callers.

    Args:
        tracee: what to run.
        reference: gives the rate of switches without an instrument.

    Returns:
        perf's event specification, and notes for the reader.
    """
    if tracee.region is Region.DRIVEN:
        often = [reference.metrics[name] for name in ("nvcsw", "nivcsw") if name in reference.metrics]
        rate = sum(often) * 1e9 / reference.wall_ns if often and reference.wall_ns else None
        if rate is None or rate > MOST_SWITCHES_S:
            how_often = "an unknown number of times" if rate is None else f"{rate:.0f} times"
            return "call-graph=fp", (
                f"its threads are switched out {how_often} per second: stacks have the kernel's functions and the server's innermost"
                " function, but not its callers",
            )
    return f"call-graph=dwarf,stack-size={STACK_BYTES}", ()


def measure(tracee: Tracee, reference: ReferenceRuns) -> InstrumentResult:
    """Record why and for how long threads are off the processor.

    Raises:
        UnavailableError: perf can't be used.
        UserError: the run failed.
    """
    refused = requirements.missing_perf()
    tracee = reference.passes_for(tracee, WORK_NS / RUNS, marked=requirements.missing_tracepoints() is None)
    terms, limits = stacks_of(tracee, reference)
    options = ("-e", f"{_EVENT}/period=1,{terms},name={_EVENT}/", "--switch-events", "-m", "4096")
    plan = planned_runs(tracee, reference, switches=not refused)
    symbolizer, runs = Symbolizer(tracee), RecordedRuns()
    timeline = Timeline(symbolizer, callers=not refused)
    by_perf = functools.partial(record, tracee, options, reference, mapped=reference.objects)
    make = functools.partial(sampled_recording, tracee, reference) if refused else by_perf
    for first, recording in recordings(tracee, make, _EVENT, plan=plan, runs=runs):
        timeline.follow(recording, first, plan.parts)
    how = (*limits, *runs.notes()) if refused is None else (f"{NOTE}: {refused.reason}",)
    notes, parts = (_NOTE, *how), runs.number * plan.parts
    profile = timeline.off.profile(NAME, "ns", runs.operations, notes, parts=parts) if timeline.off.total else None
    elapsed = timeline.elapsed(runs.operations, notes, parts)
    lines = symbolizer.lines()
    return result(NAME, tracee, reference, **runs.facts, profile=profile, elapsed=elapsed, notes=notes, lines=lines)


INTERVAL_S = 0.005
MOST_THREADS = 64
"""Of a program that are read."""
NOTE = (
    f"threads were sampled in /proc every {1000 * INTERVAL_S:.0f} ms: shorter waits are seldom seen, and each has its system call "
    "alone, without callers"
)
_PROC = Path("/proc")
_KERNEL = "[kernel.kallsyms]"
_STATE = re.compile(r"\A(?s:.*)\) (\S)")  # a process may have any name
_FAULT = "asm_exc_page_fault"


class ThreadSample(NamedTuple):
    """A thread at a time: whether it has work for a processor, what it waits for, and how long it ran and was ready so far, in ns."""

    pid: int
    running: bool
    waits: tuple[str, ...]
    ran_ns: int
    ready_ns: int
    turns: int


Sample = tuple[int, Mapping[int, ThreadSample]]
"""A time (CLOCK_MONOTONIC, ns), and the threads by number."""


def read_threads(pids: Iterable[int], names: Mapping[int, str], proc: Path = _PROC) -> dict[int, ThreadSample]:
    """Return the threads of some processes, at most `MOST_THREADS`; one that ends meanwhile is left out.

    Args:
        pids: the processes.
        names: system calls by number.
        proc: folder of the processes.
    """
    found: dict[int, ThreadSample] = {}
    for pid in pids:
        for task in tasks_of(pid, proc)[: MOST_THREADS - len(found)]:
            state, spent = _STATE.match(text_of(task / "stat")), text_of(task / "schedstat").split()
            if state is None or len(spent) != 3 or not all(each.isdecimal() for each in spent):
                continue
            running = state[1] == "R"
            waits = () if running else _waits(text_of(task / "syscall"), text_of(task / "wchan"), names)
            found[int(task.name)] = ThreadSample(pid, running, waits, *map(int, spent))
    return found


def _waits(call: str, channel: str, names: Mapping[int, str]) -> tuple[str, ...]:
    """Return the functions of the kernel in which a thread waits, the outermost first, as far as a user may read them."""
    number = call.split(" ", 1)[0]
    outer = (
        (_FAULT,) if number == "-1" else (f"__x64_sys_{names.get(int(number), number)}",) if number.isdecimal() else ()
    )
    return (*outer, *((channel,) if re.fullmatch(r"[A-Za-z_]\w{1,80}", channel) else ()))


def events_of(samples: Sequence[Sample], name: str = "") -> Iterator[Event]:
    """Yield the changes of threads between samples, as perf records them.

    A thread that has work is ready for as much of the time between two samples as it was without a processor, and then runs.
    """
    for (at, threads), (until, after) in itertools.pairwise(samples):
        for tid, each in threads.items():
            event = functools.partial(Event, comm=name, pid=each.pid, tid=tid)
            later = after.get(tid)
            if later is None:
                yield event("exit", time_ns=until)
                continue
            if each.running or later.turns != each.turns:
                yield event("in", time_ns=at)
            if not each.running:
                yield event(
                    _EVENT, time_ns=at, stack=tuple((0, function, _KERNEL) for function in reversed(each.waits))
                )
                yield event("out", time_ns=at)
                continue
            ready_ns, ran_ns = later.ready_ns - each.ready_ns, later.ran_ns - each.ran_ns
            if ready_ns > 0 and ran_ns >= 0:
                yield event("taken", time_ns=at)
                yield event("in", time_ns=at + (until - at) * ready_ns // (ready_ns + ran_ns))


def sampled_recording(tracee: Tracee, reference: ReferenceRuns) -> Recording:
    """Sample a run.

    Raises:
        UnavailableError: it is too short.
        UserError: it failed.
    """
    names: Mapping[int, str] = {}
    with contextlib.suppress(UnavailableError):
        names = syscalls.names()
    samples: list[Sample] = []

    def read(pid: int) -> None:
        samples.append((time.monotonic_ns(), read_threads(sorted(with_children(pid)), names)))

    ended = run_with_reader(tracee, reference, lambda _: INTERVAL_S, read)
    known = [each for each in samples if each[1]]
    if len(known) < 2:
        raise UnavailableError(f"the run was too short for two samples of /proc, {1000 * INTERVAL_S:.0f} ms apart")
    window = (known[0][0], known[-1][0]) if ended.driven is None else (ended.driven.start_ns, ended.driven.end_ns)
    events = sorted(events_of(known, Path(tracee.program).name), key=lambda event: event.time_ns)
    command = f"/proc/PID/task/TID/{{stat,schedstat,syscall,wchan}} of {' '.join(tracee.request.arguments)}"
    return Recording(events, MeasuredWindows((window,)), ended, 0, command)
