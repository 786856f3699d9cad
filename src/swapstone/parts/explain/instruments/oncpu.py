# SPDX-License-Identifier: MIT OR Apache-2.0
"""On-CPU time: stacks sampled at a fixed rate of CPU time."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.regular_file import text_of
from swapstone.parts.explain.instruments import requirements
from swapstone.parts.explain.instruments.perf import (
    RUNS,
    ProfileBuilder,
    RecordedRuns,
    Symbolizer,
    planned_runs,
    record,
    recordings,
    result,
)
from swapstone.parts.explain.instruments.traced_run import ReferenceRuns, Region, Tracee, run
from swapstone.parts.explain.model.explanation import UNSAMPLED, InstrumentResult

NAME = "on-cpu"
RATE_HZ = 1997  # a prime, so that sampling does not lock to periodic work
WORK_NS = 1.6e9
"""Of all runs together, for a program with passes."""
SAMPLES = 1000
"""Runs are repeated until there are as many, or the time is over."""
STACK_BYTES = 8192
BUFFER_PAGES = 4096
"""Of each processor, with CAP_IPC_LOCK: a second of samples, for programs with real-time priority, beside which perf seldom runs. Others
may lock 516 KiB by default (kernel.perf_event_mlock_kb), which is perf's own default, too; with more it fails."""
_IPC_LOCK = 14  # CAP_IPC_LOCK of linux/capability.h
_EVENT = "cpu-clock"
_STACKS = "user stacks are unwound by DWARF; for code without unwind tables (musl) they are derived from it, on x86_64"


def measure(tracee: Tracee, reference: ReferenceRuns) -> InstrumentResult:
    """Sample the stacks of several runs while they are on a processor.

    Raises:
        UnavailableError: perf can't be used.
        UserError: a run failed, or all were too short for a sample.
    """
    refused = requirements.missing_perf()
    tracee = reference.passes_for(tracee, WORK_NS / RUNS, marked=requirements.missing_tracepoints() is None)
    # The rate is set for this event alone: a common rate would drop marker events.
    terms = f"{_EVENT}/freq={RATE_HZ},call-graph=dwarf,stack-size={STACK_BYTES},name={_EVENT}/{'u' if refused else ''}"
    options = ("-e", terms, *(("-m", str(BUFFER_PAGES)) if may_lock_memory() else ()))
    plan = planned_runs(tracee, reference, samples=SAMPLES, rate_hz=RATE_HZ)
    symbolizer, adder, runs = Symbolizer(tracee), ProfileBuilder(), RecordedRuns()
    make = functools.partial(record, tracee, options, reference, mapped=reference.objects, kernel=not refused)
    for first, recording in recordings(
        tracee, make, _EVENT, plan=plan, runs=runs, enough=lambda: adder.samples >= SAMPLES
    ):
        for event in recording.work(_EVENT):
            part = first + recording.windows.part_of(event.time_ns, plan.parts)
            adder.add(symbolizer.stack(event), 1e9 / RATE_HZ, part)
    if not adder.samples:
        raise UserError("The work was too short for a single sample.")
    few = f"{adder.samples} samples in {runs.number} run{'s' * (runs.number != 1)}; {SAMPLES} are wanted, but would take too long"
    notes = (_STACKS, *runs.notes(), *((few,) if adder.samples < SAMPLES else ()))
    if refused:
        user, system = (reference.metrics.get(name, 0.0) for name in ("user", "system"))
        if not user + system and tracee.region is Region.PROGRAM:  # passes that are not most of a reference run
            ended = run(("env",), tracee, reference)
            user, system = ended.user_s, ended.system_s
        if not user + system:
            raise UnavailableError(f"{refused.reason}, and the time in the kernel is not known", refused.remedy)
        adder.add_share((UNSAMPLED,), system / (user + system))
        notes = (*notes, f"{refused.reason}: time in the kernel is that of wait4(2), without functions")
    profile = adder.profile(NAME, "ns", runs.operations, notes, parts=runs.number * plan.parts)
    return result(NAME, tracee, reference, **runs.facts, profile=profile, notes=notes, lines=symbolizer.lines())


def may_lock_memory(process: Path = Path("/proc/self")) -> bool:
    """Return whether a process has CAP_IPC_LOCK in the initial user namespace: root of a container often has not.

    Args:
        process: its folder in /proc; false if it can't be read.
    """
    status, users = text_of(process / "status"), text_of(process / "uid_map").split()
    effective = re.search(r"^CapEff:\s*([0-9a-f]{1,16})$", status, re.MULTILINE)
    return users == ["0", "0", "4294967295"] and effective is not None and bool(int(effective[1], 16) & 1 << _IPC_LOCK)
