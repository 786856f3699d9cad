# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decode the output of `perf script`: samples with stacks, context switches and mappings."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator

FIELDS = "comm,pid,tid,time,event,ip,sym,dso,trace"
"""The fields that `events` expects: ``perf script -F``."""

WITH_PROCESSORS = "comm,pid,tid,cpu,time,event,ip,sym,dso,trace"
"""The same, with the processor of each event."""

FLAGS = (
    "--no-inline",
    "--ns",
    "--show-task-events",
    "--show-mmap-events",
    "--show-switch-events",
    "--show-lost-events",
)
"""The other options that it expects."""

MOST_FRAMES = 256
"""The innermost functions of a stack that are kept. perf records 127 unless kernel.perf_event_max_stack is raised."""

# Every repetition before another one is bounded or can't match what follows: a line of a million blanks takes no longer than its length.
_HEAD = re.compile(
    r"(?<=\s)(?P<pid>-?[0-9]{1,10})/(?P<tid>-?[0-9]{1,10})\s{1,80}(?:\[(?P<cpu>[0-9]{1,6})\]\s{1,80})?(?P<s>[0-9]{1,12})\.(?P<ns>[0-9]{9}):\s"
)
_EVENT = re.compile(r"(?P<event>[\w.\-/]++(?::[\w.\-]++)?):\s*+(?P<trace>.*)$")
_FRAME = re.compile(r"\t\s*+(?P<ip>[0-9a-f]{1,16})\s(?P<symbol>.*) \((?P<dso>[^()]*+(?:\([^()]*+\)[^()]*+)*+)\)$")
_MAP = re.compile(
    r"PERF_RECORD_MMAP2 [0-9]+/[0-9]+: \[0x(?P<at>[0-9a-f]{1,16})\(0x(?P<size>[0-9a-f]{1,16})\) "
    r"@ (?P<offset>0x[0-9a-f]{1,16}|0) [^\]]*+\]: \S++ (?P<path>.*)$"
)
_EXEC = re.compile(r"PERF_RECORD_COMM exec: (?P<comm>.*):[0-9]{1,10}/[0-9]{1,10}$")
_FORK = re.compile(r"PERF_RECORD_FORK\((?P<pid>[0-9]{1,10}):(?P<tid>[0-9]{1,10})\)(?::\((?P<parent>[0-9]{1,10}):)?")
_EXIT = re.compile(r"PERF_RECORD_EXIT\((?P<pid>[0-9]{1,10}):(?P<tid>[0-9]{1,10})\)")
_LOST = re.compile(r"PERF_RECORD_LOST(?:_SAMPLES)? lost (?P<count>[0-9]{1,18})")


@dataclasses.dataclass(frozen=True)
class Event:
    """One record.

    Attributes:
        what: an event's name, or ``exec``, ``fork``, ``exit``, ``in``, ``out``, ``taken`` (out, though it could have gone on),
            ``map`` or ``lost``.
        comm, pid, tid: whose.
        time_ns: when.
        trace: what a tracepoint prints of itself; the name of what was executed; the number of lost records.
        stack: pairs (address in the object's file, symbol, object's path), the innermost first.
        cpu: the processor; -1 if it was not printed.
        parent: of a ``fork``, the process that forked; -1 if it was not printed.
    """

    what: str
    comm: str
    pid: int
    tid: int
    time_ns: int
    trace: str = ""
    stack: tuple[tuple[int, str, str], ...] = ()
    cpu: int = -1
    parent: int = -1


@dataclasses.dataclass(frozen=True)
class Mapped:
    """A file that is mapped executable: address, size, offset in the file, path."""

    at: int
    size: int
    offset: int
    path: str


def mapped(event: Event) -> Mapped | None:
    """Return what an event of kind ``map`` maps; None where it is not understood."""
    found = _MAP.match(event.trace)
    if found is None:
        return None
    return Mapped(int(found["at"], 16), int(found["size"], 16), int(found["offset"], 16), found["path"])


def events(lines: Iterable[str]) -> Iterator[Event]:
    """Decode what `perf script` prints.

    Args:
        lines: as printed with `FIELDS` and `FLAGS`.

    Yields:
        One event for each record that is understood; lines of any other form are skipped.
    """
    head: Event | None = None
    stack: list[tuple[int, str, str]] = []
    for line in itertools.chain(lines, ("",)):
        if head is not None and (frame := _FRAME.match(line)):
            if len(stack) < MOST_FRAMES:
                stack.append((int(frame["ip"], 16), frame["symbol"].strip(), frame["dso"]))
            continue
        if head is not None:
            yield dataclasses.replace(head, stack=tuple(stack)) if stack else head
        found = _HEAD.search(line)
        head, stack = _event(found) if found is not None else None, []


def _event(found: re.Match[str]) -> Event | None:
    comm, rest = found.string[: found.start()].strip(), found.string[found.end() :].strip()
    time_ns = int(found["s"]) * 1_000_000_000 + int(found["ns"])
    whose = (comm, int(found["pid"]), int(found["tid"]), time_ns)
    cpu = int(found["cpu"] or -1)
    if not rest.startswith("PERF_RECORD_"):
        event = _EVENT.match(rest)
        return Event(event["event"], *whose, trace=event["trace"], cpu=cpu) if event else None
    if rest.startswith("PERF_RECORD_SWITCH"):
        words = rest.split()
        return Event("in" if words[1:2] == ["IN"] else "taken" if "preempt" in words else "out", *whose)
    for what, pattern, group in (("exec", _EXEC, "comm"), ("lost", _LOST, "count")):
        if hit := pattern.match(rest):
            return Event(what, *whose, trace=hit[group])
    for what, pattern in (("fork", _FORK), ("exit", _EXIT)):
        if hit := pattern.match(rest):
            parent = int(hit.groupdict().get("parent") or -1)
            return Event(what, comm, int(hit["pid"]), int(hit["tid"]), time_ns, parent=parent)
    return Event("map", *whose, trace=rest) if rest.startswith("PERF_RECORD_MMAP2") else None
