# SPDX-License-Identifier: MIT OR Apache-2.0
"""How busy the machine was around the trials, and which time metric is preferred because of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from swapstone.core.comparison.run_table import ABSENT, OK, RunTable, exact_sum, quotients
from swapstone.core.model import CONTRAST_RULES, IDLE, UNKNOWN_THREADS, Cpus, Experiment, Noise, WorkSpec
from swapstone.core.stats import Floats, Mask, median

BUSY_PERCENT = 20.0
"""A machine is called busy above this median CPU pressure: wall time then needs several times as many pairs as CPU time."""


WAITING_SHARE = 0.1
"""Share of elapsed time that is neither processor time nor time in the run queue, above which work waits."""

AT_ONCE = 1.1
"""A program ran on several processors at once if its processor time was this multiple of elapsed time."""

TURNS_PERCENT = 10.0
"""Threads or processes take turns on a machine's processor if one that could run waited for it in more than this share of a run. On the
virtual clock, runs of one thread have 0 to 3 %: the agent and the kernel's threads."""

START_NS = 5_000_000
"""The processor time of a process includes its start and its end, which elapsed time does not: at most this long."""

OTHERS, DEVIATIONS = 0.05, 3.0
"""A machine is not busy if others used less of a processor than this, by as many standard deviations of the error by ticks."""

TICK_NS = 10_000_000
"""A tick of /proc/stat: USER_HZ is 100 on all architectures that the agent runs on."""


def noise_of(
    experiment: Experiment, table: RunTable, workloads: Mapping[str, WorkSpec], *, mine: Mask | None = None
) -> Noise:
    """Summarise what the agent measured around the runs.

    A workload with several threads raises the pressure itself. So the pressure is taken from workloads that use one processor,
    if there are any, and from runs under the load ``idle``, if there are any.

    Args:
        experiment: that the runs are of. On the virtual clock no other process takes time from a trial, apart from its load.
        table: of the runs.
        workloads: by name.
        mine: the rows to summarise; None for all.
    """
    every = np.ones(len(table), dtype=np.bool_) if mine is None else mine
    idle = every & _of_places(table, [place[2] == IDLE.name for place in table.places])
    chosen = idle if idle.any() else every
    alone = chosen & _of_places(table, [workloads[place[1]].cpus is Cpus.ONE for place in table.places])
    window = "ticks_ns" if experiment.rules >= CONTRAST_RULES else "wall_ns"
    rows = alone if (pressures := _pressures(table, alone, window)).size else chosen
    pressures = pressures if pressures.size else _pressures(table, chosen, window)
    milli = table.fact("load1_milli")[chosen]
    loads = quotients(milli[milli != ABSENT], 1000)
    pressure = median(pressures) if pressures.size else None
    return Noise(
        cpu_pressure_percent=pressure,
        cpu_pressure_max_percent=float(pressures.max()) if pressures.size else None,
        steal_percent=_steal(table, chosen),
        load1=median(loads) if loads.size else None,
        busy=not experiment.virtual
        and pressure is not None
        and pressure > BUSY_PERCENT
        and not (experiment.rules >= CONTRAST_RULES and _without_others(table, rows)),
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
        load for load, mine in of_load.items() if mine.any() and noise_of(experiment, table, workloads, mine=mine).busy
    )


def observed_waits(
    experiment: Experiment, workloads: Mapping[str, WorkSpec], table: RunTable
) -> dict[str, bool | None]:
    """Return of each workload of an own program that is not declared to compute whether it waits; None where that is not known.

    A thread is on a processor, on the run queue, or waits (schedstat). The agent reads the first two of the main thread. If less than
    `WAITING_SHARE` of the elapsed time is left, the program computes, whatever its other threads do. If more is left, the main thread
    may wait for others, which lack a processor: a program waits only if no other thread or process was created during its runs, if it gave
    its processor up voluntarily, and if more than that share is left without processor time, run queue, what the hypervisor took, and the
    time in which any task lacked a processor (PSI): the agent needs one, too, to observe a program's end, and so does its exit.
    Time under a quota is neither, and a kernel counts it as time on the run queue: where a quota stopped processes, nothing is known.

    By rules before `CONTRAST_RULES` PSI alone stood for what other threads lacked. But it is an average over processors: they may lack one
    for longer.
    """
    if experiment.own is None or experiment.own.load_generators or experiment.virtual:
        return {}
    own = [name for name, work in workloads.items() if work.waits and any(m.name == "wall" for m in work.metrics)]
    decide = _waits if experiment.rules >= CONTRAST_RULES else _waits_by_pressure
    return {name: decide(table, _of_places(table, [place[1] == name for place in table.places])) for name in own}


def _waits(table: RunTable, mine: Mask) -> bool | None:
    """Return whether some rows of a table wait; None if that is not known."""
    names = ("wall_ns", "user_us", "system_us", "main_cpu_ns", "run_delay_ns")
    known = mine & (table.status == OK) & np.all([table.fact(name) != ABSENT for name in names], axis=0)
    throttled = (table.fact("cpu_quota_milli") != ABSENT) & (table.fact("quota_throttled") != 0)
    if not known.any() or throttled[mine].any():
        return None
    wall, user, system, main, delay, stolen = (
        np.maximum(0.0, table.fact(name).astype(np.float64)) for name in (*names, "steal_ticks")
    )
    whole, used = np.maximum(1.0, wall), 1000.0 * (user + system)

    def left(rows: Mask, taken: Floats) -> float:
        return median(((whole - taken) / whole)[rows])

    if median(((used - START_NS) / whole)[known]) > AT_ONCE:
        return None
    if left(known, main + delay) <= WAITING_SHARE:
        return False
    pressure, switches = table.fact("psi_cpu_us"), table.metrics.get("nvcsw")
    alone = known & (table.fact("created_tasks") == 0) & (pressure != ABSENT)
    if 2 * alone.sum() < known.sum() or switches is None:
        return None
    if left(alone, used + delay) <= WAITING_SHARE:
        return False
    lacked = delay + 1000.0 * np.maximum(0.0, pressure.astype(np.float64)) + TICK_NS * stolen
    waits = left(alone, used + lacked) > WAITING_SHARE and median(switches[alone]) >= 1
    return True if waits else None


