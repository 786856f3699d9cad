# SPDX-License-Identifier: MIT OR Apache-2.0
"""On-CPU time: stacks sampled at a fixed rate of CPU time."""

from __future__ import annotations

import os

from swapstone.instruments.instrument_result import RecordedRuns, ReferenceRuns, result
from swapstone.instruments.perf import Recording, record, require_kernel_samples
from swapstone.instruments.profile_builder import ProfileBuilder
from swapstone.instruments.repeated_runs import RUNS, planned_runs, repeat
from swapstone.instruments.symbolizer import Symbolizer
from swapstone.instruments.tracee import Tracee
from swapstone.model import InstrumentResult, UserError

NAME = "on-cpu"
RATE_HZ = 1997  # a prime, so that sampling does not lock to periodic work
WORK_NS = 1.6e9
"""Of all runs together, for a program with passes."""
SAMPLES = 1000
"""Runs are repeated until there are as many, or the time is over."""
STACK_BYTES = 8192
BUFFER_PAGES = 4096
"""Of each processor, as root: a second of samples, for programs with real-time priority, beside which perf seldom runs. Other users may
lock 516 KiB by default (kernel.perf_event_mlock_kb), which is perf's own default, too."""
_EVENT = "cpu-clock"
_STACKS = "user stacks are unwound by DWARF; for code without unwind tables (musl) they are derived from it, on x86_64"


def measure(tracee: Tracee, reference: ReferenceRuns) -> InstrumentResult:
    """Sample the stacks of several runs while they are on a processor.

    Raises:
        UnavailableError: perf can't be used.
        UserError: a run failed, or all were too short for a sample.
    """
    tracee = reference.passes_for(tracee, WORK_NS / RUNS)
    # The rate is set for this event alone: a common rate would drop marker events.
    options: tuple[str, ...] = (
        "-e",
        f"{_EVENT}/freq={RATE_HZ},call-graph=dwarf,stack-size={STACK_BYTES},name={_EVENT}/",
    )
    if os.geteuid() == 0:
        options = (*options, "-m", str(BUFFER_PAGES))
    plan = planned_runs(tracee, reference, samples=SAMPLES, rate_hz=RATE_HZ)
    symbolizer, adder, runs = Symbolizer(tracee), ProfileBuilder(), RecordedRuns()

    def one() -> None:
        if runs.number:
            adder.begin_run()
        recording = record(tracee, options, reference.folder, limit=reference.limit(), mapped=reference.objects)
        require_kernel_samples(recording.events, _EVENT)
        runs.add(recording, tracee, [_EVENT])
        _add_samples(recording, adder, symbolizer, plan.parts)

    repeat(one, plan, lambda: adder.samples >= SAMPLES)
    if not adder.samples:
        raise UserError("The work was too short for a single sample.")
    notes = (_STACKS, *runs.notes())
    if adder.samples < SAMPLES:
        notes = (
            *notes,
            f"{adder.samples} samples in {runs.number} run{'s' * (runs.number != 1)}; {SAMPLES} are wanted, but would take too long",
        )
    profile = adder.profile(NAME, "ns", runs.operations, notes)
    return result(NAME, tracee, reference, runs, profile=profile, notes=notes)


def _add_samples(recording: Recording, adder: ProfileBuilder, symbolizer: Symbolizer, parts: int) -> None:
    """Add the samples of a recording, divided into parts of equal length."""
    now = 0
    for event in recording.events:
        windows = recording.windows
        if event.what.startswith(_EVENT) and event.pid != windows.pid and windows.contains(event.time_ns):
            while parts > 1 and now < windows.part_of(event.time_ns, parts):
                now += 1
                adder.begin_run()
            adder.add(symbolizer.stack(event), 1e9 / RATE_HZ)
    for _ in range(now, parts - 1):
        adder.begin_run()
