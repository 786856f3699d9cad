# SPDX-License-Identifier: MIT OR Apache-2.0
"""Did all runs have the same conditions, and did time pass in which nothing could run?

Four checks, each of which gives a caveat. Runs whose inherited conditions differ from the first run of their session are refused when
they are measured (docs/wire.md, "Changed conditions"), so the first check finds differences between sessions, and counts those runs.

1. What every trial inherits (`INHERITED`), compared with the first run of the record; where a board boots a kernel for each variant
   (`BOOT_ORDER`), with the first run of that variant, because limits and defaults belong to the kernel.
2. The nice value and the number of processors at the end of a program, compared between all runs of a workload.
3. Elapsed time that is neither processor time nor the main thread's delay on the run queue, compared with the median of the same variant;
   and timers of the agent that woke it too late. A program that sleeps, and one that is stopped, can't be distinguished in one run.
4. CLOCK_REALTIME against CLOCK_BOOTTIME before and after a trial: the clock was set, by a user or by a step of NTP.

A virtual machine has conditions of its own in each trial, and on the virtual clock no time passes outside it.

`overloaded` checks whether the machine could keep up with the wake-ups of the suite `latency`. On the virtual clock a slow machine is not
one of the causes.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator

import numpy as np

from swapstone.core.comparison.rows import wall_clock_caveats
from swapstone.core.comparison.run_table import ABSENT, HISTOGRAM, OK, RunTable, by_number
from swapstone.core.model import BOOT_ORDER, Caveat, CaveatKind, Experiment
from swapstone.core.model.frozen_struct import LARGEST_INTEGER
from swapstone.core.model.observation import INHERITED, describe_conditions, different_conditions
from swapstone.core.stats import Ints, median

STILL_NS = 1_000_000_000
"""Time without any work above this is reported: no queue of a busy machine delays a runnable process so long."""

STILL_RATIO = 10.0
"""It must also be this multiple of the median, as programs may sleep."""

FEWEST_RUNS = 5
"""Fewer runs of a variant have no median to compare with."""

SET_NS = 10_000_000
"""Smaller steps of the clock are not reported: a virtual machine's two clocks may differ by microseconds without one."""

_SMALLEST, _LARGEST = -20, 2**53
"""Smaller and larger numbers of a record are no measurements."""

_OF_PROGRAM = {"nice": "nice value", "cpus_allowed": "number of processors"}
_MOST_SHOWN = 3


@wall_clock_caveats
def check(experiment: Experiment, table: RunTable) -> Iterator[Caveat]:
    """Yield the caveats."""
    yield from _inherited(table, by_variant=experiment.order == BOOT_ORDER)
    for find in (_of_programs, _still, _late, _set):
        yield from find(table)


def _fact(table: RunTable, name: str) -> Ints:
    """Return the column of a fact; `ABSENT` where its value is no measurement."""
    column = table.fact(name)
    return np.where((column >= _SMALLEST) & (column < _LARGEST), column, ABSENT)


def _facts_of(table: RunTable, row: int) -> dict[str, int]:
    found = {name: int(column[row]) for name, column in table.facts.items()}
    return {name: value for name, value in found.items() if _SMALLEST <= value < _LARGEST}


def _inherited(table: RunTable, *, by_variant: bool) -> Iterator[Caveat]:
    columns = [_fact(table, name) for name in INHERITED if name in table.facts]
    known = np.flatnonzero(np.any([column != ABSENT for column in columns], axis=0))
    if not known.size:
        return
    first_of = np.full(known.size, known[0])
    if by_variant:
        for _, mine in by_number(table.label[known]):
            first_of[mine] = known[mine[0]]
    differs = np.any([column[known] != column[first_of] for column in columns], axis=0)
    different = known[differs]
    if different.size:
        row = int(different[0])
        facts, first = _facts_of(table, row), _facts_of(table, int(first_of[differs][0]))
        names = different_conditions(first, facts)
        which = "the first one of their variant" if by_variant else "the first one"
        yield Caveat(
            kind=CaveatKind.CHANGED_CONDITIONS,
            message=f"What trials inherit was not the same in all runs: {different.size} of {known.size} differ from {which}. "
            f"In {_named(table, row)}: {describe_conditions(names, facts, first)}.",
            hint="A program that changes its parent did this, or another program, the system's settings, or a session that was resumed "
            "elsewhere. Repeat the experiment under constant conditions: swapstone rerun",
        )


def _of_programs(table: RunTable) -> Iterator[Caveat]:
    """Yield differences between the processes of one workload at their ends."""
    for fact, words in _OF_PROGRAM.items():
        column = _fact(table, fact)
        measured = np.flatnonzero((table.status == OK) & (column != ABSENT))
        unequal = [
            (table.groups[group], measured[rows])
            for group, rows in by_number(table.group[measured])
            if (column[measured[rows]] != column[measured[rows[0]]]).any()
        ]
        if unequal:
            group, rows = unequal[0]
            counts = {
                table.places[place][3]: collections.Counter(column[rows[mine]].tolist())
                for place, mine in by_number(table.place[rows])
            }
            values = ", ".join(
                f"{' or '.join(str(value) for value, _ in each.most_common())} ({variant})"
                for variant, each in list(counts.items())[:_MOST_SHOWN]
            )
            others = f", and {len(unequal) - 1} more workloads" if len(unequal) > 1 else ""
            yield Caveat(
                kind=CaveatKind.CHANGED_CONDITIONS,
                message=f"Runs of {group[1]}{others} ended with different values of the {words}: {values}.",
                hint="If a program or its command sets this, the comparison includes its effect.",
            )


