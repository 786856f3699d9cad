# SPDX-License-Identifier: MIT OR Apache-2.0
"""A bench on which tests lay out runs with known numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from swapstone.core import plan
from swapstone.core.comparison.analyse_runs import analyse, precision
from swapstone.core.comparison.caveats import caveats_of
from swapstone.core.comparison.rows import Row, SizeValues
from swapstone.core.comparison.run_table import as_table
from swapstone.core.model import (
    FAMILY_CORRECTION,
    WALL_CLOCK,
    Analysis,
    Caveat,
    CaveatKind,
    Comparison,
    Cpus,
    Direction,
    Experiment,
    FactorLevels,
    Metric,
    Noise,
    OwnProgram,
    Quantity,
    Run,
    Sample,
    Source,
    Status,
    Trial,
    Workload,
    WorkloadPrecision,
)


def metric(name: str, quantity: Quantity, better: Direction, unit: str, *, leads: bool = False) -> Metric:
    return Metric(name=name, unit=unit, quantity=quantity, better=better, meaning=name, leads=leads)


METRICS = {
    m.name: m
    for m in (
        metric("wall", Quantity.TIME, Direction.LOWER, "ns"),
        metric("cpu", Quantity.TIME, Direction.LOWER, "ns", leads=True),
        metric("res", Quantity.MEMORY, Direction.LOWER, "B"),
        metric("rate", Quantity.RATE, Direction.HIGHER, "1/s"),
        metric("nivcsw", Quantity.EVENTS, Direction.NEITHER, "1"),
    )
}

QUIET = Noise(cpu_pressure_percent=None, cpu_pressure_max_percent=None, steal_percent=None, load1=None, busy=False)


def caveats(
    kind: CaveatKind,
    experiment: Experiment,
    rows: Sequence[Row] = (),
    comparisons: Sequence[Comparison] = (),
    *,
    runs: Sequence[Run] = (),
    noise: Noise = QUIET,
    needed: int = 0,
) -> list[Caveat]:
    """Return the caveats of one kind."""
    every = caveats_of(experiment, as_table(runs), rows, comparisons, noise, needed=needed)
    return [each for each in every if each.kind is kind]


BASE, CANDIDATE, AGAIN, RELINKED = "libc=glibc", "libc=musl", "libc=glibc (again)", "libc=glibc (relinked)"


@dataclasses.dataclass
class Bench:
    """An experiment with its runs, to be changed by a test and then analysed."""

    workloads: dict[str, Workload] = dataclasses.field(default_factory=dict)
    runs: list[Run] = dataclasses.field(default_factory=list)
    levels: tuple[str, ...] = ("glibc", "musl")
    loads: tuple[str, ...] = ("idle",)
    null: bool = False
    layouts: int = 0
    margin: float = 0.02
    confidence: float = 0.95
    rules: int = 1
    correction: str = FAMILY_CORRECTION
    own: bool = False
    run_s: float = 0.0
    clock: str = WALL_CLOCK
    facts: tuple[tuple[str, int], ...] = ()
    failures_count: bool = False

    def workload(self, name: str, *names: str, waits: bool = False, cpus: Cpus = Cpus.ONE) -> None:
        self.workloads[name] = Workload(
            name=name,
            origin=Source(file="x.c"),
            description="x",
            metrics=tuple(METRICS[n] for n in names),
            waits=waits,
            cpus=cpus,
        )

    def run(
        self, workload: str, variant: str, block: int, status: Status = Status.OK, load: str = "idle", **values: float
    ) -> None:
        self.runs.append(
            Run(
                trial=Trial(suite="s", workload=workload, load=load, variant=variant, block=block, position=0),
                status=status,
                reason="" if status is Status.OK else f"reason {status.value}",
                samples=tuple(Sample(metric=name, values=(value,)) for name, value in values.items()),
                facts=self.facts,
                started_unix_ns=round(1e18 + len(self.runs) * self.run_s * 1e9) if self.run_s else 0,
                elapsed_ns=round(self.run_s * 1e9),
            )
        )

    def pairs(
        self, workload: str, name: str, before: Sequence[float], after: Sequence[float], candidate: str = CANDIDATE
    ) -> None:
        """Lay out one metric of one workload, from block 1 on, with a wild warm-up."""
        if workload not in self.workloads:
            self.workload(workload, name)
        for variant, values in ((BASE, before), (candidate, after)):
            self.run(workload, variant, 0, Status.OK, "idle", **{name: 1e9})
            for block, value in enumerate(values, start=1):
                self.run(workload, variant, block, Status.OK, "idle", **{name: float(value)})

    def noisy(
        self, workload: str, ratio: float, n: int, *, name: str = "wall", seed: int = 0, spread: float = 0.01
    ) -> None:
        random = np.random.default_rng(seed)
        level = 1000 * np.exp(random.normal(0, 0.3, n))  # a drift that both sides share
        before, after = (level * np.exp(random.normal(0, spread, n)) for _ in range(2))
        self.pairs(workload, name, list(before), list(after * ratio))

    @property
    def experiment(self) -> Experiment:
        return Experiment(
            name="compare",
            factors=(FactorLevels(factor="libc", levels=self.levels),),
            workloads=tuple(("s", name) for name in self.workloads),
            loads=self.loads,
            budget_ns=10**12,
            margin=self.margin,
            confidence=self.confidence,
            seed=1,
            null=self.null,
            layouts=self.layouts,
            rules=self.rules,
            correction=self.correction,
            clock=self.clock,
            own=OwnProgram(name="w", arguments=("w",)) if self.own else None,
            failures_count=self.failures_count,
        )

    def analysis(self, sizes: SizeValues | None = None) -> Analysis:
        experiment = self.experiment
        return analyse(experiment, plan.variants(experiment), self.workloads, self.runs, sizes=sizes)

    def precision(self) -> dict[tuple[str, str, str], WorkloadPrecision]:
        experiment = self.experiment
        return precision(experiment, plan.variants(experiment), self.workloads, self.runs)

    def row(self, workload: str, name: str, candidate: str = CANDIDATE) -> Comparison:
        """Return the one comparison of a workload, a metric and a candidate."""
        wanted = (workload, name, candidate)
        (found,) = [c for c in self.analysis().comparisons if (c.workload, c.metric.name, c.candidate.label) == wanted]
        return found


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def new_bench() -> Callable[[], Bench]:
    return Bench
