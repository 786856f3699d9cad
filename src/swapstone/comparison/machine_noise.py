# SPDX-License-Identifier: MIT OR Apache-2.0
"""How busy the machine was around the trials, and which time metric is preferred because of it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from swapstone.model import IDLE, UNKNOWN_THREADS, Cpus, Experiment, Noise, Run, Workload

TIMES = ("wall", "cpu")
"""Metrics that have an index."""

BUSY_PERCENT = 20.0
"""A machine is called busy above this median CPU pressure: wall time then needs several times as many pairs as CPU time."""


def noise_of(runs: Sequence[Run], workloads: Mapping[str, Workload], *, virtual: bool = False) -> Noise:
    """Summarise what the agent measured around the runs.

    A workload with several threads raises the pressure itself. So the pressure is taken from workloads that use one processor,
    if there are any, and from runs under the load ``idle``, if there are any.

    Args:
        runs: of the whole experiment, or of one load.
        workloads: by name.
        virtual: whether the clock is the virtual one. There no other process takes time from a trial, apart from its load.
    """
    idle = [run for run in runs if run.trial.load == IDLE.name]
    facts = [dict(run.facts) for run in idle or runs]
    alone = [run for run in idle or runs if workloads[run.trial.workload].cpus is Cpus.ONE]
    pressures = _pressures([dict(run.facts) for run in alone]) or _pressures(facts)
    loads = [fact["load1_milli"] / 1000 for fact in facts if "load1_milli" in fact]
    pressure = statistics.median(pressures) if pressures else None
    return Noise(
        cpu_pressure_percent=pressure,
        cpu_pressure_max_percent=max(pressures, default=None),
        steal_percent=_steal(facts),
        load1=statistics.median(loads) if loads else None,
        busy=not virtual and pressure is not None and pressure > BUSY_PERCENT,
    )


def busy_loads(experiment: Experiment, runs: Sequence[Run], workloads: Mapping[str, Workload]) -> frozenset[str]:
    """Return the loads under which the machine was busy. A load that Swapstone generates counts like any other.

    On the virtual clock there is none, because elapsed time is as exact there as CPU time.
    """
    if experiment.virtual:
        return frozenset()
    by_load: dict[str, list[Run]] = {}
    for run in runs:
        by_load.setdefault(run.trial.load, []).append(run)
    return frozenset(load for load, mine in by_load.items() if noise_of(mine, workloads).busy)


def preferred_time(workload: Workload, busy: bool) -> str:
    """Return the metric to read first: on a busy machine CPU time of work that needs one processor and doesn't wait; else wall time.

    For a workload that measures neither, it is the leading metric.
    """
    names = [metric.name for metric in workload.metrics]
    if names and "wall" not in names:
        return next((metric.name for metric in workload.metrics if metric.leads), names[0])
    alone = workload.threads in (1, UNKNOWN_THREADS)  # an own program for which the user chose CPU time
    return "cpu" if busy and alone and not workload.waits else "wall"


def _pressures(facts: Sequence[Mapping[str, int]]) -> list[float]:
    """Return the share of each run in which a task waited for a processor, in per cent.

    The agent reads the pressure shortly before the start and after the end of the wall time, so the quotient can exceed 100
    slightly. It is cut at 100.
    """
    known = (fact for fact in facts if "psi_cpu_us" in fact and fact.get("wall_ns", 0) > 0)
    return [min(100.0, 100 * fact["psi_cpu_us"] * 1000 / fact["wall_ns"]) for fact in known]


def _steal(facts: Sequence[Mapping[str, int]]) -> float | None:
    known = [fact for fact in facts if "steal_ticks" in fact and "cpu_ticks" in fact]
    ticks = sum(fact["cpu_ticks"] for fact in known)
    return 100 * sum(fact["steal_ticks"] for fact in known) / ticks if ticks else None