def _still(table: RunTable) -> Iterator[Caveat]:
    """Yield runs in which much more time passed without work than in others of the same variant."""
    columns = [_fact(table, name) for name in ("wall_ns", "user_us", "system_us", "run_delay_ns")]
    measured = np.flatnonzero((table.status == OK) & np.all([column != ABSENT for column in columns], axis=0))
    idle_ns = _idle_ns(*(column[measured] for column in columns))
    found: list[tuple[int, float, int]] = []
    for _, mine in by_number(table.place[measured]):
        if mine.size >= FEWEST_RUNS:
            usual = median(idle_ns[mine])
            longer = mine[idle_ns[mine] > max(usual + STILL_NS, STILL_RATIO * usual)]
            found += [(int(idle_ns[each]), usual, int(measured[each])) for each in longer.tolist()]
    if found:
        time_ns, usual, row = max(found, key=lambda each: each[0])
        yield Caveat(
            kind=CaveatKind.CHANGED_CONDITIONS,
            message=f"In {_runs(len(found))} a program did not run, and its main thread did not wait for a processor, for much longer than "
            f"usual: in {_named(table, row)} for {time_ns / 1e9:.3g} s, at the median for {usual / 1e9:.3g} s.",
            hint="It may have been stopped or frozen from outside, or have waited for storage or for the network, or its other threads for "
            "a processor. Such runs change the mean and the tail.",
        )


def _late(table: RunTable) -> Iterator[Caveat]:
    column = _fact(table, "late_ns")
    found = np.flatnonzero(column >= STILL_NS)
    if found.size:
        row = int(found[np.argmax(column[found])])
        late_ns = int(column[row])
        yield Caveat(
            kind=CaveatKind.CHANGED_CONDITIONS,
            message=f"In {_runs(found.size)} a timer woke the agent more than a second too late: in "
            f"{_named(table, row)} {late_ns / 1e9:.3g} s.",
            hint="All processes or the machine stood still, or memory was short. Repeat the experiment on a machine that is not paused.",
        )


def _set(table: RunTable) -> Iterator[Caveat]:
    column = table.fact("clock_step_ns")
    steps = np.where(column == ABSENT, 0, np.abs(np.maximum(column, -LARGEST_INTEGER)))
    found = np.flatnonzero(steps >= SET_NS)
    if found.size:
        row = int(found[np.argmax(steps[found])])
        way = "forward" if column[row] > 0 else "back"
        yield Caveat(
            kind=CaveatKind.CHANGED_CONDITIONS,
            message=f"The clock of the machine was set during {_runs(found.size)}, as NTP does: in {_named(table, row)} by "
            f"{int(steps[row]) / 1e9:.3g} s {way}. Durations are of CLOCK_MONOTONIC, which that does not change.",
            hint="A program that reads the time of day (CLOCK_REALTIME) may have done other work. Stop the time synchronization during "
            "experiments, e.g.: systemctl stop systemd-timesyncd",
        )


def _idle_ns(wall_ns: Ints, user_us: Ints, system_us: Ints, delay_ns: Ints) -> Ints:
    """Return the elapsed time that is neither processor time nor the main thread's run-queue delay."""
    # No number here exceeds 2 ** 53; processor times of more than 2 ** 52 us exceed every elapsed time.
    used_us = np.minimum(user_us + system_us, 2**52)
    idle_ns: Ints = np.maximum(0, wall_ns - (1000 * used_us + delay_ns))
    return idle_ns


def _runs(count: int) -> str:
    return "one run" if count == 1 else f"{count} runs"


def _named(table: RunTable, row: int) -> str:
    trial = table.trial(row)
    return f"block {trial.block} of {trial.workload} with {trial.variant}"


BUSY = 0.5
"""Share of the processors' time that wake-ups may take. On a machine that keeps up with one each 100 us, they take a few per cent."""

_ON_EACH_PROCESSOR = "cyclictest"


@wall_clock_caveats
def overloaded(_experiment: Experiment, table: RunTable) -> Iterator[Caveat]:
    """Yield the caveat."""
    wall_ns, user_us, system_us, cpus = (table.fact(name) for name in ("wall_ns", "user_us", "system_us", "agent_cpus"))
    measured = np.all([(column >= 0) & (column < _LARGEST) for column in (wall_ns, user_us, system_us)], axis=0)
    rows = np.flatnonzero((table.status == OK) & (table.extras & HISTOGRAM != 0) & (wall_ns > 0) & measured)
    if not rows.size:
        return
    several = np.array([place[1] == _ON_EACH_PROCESSOR for place in table.places])[table.place[rows]]
    threads = np.where(several, np.maximum(cpus[rows], 1), 1)
    shares = 1000.0 * (user_us[rows] + system_us[rows]) / wall_ns[rows] / threads
    busy = int((shares > BUSY).sum())
    if not busy:
        return
    yield Caveat(
        kind=CaveatKind.CHANGED_CONDITIONS,
        message=f"The machine can hardly keep up with the wake-ups: in {busy} of {rows.size} runs of the suite latency they took more than "
        f"half of the processors' time, up to {min(100.0, 100 * shares.max()):.0f} %. Other programs wait meanwhile, and the kernel "
        "pauses threads of a real-time priority that take it all (sched_rt_runtime_us): the latencies contain that.",
        hint="They describe an overloaded machine, as an emulated board is one. Measure on a faster one.",
    )
