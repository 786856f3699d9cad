# SPDX-License-Identifier: MIT OR Apache-2.0
"""A server experiment with synthetic runs and a real analysis: two C libraries by three allocators, one unavailable with musl."""

from __future__ import annotations

import functools
import itertools
import math
import random

from swapstone.core import plan
from swapstone.core.comparison.analyse_runs import analyse
from swapstone.core.model import Analysis, Experiment, FactorLevels, Run, Sample, Status, Trial, Variant
from swapstone.core.report.context import ReportContext
from swapstone.core.workloads import find_workload
from swapstone.core.workloads.server_metrics import closed_loop_notes

WORKLOADS = ("http(c=1,t=1)", "http(c=10,t=1)", "http(c=250,t=cores)", "http(paced)")
LIBCS, ALLOCATORS = ("glibc", "musl"), ("default", "mimalloc", "tcmalloc")
REASON = "tcmalloc does not compile with musl-gcc"
BLOCKS = 12
# (libc, allocator): microseconds of a request, faults, waits, MiB
LEVELS = {
    ("glibc", "default"): (20.0, 0.02, 0.5, 3.0),
    ("glibc", "mimalloc"): (21.0, 0.02, 0.5, 5.0),
    ("glibc", "tcmalloc"): (20.4, 0.03, 0.5, 9.0),
    ("musl", "default"): (240.0, 64.0, 5.5, 1.0),
    ("musl", "mimalloc"): (21.5, 0.02, 0.5, 4.0),
}


def experiment() -> Experiment:
    """Return the experiment."""
    return Experiment(
        name="musl-malloc/one-thread",
        factors=(FactorLevels(factor="libc", levels=LIBCS), FactorLevels(factor="allocator", levels=ALLOCATORS)),
        workloads=tuple(("server", name) for name in WORKLOADS),
        budget_ns=300_000_000_000,
        margin=0.1,
        confidence=0.95,
        seed=7,
        published="musl-malloc",
    )


def _run(trial: Trial, variant: Variant) -> Run | None:
    key = (variant.level("libc"), variant.level("allocator"))
    if key not in LEVELS:
        return Run(trial=trial, status=Status.UNAVAILABLE, reason=REASON) if trial.block == 1 else None
    took, faults, waits, size = LEVELS[key]
    noise = math.exp(random.Random(trial.key).gauss(0, 0.01))
    rate = 1e6 / took * noise
    values = {
        "requests": round(rate, 2),
        "cpu_per_request": round(took * 900 / noise),
        "latency_p50": round(10_000 * took / noise),
        "latency_p99": round(30_000 * took / noise),
        "minflt_per_request": faults,
        "nvcsw_per_request": waits,
        "peak": size * (1 << 20),
    }
    samples = tuple(Sample(metric=name, values=(float(value),)) for name, value in values.items())
    return Run(
        trial=trial,
        status=Status.OK,
        samples=samples,
        observed=variant.levels,
        facts=(("pid", 1),),
        elapsed_ns=1_400_000_000,
    )


@functools.cache
def analysis() -> Analysis:
    """Return the analysis of its runs."""
    subject = experiment()
    variants = {variant.label: variant for variant in plan.variants(subject)}
    blocks = (plan.block(subject, block, plan.groups(subject)) for block in range(BLOCKS + 1))
    made = (_run(trial, variants[trial.variant]) for trial in itertools.chain.from_iterable(blocks))
    works = {name: find_workload("server", name) for name in WORKLOADS}
    return analyse(subject, tuple(variants.values()), works, [run for run in made if run is not None])


def context(published: str = "musl-malloc") -> ReportContext:
    """Return the report context of the analysis."""
    return ReportContext(
        experiment=experiment(),
        record_id="20261121-120000-5e12e5",
        record_path="records/20261121-120000-musl-malloc/one-thread",
        started_unix_ns=1_795_262_400_000_000_000,
        finished_unix_ns=1_795_262_700_000_000_000,
        published=published,
        notes=closed_loop_notes(("wrk",)),
        rerun="swapstone rerun 20261121-120000-5e12e5",
        version="0.1.0",
        workloads=tuple(("server", find_workload("server", name)) for name in WORKLOADS),
    )
