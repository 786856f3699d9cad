"""Which part of a run is the work: pieces of time, found by what the program itself does at their ends."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable, Sequence

from swapstone.instruments.perf_script import Event
from swapstone.instruments.tracee import Region

MARKER = "syscalls:sys_enter_getrusage"
"""The event by which a pass is found: our harness calls getrusage twice before a pass and twice after it, and no C library does of
its own."""


@dataclasses.dataclass(frozen=True)
class Windows:
    """Pieces of time, ascending and apart.

    Attributes:
        pieces: pairs (from, to) in ns.
        pid: of the process that is not the work though it is there: our harness, which waits for its children; 0 for none.
    """

    pieces: tuple[tuple[int, int], ...]
    pid: int = 0

    @property
    def total_ns(self) -> int:
        """Return how long they are together."""
        return sum(end - start for start, end in self.pieces)

    def holds(self, time_ns: int) -> bool:
        """Say whether a time lies in one of them."""
        at = bisect.bisect_right(self.pieces, (time_ns, 1 << 63)) - 1
        return at >= 0 and time_ns < self.pieces[at][1]

    def overlap_ns(self, start: int, end: int) -> int:
        """Return how much of a stretch of time lies in them."""
        at = max(0, bisect.bisect_right(self.pieces, (start, 1 << 63)) - 1)
        sum_ns = 0
        for one, other in self.pieces[at:]:
            if one >= end:
                break
            sum_ns += max(0, min(end, other) - max(start, one))
        return sum_ns


def windows(events: Sequence[Event], region: Region, program: str) -> Windows:
    """Find the work in what was recorded.

    Args:
        events: all of a recording.
        region: how to find it.
        program: the name by which the kernel knows the program, at most 15 bytes.

    Returns:
        The pieces; none where the markers are not there.
    """
    if region is Region.ATTACHED:
        times = [event.time_ns for event in events if event.time_ns and event.what not in {"map", "fork", "exec"}]
        return Windows(((min(times), max(times) + 1),)) if times else Windows(())
    started = [event for event in events if event.what == "exec" and event.trace == program]
    if not started:
        return Windows(())
    first = started[0]
    if region is Region.PASSES:
        marks = ((event.pid, event.time_ns) for event in events if event.what == MARKER)
        return Windows(passes(marks), first.pid)
    ends = [event.time_ns for event in events if event.what == "exit" and event.pid == first.pid == event.tid]
    last = max((event.time_ns for event in events), default=first.time_ns)
    return Windows(((first.time_ns, (ends or [last])[0]),))


def passes(marks: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the passes that marks delimit: of each four calls of one process, from the second to the third.

    Args:
        marks: pairs (process, time in ns), ascending by time.
    """
    of: dict[int, list[int]] = {}
    for pid, time_ns in marks:
        of.setdefault(pid, []).append(time_ns)
    found = [(times[at + 1], times[at + 2]) for times in of.values() for at in range(0, len(times) - 3, 4)]
    return tuple(sorted(found))
