# SPDX-License-Identifier: MIT OR Apache-2.0
"""Could the machine keep up with the wake-ups of the suite `latency`? On the virtual clock a slow machine is not one of the causes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from swapstone.core.comparison.findings import wall_clock_caveats
from swapstone.core.comparison.run_table import HISTOGRAM, OK, RunTable
from swapstone.core.model import Caveat, CaveatKind, Experiment

BUSY = 0.5
"""Share of the processors' time that wake-ups may take. On a machine that keeps up with one each 100 us, they take a few per cent."""

_ON_EACH_PROCESSOR = "cyclictest"
_LARGEST = 2**53
"""Larger numbers of a record are no measurements."""


@wall_clock_caveats
def check(_experiment: Experiment, table: RunTable) -> Iterator[Caveat]:
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
