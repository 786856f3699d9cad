# SPDX-License-Identifier: MIT OR Apache-2.0
"""Count allocations by size, and bytes copied, by uprobes on the functions of the C library and the allocator.

Works for dynamic and static programs with any C library whose functions have symbols: in the file itself, in a debug file, or
in the static archive of a stripped musl.
"""

from __future__ import annotations

import bisect
import collections
import contextlib
import dataclasses
import functools
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path

from swapstone.core.model import UnavailableError
from swapstone.core.model.profile import Frame
from swapstone.parts.explain.instruments import requirements
from swapstone.parts.explain.instruments.instrument_result import ProfileBuilder, RecordedRuns, result
from swapstone.parts.explain.instruments.perf import Recording, TooLargeError, mapped, need, record
from swapstone.parts.explain.instruments.symbol_tables import Table
from swapstone.parts.explain.instruments.symbolizer import UNKNOWN, Symbolizer
from swapstone.parts.explain.instruments.traced_run import ReferenceRuns, Region, Tracee
from swapstone.parts.explain.model.explanation import Amount, InstrumentResult

NAME = "allocations"
WORK_NS = 0.1e9
MOST_BYTES, LIMIT_BYTES = 64 << 20, 512 << 20
"""Size of perf's output above which fewer passes are made, and its limit: 500,000 calls, which take 10 s to read, and 8 times that."""
_ARGUMENTS = {"x86_64": ("%di", "%si", "%dx", "+0(%sp)"), "aarch64": ("%x0", "%x1", "%x2", "%x30")}
"""Registers of the first three arguments, and the location of the return address at a function's entry, by architecture."""

_ALLOCATING: dict[str, tuple[int, ...]] = {
    "malloc": (0,),
    "calloc": (0, 1),
    "realloc": (1,),
    "aligned_alloc": (1,),
    "memalign": (1,),
    "posix_memalign": (2,),
}
"""The arguments of each function whose product is the requested size."""

_COPYING = re.compile(r"^(?:__)?(memcpy|memmove|mempcpy|memset)(?:_(?!chk)(?:[a-z0-9_]+))?$")
_VECTOR = {0x62: 4, 0xC5: 2, 0xC4: 3}
"""First bytes of vector instructions in 64-bit mode, with the length of the prefix: Intel SDM volume 2, sections 2.3 and 2.7."""

_SPREADS = frozenset({0x6E, 0x78, 0x79, 0x7A, 0x7B, 0x7C})
"""Opcodes of vmovd and vpbroadcast, which have no immediate operand."""

_LONG_ENOUGH = 32
_FIELD = re.compile(r"(?<!\w)(\w++)=(0x[0-9a-f]{1,16}|[0-9]{1,20})")
_MOST_COPIES = 60
MOST_STACKS = 20_000
"""With more calls a stack has the caller alone: reading all callers takes a hundred times as long."""

STACK_BYTES = 2048
MAX_ALLOCATION_BYTES = 1 << 40
"""Larger sizes are ignored: assembler parts of a C library call some functions with other arguments."""

SIZE_CLASS_BOUNDS = (128, 1024, 8192, 131_071)
"""Upper bounds of the size classes. Larger blocks are mapped one by one by both C libraries (their default mmap threshold)."""


@dataclasses.dataclass(frozen=True)
class Probe:
    """A uprobe: its event, which several can share, the function, what it counts, the file, the offset there, the arguments to read."""

    event: str
    function: str
    kind: str
    path: str
    offset: int
    arguments: tuple[int, ...]

    def definition(self, group: str, registers: tuple[str, ...]) -> str:
        """Return the line that defines it in tracefs's ``uprobe_events``."""
        fields = [f"a{number}={registers[number]}:u64" for number in self.arguments]
        return " ".join(
            (f"p:{group}/{self.event}", f"{self.path}:{self.offset:#x}", *fields, f"caller={registers[3]}:x64")
        )


def size_class(size: int) -> str:
    """Return the name of a size's class."""
    at = bisect.bisect_left(SIZE_CLASS_BOUNDS, size)
    if at == len(SIZE_CLASS_BOUNDS):
        return f"{SIZE_CLASS_BOUNDS[-1] + 1} B or more"
    return f"{SIZE_CLASS_BOUNDS[at - 1] + 1 if at else 0} to {SIZE_CLASS_BOUNDS[at]} B"


