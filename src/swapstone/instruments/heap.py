"""Allocations by size and bytes copied: breakpoints that the kernel puts on the functions of the C library and the allocator (uprobes).

They work for programs that are linked dynamically and statically, with any C library, as long as the functions have symbols: their own,
a debug file's, or those of the static archive beside a stripped musl.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from swapstone.instruments import requirements
from swapstone.instruments.instrument_result import Known, operations_in, result
from swapstone.instruments.perf import Recording, TooLargeError, lost_note, need, record
from swapstone.instruments.perf_script import Event, mapped
from swapstone.instruments.profile_builder import Adder
from swapstone.instruments.symbol_tables import Table
from swapstone.instruments.symbolizer import UNKNOWN, Namer
from swapstone.instruments.tracee import Subject
from swapstone.model import Amount, Frame, Instrumented, UnavailableError, UserError

NAME = "allocations"
WORK_NS = 0.1e9
MOST_BYTES, LIMIT_BYTES = 64 << 20, 1 << 30
"""What perf may write before fewer passes are made, and then at most: some 500,000 calls, which take 10 s to read, and 16 times that."""
_ARGUMENTS = {"x86_64": ("%di", "%si", "%dx", "+0(%sp)"), "aarch64": ("%x0", "%x1", "%x2", "%x30")}
"""Where a processor's calling convention puts the first three arguments, and where the caller is found at a function's entry."""

_ALLOCATING: dict[str, tuple[int, ...]] = {
    "malloc": (0,),
    "calloc": (0, 1),
    "realloc": (1,),
    "aligned_alloc": (1,),
    "memalign": (1,),
    "posix_memalign": (2,),
}
"""Which arguments of each function, multiplied, are the size that is asked for."""

_COPYING = re.compile(r"^(?:__)?(memcpy|memmove|mempcpy|memset)(?:_(?!chk)(?:[a-z0-9_]+))?$")
_VECTOR = {0x62: 4, 0xC5: 2, 0xC4: 3}
"""What vector instructions begin with, in 64-bit mode, and how long that is: Intel's manual, volume 2, 2.3 and 2.7."""

_SPREADS = frozenset({0x6E, 0x78, 0x79, 0x7A, 0x7B, 0x7C})
"""Opcodes of vmovd and vpbroadcast, which have no immediate operand."""

_LONG_ENOUGH = 32
_FIELD = re.compile(r"(\w+)=(0x[0-9a-f]+|\d+)")
_MOST_COPIES = 60
LARGEST = 1 << 40
"""A larger size is none: the function has another first argument there, as parts of a C library's assembler have."""

BOUNDS = (128, 1024, 8192, 131_071)
"""Upper ends of the classes of sizes; what is beyond the last is what both C libraries map with a call of its own, as they come."""


@dataclasses.dataclass(frozen=True)
class Probe:
    """A breakpoint: its event's name, the function, what it counts, the file, the offset in it, the arguments to read."""

    event: str
    function: str
    kind: str
    path: str
    offset: int
    arguments: tuple[int, ...]

    def definition(self, group: str, registers: tuple[str, ...]) -> str:
        """Return the line that makes it, in tracefs's language."""
        fields = [f"a{number}={registers[number]}:u64" for number in self.arguments]
        return " ".join(
            (f"p:{group}/{self.event}", f"{self.path}:{self.offset:#x}", *fields, f"caller={registers[3]}:x64")
        )


def size_class(size: int) -> str:
    """Return the class of a size, in words."""
    at = bisect.bisect_left(BOUNDS, size)
    if at == len(BOUNDS):
        return f"{BOUNDS[-1] + 1} B or more"
    return f"{BOUNDS[at - 1] + 1 if at else 0} to {BOUNDS[at]} B"


