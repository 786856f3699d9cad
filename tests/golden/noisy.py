# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records of every registered suite, made beside other programs, with real analyses. Their numbers are synthetic, not measured.

Blocks drift, bursts slow single runs, and many rows are undecided. Each metric has an effect of its own, so elapsed time has another one
than CPU time.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from swapstone.core import plan
from swapstone.core.factors import find_factor
from swapstone.core.model import (
    CURRENT_RULES,
    NO_NUMBERS,
    REPORT_CORRECTION,
    Analysis,
    Experiment,
    FactorLevels,
    Metric,
    Run,
    Sample,
    Status,
    Trial,
    Workload,
)
from swapstone.core.record import Meta, RecordView
from swapstone.core.report.context import ReportContext
from swapstone.core.report.topics.output_parts import NAME as OUTPUTS
from swapstone.core.report.topics.output_parts import OutputPart, PartOfSide
from swapstone.core.session.analysis import analyse_record
from swapstone.core.session.report_context import context_of
from swapstone.core.workloads import all_suites
from swapstone.parts.published.data import measured_rows
from swapstone.parts.vm.report.swap import COLUMNS

BLOCKS = 8
_LEVELS = {
    "kernel": ("generic", "rt"),
    "link": ("clean", "loss:1%"),
    "netstack": ("kernel", "lwip"),
    "swap": ("flash", "zram:lz4", "zram:zstd"),
}
"""Of factors whose first two levels say little."""
_MORE = (
    ("libc", "os"),
    ("kernel", "throughput"),
    ("kernel", "unix"),
    ("libc allocator", "server"),
    ("netstack", "netstack-counts"),
    ("netstack link", "netstack-link"),
)
"""Pairs (factors, suite) beside those that the suites name."""
_PUBLISHED = {
    "libc": "musl-vs-glibc",
    "kernel": "preempt-rt",
    "float": "float-abi",
    "swap": "zram-vs-flash",
    "libc allocator": "musl-malloc",
    "netstack": "lwip-vs-smoltcp",
}
_LOADS = {"latency": ("idle", "cyclictest")}
"""Of a suite whose values under two loads are compared."""
_KEPT = {"bandwidth", "cpu", "res", "minflt", "wall"}
"""Metrics of programs with elapsed time: one of each quantity."""
_OF_SERVERS = {"cpu_per_request", "latency_p50", "latency_p99", "minflt_per_request", "peak", "requests"}
_MOST = {"os": 12, "throughput": 12, "unix": 12}
_OTHERS, _CROSSED = 4, 2
"""Workloads of another suite, and where factors are crossed."""
_SUBTRACTED = {row.less for row in measured_rows()}
"""Workloads whose time is subtracted from another one's: theirs is short."""
_FACTS = (
    ("board_temperature_before", 50_000),
    ("board_temperature_after", 51_000),
    ("psi_cpu_us", 6_000),
    ("wall_ns", 10**7),
    ("user_us", 1_000),
    ("system_us", 100),
    ("run_delay_ns", 3 * 10**6),
)
"""Of a trial beside programs that compute."""


def places() -> Iterator[tuple[str, str]]:
    """Yield pairs (factors, suite): every suite with the first factor that it names, or with the C library."""
    named = (((*suite.factors, *suite.factors_unbooted, "libc")[0], suite.name) for suite in all_suites())
    yield from dict.fromkeys((*named, *_MORE))


def _value(trial: Trial, metric: Metric) -> float:
    """Return a value: each variant has its own, blocks drift, a burst slows single runs, and the noise depends on the workload."""
    of_work, own = random.Random(f"{trial.workload} {metric.name}"), random.Random(f"{trial.key} {metric.name}")
    base, noise = of_work.uniform(14.0, 17.0), of_work.choice((0.003, 0.03, 0.2))
    base -= 3.0 * (trial.workload in _SUBTRACTED)
    effect = random.Random(f"{trial.variant.partition(' (')[0]} {trial.workload} {metric.name}").gauss(0, 0.3)
    drift = 0.4 * math.sin(trial.block + len(trial.workload)) + (0.7 if trial.load != "idle" else 0.0)
    burst = own.uniform(0.5, 2.0) if metric.name == "wall" and own.random() < 0.3 else 0.0
    return float(round(math.exp(base + effect + drift + burst + own.gauss(0, noise))))


