# SPDX-License-Identifier: MIT OR Apache-2.0
"""A latency experiment with synthetic histograms and a real analysis: two kernels, four loads, one of which delays both kernels."""

from __future__ import annotations

import functools
import random

from swapstone.core import plan
from swapstone.core.comparison.analyse_runs import analyse
from swapstone.core.model import (
    Analysis,
    Direction,
    Experiment,
    FactorLevels,
    Metric,
    Quantity,
    Run,
    Sample,
    Source,
    Status,
    Trial,
    Workload,
)
from swapstone.core.report.context import ReportContext

METRICS = tuple(
    Metric(name=name, unit="ns", quantity=Quantity.TIME, better=Direction.LOWER, meaning=meaning)
    for name, meaning in (("max", "longest latency of a wake-up"), ("avg", "mean latency"), ("p99", "99 % are shorter"))
)
BLOCKS = 4
# (load, kernel): the shortest latency in us, how fast the tail falls off, the worst cases of the four replicates in us
SHAPES: dict[tuple[str, str], tuple[int, float, tuple[int, int, int, int]]] = {
    ("idle", "generic"): (3, 0.9, (58, 61, 44, 70)),
    ("idle", "rt"): (3, 0.7, (6, 6, 5, 8)),
    ("cpu", "generic"): (4, 1.6, (212, 180, 199, 240)),
    ("cpu", "rt"): (4, 0.8, (9, 10, 9, 12)),
    ("io", "generic"): (5, 2.5, (3738, 3702, 1200, 2950)),
    ("io", "rt"): (4, 1.1, (18, 22, 16, 31)),
    ("planted", "generic"): (3, 1.2, (2061, 2058, 2044, 2077)),
    ("planted", "rt"): (3, 0.8, (2004, 2006, 2003, 2005)),
}
LOADS = tuple(dict.fromkeys(load for load, _ in SHAPES))


def experiment(*, published: str = "preempt-rt", clock: str = "virtual") -> Experiment:
    """Return the experiment."""
    return Experiment(
        name="preempt-rt",
        factors=(FactorLevels(factor="kernel", levels=("generic", "rt")),),
        workloads=(("latency", "cyclictest"),),
        loads=LOADS,
        target="vm",
        clock=clock,
        budget_ns=360_000_000_000,
        margin=0.02,
        confidence=0.95,
        seed=7,
        blocks=BLOCKS,
        published=published,
    )


def _histogram(trial: Trial, shape: tuple[int, float, tuple[int, ...]], worst: int) -> tuple[tuple[int, int], ...]:
    rng = random.Random(trial.key)
    counts: dict[int, int] = {worst: 1}
    for _ in range(5000):
        latency = min(worst - 1, shape[0] + int(rng.expovariate(1 / shape[1])))
        counts[latency] = counts.get(latency, 0) + 1
    # A few latencies up to the worst case, for an uneven tail.
    for _ in range(6 if worst < 1000 else 3):
        latency = round(shape[0] * (worst / shape[0]) ** rng.random())
        counts[latency] = counts.get(latency, 0) + 1
    return tuple(sorted(counts.items()))


def run(trial: Trial) -> Run:
    """Return the run of a trial."""
    shape = SHAPES[trial.load, trial.variant.removeprefix("kernel=")]
    worst = shape[2][(trial.block - 1) % BLOCKS]
    histogram = _histogram(trial, shape, worst)
    taken = sum(count for _, count in histogram)
    average = sum((edge + 0.5) * count for edge, count in histogram) / taken
    samples = (
        Sample(metric="max", values=(worst * 1000.0,)),
        Sample(metric="avg", values=(float(round(average * 1000)),)),
        Sample(metric="p99", values=(float(shape[0] + 2) * 1000.0,)),
    )
    return Run(trial=trial, status=Status.OK, samples=samples, histogram=histogram)


@functools.cache
def analysis() -> Analysis:
    """Return the analysis of its runs."""
    asked = experiment()
    workload = Workload(name="cyclictest", origin=Source(file="x.c"), description="wake-ups", metrics=METRICS)
    groups = plan.groups(asked)
    runs = [run(trial) for block in range(BLOCKS + 1) for trial in plan.block(asked, block, groups)]
    return analyse(asked, plan.variants(asked), {"cyclictest": workload}, runs)


def context(*, published: str = "preempt-rt") -> ReportContext:
    """Return the report context of the analysis."""
    return ReportContext(
        experiment=experiment(published=published),
        record_id="20261121-120000-cafe",
        record_path="records/20261121-120000-cafe",
        started_unix_ns=1_795_257_600_000_000_000,
        finished_unix_ns=1_795_257_960_000_000_000,
        rerun="swapstone rerun records/20261121-120000-cafe",
        published=published,
        version="0.1.0",
    )
