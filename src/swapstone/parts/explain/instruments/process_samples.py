# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the threads of a program wait for, read from /proc at intervals: for users whom the kernel refuses perf's samples of it."""

from __future__ import annotations

import functools
import itertools
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.regular_file import text_of
from swapstone.parts.explain.instruments import syscalls
from swapstone.parts.explain.instruments.perf import Event, MeasuredWindows, RecordedRuns, Recording, RunPlan, repeat
from swapstone.parts.explain.instruments.traced_run import (
    PID_FILE,
    QUIET_S,
    ReferenceRuns,
    TracedRun,
    Tracee,
    run,
    tasks_of,
    with_children,
)

INTERVAL_S = 0.005
MOST_THREADS = 64
"""Of a program that are read."""
NOTE = (
    f"threads were sampled in /proc every {1000 * INTERVAL_S:.0f} ms: shorter waits are seldom seen, and each has its system call "
    "alone, without callers"
)
SWITCH = "context-switches"
_PROC = Path("/proc")
_KERNEL = "[kernel.kallsyms]"
_STATE = re.compile(r"\A(?s:.*)\) (\S)")  # a process may have any name
_FAULT = "asm_exc_page_fault"


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
                    SWITCH, time_ns=at, stack=tuple((0, function, _KERNEL) for function in reversed(each.waits))
                )
                yield event("out", time_ns=at)
                continue
            ready_ns, ran_ns = later.ready_ns - each.ready_ns, later.ran_ns - each.ran_ns
            if ready_ns > 0 and ran_ns >= 0:
                yield event("taken", time_ns=at)
                yield event("in", time_ns=at + (until - at) * ready_ns // (ready_ns + ran_ns))


def sampled_recordings(
    tracee: Tracee, reference: ReferenceRuns, *, plan: RunPlan, runs: RecordedRuns
) -> Iterator[tuple[int, Recording]]:
    """Sample one run after another; as `swapstone.parts.explain.instruments.perf.recordings`.

    Raises:
        UnavailableError: the runs are too short.
        UserError: a run failed.
    """
    try:
        names = syscalls.names()
    except UnavailableError:
        names = {}
    for number in repeat(plan):
        samples: list[Sample] = []

        def read(pid: int, samples: list[Sample] = samples) -> None:
            samples.append((time.monotonic_ns(), read_threads(sorted(with_children(pid)), names)))

        ended = run_with_reader(tracee, reference, lambda _: INTERVAL_S, read)
        samples = [each for each in samples if each[1]]
        if len(samples) < 2:
            raise UnavailableError(f"the run was too short for two samples of /proc, {1000 * INTERVAL_S:.0f} ms apart")
        window = (
            (samples[0][0], samples[-1][0]) if ended.driven is None else (ended.driven.start_ns, ended.driven.end_ns)
        )
        events = sorted(events_of(samples, Path(tracee.program).name), key=lambda event: event.time_ns)
        command = f"/proc/PID/task/TID/{{stat,schedstat,syscall,wchan}} of {' '.join(tracee.request.arguments)}"
        recording = Recording(events, MeasuredWindows((window,)), ended, 0, command)
        runs.add(recording, tracee, [SWITCH])
        yield number * plan.parts, recording
