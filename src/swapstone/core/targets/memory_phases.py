# SPDX-License-Identifier: MIT OR Apache-2.0
"""Samples the resident memory of the processes of a memory cgroup, and receives the phases that they mark.

Resident memory here is the sum of ``Pss_Anon`` and ``Pss_Shmem`` of /proc/PID/smaps_rollup (proc(5)) over all processes: anonymous pages
and shared memory, each page once. Pages of files are not in it: who reads them first decides to whom they belong, and the kernel drops them
when memory is short.
"""

from __future__ import annotations

import math
import os
import re
import select
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from swapstone.core.model.memory_phases import FIRST_PHASE, PHASES_VARIABLE, MemorySeries, PhaseMemory
from swapstone.core.wire import TrialRequest

INTERVAL_NS = 10_000_000
"""Between two samples, if they are quick."""

_COST = 9
"""The sampler pauses at least so many times as long as a sample takes: it uses a tenth of a processor at most."""

MOST_PHASES = 64
MOST_SAMPLES = 1024
"""Of a series. When there are more, neighbours become one, the largest."""

_LONGEST_LINE = 256
_BLOCK, _BLOCKS = 4096, 32
"""So much is read at once: twice what a FIFO holds (pipe(7))."""

_FIELDS = 2
_NAME = re.compile(rb"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
_LIVE = re.compile(rb"live=([0-9]{1,18})")
_RESIDENT = re.compile(rb"^Pss_(?:Anon|Shmem): +([0-9]{1,15}) kB$", re.MULTILINE)
_OWN = Path("/proc/self/smaps_rollup")


class Mark(msgspec.Struct, frozen=True):
    """A line that a program wrote.

    Attributes:
        name: of the phase that begins; empty if the phase goes on.
        live_bytes: what the program states to hold; None without such a statement.
    """

    name: str = ""
    live_bytes: int | None = None


def parse_mark(line: bytes) -> Mark | None:
    """Parse ``NAME``, ``NAME live=BYTES`` or ``live=BYTES``; return None if a line is none of these."""
    words = line.split()
    name = words.pop(0).decode() if words and _NAME.fullmatch(words[0]) else ""
    if not words:
        return Mark(name) if name else None
    live = _LIVE.fullmatch(words[0]) if len(words) == 1 else None
    return Mark(name, int(live[1])) if live else None


def thinned(pairs: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return at most `MOST_SAMPLES` pairs (time, bytes): of so many neighbours the first time and the most bytes."""
    step = -(-len(pairs) // MOST_SAMPLES) or 1
    groups = (pairs[at : at + step] for at in range(0, len(pairs), step))
    return tuple((group[0][0], max(size for _, size in group)) for group in groups)


class PhaseLog:
    """Puts samples and marks together. It needs no clock: each call has its time.

    Times are in ns and never decrease.
    """

    def __init__(self) -> None:
        self._began_ns: int | None = None
        self._phases = [PhaseMemory(name=FIRST_PHASE)]
        self._samples: list[list[tuple[int, int]]] = [[]]
        """Of each phase."""
        self._ignored = 0

    def sample(self, at_ns: int, resident: int) -> None:
        """Add a sample, in bytes."""
        self._samples[-1].append((self._since(at_ns), resident))

    def line(self, at_ns: int, line: bytes) -> bool:
        """Add a line that the program wrote; return whether a phase begins."""
        mark = parse_mark(line)
        if mark is None or (mark.name and len(self._phases) > MOST_PHASES):
            self._ignored += 1
            return False
        now = self._since(at_ns)
        if mark.name:
            self._phases.append(PhaseMemory(name=mark.name, began_ns=now))
            self._samples.append([])
        if mark.live_bytes is not None:
            self._phases[-1] = msgspec.structs.replace(self._phases[-1], live_bytes=mark.live_bytes)
        return bool(mark.name)

    def series(self, unavailable: str = "") -> MemorySeries:
        """Return what there is so far."""
        ends = [phase.began_ns for phase in self._phases[1:]]
        ends.append(max((at_ns for at_ns, _ in self._samples[-1]), default=self._phases[-1].began_ns))
        return MemorySeries(
            samples=thinned([pair for samples in self._samples for pair in samples]),
            phases=tuple(map(_measured, self._phases, ends, self._samples)),
            ignored=self._ignored,
            unavailable=unavailable,
        )

    def _since(self, at_ns: int) -> int:
        if self._began_ns is None:
            self._began_ns = at_ns
        return at_ns - self._began_ns


def _measured(phase: PhaseMemory, ended_ns: int, samples: Sequence[tuple[int, int]]) -> PhaseMemory:
    """Return a phase with what its samples show: what it retains is the median of its second half, or else the last sample."""
    middle_ns = (phase.began_ns + ended_ns) // 2
    late = [size for at_ns, size in samples if at_ns >= middle_ns]
    sizes = [size for _, size in samples] or [0]
    return msgspec.structs.replace(
        phase,
        ended_ns=ended_ns,
        samples=len(samples),
        peak_bytes=max(sizes),
        retained_bytes=statistics.median_low(late or sizes[-1:]),
    )


class PhaseWatch:
    """Samples the processes of a group in a thread and reads a FIFO, as a context manager.

    Args:
        fifo: where to make the FIFO; a file of that name is replaced.
        group: folder of the cgroup.
        agent: returns the number of the agent's first process; it and its worker are not sampled. None if
            there is none now.
        samples: whether the memory is sampled; else the marks are read alone.
    """

    def __init__(self, fifo: Path, group: Path, agent: Callable[[], int | None], *, samples: bool) -> None:
        self.path = fifo
        self._group = group
        self._agent = agent
        self._log = PhaseLog()
        self._unavailable = sampling_trouble() if samples else "only runs without a limit are sampled"
        self._rest = b""
        self._sampled, self._denied = False, ""
        fifo.unlink(missing_ok=True)
        os.mkfifo(fifo, 0o600)
        self._fifo = os.open(
            fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC
        )  # with a reader, a writer waits for nothing
        self._end, self._ends = os.pipe()
        self._thread = threading.Thread(target=self._watch, name="phases", daemon=True)

    def __enter__(self) -> PhaseWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._ends)
        self._thread.join()
        os.close(self._end)
        os.close(self._fifo)
        self.path.unlink(missing_ok=True)

    def result(self) -> MemorySeries:
        """Return what was sampled and marked. It is complete when the context has been left."""
        return self._log.series(self._unavailable or ("" if self._sampled else self._denied))

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self._fifo, select.POLLIN)
        poll.register(self._end, select.POLLIN)
        next_ns = time.monotonic_ns()
        while True:
            left_ns = max(0, next_ns - time.monotonic_ns())
            ready = {descriptor for descriptor, _ in poll.poll(None if self._unavailable else math.ceil(left_ns / 1e6))}
            begins = self._fifo in ready and self._read()
            if self._end in ready:
                self._read()
                self._take(self._rest)
                return
            began_ns = time.monotonic_ns()
            if not self._unavailable and (begins or began_ns >= next_ns):
                self._sample(began_ns)
                cost_ns = time.monotonic_ns() - began_ns
                next_ns = began_ns + cost_ns + max(INTERVAL_NS, _COST * cost_ns)

    def _read(self) -> bool:
        """Read lines; return whether a phase begins."""
        begins = False
        for _ in range(_BLOCKS):
            try:
                data = os.read(self._fifo, _BLOCK)
            except OSError:  # EAGAIN: it is empty
                break
            *lines, rest = (self._rest + data).split(b"\n")
            self._rest = rest if len(rest) <= _LONGEST_LINE else b"?" * _LONGEST_LINE
            for line in lines:
                begins |= self._take(line)
        return begins

    def _take(self, line: bytes) -> bool:
        return bool(line.strip()) and self._log.line(time.monotonic_ns(), line)

    def _sample(self, at_ns: int) -> None:
        """Add a sample, if there are processes beside the agent."""
        if (agent := self._agent()) is None:
            return
        try:
            resident = resident_bytes(self._group, agent)
        except OSError as error:
            trouble = f"/proc/PID/smaps_rollup of a process can't be read: {error.strerror}"
            # Before it executes the program, the agent's child is as unreadable as the agent (PR_SET_DUMPABLE), unless for root.
            waits = isinstance(error, PermissionError) and not self._sampled
            self._denied, self._unavailable = trouble, "" if waits else trouble
            return
        if resident is not None:
            self._sampled = True
            self._log.sample(at_ns, resident)


def with_phases(request: TrialRequest, fifo: Path) -> tuple[tuple[str, str], ...]:
    """Return the environment of a request with the variable that names the FIFO; without it in another root file system."""
    others = tuple(pair for pair in request.environment if pair[0] != PHASES_VARIABLE)
    return others if request.root else (*others, (PHASES_VARIABLE, str(fifo)))


def sampling_trouble(rollup: Path = _OWN) -> str:
    """Return why the memory of processes can't be sampled on this machine; empty if it can.

    Args:
        rollup: the file of any process.
    """
    try:
        text = rollup.read_bytes()
    except OSError as error:
        return f"{rollup} can't be read: {error.strerror}"
    return "" if len(_RESIDENT.findall(text)) == _FIELDS else f"{rollup} has no Pss_Anon and Pss_Shmem"


def resident_bytes(group: Path, agent: int) -> int | None:
    """Return the resident memory of the processes of a group; None if there are none.

    Args:
        group: folder of the cgroup.
        agent: number of a process that does not count, nor do its children, but theirs.

    Raises:
        OSError: a process that runs can't be read.
    """
    found = [
        sum(int(kib) << 10 for kib in _RESIDENT.findall(text))
        for word in (group / "cgroup.procs").read_bytes().split()
        if not _is_agent(int(word), agent) and (text := _read(int(word), "smaps_rollup"))
    ]
    return sum(found) if found else None


def _is_agent(process: int, agent: int) -> bool:
    """Return whether a process is the agent's first one or its worker, a child of that one (native/agent/keeper.c)."""
    fields = _read(process, "stat").rpartition(b")")[2].split()
    return process == agent or (len(fields) > 1 and int(fields[1]) == agent)


def _read(process: int, name: str) -> bytes:
    """Return a file of a process (proc(5)); empty if the process has ended."""
    try:
        return Path(f"/proc/{process}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
