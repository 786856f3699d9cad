# SPDX-License-Identifier: MIT OR Apache-2.0
"""Off-CPU time: each time a thread is switched out, its stack and the time until it runs again."""

from __future__ import annotations

import dataclasses

from swapstone.instruments.instrument_result import ReferenceRuns, operations_in, result
from swapstone.instruments.perf import Recording, lost_note, record
from swapstone.instruments.perf_script import Event
from swapstone.instruments.profile_builder import ProfileBuilder
from swapstone.instruments.symbolizer import Symbolizer
from swapstone.instruments.tracee import Region, Tracee
from swapstone.model import KERNEL, KERNEL_LOCKS, ElapsedTime, Frame, InstrumentResult

NAME = "off-cpu"
WORK_NS = 0.6e9
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
    """Divides the elapsed time of a recording among the active threads.

    Args:
        recording: with samples of context switches and the switches themselves.
        symbolizer: names its stacks.

    Attributes:
        waits: stacks of waiting threads, with their share of the time.
        off: the same, and stacks of preempted threads, each below `PREEMPTED`.
    """

    def __init__(self, recording: Recording, symbolizer: Symbolizer) -> None:
        self._recording = recording
        self._namer = symbolizer
        self._threads: dict[int, _Thread] = {}
        self._leaving: dict[int, tuple[Frame, ...]] = {}
        self._amounts = {"run": 0.0, "ready": 0.0}
        self._most = 0
        self._cpu_ns = 0.0
        self._idle_ns = 0.0
        self.waits = ProfileBuilder()
        self.off = ProfileBuilder()

    def elapsed(self, operations: float, notes: tuple[str, ...]) -> ElapsedTime:
        """Return the division of the elapsed time."""
        before = 0
        for event in self._recording.events:
            if before and event.time_ns > before:
                self._divide(self._recording.windows.overlap_ns(before, event.time_ns))
            before = event.time_ns
            self._take(event)
        self._charge_idle([thread for thread in self._threads.values() if thread.doing == "wait"])
        return ElapsedTime(
            wall_ns=float(self._recording.windows.total_ns),
            running_ns=self._amounts["run"],
            ready_ns=self._amounts["ready"],
            waits=self.waits.profile(NAME, "ns", operations, notes),
            most_threads=self._most,
            cpu_ns=self._cpu_ns,
        )

    def _divide(self, length_ns: int) -> None:
        if not length_ns or not self._threads:
            return
        self._cpu_ns += length_ns * sum(thread.doing == "run" for thread in self._threads.values())
        working = [thread for thread in self._threads.values() if thread.counts]
        self._most = max(self._most, len(working))
        if not working:
            self._idle_ns += length_ns
        for thread in working:
            if thread.doing == "wait":
                self._charge(thread, length_ns / len(working))
            else:
                self._amounts[thread.doing] += length_ns / len(working)
                if thread.doing == "ready":
                    self.off.add((*thread.stack, PREEMPTED), length_ns / len(working))

    def _charge(self, thread: _Thread, length_ns: float) -> None:
        self.waits.add(thread.stack, length_ns)
        self.off.add(thread.stack, length_ns)

    def _charge_idle(self, threads: list[_Thread]) -> None:
        """Attribute time in which no thread was active to the thread that ended it, or to all threads equally if none did."""
        if not threads or not self._idle_ns:
            return
        for thread in threads:
            self._charge(thread, self._idle_ns / len(threads))
        self._idle_ns = 0.0

    def _take(self, event: Event) -> None:
        if event.tid == self._recording.windows.pid or event.tid <= 0:
            return
        if event.what == "exit":
            self._threads.pop(event.tid, None)
        elif event.what == "fork":
            self._threads[event.tid] = _Thread(event.pid, "ready")
        elif event.what.startswith(_EVENT):
            self._leaving[event.tid] = self._namer.stack(event)
        elif event.what == "in":
            if event.tid in self._threads and self._threads[event.tid].doing == "wait":
                self._charge_idle([self._threads[event.tid]])
            self._threads[event.tid] = _Thread(event.pid, "run")
        elif event.what == "taken":
            self._threads[event.tid] = _Thread(event.pid, "ready", self._leaving.pop(event.tid, ()))
        elif event.what == "out":
            stack = self._leaving.pop(event.tid, ())
            several = any(tid != event.pid and one.pid == event.pid for tid, one in self._threads.items())
            held = contends(stack, main_of_several=event.tid == event.pid and several)
            self._threads[event.tid] = _Thread(event.pid, "wait", stack, held)
        elif event.what == "exec":
            self._threads[event.tid] = _Thread(event.pid, "run")


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
    tracee = reference.passes_for(tracee, WORK_NS)
    terms, limits = stacks_of(tracee, reference)
    options = ("-e", f"{_EVENT}/period=1,{terms},name={_EVENT}/", "--switch-events", "-m", "4096")
    recording = record(tracee, options, reference.folder)
    notes = (_NOTE, *limits, *lost_note(recording, [_EVENT]))
    operations, timeline = operations_in(recording, tracee), Timeline(recording, Symbolizer(tracee))
    elapsed = timeline.elapsed(operations, notes)
    profile = timeline.off.profile(NAME, "ns", operations, notes) if timeline.off.total else None
    return result(NAME, tracee, reference, recording, profile=profile, elapsed=elapsed, notes=notes)
