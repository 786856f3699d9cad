# SPDX-License-Identifier: MIT OR Apache-2.0
"""What ended the waits of a program's threads: the scheduler's events of the whole machine, with the stack of the code that wakes."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from swapstone.core.model import UnavailableError
from swapstone.core.model.profile import KERNEL, Frame
from swapstone.core.model.safe_text import safe
from swapstone.parts.explain.instruments.perf import (
    COMM_BYTES,
    Event,
    MeasuredWindows,
    RecordedRuns,
    Recording,
    Symbolizer,
    TooLargeError,
    record,
    result,
)
from swapstone.parts.explain.instruments.traced_run import ReferenceRuns, Tracee
from swapstone.parts.explain.model.explanation import (
    COMPUTING,
    DELAYED_ACK,
    DISK,
    FUTEX,
    HAND_OFF,
    IDLE,
    INTERRUPT,
    KERNEL_THREADS,
    LOAD_GENERATOR,
    LOCK,
    NETWORK,
    NO_PROCESSOR,
    OWN_THREADS,
    TIMER,
    UNSEEN,
    EndedWaits,
    InstrumentResult,
    ProcessorTaken,
)

_INTERRUPTS = (
    *("asm_sysvec_", "asm_common_interrupt", "irq_exit_rcu", "__irq_exit_rcu", "run_ksoftirqd", "common_interrupt"),
    *("el1h_64_irq", "el0t_64_irq", "el1_interrupt", "el0_interrupt", "handle_riscv_irq", "generic_handle_arch_irq"),
)
"""Prefixes of functions that show that an interrupt, or work that one left, did not belong to the running thread."""

_SYSTEM_CALLS = ("__x64_sys_", "__ia32_sys_", "__arm64_sys_", "__riscv_sys_", "__se_sys_", "do_syscall_64", "el0_svc")

_OF_INTERRUPTS = (
    (TIMER, ("hrtimer_wakeup", "process_timeout", "it_real_fn", "posix_timer_fn", "timerfd_tmrproc", "alarm")),
    (
        DISK,
        ("blk_", "bio_", "scsi_", "nvme_", "virtblk_", "dm_", "mmc_", "ata_", "folio_end_", "end_bio_", "end_buffer_"),
    ),
    (NETWORK, ("net_rx_action", "__napi_poll", "napi_", "net_tx_action")),
)
_HAND_OFFS = ("cond_signal", "cond_broadcast", "sem_post", "barrier_wait", "unlock_requeue", "eventfd_write", "exit")
_UNLOCKS = ("lock_wake", "unlock")


def interrupt_reason(stack: Sequence[Frame]) -> str | None:
    """Return the reason of a wait that an interrupt ended; None if the running thread ended it.

    Args:
        stack: of the code that ended it, the outermost frame first.
    """
    kernel = [frame.symbol for frame in reversed(stack) if frame.object == KERNEL]
    for name in kernel:
        if name.startswith(_SYSTEM_CALLS):
            return None
        if name.startswith(_INTERRUPTS):
            return next(
                (reason for reason, prefixes in _OF_INTERRUPTS if any(each.startswith(prefixes) for each in kernel)),
                INTERRUPT,
            )
    return None


def futex_reason(stack: Sequence[Frame]) -> str | None:
    """Return whether a thread ended a wait by unlocking or by a hand-off (a condition, a semaphore, its end); None without a futex.

    Args:
        stack: of that thread, the outermost frame first.
    """
    kernel = [frame.symbol for frame in stack if frame.object == KERNEL]
    if not any(name.startswith(("futex_wake", "futex_requeue", "futex_unlock")) for name in kernel):
        return None
    user = [frame.symbol for frame in reversed(stack) if frame.object != KERNEL]
    if any(name.startswith(("do_exit", "mm_release", "exit_mm_release")) for name in kernel):
        return HAND_OFF
    for name in user:
        if any(part in name for part in _HAND_OFFS):
            return HAND_OFF
        if any(part in name for part in _UNLOCKS):
            return LOCK
    return FUTEX


SWITCH, WAKING, DELAYED_ACK_TIMER = "sched:sched_switch", "sched:sched_waking", "timer:timer_expire_entry"

_SWITCH = re.compile(
    r"prev_comm=.{0,64} prev_pid=(?P<prev>[0-9]{1,10}) prev_prio=-?[0-9]{1,10} prev_state=(?P<state>[A-Za-z+|]{1,16}) ==> "
    r"next_comm=(?P<comm>.{0,64}) next_pid=(?P<next>[0-9]{1,10}) next_prio=-?[0-9]{1,10}\s*$"
)
_WAKING = re.compile(
    r"comm=.{0,64} pid=(?P<pid>[0-9]{1,10}) prio=-?[0-9]{1,10} (?:success=[0-9] )?target_cpu=(?P<cpu>[0-9]{1,6})\s*$"
)


@dataclasses.dataclass(frozen=True)
class Switch:
    """A processor's change from one thread to another.

    Attributes:
        leaves: the thread that ran.
        ready: whether it could have gone on.
        ends: whether it has ended.
        enters: the thread that runs next; 0 for none.
        name: its name.
    """

    leaves: int
    ready: bool
    ends: bool
    enters: int
    name: str


def switch(text: str) -> Switch | None:
    """Decode what ``sched:sched_switch`` prints; None if it has another form."""
    found = _SWITCH.match(text)
    if found is None:
        return None
    state = found["state"]
    return Switch(
        int(found["prev"]),
        ready=state.startswith("R"),
        ends=state[0] in "XZ",
        enters=int(found["next"]),
        name=found["comm"],
    )


def woken(text: str) -> tuple[int, int] | None:
    """Decode what ``sched:sched_waking`` prints: the thread that is woken, and its processor; None if it has another form."""
    found = _WAKING.match(text)
    return None if found is None else (int(found["pid"]), int(found["cpu"]))


DELAYED_ACK_NS, SHORTEST_DELAY_NS = 10_000_000, 35_000_000
"""Data that the network delivers so soon after the delayed-ACK timer expired on the same processor was sent because of that ACK, if the
wait was as long as such a delay: 40 ms or more (TCP_DELACK_MIN), less a tick. Under load the data may wait for ksoftirqd."""

MOST_PAST = 256
"""Intervals of a thread that are kept. What lies before them is `UNSEEN`."""

MOST_REASONS = 40

Reason = tuple[str, str]
"""A reason and its thread, as in `EndedWaits`."""
Parts = collections.Counter[Reason]
"""Time by reason, in ns."""


@dataclasses.dataclass
class _Thread:
    """A thread.

    Attributes:
        whose: as in `EndedWaits`.
        state: ``run``, ``ready`` or ``wait``.
        since: from when.
        cpu: for which it is ready.
        counted: until when its time in this state, ``ready``, is counted.
        past: earlier intervals: begin, end, and the reasons.
    """

    whose: str
    state: str
    since: int
    cpu: int = 0
    counted: int = 0
    past: collections.deque[tuple[int, int, Parts]] = dataclasses.field(
        default_factory=lambda: collections.deque(maxlen=MOST_PAST)
    )


class WaitChains:
    """Sums up the waits of a program's threads in a recording of the whole machine.

    Args:
        windows: the measured part.
        tree: the first process of the program.
        load_generator: the kernel's name of the load generator, at most 15 bytes; empty for none.
        stack_of: returns an event's stack, the outermost frame first.

    Attributes:
        unrecorded: number of waits of the program's threads that ended without a recorded event: the next one has the thread running.
    """

    def __init__(
        self,
        windows: MeasuredWindows,
        tree: int,
        load_generator: str,
        stack_of: Callable[[Event], tuple[Frame, ...]],
    ) -> None:
        self._windows, self._driver, self._stack_of = windows, load_generator, stack_of
        self._pids = {tree}
        self._own: set[int] = {tree}
        self._threads: dict[int, _Thread] = {}
        self._running: dict[int, str] = {}
        self._ready: dict[int, set[int]] = {}
        self._expired: dict[int, int] = {}
        self._sums: Parts = collections.Counter()
        self._lengths: dict[Reason, list[int]] = {}
        self._taken: collections.Counter[str] = collections.Counter()
        self.unrecorded = 0

    def follow(self, events: Iterable[Event]) -> None:
        """Add the events of a recording, in order of time."""
        for event in events:
            if event.what == "fork" and event.parent in self._pids:
                self._pids.add(event.pid)
                self._own.add(event.tid)
            elif event.what == "exit":
                self._end(event.tid)
            elif event.what == DELAYED_ACK_TIMER:
                self._expired[event.cpu] = event.time_ns
            elif event.what == SWITCH and (found := switch(event.trace)) is not None:
                self._switch(event, found)
            elif event.what == WAKING:
                self._wake(event)

    def ended(self, operations: float) -> tuple[EndedWaits, ...]:
        """Return the waits per operation, those with the longest sum first."""
        most = sorted(self._sums.items(), key=lambda one: (-one[1], one[0]))[:MOST_REASONS]
        lengths = {reason: sorted(self._lengths.get(reason, ())) or [0] for reason, _ in most}
        return tuple(
            EndedWaits(
                reason=reason[0],
                whose=reason[1],
                waits=len(self._lengths.get(reason, ())) / operations,
                total_ns=total / operations,
                short_ns=float(lengths[reason][len(lengths[reason]) // 10]),
                long_ns=float(lengths[reason][len(lengths[reason]) * 9 // 10]),
            )
            for reason, total in most
        )

    def notes(self) -> tuple[str, ...]:
        """Return a sentence on waits whose end was not recorded, if there are any."""
        waits = sum(map(len, self._lengths.values())) + self.unrecorded
        text = (
            f"the kernel recorded no event for the end of {self.unrecorded} of {waits} waits of the program's threads: their time is in no "
            "line of the waits"
        )
        return (text,) if self.unrecorded else ()

    def taken(self, operations: float) -> tuple[ProcessorTaken, ...]:
        """Return who had the processor for which the program's threads were ready, per operation."""
        most = sorted(self._taken.items(), key=lambda one: (-one[1], one[0]))[:MOST_REASONS]
        return tuple(ProcessorTaken(whose=whose, total_ns=total / operations) for whose, total in most)

    def _end(self, tid: int) -> None:
        thread = self._threads.pop(tid, None)
        if thread is not None:
            self._ready.get(thread.cpu, set()).discard(tid)
        self._own.discard(tid)

    def _whose(self, tid: int, pid: int, name: str, kernel: Collection[Frame]) -> str:
        if tid in self._own or pid in self._pids:
            return OWN_THREADS
        if self._driver and name == self._driver:
            return LOAD_GENERATOR
        if any(frame.symbol.startswith("ret_from_fork") or frame.symbol == "kthread" for frame in kernel):
            return KERNEL_THREADS
        return safe(name)[:40] or "?"

    def _switch(self, event: Event, found: Switch) -> None:
        at, cpu = event.time_ns, event.cpu
        for tid in tuple(self._ready.get(cpu, ())):
            self._count_ready(tid, at)
        if found.leaves:
            self._leave(event, found)
        if found.ends:
            self._end(found.leaves)
        if not found.enters:
            self._running[cpu] = IDLE
            return
        thread = self._threads.get(found.enters)
        if thread is None:
            thread = self._threads[found.enters] = _Thread(self._whose(found.enters, 0, found.name, ()), "run", at, cpu)
        self._running[cpu] = thread.whose
        meanwhile = None
        if thread.state == "ready":
            self._count_ready(found.enters, at)
            self._ready.get(thread.cpu, set()).discard(found.enters)
            meanwhile = NO_PROCESSOR
        self._change(found.enters, thread, "run", (at, cpu), meanwhile)

    def _leave(self, event: Event, found: Switch) -> None:
        at = event.time_ns
        thread = self._threads.get(found.leaves)
        if thread is None:
            whose = self._whose(found.leaves, event.pid, event.comm, self._stack_of(event))
            thread = self._threads[found.leaves] = _Thread(whose, "run", at, event.cpu)
        if thread.state == "wait" and found.leaves in self._own and found.leaves != self._windows.pid:
            self.unrecorded += self._windows.overlap_ns(thread.since, at) > 0
        meanwhile = COMPUTING if thread.state == "run" else None
        self._change(found.leaves, thread, "ready" if found.ready else "wait", (at, event.cpu), meanwhile)

    def _change(
        self, tid: int, thread: _Thread, state: str, at: tuple[int, int], meanwhile: str | Parts | None
    ) -> None:
        """Change the state of a thread at a time on a processor; until then it had a reason, or several, or it is not known."""
        if meanwhile and at[0] > thread.since:
            whole = (
                collections.Counter({(meanwhile, thread.whose): at[0] - thread.since})
                if isinstance(meanwhile, str)
                else meanwhile
            )
            thread.past.append((thread.since, at[0], whole))
        thread.state, (thread.since, thread.cpu) = state, at
        if state == "ready":
            thread.counted = thread.since
            if tid in self._own and tid != self._windows.pid:
                self._ready.setdefault(thread.cpu, set()).add(tid)

    def _count_ready(self, tid: int, at: int) -> None:
        """Add the time since the last call to the thread that has the processor for which a thread of the program is ready."""
        thread = self._threads.get(tid)
        if thread is None or thread.state != "ready" or tid not in self._own:
            return
        runs = self._running.get(thread.cpu)
        length = self._windows.overlap_ns(thread.counted, at)
        if length > 0 and runs is not None and tid != self._windows.pid:
            self._taken[runs] += length
        thread.counted = at

    def _wake(self, event: Event) -> None:
        tid, cpu = woken(event.trace) or (-1, 0)
        thread, at = self._threads.get(tid), event.time_ns
        if thread is None or thread.state != "wait":
            return
        parts = self._parts(event, thread.since, at)
        if tid in self._own and tid != self._windows.pid:
            self._add(parts, thread.since, at)
        self._change(tid, thread, "ready", (at, cpu), parts)

    def _add(self, parts: Parts, since: int, at: int) -> None:
        share = self._windows.overlap_ns(since, at) / max(1, at - since)
        if share <= 0 or not parts:
            return
        for reason, length in parts.items():
            self._sums[reason] += length * share  # type: ignore[assignment]  # a Counter adds floats as well
        largest = max(parts, key=lambda each: (parts[each], each))
        self._lengths.setdefault(largest, []).append(at - since)

    def _parts(self, event: Event, since: int, at: int) -> Parts:
        """Return the reasons of a wait that an event ends."""
        stack = self._stack_of(event)
        reason = interrupt_reason(stack)
        expired = self._expired.get(event.cpu)
        if (
            reason == NETWORK
            and expired is not None
            and at - expired <= DELAYED_ACK_NS
            and at - since >= SHORTEST_DELAY_NS
        ):
            reason = DELAYED_ACK
        whose = "" if reason is not None else self._whose(event.tid, event.pid, event.comm, stack)
        reason = reason or futex_reason(stack)
        if reason is not None:
            return collections.Counter({(reason, whose): at - since})
        return self._meanwhile(self._threads.get(event.tid), whose, since, at)

    def _meanwhile(self, waker: _Thread | None, whose: str, since: int, at: int) -> Parts:
        """Return what a thread did between two times, the second of which is now."""
        found: Parts = collections.Counter()
        begin = at if waker is None else max(since, waker.since)
        if waker is not None and waker.state == "run" and at > begin:
            found[COMPUTING, whose] += at - begin
        left = begin
        for start, end, parts in reversed(waker.past if waker else ()):
            if end <= since:
                break
            shared = min(end, left) - max(start, since)
            if shared > 0:
                left = max(start, since)
                for reason, length in parts.items():
                    found[reason] += length * shared / (end - start)  # type: ignore[assignment]
        if left > since:
            found[UNSEEN, whose] += left - since
        return found


