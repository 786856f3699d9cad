# SPDX-License-Identifier: MIT OR Apache-2.0
"""Off-CPU time: each time a thread is switched out, its stack and the time until it runs again."""

from __future__ import annotations

import dataclasses

from swapstone.parts.explain.instruments.instrument_result import (
    RUNS,
    ProfileBuilder,
    RecordedRuns,
    ReferenceRuns,
    planned_runs,
    repeat,
    result,
)
from swapstone.parts.explain.instruments.perf import Recording, record, require_kernel_samples
from swapstone.parts.explain.instruments.perf_script import Event
from swapstone.parts.explain.instruments.symbolizer import Symbolizer
from swapstone.parts.explain.instruments.traced_run import Region, Tracee
from swapstone.parts.explain.model.explanation import (
    KERNEL,
    KERNEL_LOCKS,
    RECORDED_SWITCHES,
    Amount,
    ElapsedRun,
    ElapsedTime,
    Frame,
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
PREEMPTED = Frame(symbol="processor taken", object=KERNEL)
"""Innermost frame of a preempted thread; the frames above it are what the thread was running, as in other tools' off-CPU graphs."""

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


class ElapsedSums:
    """Sums up the elapsed time of several recordings, by run.

    Attributes:
        waits: stacks of waiting threads, with their share of the time.
        off: the same, and stacks of preempted threads, each below `PREEMPTED`.
        wall_ns: elapsed time.
        most: maximum number of threads active at the same time.
        blocked: number of times that a thread gave up its processor.
        runs: time of each run in ns: ``run``, ``ready`` and ``cpu``.
    """

    def __init__(self) -> None:
        self.waits = ProfileBuilder()
        self.off = ProfileBuilder()
        self.wall_ns = 0
        self.most = 0
        self.blocked = 0
        self.runs = [{"run": 0.0, "ready": 0.0, "cpu": 0.0}]

    def begin_run(self) -> None:
        """Begin another run, or another part of a run; the first one has begun already."""
        self.waits.begin_run()
        self.off.begin_run()
        self.runs.append({"run": 0.0, "ready": 0.0, "cpu": 0.0})

    def elapsed(self, operations: float, notes: tuple[str, ...]) -> ElapsedTime:
        """Return the division of the elapsed time."""
        runs = tuple(ElapsedRun(running_ns=run["run"], ready_ns=run["ready"], cpu_ns=run["cpu"]) for run in self.runs)
        return ElapsedTime(
            wall_ns=float(self.wall_ns),
            running_ns=sum(run["run"] for run in self.runs),
            ready_ns=sum(run["ready"] for run in self.runs),
            waits=self.waits.profile(NAME, "ns", operations, notes),
            most_threads=self.most,
            cpu_ns=sum(run["cpu"] for run in self.runs),
            runs=runs if len(runs) > 1 else (),
        )


class Timeline:
    """Divides the elapsed time of a recording among the active threads.

    Args:
        recording: with samples of context switches and the switches themselves.
        symbolizer: names its stacks.
        sums: to which the recording is added.
        parts: into which the recording is divided.
    """

    def __init__(
        self, recording: Recording, symbolizer: Symbolizer, sums: ElapsedSums | None = None, parts: int = 1
    ) -> None:
        self._recording = recording
        self._namer = symbolizer
        self._threads: dict[int, _Thread] = {}
        self._leaving: dict[int, tuple[Frame, ...]] = {}
        self._idle_ns = 0.0
        self._parts, self._part = parts, 0
        self.sums = ElapsedSums() if sums is None else sums

    def follow(self) -> None:
        """Add the recording to the sums."""
        before, windows = 0, self._recording.windows
        self.sums.wall_ns += windows.total_ns
        for event in self._recording.events:
            if before and event.time_ns > before:
                self._divide(windows.overlap_ns(before, event.time_ns))
            before = event.time_ns
            while self._parts > 1 and self._part < windows.part_of(event.time_ns, self._parts):
                self._next_part()
            if event.what == "out" and event.tid != windows.pid and windows.contains(event.time_ns):
                self.sums.blocked += 1
            self._take(event)
        self._charge_idle([thread for thread in self._threads.values() if thread.doing == "wait"])
        while self._part < self._parts - 1:
            self._next_part()

    def _next_part(self) -> None:
        self._part += 1
        self.sums.begin_run()

    def _divide(self, length_ns: int) -> None:
        if not length_ns or not self._threads:
            return
        self.sums.runs[-1]["cpu"] += length_ns * sum(thread.doing == "run" for thread in self._threads.values())
        working = [thread for thread in self._threads.values() if thread.counts]
        self.sums.most = max(self.sums.most, len(working))
        if not working:
            self._idle_ns += length_ns
        for thread in working:
            if thread.doing == "wait":
                self._charge(thread, length_ns / len(working))
            else:
                self.sums.runs[-1][thread.doing] += length_ns / len(working)
                if thread.doing == "ready":
                    self.sums.off.add((*thread.stack, PREEMPTED), length_ns / len(working))

    def _charge(self, thread: _Thread, length_ns: float) -> None:
        self.sums.waits.add(thread.stack, length_ns)
        self.sums.off.add(thread.stack, length_ns)

    def _charge_idle(self, threads: list[_Thread]) -> None:
        """Attribute time in which no thread was active to the thread that ended it, or to all threads equally if none did."""
        if not threads or not self._idle_ns:
            return
        for thread in threads:
            self._charge(thread, self._idle_ns / len(threads))
        self._idle_ns = 0.0

    def _take(self, event: Event) -> None:
        tid, what = event.tid, event.what
        if tid == self._recording.windows.pid or tid <= 0:
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
            held = what == "out" and contends(stack, main_of_several=tid == event.pid and several)
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
    tracee = reference.passes_for(tracee, WORK_NS / RUNS)
    terms, limits = stacks_of(tracee, reference)
    options = ("-e", f"{_EVENT}/period=1,{terms},name={_EVENT}/", "--switch-events", "-m", "4096")
    plan = planned_runs(tracee, reference, switches=True)
    symbolizer, sums, runs = Symbolizer(tracee), ElapsedSums(), RecordedRuns()
    for number in repeat(plan):
        if number:
            sums.begin_run()
        recording = record(tracee, options, reference.folder, limit=reference.limit(), mapped=reference.objects)
        require_kernel_samples(recording.events, _EVENT)
        runs.add(recording, tracee, [_EVENT])
        Timeline(recording, symbolizer, sums, plan.parts).follow()
    notes = (_NOTE, *limits, *runs.notes())
    elapsed = sums.elapsed(runs.operations, notes)
    profile = sums.off.profile(NAME, "ns", runs.operations, notes) if sums.off.total else None
    blocked = Amount(group=RECORDED_SWITCHES, name="voluntary switches", value=sums.blocked / runs.operations)
    return result(NAME, tracee, reference, runs, amounts=(blocked,), profile=profile, elapsed=elapsed, notes=notes)
