# SPDX-License-Identifier: MIT OR Apache-2.0
"""Crossed experiments with numbers that a test chooses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from swapstone.core import plan
from swapstone.core.comparison.analyse_runs import analyse
from swapstone.core.comparison.rows import SizeValues
from swapstone.core.model import (
    Analysis,
    Experiment,
    FactorLevels,
    Run,
    Sample,
    Source,
    Status,
    Trial,
    Workload,
)
from tests.unit.comparison.conftest import METRICS

Levels = Mapping[str, str]
Value = Callable[[str, Levels, int], float | Status | None]
"""Workload, levels and block to the run's value, to the status of a run without one, or to None for no run."""

TWO = {"libc": ("glibc", "musl"), "allocator": ("default", "fast")}


def experiment(
    factors: Mapping[str, Sequence[str]], workloads: Sequence[str] = ("w",), **changes: object
) -> Experiment:
    """Return an experiment that crosses some factors."""
    fields: dict[str, object] = {
        "name": "compare",
        "factors": tuple(FactorLevels(factor=name, levels=tuple(levels)) for name, levels in factors.items()),
        "workloads": tuple(("s", name) for name in workloads),
        "budget_ns": 10**12,
        "margin": 0.02,
        "confidence": 0.95,
        "seed": 1,
        **changes,
    }
    return Experiment(**fields)  # type: ignore[arg-type] # fields are checked by msgspec when a test encodes them


def runs(asked: Experiment, value: Value, blocks: int, metric: str = "wall") -> list[Run]:
    """Return the runs of an experiment, with a wild warm-up."""
    found = []
    for block in range(blocks + 1):
        for trial in plan.block(asked, block, plan.groups(asked)):
            levels = _levels(asked, trial)
            what = value(trial.workload, levels, block)
            if isinstance(what, Status):
                found.append(Run(trial=trial, status=what, reason=f"reason {what.value}"))
            elif what is not None:
                samples = (Sample(metric=metric, values=(float(what) if block else 1e9,)),)
                found.append(Run(trial=trial, status=Status.OK, samples=samples))
    return found


def _levels(asked: Experiment, trial: Trial) -> Levels:
    return next(dict(v.levels) for v in plan.variants(asked) if v.label == trial.variant)


def analysed(
    value: Value,
    factors: Mapping[str, Sequence[str]] = TWO,
    *,
    blocks: int = 12,
    workloads: Sequence[str] = ("w",),
    metric: str = "wall",
    sizes: SizeValues | None = None,
    **changes: object,
) -> Analysis:
    """Analyse a crossed experiment of one metric."""
    asked = experiment(factors, workloads, **changes)
    known = {
        name: Workload(name=name, origin=Source(file="x.c"), description="x", metrics=(METRICS[metric],))
        for name in workloads
    }
    return analyse(asked, plan.variants(asked), known, runs(asked, value, blocks, metric), sizes=sizes)


def main_effect(found: Analysis, change: str, workload: str = "w") -> Any:
    """Return the one main effect of a level."""
    (effect,) = (e for e in found.effects if e.change.label == change and not e.held and e.workload == workload)
    return effect


def simple_effect(found: Analysis, change: str, *held: str, workload: str = "w") -> Any:
    """Return the one simple effect of a level at some levels of others."""
    wanted = tuple(tuple(text.split("=")) for text in held)
    (effect,) = (e for e in found.effects if (e.change.label, e.held, e.workload) == (change, wanted, workload))
    return effect


def interaction(found: Analysis, change: str, by: str, workload: str = "w") -> Any:
    """Return the one interaction of two levels."""
    (each,) = (i for i in found.interactions if (i.change.label, i.by.label, i.workload) == (change, by, workload))
    return each


def waves(levels: Levels, block: int, size: float = 0.001) -> float:
    """Return a small disturbance that no two variants and blocks share, as a logarithm; the same every time."""
    return size * math.sin(1 + 7.3 * block + sum(map(ord, "".join(levels.values()))))