NAME = "waits"
WORK_NS = 0.5e9
MOST_BYTES = 256 << 20
"""Largest recording that is read: some 900,000 events."""
MOST_UNWOUND_BYTES = 24 << 20
"""Largest recording whose stacks are unwound by tables, which takes a hundred times as long."""

_DELAYED_ACK = "tcp_delack_timer"
_SHORT = "call-graph=fp,max-stack=1"
"""Without any stack perf prints an event's address on the line of the event's own fields."""

_STACKS = {"call-graph=dwarf,stack-size=1024": MOST_UNWOUND_BYTES, "call-graph=fp": MOST_BYTES}
"""How the stack of the code that wakes is taken: by unwind tables, also derived ones, or by frame pointers if that is too much to read."""


def measure(tracee: Tracee, reference: ReferenceRuns) -> InstrumentResult:
    """Record one run with the scheduler's events of the whole machine.

    Raises:
        UnavailableError: tracepoints of the whole machine can't be used, or there are too many events.
        UserError: the run failed.
    """
    tracee = reference.passes_for(tracee, WORK_NS)
    notes: tuple[str, ...] = ()
    for stacks, most_bytes in _STACKS.items():
        events = ("-a", "-e", f"{SWITCH}/{_SHORT}/", "-e", f"{WAKING}/{stacks}/", "-m", "2048", *delayed_ack_options())
        try:
            recording = record(
                tracee,
                events,
                reference,
                tracepoints=True,
                most_bytes=most_bytes,
                whole_machine=True,
                mapped=reference.objects,
            )
        except TooLargeError as error:
            problem = f"threads are switched too often to read all of it: the recording is {error}"
            notes = (
                "threads are woken so often that their stacks are taken by frame pointers, and callers may be missing",
            )
        else:
            break
    else:
        raise UnavailableError(problem)
    require_same_numbers(recording)
    generator = tracee.request.load_generator
    driver = Path(generator.arguments[0]).name[:COMM_BYTES] if generator is not None else ""
    chains = WaitChains(recording.windows, recording.ended.pid, driver, Symbolizer(tracee).stack)
    chains.follow(recording.events)
    runs = RecordedRuns().add(recording, tracee, [SWITCH, WAKING])
    return result(
        NAME,
        tracee,
        reference,
        **runs.facts,
        notes=(*notes, *chains.notes(), *runs.notes()),
        waits=chains.ended(runs.operations),
        taken=chains.taken(runs.operations),
    )


def delayed_ack_options(symbols: Path = Path("/proc/kallsyms")) -> tuple[str, ...]:
    """Return the options that record when a delayed-ACK timer of TCP expires; none if the kernel hides that function's address.

    Args:
        symbols: the kernel's list of symbols.
    """
    address = 0
    with contextlib.suppress(OSError, ValueError), symbols.open(errors="replace") as lines:
        address = next((int(line.split()[0], 16) for line in lines if line.split()[2:3] == [_DELAYED_ACK]), 0)
    if not address:
        return ()
    return ("-e", f"{DELAYED_ACK_TIMER}/{_SHORT}/", "--filter", f"function=={address:#x}")


def require_same_numbers(recording: Recording) -> None:
    """Check that the tracepoints number threads as perf does: they don't in a PID namespace of a container.

    Raises:
        UnavailableError: they don't, or the recording has no switches.
    """
    for event in recording.events:
        if event.what == SWITCH and event.pid in recording.tree:
            found = switch(event.trace)
            if found is not None and found.leaves == event.tid:
                return
            break
    raise UnavailableError(
        "the tracepoints have no switch of the program by its process number",
        "outside of a container, or with --pid=host",
    )
