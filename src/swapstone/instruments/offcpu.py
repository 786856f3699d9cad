"""What threads wait for: each time a thread leaves its processor, with its stack, until it is back."""

from __future__ import annotations

import dataclasses

from swapstone.instruments.base import Known, operations_in, result
from swapstone.instruments.namer import Namer
from swapstone.instruments.perf import Recording, lost_note, record
from swapstone.instruments.script import Event
from swapstone.instruments.stacks import Adder
from swapstone.instruments.subject import Subject
from swapstone.model import KERNEL, Frame, Instrumented, Passing

NAME = "off-cpu"
WORK_NS = 0.6e9
STACK_BYTES = 2048
_EVENT = "context-switches"
_NOTE = (
    "time off the processor includes the wait for one after the wake-up; a moment is divided among the threads that run, are ready, or"
    " wait for a lock that another holds; other waits count only while no thread does any of these"
)
_LOCK_CALLS = ("futex", "futex_wait", "futex_waitv", "futex_lock_pi")
_KERNEL_LOCKS = ("rwsem_down_", "__mutex_lock", "down_read", "down_write", "rt_mutex")
_PEACEFUL = (
    "pthread_join",
    "pthread_clockjoin",
    "pthread_timedjoin",
    "cond_wait",
    "cond_timedwait",
    "cond_clockwait",
    "sem_wait",
    "barrier",
)


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
    tables), a process's first thread is taken to wait for its others, and any other thread for a lock.

    Args:
        stack: the outermost frame first.
        main_of_several: whether it is the first thread of a process that has others.
    """
    kernel = [frame.symbol for frame in stack if frame.object == KERNEL]
    if any(name.startswith(_KERNEL_LOCKS) for name in kernel):
        return True
    if not any(name.rpartition("_sys_")[2] in _LOCK_CALLS for name in kernel):
        return False
    user = [frame.symbol for frame in stack if frame.object != KERNEL]
    if any(part in name for name in user for part in _PEACEFUL):
        return False
    return not main_of_several or any("mutex_lock" in name or "lll_lock" in name or name == "__lock" for name in user)


class Timeline:
    """Walks through a recording and divides each moment among the threads that have work.

    Args:
        recording: with samples of context switches and the switches themselves.
        namer: names its stacks.
    """

    def __init__(self, recording: Recording, namer: Namer) -> None:
        self._recording = recording
        self._namer = namer
        self._threads: dict[int, _Thread] = {}
        self._leaving: dict[int, tuple[Frame, ...]] = {}
        self._amounts = {"run": 0.0, "ready": 0.0}
        self._most = 0
        self.waits = Adder()

    def passing(self, operations: float, notes: tuple[str, ...]) -> Passing:
        """Return how the time passed."""
        before = 0
        for event in self._recording.events:
            if before and event.time_ns > before:
                self._divide(self._recording.windows.overlap_ns(before, event.time_ns))
            before = event.time_ns
            self._take(event)
        return Passing(
            wall_ns=float(self._recording.windows.total_ns),
            running_ns=self._amounts["run"],
            ready_ns=self._amounts["ready"],
            waits=self.waits.profile(NAME, "ns", operations, notes),
            most_threads=self._most,
        )

    def _divide(self, length_ns: int) -> None:
        if not length_ns or not self._threads:
            return
        working = [thread for thread in self._threads.values() if thread.counts]
        self._most = max(self._most, len(working))
        working = working or list(self._threads.values())
        for thread in working:
            if thread.doing == "wait":
                self.waits.add(thread.stack, length_ns / len(working))
            else:
                self._amounts[thread.doing] += length_ns / len(working)

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
            self._threads[event.tid] = _Thread(event.pid, "run")
        elif event.what == "taken":
            self._threads[event.tid] = _Thread(event.pid, "ready")
        elif event.what == "out":
            stack = self._leaving.pop(event.tid, ())
            several = any(tid != event.pid and one.pid == event.pid for tid, one in self._threads.items())
            held = contends(stack, main_of_several=event.tid == event.pid and several)
            self._threads[event.tid] = _Thread(event.pid, "wait", stack, held)
        elif event.what == "exec":
            self._threads[event.tid] = _Thread(event.pid, "run")


def measure(subject: Subject, known: Known) -> Instrumented:
    """Record why threads leave their processors, and for how long.

    Raises:
        UnavailableError: perf can't be used here.
        UserError: the run failed.
    """
    subject = known.passes_for(subject, WORK_NS)
    terms = f"period=1,call-graph=dwarf,stack-size={STACK_BYTES},name={_EVENT}"
    options = ("-e", f"{_EVENT}/{terms}/", "--switch-events", "-m", "4096")
    recording = record(subject, options, known.folder)
    notes = (_NOTE, *lost_note(recording, [_EVENT]))
    passing = Timeline(recording, Namer(subject)).passing(operations_in(recording, subject), notes)
    profile = passing.waits if passing.waits.stacks else None
    return result(NAME, subject, known, recording, profile=profile, passing=passing, notes=notes)
