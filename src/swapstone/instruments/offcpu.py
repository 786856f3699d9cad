"""What threads wait for: each time a thread leaves its processor, with its stack, until it is back."""

from __future__ import annotations

import dataclasses

from swapstone.instruments.instrument_result import Known, operations_in, result
from swapstone.instruments.perf import Recording, lost_note, record
from swapstone.instruments.perf_script import Event
from swapstone.instruments.profile_builder import Adder
from swapstone.instruments.symbolizer import Namer
from swapstone.instruments.tracee import Region, Subject
from swapstone.model import KERNEL, KERNEL_LOCKS, Frame, Instrumented, Passing

NAME = "off-cpu"
WORK_NS = 0.6e9
STACK_BYTES = 2048
MOST_SWITCHES_S = 5000
"""A server whose threads leave their processors more often in a second is looked at without unwinding its own code: a copy of 2 KiB of
stack for each switch takes more of a small machine than the server does, and its driver then waits in vain."""

_EVENT = "context-switches"
_NOTE = (
    "time off the processor includes the wait for one after the wake-up; a moment is divided among the threads that run, are ready, or"
    " wait for a lock that another holds; while no thread does any of these it goes to the wait that ends first"
)
_LOCK_CALLS = ("futex", "futex_wait", "futex_waitv", "futex_lock_pi")
_PEACEFUL = (
    "pthread_join",
    "pthread_clockjoin",
    "pthread_timedjoin",
    "cond_wait",
    "cond_timedwait",
    "cond_clockwait",
    "sem_wait",
    "barrier",
    "futex_abstimed_wait",  # glibc's innermost function of all these, where no caller was taken
    "__syscall_cp_asm",  # musl's, as they can be cancelled; its mutexes and rwlocks wait with cancellation off, elsewhere
)
TAKEN = Frame(symbol="processor taken", object=KERNEL)
"""The innermost frame of a thread that could have gone on: it shows what it was at, as off-CPU graphs of other tools do."""

_LOCKING = ("mutex_lock", "rwlock", "lll_lock")


@dataclasses.dataclass
class _Thread:
    """What a thread does now.

    Attributes:
        pid: of its process.
        doing: ``run``, ``ready`` or ``wait``.
        stack: with which it left the processor.
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
    """Say whether a thread that left its processor with this stack waits for a lock that another thread holds.

    A futex is what locks wait on, but joins, conditions and semaphores too: where the caller has no name (musl's code has no unwind
    tables) and the innermost function doesn't tell, a process's first thread is taken to wait for its others, and any other thread for
    a lock.

    Args:
        stack: the outermost frame first.
        main_of_several: whether it is the first thread of a process that has others.
    """
    kernel = [frame.symbol for frame in stack if frame.object == KERNEL]
    if any(name.startswith(KERNEL_LOCKS) for name in kernel):
        return True
    if not any(name.rpartition("_sys_")[2] in _LOCK_CALLS for name in kernel):
        return False
    user = [frame.symbol for frame in stack if frame.object != KERNEL]
    if any(name == "__lock" or part in name for name in user for part in _LOCKING):
        return True
    if any(part in name for name in user for part in _PEACEFUL):
        return False
    return not main_of_several


class Timeline:
    """Walks through a recording and divides each moment among the threads that have work.

    Args:
        recording: with samples of context switches and the switches themselves.
        namer: names its stacks.

    Attributes:
        waits: stacks of threads that waited for something, with their share of the time.
        off: the same, and stacks of threads whose processor was taken, each below `TAKEN`.
    """

    def __init__(self, recording: Recording, namer: Namer) -> None:
        self._recording = recording
        self._namer = namer
        self._threads: dict[int, _Thread] = {}
        self._leaving: dict[int, tuple[Frame, ...]] = {}
        self._amounts = {"run": 0.0, "ready": 0.0}
        self._most = 0
        self._cpu_ns = 0.0
        self._idle_ns = 0.0
        self.waits = Adder()
        self.off = Adder()

    def passing(self, operations: float, notes: tuple[str, ...]) -> Passing:
        """Return how the time passed."""
        before = 0
        for event in self._recording.events:
            if before and event.time_ns > before:
                self._divide(self._recording.windows.overlap_ns(before, event.time_ns))
            before = event.time_ns
            self._take(event)
        self._charge_idle([thread for thread in self._threads.values() if thread.doing == "wait"])
        return Passing(
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
                    self.off.add((*thread.stack, TAKEN), length_ns / len(working))

    def _charge(self, thread: _Thread, length_ns: float) -> None:
        self.waits.add(thread.stack, length_ns)
        self.off.add(thread.stack, length_ns)

    def _charge_idle(self, threads: list[_Thread]) -> None:
        """Charge the time in which nobody had work: to the thread that ended it, or to all alike where none has."""
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


def stacks_of(subject: Subject, known: Known) -> tuple[str, tuple[str, ...]]:
    """Choose how stacks are taken: by DWARF, or for a server that switches often only the kernel's and the innermost function.

    Args:
        subject: what is looked at.
        known: how often it switches without an instrument.

    Returns:
        perf's terms for the event, and what a reader must know of it.
    """
    if subject.region is Region.DRIVEN:
        often = [known.metrics[name] for name in ("nvcsw", "nivcsw") if name in known.metrics]
        rate = sum(often) * 1e9 / known.wall_ns if often and known.wall_ns else None
        if rate is None or rate > MOST_SWITCHES_S:
            how_often = "an unknown number of times" if rate is None else f"{rate:.0f} times"
            return "call-graph=fp", (
                f"its threads leave their processors {how_often} in a second: stacks have the kernel's functions and the innermost"
                " of the server's, but not its callers",
            )
    return f"call-graph=dwarf,stack-size={STACK_BYTES}", ()


def measure(subject: Subject, known: Known) -> Instrumented:
    """Record why threads leave their processors, and for how long.

    Raises:
        UnavailableError: perf can't be used here.
        UserError: the run failed.
    """
    subject = known.passes_for(subject, WORK_NS)
    terms, limits = stacks_of(subject, known)
    options = ("-e", f"{_EVENT}/period=1,{terms},name={_EVENT}/", "--switch-events", "-m", "4096")
    recording = record(subject, options, known.folder)
    notes = (_NOTE, *limits, *lost_note(recording, [_EVENT]))
    operations, timeline = operations_in(recording, subject), Timeline(recording, Namer(subject))
    passing = timeline.passing(operations, notes)
    profile = timeline.off.profile(NAME, "ns", operations, notes) if timeline.off.total else None
    return result(NAME, subject, known, recording, profile=profile, passing=passing, notes=notes)
