# SPDX-License-Identifier: MIT OR Apache-2.0
"""A crossed experiment with synthetic runs and a real analysis: two C libraries by three allocators, one unavailable with musl."""

from __future__ import annotations

import functools
import math
import random

from tests.golden import synthetic

from swapstone.core import plan
from swapstone.core.comparison.analyse_runs import analyse
from swapstone.core.model import (
    Analysis,
    Experiment,
    FactorLevels,
    Run,
    Sample,
    Source,
    Status,
    Trial,
    Variant,
    Workload,
)
from swapstone.core.report.context import ReportContext

# name, baseline ns, musl's ratio with each allocator, each allocator's ratio on glibc
WORKLOADS: tuple[tuple[str, float, tuple[float, float], tuple[float, float, float]], ...] = (
    ("b_malloc_sparse", 66.2e6, (1.17, 1.02), (1.0, 0.91, 1.05)),
    ("b_malloc_bubble", 63.1e6, (1.21, 1.03), (1.0, 0.88, 0.93)),
    ("b_malloc_tiny1", 2.1e6, (1.62, 1.01), (1.0, 0.74, 0.81)),
    ("b_malloc_tiny2", 2.9e6, (1.55, 1.02), (1.0, 0.78, 0.86)),
    ("b_malloc_big1", 14.2e6, (2.91, 1.08), (1.0, 1.30, 1.12)),
    ("b_malloc_big2", 15.0e6, (2.60, 0.97), (1.0, 1.27, 1.09)),
    ("b_malloc_thread_stress", 31.5e6, (6.37, 1.06), (1.0, 0.52, 0.66)),
    ("b_malloc_thread_local", 30.1e6, (1.003, 1.004), (1.0, 0.98, 1.0)),
)
LIBCS, ALLOCATORS = ("glibc", "musl"), ("default", "mimalloc", "tcmalloc")
REASON = "tcmalloc does not compile with musl-gcc"
BLOCKS = 20


def experiment() -> Experiment:
    """Return the experiment."""
    return Experiment(
        name="compare",
        factors=(FactorLevels(factor="libc", levels=LIBCS), FactorLevels(factor="allocator", levels=ALLOCATORS)),
        workloads=tuple(("libc", row[0]) for row in WORKLOADS),
        budget_ns=360_000_000_000,
        margin=0.02,
        confidence=0.95,
        seed=7,
    )


def _ratio(row: tuple[str, float, tuple[float, float], tuple[float, float, float]], libc: str, allocator: str) -> float:
    place = ALLOCATORS.index(allocator)
    return row[3][place] * (row[2][place] if libc == "musl" else 1.0)


def _run(trial: Trial, variant: Variant, drift: float) -> Run | None:
    libc, allocator = variant.level("libc"), variant.level("allocator")
    if (libc, allocator) == ("musl", "tcmalloc"):
        return Run(trial=trial, status=Status.UNAVAILABLE, reason=REASON) if trial.block == 1 else None
    row = next(row for row in WORKLOADS if row[0] == trial.workload)
    rng = random.Random(trial.key)
    wall = row[1] * _ratio(row, libc, allocator) * math.exp(drift + rng.gauss(0, 0.008))
    kib = {"default": 39_000, "mimalloc": 64_000, "tcmalloc": 52_000}[allocator] // (4 if libc == "musl" else 1)
    samples = (
        Sample(metric="wall", values=(float(round(wall)),)),
        Sample(metric="cpu", values=(float(round(wall * 0.98)),)),
        Sample(metric="res", values=(kib * 1024.0,)),
        Sample(metric="minflt", values=(0.0 if libc == "glibc" else 3.0,)),
    )
    return Run(trial=trial, status=Status.OK, samples=samples)


@functools.cache
def analysis() -> Analysis:
    """Return the analysis of its runs."""
    asked = experiment()
    variants = {variant.label: variant for variant in plan.variants(asked)}
    metrics = (synthetic.WALL, synthetic.CPU, synthetic.RES, synthetic.MINFLT)
    workloads = {
        row[0]: Workload(name=row[0], origin=Source(file="x.c"), description="x", metrics=metrics) for row in WORKLOADS
    }
    runs = []
    for block in range(BLOCKS + 1):
        drift = random.Random(block).gauss(0, 0.05)
        made = (_run(trial, variants[trial.variant], drift) for trial in plan.block(asked, block, plan.groups(asked)))
        runs += [run for run in made if run is not None]
    return analyse(asked, tuple(variants.values()), workloads, runs)


def context() -> ReportContext:
    """Return the report context of the analysis."""
    return ReportContext(
        experiment=experiment(),
        record_id="20261121-110000-beef",
        record_path="records/20261121-110000-beef",
        started_unix_ns=1_795_257_600_000_000_000,
        finished_unix_ns=1_795_257_960_000_000_000,
        rerun="swapstone rerun records/20261121-110000-beef",
        version="0.1.0",
    )