def probes(subject: Subject, known: Known, namer: Namer) -> list[Probe]:
    """Find the functions to watch.

    Raises:
        UnavailableError: malloc is nowhere to be found.
    """
    program = str(Path(subject.program).resolve())
    paths = list(dict.fromkeys((program, *known.preload, *known.objects)))
    tables = {path: table for path in paths if (table := namer.table(path)) is not None}
    found: list[Probe] = []
    for function in (*_ALLOCATING, "free"):
        place = _first(tables, function)
        if place is not None and (offset := _safe(*place)) is not None:
            kind = "free" if function == "free" else "allocation"
            found.append(Probe(f"f{len(found)}", function, kind, place[0], offset, _ALLOCATING.get(function, ())))
    if not any(probe.function == "malloc" for probe in found):
        raise UnavailableError("No mapped file has a symbol malloc", "don't strip the program, or link it dynamically")
    return found + _copies(tables, len(found))


def breakpoint_after_vectors(code: bytes) -> int | None:
    """Return how far into a function of x86-64 a breakpoint may be put without breaking it.

    Linux takes the opcode of a vector instruction (VEX, EVEX) for the instruction that has this opcode without a prefix. AVX-512's memset
    begins with vpbroadcastb, whose opcode is that of a conditional jump; it was seen to be emulated as one, and the program crashed. What
    only spreads a byte over a vector register leaves the arguments where they are, so the breakpoint comes after it.

    Args:
        code: the function's first bytes, some 30.

    Returns:
        Bytes from the function's start; None if it begins with another vector instruction.
    """
    at = 0
    while (length := _VECTOR.get(code[at])) is not None:
        if len(code) < at + length + 2 or code[at + length] not in _SPREADS or code[at + length + 1] >> 6 != 3:
            return None
        at += length + 2
    return at


def _safe(path: str, offset: int) -> int | None:
    """Return where in a file a breakpoint on the function at an offset may be put."""
    if os.uname().machine != "x86_64":
        return offset
    with Path(path).open("rb") as file:
        file.seek(offset)
        after = breakpoint_after_vectors(file.read(_LONG_ENOUGH))
    return None if after is None else offset + after


def _first(tables: Mapping[str, Table], function: str) -> tuple[str, int] | None:
    for path, table in tables.items():
        address = table.address(function)
        if address is not None:
            return path, table.offset_of(address)
    return None


def _copies(tables: Mapping[str, Table], count: int) -> list[Probe]:
    """Return probes on every copying function: an x86 C library has several of each and chooses when it starts."""
    found: list[Probe] = []
    seen: set[tuple[str, int]] = set()
    for path, table in tables.items():
        for symbol in table.symbols:
            hit = _COPYING.match(symbol.name)
            offset = table.offset_of(symbol.address)
            if hit and not symbol.resolver and (path, offset) not in seen and len(found) < _MOST_COPIES:
                seen.add((path, offset))
                kind = "set" if hit[1] == "memset" else "copy"
                if (safe := _safe(path, offset)) is not None:
                    found.append(Probe(f"f{count + len(found)}", hit[1], kind, path, safe, (2,)))
    return found


def measure(subject: Subject, known: Known) -> Instrumented:
    """Count a run's allocations by size, and the bytes that it copies and sets.

    Raises:
        UnavailableError: the kernel has no uprobes for us, or the functions have no symbols.
        UserError: the run failed.
    """
    registers = _ARGUMENTS.get(os.uname().machine)
    if registers is None:
        raise UnavailableError(f"where {os.uname().machine} puts its arguments is not known here")
    wrapper = need(tracepoints=True)
    if os.geteuid() != 0:
        raise UnavailableError("Breakpoints on functions (uprobes) need root", "run it as root")
    subject = known.passes_for(subject, WORK_NS)
    namer = Namer(subject)
    chosen = probes(subject, known, namer)
    group = f"swapstone_{os.getpid()}"
    before = (*wrapper, "sh", "-c", _SCRIPT, group, "\n".join(probe.definition(group, registers) for probe in chosen))
    events = [part for probe in chosen for part in ("-e", f"{group}:{probe.event}")]

    def recorded(one: Subject, most_bytes: int) -> Recording:
        options = (*events, "-m", "16384")
        return record(one, options, known.folder, tracepoints=True, before=before, most_bytes=most_bytes)

    try:
        recording = recorded(subject, MOST_BYTES)
    except TooLargeError as error:
        # Some programs do little else than what is watched. One pass is enough to count; a program without passes is whole.
        subject = known.passes_for(subject, WORK_NS / error.times / 2)
        try:
            recording = recorded(subject, LIMIT_BYTES)
        except TooLargeError as again:
            raise UserError(
                f"so many of its calls are watched that perf wrote {again.times * LIMIT_BYTES / 2**30:.1f} GiB"
            ) from again
    by_event = {f"{group}:{probe.event}": probe for probe in chosen}
    return _counted(subject, known, namer, recording, by_event)


