# SPDX-License-Identifier: MIT OR Apache-2.0
"""How busy the machine was around the trials, and which time metric is preferred because of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from swapstone.core.comparison.run_table import ABSENT, OK, Floats, Mask, RunTable, exact_sum, quotients
from swapstone.core.model import IDLE, UNKNOWN_THREADS, Cpus, Experiment, Noise, WorkSpec
from swapstone.core.stats import median

BUSY_PERCENT = 20.0
"""A machine is called busy above this median CPU pressure: wall time then needs several times as many pairs as CPU time."""


WAITING_SHARE = 0.1
"""Share of elapsed time that is neither processor time nor time in the run queue, above which work waits."""

AT_ONCE = 1.1
"""A program ran on several processors at once if its processor time was this multiple of elapsed time."""

START_NS = 5_000_000
"""The processor time of a process includes its start and its end, which elapsed time does not: at most this long."""

TICK_NS = 10_000_000
"""A tick of /proc/stat: USER_HZ is 100 on all architectures that the agent runs on."""


def noise_of(
    table: RunTable, workloads: Mapping[str, WorkSpec], *, virtual: bool = False, mine: Mask | None = None
) -> Noise:
    """Summarise what the agent measured around the runs.

    A workload with several threads raises the pressure itself. So the pressure is taken from workloads that use one processor,
    if there are any, and from runs under the load ``idle``, if there are any.

    Args:
        table: of the runs.
        workloads: by name.
        virtual: whether the clock is the virtual one. There no other process takes time from a trial, apart from its load.
        mine: the rows to summarise; None for all.
    """
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


def busy_loads(experiment: Experiment, table: RunTable, workloads: Mapping[str, WorkSpec]) -> frozenset[str]:
    """Return the loads under which the machine was busy. A load that Swapstone generates counts like any other.

    On the virtual clock there is none, because elapsed time is as exact there as CPU time.
    """
    if experiment.virtual:
        return frozenset()
    found = dict.fromkeys(place[2] for place in table.places)
    of_load = {load: _of_places(table, [place[2] == load for place in table.places]) for load in found}
    return frozenset(
        load for load, mine in of_load.items() if mine.any() and noise_of(table, workloads, mine=mine).busy
    )


def observed_waits(
    experiment: Experiment, workloads: Mapping[str, WorkSpec], table: RunTable
) -> dict[str, bool | None]:
    """Return of each workload of an own program that is not declared to compute whether it waits; None where that is not known.

    Elapsed time is processor time, time in the run queue, and waiting. A run that has less than `WAITING_SHARE` of the last computes. The
    agent reads the run queue of the main thread alone (schedstat). So a run waits only if more than that share is left without all time in
    which any task lacked a processor (PSI) and what the hypervisor took, and if the program gave its processor up voluntarily. Time
    under a quota is neither, and a program that uses several processors at once has no such sum.
    """
    if experiment.own is None or experiment.own.load_generators or experiment.virtual:
        return {}
    own = [name for name, work in workloads.items() if work.waits and any(m.name == "wall" for m in work.metrics)]
    return {name: _waits(table, _of_places(table, [place[1] == name for place in table.places])) for name in own}


def _waits(table: RunTable, mine: Mask) -> bool | None:
    """Return whether some rows of a table wait; None if that is not known."""
    wall, user, system, delay = (table.fact(name) for name in ("wall_ns", "user_us", "system_us", "run_delay_ns"))
    known = mine & (table.status == OK) & (wall > 0) & (user != ABSENT) & (system != ABSENT) & (delay != ABSENT)
    if not known.any() or (table.fact("cpu_quota_milli")[mine] != ABSENT).any():
        return None
    used = 1000.0 * (user + system)[known]
    lost, whole = np.maximum(0, delay[known]).astype(np.float64), wall[known].astype(np.float64)
    if median((used - START_NS) / whole) > AT_ONCE:
        return None
    if median((whole - used - lost) / whole) <= WAITING_SHARE:
        return False
    pressure, stolen, switches = (
        table.fact("psi_cpu_us")[known],
        table.fact("steal_ticks")[known],
        table.metrics.get("nvcsw"),
    )
    if (pressure == ABSENT).any() or switches is None:
        return None
    taken = np.maximum(lost, 1000.0 * pressure) + TICK_NS * np.maximum(0, stolen)
    waits = median((whole - used - taken) / whole) > WAITING_SHARE and median(switches[known]) >= 1
    return True if waits else None


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
