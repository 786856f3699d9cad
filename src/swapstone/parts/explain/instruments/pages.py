# SPDX-License-Identifier: MIT OR Apache-2.0
"""How much memory of a program is in huge pages, and what keeps processors from it: /proc/PID, read while it runs."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable
from pathlib import Path

from swapstone.core.model import UnavailableError
from swapstone.core.model.memory_phases import HUGE, MEMORY, RESIDENT
from swapstone.core.model.regular_file import text_of
from swapstone.parts.explain.explanation.surroundings import read_limits
from swapstone.parts.explain.instruments.perf import result
from swapstone.parts.explain.instruments.traced_run import (
    ReferenceRuns,
    Region,
    Tracee,
    run_with_reader,
    session_members,
)
from swapstone.parts.explain.model.explanation import Amount, InstrumentResult

NAME = "pages"
WORK_NS = 0.5e9
_INTERVAL_S, _LONGER_S, _LONG_S = 0.01, 0.1, 1.0
"""Time between two readings; after a second it is longer, because each reading delays page faults."""

MOST_LIMITS = 16
"""Values of a limit that are kept."""

_FIELDS = {
    "Rss": RESIDENT,
    "AnonHugePages": HUGE,
    "ShmemPmdMapped": HUGE,
    "FilePmdMapped": HUGE,
    "Private_Hugetlb": HUGE,
}
_LINE = re.compile(r"(\w{1,40}): +([0-9]{1,15}) kB\s*")
_ROLLUP = Path("/proc/self/smaps_rollup")


def sizes(lines: Iterable[str]) -> dict[str, int]:
    """Return the memory of a process in bytes: all that is resident, and the part in huge pages.

    Args:
        lines: of its ``smaps_rollup``.
    """
    found = {RESIDENT: 0, HUGE: 0}
    for line in lines:
        hit = _LINE.fullmatch(line)
        if hit is not None and hit[1] in _FIELDS:
            found[_FIELDS[hit[1]]] += int(hit[2]) * 1024
    return found


def measure(tracee: Tracee, reference: ReferenceRuns) -> InstrumentResult:
    """Read the sizes of one run's memory.

    Raises:
        UnavailableError: the kernel has no such file, or the run was too short for a reading.
        UserError: the run failed.
    """
    if not _ROLLUP.is_file():
        raise UnavailableError(
            "this kernel has no /proc/PID/smaps_rollup", "Linux 4.14 or newer, with CONFIG_PROC_PAGE_MONITOR"
        )
    tracee = reference.passes_for(tracee, WORK_NS)
    most, readings = {RESIDENT: 0, HUGE: 0}, []
    limits = collections.defaultdict[str, dict[str, None]](dict)

    def read(pid: int) -> None:
        folders = [Path("/proc", str(each)) for each in (pid, *session_members(pid))]
        found = [sizes(text_of(folder / _ROLLUP.name).splitlines()) for folder in folders]
        for name, value in (each for folder in folders for each in read_limits(folder).items()):
            limits[name][value] = None
        readings.append(any(each[RESIDENT] for each in found))
        most.update((name, max(size, sum(each[name] for each in found))) for name, size in most.items())

    ended = run_with_reader(tracee, reference, lambda passed_s: _INTERVAL_S if passed_s < _LONG_S else _LONGER_S, read)
    if not any(readings):
        raise UnavailableError("the run was too short for a reading of its memory")
    operations = ended.driven.requests if ended.driven is not None else tracee.operations * tracee.passes
    return result(
        NAME,
        tracee,
        reference,
        operations=operations,
        took_ns=ended.elapsed_ns if tracee.region is Region.PROGRAM else 0,
        amounts=tuple(Amount(group=MEMORY, name=name, value=float(size)) for name, size in most.items()),
        limits=tuple((name, tuple(values)[:MOST_LIMITS]) for name, values in limits.items()),
    )