_SCRIPT = f"""set -f
printf '%s\\n' "$1" >> {requirements.TRACING}/uprobe_events || exit 97
definitions=$1
shift
"$@"
status=$?
printf '%s\\n' "$definitions" | sed 's/^p:\\([^ ]*\\) .*/-:\\1/' | while read -r line; do
    echo "$line" >> {requirements.TRACING}/uprobe_events
done
exit $status
"""


def _counted(
    subject: Subject, known: Known, namer: Namer, recording: Recording, by_event: Mapping[str, Probe]
) -> Instrumented:
    callers = _Callers(namer, recording)
    amounts: collections.Counter[tuple[str, str]] = collections.Counter()
    adder = Adder()
    for event, probe in _hits(recording, by_event):
        values = {name: int(text, 0) for name, text in _FIELD.findall(event.trace)}
        caller = callers.frame(values.get("caller", 0))
        if probe.kind == "free":
            amounts["allocations", "free"] += 1
            continue
        size = 1
        for number in probe.arguments:
            size *= values.get(f"a{number}", 0)
        if size > LARGEST:
            amounts["copies", f"calls that {probe.kind} memory, of a size that can't be read"] += 1
        elif probe.kind != "allocation":
            amounts["copies", f"calls that {probe.kind} memory"] += 1
            amounts["copies", f"bytes {'copied' if probe.kind == 'copy' else 'set'}"] += size
        elif caller.symbol not in _ALLOCATING:  # one allocating function that calls another is one allocation
            amounts["allocations", f"of {size_class(size)}"] += 1
            amounts["allocations", "bytes asked for"] += size
            adder.add(
                (
                    caller,
                    Frame(symbol=probe.function, object=namer.object_of(probe.path)),
                    Frame(symbol=size_class(size), object=""),
                ),
                size,
            )
    operations = operations_in(recording, subject)
    found = tuple(
        Amount(group=group, name=name, value=value / operations) for (group, name), value in sorted(amounts.items())
    )
    notes = (
        "stacks are the caller and the function; calls inside a library that use no name of its own are not seen",
        *lost_note(recording, by_event),
    )
    profile = adder.profile(NAME, "B", operations, notes)
    return result(NAME, subject, known, recording, amounts=found, profile=profile, notes=notes)


def _hits(recording: Recording, by_event: Mapping[str, Probe]) -> Iterator[tuple[Event, Probe]]:
    for event in recording.events:
        probe = by_event.get(event.what)
        if probe and event.pid != recording.windows.pid and recording.windows.holds(event.time_ns):
            yield event, probe


class _Callers:
    """Names the functions that hold return addresses, by what was mapped; forked processes share their parent's map."""

    def __init__(self, namer: Namer, recording: Recording) -> None:
        found = (mapped(event) for event in recording.events if event.what == "map")
        self._maps = sorted((each for each in found if each is not None), key=lambda one: one.at)
        self._starts = [each.at for each in self._maps]
        self._namer = namer
        self._kept: dict[int, Frame] = {}

    def frame(self, address: int) -> Frame:
        if address not in self._kept:
            self._kept[address] = self._named(address)
        return self._kept[address]

    def _named(self, address: int) -> Frame:
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._maps[at].at + self._maps[at].size:
            return Frame(symbol=UNKNOWN, object="")
        place = self._maps[at]
        return self._namer.frame(address - place.at + place.offset, UNKNOWN, place.path)
