# SPDX-License-Identifier: MIT OR Apache-2.0
"""Simulated experiments in which a run's time depends on the variants that ran before it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from swapstone.core import plan
from swapstone.core.comparison.analyse_runs import analyse
from swapstone.core.model import (
    CURRENT_RULES,
    REPORT_CORRECTION,
    Analysis,
    Comparison,
    Experiment,
    FactorLevels,
    Run,
    Sample,
    Status,
)
from swapstone.core.session.precision_stop import PrecisionStop
from swapstone.core.workloads import workloads_by_name

LEVELS = ("glibc", "musl", "a", "b", "c")
RUN_NS = 100_000_000
BUDGET_NS = 60 * 10**9
MARGIN = 0.02


@dataclasses.dataclass(frozen=True)
class Machine:
    """What determines the time of a run, all as logarithms.

    Attributes:
        noise: standard deviation, independent from run to run.
        effects: of each variant, the baseline first.
        carried: `carried(mine, earlier)`: what the earlier runs leave for a run of a variant; variants are numbers, the latest run first.
        drift: growth from run to run.
        bursts: probability that a disturbance of 10 standard deviations begins, which lasts 1 to 6 runs.
        autocorrelation: of a second disturbance as large as the noise, from run to run.
        position: added for each place before the last in a block, for all variants.
    """

    noise: float
    effects: tuple[float, ...] = (0.0, 0.0)
    carried: Callable[[int, Sequence[int]], float] = lambda _mine, _earlier: 0.0
    drift: float = 0.0
    bursts: float = 0.0
    autocorrelation: float = 0.0
    position: float = 0.0


def left_by_baseline(size: float, runs: int = 1) -> Callable[[int, Sequence[int]], float]:
    """Return a carry-over: the baseline slows the next `runs` runs of the other variants."""
    return lambda mine, earlier: size if mine and 0 in earlier[:runs] else 0.0


def left_by_all(size: float) -> Callable[[int, Sequence[int]], float]:
    """Return a symmetric carry-over: each run slows the next one, if that is of another variant."""
    return lambda mine, earlier: size if earlier and earlier[0] != mine else 0.0


def experiment_on(machine: Machine, seed: int, **changes: object) -> Experiment:
    """Return an experiment with one workload and as many variants as the machine has effects."""
    factors = (FactorLevels(factor="libc", levels=LEVELS[: len(machine.effects)]),)
    fields: dict[str, object] = {
        "name": "compare",
        "factors": factors,
        "workloads": (("libc", "b_malloc_tiny1"),),
        "seed": seed,
        "rules": CURRENT_RULES,
        "correction": REPORT_CORRECTION,
        "margin": MARGIN,
        "confidence": 0.99,
        "budget_ns": BUDGET_NS,
        "prime_more": True,
        **changes,
    }
    return Experiment(**fields)  # type: ignore[arg-type] # the analysis rejects a wrong field


def simulated(machine: Machine, experiment: Experiment) -> tuple[list[Run], list[str]]:
    """Run an experiment to its end under its own stopping rule; return the runs, and the notes."""
    random = np.random.default_rng(experiment.seed)
    notes: list[str] = []
    stop = PrecisionStop(experiment, notes.append)
    labels = [variant.label for variant in plan.variants(experiment)]
    runs: list[Run] = []
    earlier: list[int] = []
    slow, burst, used_ns, block = 0.0, 0, 0, 0
    still_open = plan.groups(experiment)
    discarded: Mapping[tuple[str, str, str], int] = {}
    while True:
        block_ns = 0
        for trial in plan.block(experiment, block, still_open, discarded):
            mine = labels.index(trial.variant)
            slow = machine.autocorrelation * slow + random.normal(0, machine.noise)
            burst = burst - 1 if burst > 0 else int(random.integers(1, 7)) * int(random.random() < machine.bursts)
            logarithm = (
                machine.effects[mine]
                + random.normal(0, machine.noise)
                + (slow if machine.autocorrelation else 0.0)
                + (10 * machine.noise if burst else 0.0)
                + machine.drift * len(runs)
                + machine.carried(mine, earlier)
                + machine.position * (len(labels) * (1 + discarded.get(still_open[0], 0)) - 1 - trial.position)
            )
            value = 1e6 * float(np.exp(logarithm))
            samples = (Sample(metric="wall", values=(value,)), Sample(metric="cpu", values=(value,)))
            runs.append(Run(trial=trial, status=Status.OK, samples=samples, elapsed_ns=RUN_NS))
            block_ns += RUN_NS
            earlier.insert(0, mine)
        used_ns += block_ns
        decision = stop(runs, still_open, block, used_ns, block_ns)
        if decision.stop or not decision.still_open:
            return runs, notes
        still_open, discarded, block = decision.still_open, decision.discarded, block + 1


def analysed(experiment: Experiment, runs: Sequence[Run]) -> Analysis:
    """Return the analysis of an experiment's runs."""
    return analyse(experiment, plan.variants(experiment), workloads_by_name(experiment), runs)


def elapsed_rows(found: Analysis) -> list[Comparison]:
    """Return the comparisons of elapsed time."""
    return [each for each in found.comparisons if each.metric.name == "wall"]
