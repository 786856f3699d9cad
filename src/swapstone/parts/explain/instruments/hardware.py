# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counts of the processor's own counters, by ``perf stat``: cycles, misses, and level 1 of the top-down method where it has that."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from swapstone.core.model import UnavailableError, UserError
from swapstone.parts.explain.instruments import requirements
from swapstone.parts.explain.instruments.perf import result
from swapstone.parts.explain.instruments.traced_run import ReferenceRuns, Region, Tracee, run
from swapstone.parts.explain.model.explanation import CYCLES, EVENTS, HARDWARE, TOP_DOWN, Amount, InstrumentResult

NAME = "hardware"
WORK_NS = 0.5e9
MOST_BYTES = 64 << 10
_SOURCES = ("cpu", "cpu_core")
_DEVICES = Path("/sys/bus/event_source/devices")
_MODIFIER = re.compile(r":[ukhpPGHIDW]{1,8}$")
_VALUE = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?")


def counted(lines: Iterable[str]) -> dict[str, float]:
    """Decode the output of ``perf stat -x ;`` (perf-stat(1), CSV FORMAT).

    Args:
        lines: value, unit, event, time for which it was counted, share of that time in per cent, and more.

    Returns:
        Counts by the names of `EVENTS` and `TOP_DOWN`. An event that the machine does not support, or that was not counted, is left out.
    """
    names = {**EVENTS, **TOP_DOWN}
    rows = (line.strip().split(";") for line in lines)
    known = ((_MODIFIER.sub("", row[2]), row[0]) for row in rows if len(row) > 2 and _VALUE.fullmatch(row[0]))
    return {names[event]: float(value) for event, value in known if event in names}


def event_options(devices: Path = _DEVICES) -> tuple[str, ...]:
    """Return the events to count: those of the top-down method only where the kernel lists them.

    Args:
        devices: the kernel's folder of event sources.
    """
    has_slots = any((devices / source / "events" / "topdown-retiring").is_file() for source in _SOURCES)
    groups = [*EVENTS, f"{{{','.join(TOP_DOWN)}}}"] if has_slots else [*EVENTS]
    return tuple(word for group in groups for word in ("-e", group))


def measure(tracee: Tracee, reference: ReferenceRuns) -> InstrumentResult:
    """Count one run.

    Raises:
        UnavailableError: perf or the counters can't be used, or the program is a server.
        UserError: the run failed.
    """
    requirements.require(requirements.missing_perf())
    if tracee.region is Region.DRIVEN:
        raise UnavailableError("the counters are of whole runs; a server's start and end would be counted as requests")
    tracee = reference.passes_for(tracee, WORK_NS)
    file = reference.folder / "perf-stat"
    before = ("perf", "stat", "-x", ";", "-o", str(file), *event_options(), "--")
    ended = run(before, tracee, reference)
    if ended.status != 0 or not file.is_file():
        raise UserError(f"perf stat ended with status {ended.status}: {ended.stderr.strip()[-200:]}")
    with file.open("rb") as opened:
        found = counted(opened.read(MOST_BYTES).decode(errors="replace").splitlines())
    file.unlink()
    require_cycles(found)
    operations = tracee.operations * tracee.passes
    return result(
        NAME,
        tracee,
        reference,
        operations=operations,
        took_ns=ended.elapsed_ns if tracee.region is Region.PROGRAM else 0,
        tool="perf",
        command=" ".join((*before[:4], *event_options(), "--", *tracee.request.arguments)),
        amounts=tuple(Amount(group=HARDWARE, name=name, value=value / operations) for name, value in found.items()),
    )


def require_cycles(found: dict[str, float]) -> None:
    """Check that cycles were counted.

    Raises:
        UnavailableError: they weren't.
    """
    if not found.get(CYCLES):
        raise UnavailableError(
            "the kernel counts no cycles here: it has no access to the processor's counters, as in most virtual machines",
            "a machine with a PMU, or a virtual machine that has one (QEMU: -cpu host,pmu=on)",
        )