def _kept(metrics: Sequence[Metric]) -> list[Metric]:
    names = {metric.name for metric in metrics}
    kept = _KEPT if "wall" in names else _OF_SERVERS if "requests" in names else names
    return [metric for metric in metrics if metric.name in kept]


def _run(trial: Trial, work: Workload) -> Run:
    samples = tuple(Sample(metric=metric.name, values=(_value(trial, metric),)) for metric in _kept(work.metrics))
    longest = next((round(each.values[0] / 1e3) for each in samples if each.metric == "max"), 0)
    columns = {"at_ns": (1e9, 2e9, 3e9), **dict.fromkeys(COLUMNS, (10.0, 20.0, 30.0))}
    if trial.suite == "core" and (trial.block, trial.variant) == (3, "libc=musl"):
        return Run(trial=trial, status=Status.FAILED, reason="exit status 1")
    return Run(
        trial=trial,
        status=Status.OK,
        samples=samples,
        facts=_FACTS,
        started_unix_ns=1_795_257_600_000_000_000 + trial.block * 10**10 + trial.position * 10**7,
        elapsed_ns=10**7,
        histogram=((20, 20_000), (longest // 2 + 30, 3), (longest + 50, 1)) if trial.suite == "latency" else (),
        series=tuple(Sample(metric=name, values=values) for name, values in columns.items())
        if trial.suite == "swap"
        else (),
    )


def _factor(name: str) -> FactorLevels:
    levels = _LEVELS.get(name) or tuple(level.name for level in find_factor(name).levels[:2])
    return FactorLevels(factor=name, levels=levels)


@functools.cache
def record(factors: str, suite: str) -> tuple[ReportContext, Analysis]:
    """Return the context and the analysis of a record: some rows can't be compared, the others are as the runs have them."""
    (found,) = (each for each in all_suites() if each.name == suite)
    most = _MOST.get(suite, _OTHERS) if len(factors.split()) == 1 else _CROSSED
    asked = Experiment(
        name=f"{suite}, {factors}",
        factors=tuple(map(_factor, factors.split())),
        workloads=tuple((suite, work.name) for work in found.workloads[:most]),
        loads=_LOADS.get(suite, ("idle",)),
        budget_ns=60_000_000_000,
        margin=0.02,
        confidence=0.95,
        seed=7,
        published=_PUBLISHED.get(factors, ""),
        null=suite == "core",
        layouts=4 * (suite == "libc-extra"),
        rules=CURRENT_RULES,
        correction=REPORT_CORRECTION,
    )
    works, groups = {work.name: work for work in found.workloads}, plan.groups(asked)
    trials = itertools.chain.from_iterable(plan.block(asked, block, groups) for block in range(BLOCKS + 1))
    runs = [_run(trial, works[trial.workload]) for trial in trials]
    meta = Meta(id="20261121-104000-abcd", created="2026-11-21T10:40:00Z", swapstone="0.2.0")
    view = RecordView(Path("noisy"), meta, asked, None, runs, (), None, "")
    analysis = analyse_record(view)
    kept = [row for row in analysis.comparisons if row.metric in _kept(works[row.workload].metrics)]
    rows = (
        msgspec.structs.replace(row, verdict=NO_NUMBERS[place % 2], reason="it needs a processor")
        if place % 7 == 3
        else row
        for place, row in enumerate(kept)
    )
    context = context_of(view)
    # No program printed anything: its output is made up.
    side = PartOfSide(runs=8, values=1, common=8, shown="7", other="")
    part = OutputPart(
        workload="w", variant="v", output="stdout", line="#", place=1, baseline=side, candidate=side, other_runs=0
    )
    context = msgspec.structs.replace(context, seal_digest="5e" * 32, pieces={**context.pieces, OUTPUTS: (part,)})
    return context, msgspec.structs.replace(analysis, comparisons=tuple(rows))