def probes(tracee: Tracee, reference: ReferenceRuns, symbolizer: Symbolizer) -> list[Probe]:
    """Return the probes on allocating and copying functions.

    Raises:
        UnavailableError: no mapped file has a symbol malloc.
    """
    program = str(Path(tracee.program).resolve())
    paths = list(dict.fromkeys((program, *reference.preload, *reference.objects)))
    tables = {path: table for path in paths if (table := symbolizer.table(path)) is not None}
    found: list[Probe] = []
    for function in (*_ALLOCATING, "free"):
        places = ((path, table, table.address(function)) for path, table in tables.items())
        path, start = next(((path, table.offset_of(at)) for path, table, at in places if at is not None), ("", 0))
        if path and (offset := _breakpoint_offset(path, start)) is not None:
            kind = "free" if function == "free" else "allocation"
            found.append(Probe(f"f{len(found)}", function, kind, path, offset, _ALLOCATING.get(function, ())))
    if not any(probe.function == "malloc" for probe in found):
        raise UnavailableError("No mapped file has a symbol malloc", "don't strip the program, or link it dynamically")
    return found + _copies(tables)


def breakpoint_after_vectors(code: bytes) -> int | None:
    """Return the offset in an x86-64 function at which a breakpoint is safe.

    Linux decodes the opcode of a vector instruction (VEX, EVEX) without its prefix when it emulates the instruction under a uprobe.
    The memset of AVX-512 starts with vpbroadcastb, whose opcode is that of a conditional jump; emulating it as a jump crashed the
    program. An instruction that only broadcasts a byte keeps the arguments, so the breakpoint goes after it.

    Args:
        code: about the first 30 bytes of the function.

    Returns:
        Offset from the function's start; None if it starts with another vector instruction.
    """
    at = 0
    while (length := _VECTOR.get(code[at]) if at < len(code) else None) is not None:
        if len(code) < at + length + 2 or code[at + length] not in _SPREADS or code[at + length + 1] >> 6 != 3:
            return None
        at += length + 2
    return at


def _breakpoint_offset(path: str, offset: int) -> int | None:
    """Return the offset in a file at which a breakpoint on a function is safe."""
    if os.uname().machine != "x86_64":
        return offset
    with Path(path).open("rb") as file:
        file.seek(offset)
        after = breakpoint_after_vectors(file.read(_LONG_ENOUGH))
    return None if after is None else offset + after


def _copies(tables: Mapping[str, Table]) -> list[Probe]:
    """Return probes on every copying function: an x86 C library has several variants, and selects one at start (IFUNC).

    Those of a kind share an event (since Linux 5.4): perf opens and closes each event by itself, which takes a tenth of a second.
    """
    found: list[Probe] = []
    seen: set[tuple[str, int]] = set()
    for path, table in tables.items():
        for symbol in table:
            hit = _COPYING.match(symbol.name)
            if hit is None or symbol.resolver or len(found) == _MOST_COPIES:
                continue
            offset = table.offset_of(symbol.address)
            safe = _breakpoint_offset(path, offset)
            if (path, offset) not in seen and safe is not None:
                kind = "set" if hit[1] == "memset" else "copy"
                found.append(Probe(kind, hit[1], kind, path, safe, (2,)))
            seen.add((path, offset))
    return found


def measure(tracee: Tracee, reference: ReferenceRuns) -> InstrumentResult:
    """Count a run's allocations by size, and the bytes it copies and sets.

    Raises:
        UnavailableError: uprobes can't be used, or the functions have no symbols.
        UserError: the run failed.
    """
    registers = _ARGUMENTS.get(os.uname().machine)
    if registers is None:
        raise UnavailableError(f"the calling convention of {os.uname().machine} is not supported")
    wrapper = need(tracepoints=True)
    if os.geteuid() != 0:
        raise UnavailableError("Uprobes need root", "run it as root")
    tracee = reference.passes_for(tracee, WORK_NS)
    symbolizer = Symbolizer(tracee)
    chosen = probes(tracee, reference, symbolizer)
    group = f"swapstone_{os.getpid()}"
    definitions = "\n".join(probe.definition(group, registers) for probe in chosen)
    before = (*wrapper, "sh", "-c", _SCRIPT, "sh", group, definitions)
    events = [part for name in dict.fromkeys(probe.event for probe in chosen) for part in ("-e", f"{group}:{name}")]

    def run(one: Tracee, most_bytes: int, stacks: tuple[str, ...] = (), mapped: tuple[str, ...] = ()) -> Recording:
        return record(
            one,
            (*events, "-m", "16384", *stacks),
            reference,
            tracepoints=True,
            before=before,
            most_bytes=most_bytes,
            mapped=mapped,
        )

    try:
        # A program without passes can't be shortened: its first run has the larger limit.
        recording = run(tracee, MOST_BYTES if tracee.region is Region.PASSES else LIMIT_BYTES)
    except TooLargeError as error:
        # Programs that mostly allocate or copy write too much. One pass is enough.
        tracee = reference.passes_for(tracee, WORK_NS / error.times / 2)
        try:
            if tracee.region is not Region.PASSES:
                raise error
            recording = run(tracee, LIMIT_BYTES)
        except TooLargeError as again:
            raise UnavailableError(
                f"the program calls the probed functions so often that perf wrote {again.times * LIMIT_BYTES / 2**30:.1f} GiB"
            ) from again
    by_event = {f"{group}:{probe.event}": probe for probe in chosen}
    if sum(event.what in by_event for event in recording.events) < MOST_STACKS:
        with contextlib.suppress(TooLargeError):
            recording = run(tracee, MOST_BYTES, ("--call-graph", f"dwarf,{STACK_BYTES}"), reference.objects)
    return _counted(tracee, reference, symbolizer, recording, by_event)


