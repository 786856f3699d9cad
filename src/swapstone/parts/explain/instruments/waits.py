# SPDX-License-Identifier: MIT OR Apache-2.0
"""What ended the waits of a program's threads: the scheduler's events of the whole machine, with the stack of the code that wakes."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from swapstone.core.model import UnavailableError
from swapstone.parts.explain.instruments import sched_events
from swapstone.parts.explain.instruments.instrument_result import ReferenceRuns, recorded, result
from swapstone.parts.explain.instruments.perf import COMM_BYTES, Recording, TooLargeError, record
from swapstone.parts.explain.instruments.symbolizer import Symbolizer
from swapstone.parts.explain.instruments.tracee import Tracee
from swapstone.parts.explain.instruments.wait_chains import WaitChains
from swapstone.parts.explain.model.explanation import InstrumentResult

NAME = "waits"
WORK_NS = 0.5e9
MOST_BYTES = 256 << 20
"""Largest recording that is read: some 900,000 events."""
MOST_UNWOUND_BYTES = 24 << 20
"""Largest recording whose stacks are unwound by tables, which takes a hundred times as long."""

_DELAYED_ACK = "tcp_delack_timer"
_SHORT = "call-graph=fp,max-stack=1"
"""Without any stack perf prints an event's address on the line of the event's own fields."""

_STACKS = ("call-graph=dwarf,stack-size=1024", "call-graph=fp")
"""How the stack of the code that wakes is taken: by unwind tables, also derived ones, or by frame pointers if that is too much to read."""


def measure(tracee: Tracee, reference: ReferenceRuns) -> InstrumentResult:
    """Record one run with the scheduler's events of the whole machine.

    Raises:
        UnavailableError: tracepoints of the whole machine can't be used, or there are too many events.
        UserError: the run failed.
    """
    tracee = reference.passes_for(tracee, WORK_NS)
    notes: tuple[str, ...] = ()
    try:
        recording = _record(tracee, reference, _STACKS[0], MOST_UNWOUND_BYTES)
    except TooLargeError:
        notes = (
            "threads are woken so often that their stacks are taken by frame pointers, and callers may be missing",
        )
        try:
            recording = _record(tracee, reference, _STACKS[1], MOST_BYTES)
        except TooLargeError as error:
            raise UnavailableError(
                f"threads are switched too often to read all of it: the recording is {error}"
            ) from error
    require_same_numbers(recording)
    generator = tracee.request.load_generator
    driver = Path(generator.arguments[0]).name[:COMM_BYTES] if generator is not None else ""
    chains = WaitChains(recording.windows, recording.ended.pid, driver, Symbolizer(tracee).stack)
    chains.follow(recording.events)
    runs = recorded(recording, tracee, [sched_events.SWITCH, sched_events.WAKING])
    found = result(NAME, tracee, reference, runs, notes=(*notes, *chains.notes(), *runs.notes()))
    return msgspec.structs.replace(found, waits=chains.ended(runs.operations), taken=chains.taken(runs.operations))


def _record(tracee: Tracee, reference: ReferenceRuns, stacks: str, most_bytes: int) -> Recording:
    """Record one run.

    Args:
        tracee: what to run.
        reference: the reference runs.
        stacks: one of `_STACKS`.
        most_bytes: limit of the recording.

    Raises:
        TooLargeError: the recording is larger.
    """
    switches = f"{sched_events.SWITCH}/{_SHORT}/"
    options = ("-a", "-e", switches, "-e", f"{sched_events.WAKING}/{stacks}/", "-m", "2048")
    return record(
        tracee,
        (*options, *delayed_ack_options()),
        reference.folder,
        tracepoints=True,
        most_bytes=most_bytes,
        limit=reference.limit(),
        whole_machine=True,
        mapped=reference.objects,
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
    return ("-e", f"{sched_events.DELAYED_ACK_TIMER}/{_SHORT}/", "--filter", f"function=={address:#x}")


def require_same_numbers(recording: Recording) -> None:
    """Check that the tracepoints number threads as perf does: they don't in a PID namespace of a container.

    Raises:
        UnavailableError: they don't, or the recording has no switches.
    """
    for event in recording.events:
        if event.what == sched_events.SWITCH and event.pid in recording.tree:
            found = sched_events.switch(event.trace)
            if found is not None and found.leaves == event.tid:
                return
            break
    raise UnavailableError(
        "the tracepoints have no switch of the program by its process number",
        "outside of a container, or with --pid=host",
    )
