# SPDX-License-Identifier: MIT OR Apache-2.0
"""How often a run under an instrument is repeated, so that what it measures has an interval."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator

from swapstone.parts.explain.instruments.instrument_result import ReferenceRuns
from swapstone.parts.explain.instruments.tracee import Region, Tracee

RUNS = 8
"""At least as many runs, if the time allows."""

MOST_RUNS = 60

BUDGET_S = 30.0
"""After this time no run of an instrument and a variant is begun, if there are `FEW_RUNS`."""

MOST_S = 60.0
"""After this time none is begun in any case: on a busy machine the start of perf may take longer than all the rest."""

FEW_RUNS = 5
"""Fewer runs are divided into parts of equal length, so that there are `RUNS` parts: the intervals are then of parts of runs."""

_SWITCH_S = 3e-4
"""Approximate time to read a switch with its stack."""

_START_S = 0.5
"""Approximate duration of the start of perf, and of the reading of a small recording."""


@dataclasses.dataclass(frozen=True)
class RunPlan:
    """How often to run, and into how many parts of equal length each run is divided."""

    runs: int
    parts: int


def planned_runs(
    tracee: Tracee, reference: ReferenceRuns, *, samples: int = 0, rate_hz: float = 0.0, switches: bool = False
) -> RunPlan:
    """Return how often to run a tracee.

    Args:
        tracee: what to run.
        reference: its runs without an instrument.
        samples: wanted in all runs together; 0 if the number of samples does not matter.
        rate_hz: samples in a second of processor time.
        switches: whether each switch of a thread is recorded, which then takes most of the time.
    """
    run_s = reference.longest_s
    if tracee.region is Region.PASSES:
        run_s = reference.wall_ns * tracee.operations * tracee.passes / 1e9
    wanted = RUNS
    if samples:
        busy = reference.metrics.get("cpu", 0.0) / reference.wall_ns if reference.wall_ns else 0.0
        wanted = max(RUNS, min(MOST_RUNS, math.ceil(samples / max(1.0, busy * run_s * rate_hz))))
    read_s = _switches(tracee, reference, run_s) * _SWITCH_S if switches else 0.0
    runs = max(1, min(wanted, int(BUDGET_S / (2 * run_s + read_s + _START_S))))
    return RunPlan(runs, 1 if runs >= FEW_RUNS else math.ceil(RUNS / runs))


def _switches(tracee: Tracee, reference: ReferenceRuns, run_s: float) -> float:
    """Return the number of switches in a run, as the kernel counts them: of a pass, of a program, or of a request."""
    counted = sum(reference.metrics.get(name, 0.0) for name in ("nvcsw", "nivcsw"))
    if tracee.region is Region.DRIVEN:
        return counted * run_s * 1e9 / reference.wall_ns if reference.wall_ns else 0.0
    return counted * tracee.passes


def repeat(plan: RunPlan, enough: Callable[[], bool] = lambda: True) -> Iterator[int]:
    """Yield the number of each run, from 0, until there are as many as planned and enough samples, or the time is over.

    Args:
        plan: how many runs.
        enough: whether there are enough samples.
    """
    start, made = time.monotonic(), 0
    while made < plan.runs or not (enough() or made >= MOST_RUNS or plan.parts > 1):
        yield made
        made += 1
        spent = time.monotonic() - start
        if spent > BUDGET_S and (plan.parts > 1 or made >= FEW_RUNS or spent > MOST_S):
            break
