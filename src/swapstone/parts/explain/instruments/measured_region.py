# SPDX-License-Identifier: MIT OR Apache-2.0
"""Find the measured part of a recording: time windows, delimited by events of the program itself."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Iterable, Sequence

from swapstone.parts.explain.instruments.perf_script import Event
from swapstone.parts.explain.instruments.tracee import Region

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
    of: dict[int, list[int]] = {}
    for pid, time_ns in marks:
        of.setdefault(pid, []).append(time_ns)
    found = [(times[at + 1], times[at + 2]) for times in of.values() for at in range(0, len(times) - 3, 4)]
    return tuple(sorted(found))