def _waits_by_pressure(table: RunTable, mine: Mask) -> bool | None:
    """Return whether some rows of a table wait, by rules before `CONTRAST_RULES`; None if that is not known."""
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


def several_at_once(
    experiment: Experiment, workloads: Mapping[str, WorkSpec], table: RunTable
) -> dict[str, bool | None]:
    """Return whether the threads and processes of each work run at once, without works of one on one processor; None if unknown.

    If their number is not declared, it is observed: in a run on the wall clock that used more processor time than it took, and on the
    virtual clock, where they take turns, by `observed_turns`.
    """
    turns = observed_turns(experiment, workloads, table)
    found: dict[str, bool | None] = {}
    for name, work in _not_alone(workloads).items():
        if work.threads not in (1, UNKNOWN_THREADS):
            found[name] = True
        elif experiment.virtual:
            percent = turns.get(name)
            found[name] = None if percent is None else percent > TURNS_PERCENT
        else:
            facts = [table.fact(fact) for fact in ("wall_ns", "user_us", "system_us")]
            known = _of_work(table, name) & (facts[0] > 0) & np.all([fact != ABSENT for fact in facts], axis=0)
            wall, user, system = (fact[known].astype(np.float64) for fact in facts)
            found[name] = bool(((1000.0 * (user + system) - START_NS) / wall).max() > AT_ONCE) if known.any() else None
    return found


def observed_turns(
    experiment: Experiment, workloads: Mapping[str, WorkSpec], table: RunTable
) -> dict[str, float | None]:
    """Return in how many per cent of a run's time a task that could run waited for the machine's one processor: the median of each work.

    None where the kernel has no /proc/pressure/cpu (CONFIG_PSI). Works without a run under the load ``idle`` are left out, as are those of
    one thread that is pinned, and all works of a machine with several processors or on the wall clock.
    """
    if not experiment.virtual or experiment.processors > 1:
        return {}
    rows = {name: _of_work(table, name) for name in _not_alone(workloads)}
    found = {name: _pressures(table, mine, "ticks_ns") for name, mine in rows.items() if mine.any()}
    return {name: median(pressures) if pressures.size else None for name, pressures in found.items()}


def _not_alone(workloads: Mapping[str, WorkSpec]) -> dict[str, WorkSpec]:
    return {name: work for name, work in workloads.items() if work.cpus is Cpus.ALL or work.threads != 1}


def _of_work(table: RunTable, work: str) -> Mask:
    """Return which rows are successful runs of a work under the load ``idle``."""
    mask: Mask = (table.status == OK) & _of_places(table, [place[1:3] == (work, IDLE.name) for place in table.places])
    return mask


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


def _pressures(table: RunTable, rows: Mask, window: str) -> Floats:
    """Return the share of each run in which a task waited for a processor, in per cent.

    The agent reads the pressure just before it reads the window's clock (`ticks_ns`), so the quotient can exceed 100 slightly. It is cut at
    100. Of rules before `CONTRAST_RULES` the window is the elapsed time (`wall_ns`), which is much shorter for runs of a few milliseconds.
    """
    waited_us, wall_ns, window_ns = (table.fact(name)[rows] for name in ("psi_cpu_us", "wall_ns", window))
    window_ns = np.where(window_ns > 0, window_ns, wall_ns)
    known = (waited_us != ABSENT) & (window_ns > 0)
    return np.minimum(100.0, quotients(waited_us[known], window_ns[known], 100_000))


def _without_others(table: RunTable, rows: Mask) -> bool:
    """Return whether other processes are known to have used less than `OTHERS` processors during some runs.

    Then tasks that waited were the work's own threads, or those that a quota of a cgroup stopped: PSI counts both (kernel/sched/psi.c).
    """
    names = ("cpu_ticks", "idle_ticks", "trial_cpu_us", "ticks_ns")
    known = rows & np.all([table.fact(name) != ABSENT for name in names], axis=0)
    ticks, idle, own_us, window_ns = (exact_sum(table.fact(name)[known]) for name in names)
    # Each reading is truncated to a tick: the difference of two has a variance of 1 / 6.
    error_ns = TICK_NS * math.sqrt(int(known.sum()) / 3)
    others_ns = TICK_NS * (ticks - idle) - 1000 * own_us
    return window_ns > 0 and others_ns + DEVIATIONS * error_ns < OTHERS * window_ns


def _steal(table: RunTable, rows: Mask) -> float | None:
    stolen, ticks = table.fact("steal_ticks")[rows], table.fact("cpu_ticks")[rows]
    known = (stolen != ABSENT) & (ticks != ABSENT)
    every = exact_sum(ticks[known])
    return 100 * exact_sum(stolen[known]) / every if every else None