_SCRIPT = f"""set -f
events={requirements.TRACING}/uprobe_events
forget() {{
    sed -n "s|^p:\\($1/[^ ]*\\) .*|-:\\1|p" $events | sort -u | while read -r line; do
        echo "$line" >> $events
    done
}}
for group in $(sed -n 's|^p:\\(swapstone_[0-9]*\\)/.*|\\1|p' $events | sort -u); do
    [ -d /proc/${{group#swapstone_}} ] || forget $group 2>/dev/null
done
group=$1
printf '%s\\n' "$2" >> $events || {{ forget $group; exit 97; }}
shift 2
"$@"
status=$?
forget $group
exit $status
"""
"""Defines the probes, runs a command, and deletes them; and before, those of runs that were killed, whose process has ended."""


def _counted(
    tracee: Tracee,
    reference: ReferenceRuns,
    symbolizer: Symbolizer,
    recording: Recording,
    by_event: Mapping[str, Probe],
) -> InstrumentResult:
    callers = _Callers(symbolizer, recording)
    amounts: collections.Counter[tuple[str, str]] = collections.Counter()
    adder = ProfileBuilder()
    for event in recording.work(by_event):
        probe = by_event[event.what]
        values = fields_of(event.trace)
        caller = callers.frame(values.get("caller", 0))
        if probe.kind == "free":
            amounts["allocations", "free"] += 1
            continue
        size = math.prod(values.get(f"a{number}", 0) for number in probe.arguments)
        if size > MAX_ALLOCATION_BYTES:
            amounts["copies", f"calls that {probe.kind} memory, of a size that can't be read"] += 1
        elif probe.kind != "allocation":
            amounts["copies", f"calls that {probe.kind} memory"] += 1
            amounts["copies", f"bytes {'copied' if probe.kind == 'copy' else 'set'}"] += size
        elif caller.symbol not in _ALLOCATING:  # an allocating function that calls another one counts once
            amounts["allocations", f"of {size_class(size)}"] += 1
            amounts["allocations", "bytes asked for"] += size
            stack = symbolizer.stack(event)[:-1] if len(event.stack) > 1 else (caller,)
            adder.add(
                (
                    *stack,
                    Frame(symbol=probe.function, object=symbolizer.object_of(probe.path)),
                    Frame(symbol=size_class(size), object=""),
                ),
                size,
            )
    runs = RecordedRuns().add(recording, tracee, by_event)
    operations = runs.operations
    found = tuple(
        Amount(group=group, name=name, value=value / operations) for (group, name), value in sorted(amounts.items())
    )
    notes = (
        "a stack is the callers and the function, or with many calls the caller and the function; calls inside a library that bypass the "
        "symbol are not counted",
        *runs.notes(),
    )
    profile = adder.profile(NAME, "B", operations, notes)
    return result(NAME, tracee, reference, runs, amounts=found, profile=profile, notes=notes)


def fields_of(trace: str) -> dict[str, int]:
    """Return the numbers ``NAME=VALUE``, decimal or hexadecimal, that a probe's event prints."""
    return {name: int(text, 16 if text.startswith("0x") else 10) for name, text in _FIELD.findall(trace)}


class _Callers:
    """Names the functions that contain return addresses, by the mapped files. A forked process has the mappings of its parent."""

    def __init__(self, symbolizer: Symbolizer, recording: Recording) -> None:
        found = (mapped(event) for event in recording.events if event.what == "map")
        self._maps = sorted((each for each in found if each is not None), key=lambda one: one.at)
        self._starts = [each.at for each in self._maps]
        self._namer = symbolizer
        self.frame = functools.cache(self._frame)

    def _frame(self, address: int) -> Frame:
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._maps[at].at + self._maps[at].size:
            return Frame(symbol=UNKNOWN, object="")
        place = self._maps[at]
        return self._namer.frame(address - place.at + place.offset, UNKNOWN, place.path)
