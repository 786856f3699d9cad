# SPDX-License-Identifier: MIT OR Apache-2.0
"""Suite `latency`: how late a thread of the highest priority wakes. docs/latency.md."""

from __future__ import annotations

from swapstone.model import Direction, ImageTool, MachineNeeds, Metric, Quantity, Suite, Workload
from swapstone.workloads.cyclictest import PERCENTILES

INTERVAL_US = 100
CYCLES = 10_000
BINS = 20_000
"""Bins of 1 us. cyclictest prints each of them, so more bins take more time. A run with a latency outside the bins fails."""

_FILE = "/tmp/cyclictest.json"  # noqa: S108 - in a machine of its own


def _command(threads: str) -> str:
    return (
        f"/usr/bin/cyclictest --quiet --mlockall --priority=99 {threads} --interval={INTERVAL_US} --loops={CYCLES} "
        f"--histogram={BINS} --json={_FILE} >/dev/null && cat {_FILE}"
    )


_ONE = _command("--threads=1")
_SEVERAL = _command("--threads={processors} --affinity={list} --distance=0")
"""A thread on each processor, all with the same interval."""

_RESOLUTION_NS = 1000.0
"""cyclictest prints whole microseconds."""


def _latency(name: str, meaning: str, *, leads: bool = False) -> Metric:
    return Metric(
        name=name,
        unit="ns",
        quantity=Quantity.TIME,
        better=Direction.LOWER,
        meaning=meaning,
        leads=leads,
        resolution=0.0 if name == "avg" else _RESOLUTION_NS,
    )


METRICS: tuple[Metric, ...] = (
    _latency("max", "the latest wake-up of a replicate", leads=True),
    _latency("avg", "mean lateness of a wake-up"),
    _latency("min", "the earliest wake-up of a replicate"),
    *(_latency(name, f"{percent:g} % of the wake-ups were no later (nearest rank)") for name, percent in PERCENTILES),
)

CYCLICTEST = Workload(
    name="cyclictest",
    origin=ImageTool(path="/bin/sh", reader="cyclictest", several=("-c", _SEVERAL)),
    arguments=("-c", _ONE),
    description=f"a thread of priority 99 sleeps for {INTERVAL_US} us {CYCLES} times: how late does it wake?",
    metrics=METRICS,
    waits=True,
    timeout_ms=120_000,
    machine=MachineNeeds(parts=("cyclictest",), prepare=("mkdir -p /dev/shm",)),
)

SUITE = Suite(
    name="latency",
    description="how late a thread of the highest priority wakes, by the real cyclictest",
    workloads=(CYCLICTEST,),
)
