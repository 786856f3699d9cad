# SPDX-License-Identifier: MIT OR Apache-2.0
"""How busy the machine was around the trials, and which time metric is preferred because of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from swapstone.core.comparison.run_table import ABSENT, Floats, Mask, Runs, RunTable, as_table, exact_sum, quotients
from swapstone.core.model import IDLE, UNKNOWN_THREADS, Cpus, Experiment, Noise, WorkSpec
from swapstone.core.stats import median

BUSY_PERCENT = 20.0
"""A machine is called busy above this median CPU pressure: wall time then needs several times as many pairs as CPU time."""


def noise_of(runs: Runs, workloads: Mapping[str, WorkSpec], *, virtual: bool = False) -> Noise:
    """Summarise what the agent measured around the runs.

    A workload with several threads raises the pressure itself. So the pressure is taken from workloads that use one processor,
    if there are any, and from runs under the load ``idle``, if there are any.

    Args:
        runs: of the whole experiment, or of one load.
        workloads: by name.
        virtual: whether the clock is the virtual one. There no other process takes time from a trial, apart from its load.
    """
    return _noise(as_table(runs, ()), None, workloads, virtual=virtual)


def _noise(table: RunTable, mine: Mask | None, workloads: Mapping[str, WorkSpec], *, virtual: bool = False) -> Noise:
    """Return the noise of some rows of a table; of all for None."""
    every = np.ones(len(table), dtype=np.bool_) if mine is None else mine
    idle = every & _of_places(table, [place[2] == IDLE.name for place in table.places])
    chosen = idle if idle.any() else every
    alone = chosen & _of_places(table, [workloads[place[1]].cpus is Cpus.ONE for place in table.places])
    pressures = _pressures(table, alone)
    if not pressures.size:
        pressures = _pressures(table, chosen)
    milli = table.fact("load1_milli")[chosen]
    loads = quotients(milli[milli != ABSENT], 1000)
    pressure = median(pressures) if pressures.size else None
    return Noise(
        cpu_pressure_percent=pressure,
        cpu_pressure_max_percent=float(pressures.max()) if pressures.size else None,
        steal_percent=_steal(table, chosen),
        load1=median(loads) if loads.size else None,
        busy=not virtual and pressure is not None and pressure > BUSY_PERCENT,
    )


def busy_loads(experiment: Experiment, runs: Runs, workloads: Mapping[str, WorkSpec]) -> frozenset[str]:
    """Return the loads under which the machine was busy. A load that Swapstone generates counts like any other.

    On the virtual clock there is none, because elapsed time is as exact there as CPU time.
    """
    if experiment.virtual:
        return frozenset()
    table = as_table(runs, ())
    found = dict.fromkeys(place[2] for place in table.places)
    of_load = {load: _of_places(table, [place[2] == load for place in table.places]) for load in found}
    return frozenset(load for load, mine in of_load.items() if mine.any() and _noise(table, mine, workloads).busy)


def preferred_time(workload: WorkSpec, busy: bool) -> str:
    """Return the metric to read first: on a busy machine CPU time of work that needs one processor and doesn't wait; else wall time.

    For a workload that measures neither, it is the leading metric.
    """
    names = [metric.name for metric in workload.metrics]
    if names and "wall" not in names:
        return next((metric.name for metric in workload.metrics if metric.leads), names[0])
    alone = workload.threads in (1, UNKNOWN_THREADS)  # an own program for which the user chose CPU time
    return "cpu" if busy and alone and not workload.waits else "wall"


def _of_places(table: RunTable, wanted: Sequence[bool]) -> Mask:
    """Return which rows are of wanted places."""
    mask: Mask = np.array(wanted, dtype=np.bool_)[table.place]
    return mask


def _pressures(table: RunTable, rows: Mask) -> Floats:
    """Return the share of each run in which a task waited for a processor, in per cent.

    The agent reads the pressure shortly before the start and after the end of the wall time, so the quotient can exceed 100
    slightly. It is cut at 100.
    """
    waited_us, wall_ns = table.fact("psi_cpu_us")[rows], table.fact("wall_ns")[rows]
    known = (waited_us != ABSENT) & (wall_ns > 0)
    return np.minimum(100.0, quotients(waited_us[known], wall_ns[known], 100_000))


def _steal(table: RunTable, rows: Mask) -> float | None:
    stolen, ticks = table.fact("steal_ticks")[rows], table.fact("cpu_ticks")[rows]
    known = (stolen != ABSENT) & (ticks != ABSENT)
    every = exact_sum(ticks[known])
    return 100 * exact_sum(stolen[known]) / every if every else None
