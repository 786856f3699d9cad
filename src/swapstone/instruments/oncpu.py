# SPDX-License-Identifier: MIT OR Apache-2.0
"""On-CPU time: stacks sampled at a fixed rate of CPU time."""

from __future__ import annotations

from swapstone.instruments.instrument_result import ReferenceRuns, operations_in, result
from swapstone.instruments.perf import lost_note, record
from swapstone.instruments.profile_builder import ProfileBuilder
from swapstone.instruments.symbolizer import Symbolizer
from swapstone.instruments.tracee import Tracee
from swapstone.model import InstrumentResult, UserError

NAME = "on-cpu"
RATE_HZ = 1997  # a prime, so that sampling does not lock to periodic work
WORK_NS = 1.2e9
STACK_BYTES = 8192
_EVENT = "cpu-clock"
_STACKS = "user stacks are unwound by DWARF; code without unwind tables (musl) has its function but no caller"


def measure(tracee: Tracee, reference: ReferenceRuns) -> InstrumentResult:
    """Sample a run's stacks while it is on a processor.

    Raises:
        UnavailableError: perf can't be used.
        UserError: the run failed, or was too short for a sample.
    """
    tracee = reference.passes_for(tracee, WORK_NS)
    # The rate is set for this event alone: a common rate would drop marker events.
    options = ("-e", f"{_EVENT}/freq={RATE_HZ},call-graph=dwarf,stack-size={STACK_BYTES},name={_EVENT}/")
    recording = record(tracee, options, reference.folder)
    symbolizer, adder = Symbolizer(tracee), ProfileBuilder()
    for event in recording.events:
        if (
            event.what.startswith(_EVENT)
            and event.pid != recording.windows.pid
            and recording.windows.contains(event.time_ns)
        ):
            adder.add(symbolizer.stack(event), 1e9 / RATE_HZ)
    if not adder.total:
        raise UserError("The work was too short for a single sample.")
    notes = (_STACKS, *lost_note(recording, [_EVENT]))
    profile = adder.profile(NAME, "ns", operations_in(recording, tracee), notes)
    return result(NAME, tracee, reference, recording, profile=profile, notes=notes)
