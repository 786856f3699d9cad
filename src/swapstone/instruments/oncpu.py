"""Where the processor's time goes: stacks at a fixed rate of processor time."""

from __future__ import annotations

from swapstone.instruments.instrument_result import Known, operations_in, result
from swapstone.instruments.perf import lost_note, record
from swapstone.instruments.profile_builder import Adder
from swapstone.instruments.symbolizer import Namer
from swapstone.instruments.tracee import Subject
from swapstone.model import Instrumented, UserError

NAME = "on-cpu"
RATE_HZ = 1997  # a prime: no work in step with it hides between two samples
WORK_NS = 1.2e9
STACK_BYTES = 8192
_EVENT = "cpu-clock"
_STACKS = "stacks are taken by DWARF; code without unwind tables (musl's) shows its own function and no caller"


def measure(subject: Subject, known: Known) -> Instrumented:
    """Sample a run's stacks while it is on a processor.

    Raises:
        UnavailableError: perf can't be used here.
        UserError: the run failed, or was too short to be seen.
    """
    subject = known.passes_for(subject, WORK_NS)
    # The rate is the event's own: a rate for all would let marks be left out.
    options = ("-e", f"{_EVENT}/freq={RATE_HZ},call-graph=dwarf,stack-size={STACK_BYTES},name={_EVENT}/")
    recording = record(subject, options, known.folder)
    namer, adder = Namer(subject), Adder()
    for event in recording.events:
        if (
            event.what.startswith(_EVENT)
            and event.pid != recording.windows.pid
            and recording.windows.holds(event.time_ns)
        ):
            adder.add(namer.stack(event), 1e9 / RATE_HZ)
    if not adder.total:
        raise UserError("The work was too short for a single sample.")
    notes = (_STACKS, *lost_note(recording, [_EVENT]))
    profile = adder.profile(NAME, "ns", operations_in(recording, subject), notes)
    return result(NAME, subject, known, recording, profile=profile, notes=notes)
