# SPDX-License-Identifier: MIT OR Apache-2.0
"""Small values for tests: an experiment and its runs, without a target."""

from __future__ import annotations

from collections.abc import Iterator

from swapstone.core import plan
from swapstone.core.model import (
    Analysis,
    Comparison,
    Copy,
    Experiment,
    FactorLevels,
    Noise,
    Run,
    Sample,
    Source,
    Status,
    Trial,
    Variant,
    Workload,
)
from swapstone.core.run.subject import TrialSpec
from swapstone.core.run.variant_program import Program


def experiment(**changes: object) -> Experiment:
    """Return an experiment of two libc workloads; any field may be changed."""
    fields: dict[str, object] = {
        "name": "compare",
        "factors": (FactorLevels(factor="libc", levels=("glibc", "musl")),),
        "workloads": (("libc", "b_malloc_tiny1"), ("libc", "b_string_strlen")),
        "budget_ns": 60_000_000_000,
        "margin": 0.02,
        "confidence": 0.95,
        "seed": 7,
        **changes,
    }
    return Experiment(**fields)  # type: ignore[arg-type] # fields are checked by msgspec when a test encodes them


QUIET = Noise(cpu_pressure_percent=None, cpu_pressure_max_percent=None, steal_percent=None, load1=None, busy=False)


def analysis(*comparisons: Comparison) -> Analysis:
    """Return an analysis of these rows alone, of a quiet machine."""
    return Analysis(
        comparisons=comparisons,
        indices=(),
        nulls=(),
        noise=QUIET,
        caveats=(),
        failures=(),
        blocks=3,
        runs=12,
        correction="none",
    )


def variant(label: str) -> Variant:
    """Return the variant of a label such as ``libc=glibc,allocator=default (again)``."""
    text, _, copy = label.removesuffix(")").partition(" (") if label.endswith(")") else (label, "", "")
    levels = (part.partition("=") for part in text.split(","))
    return Variant(levels=tuple((name, level) for name, _, level in levels), copy=Copy(copy or Copy.FIRST.value))


def run(trial: Trial, wall_ns: float = 1000.0, **changes: object) -> Run:
    """Return an ok run of a trial."""
    fields: dict[str, object] = {
        "trial": trial,
        "status": Status.OK,
        "samples": (Sample(metric="wall", values=(wall_ns, wall_ns + 1)), Sample(metric="cpu", values=(wall_ns,))),
        "observed": (("libc", trial.variant.removeprefix("libc=").split(" ")[0]),),
        "elapsed_ns": 100_000_000,
        **changes,
    }
    return Run(**fields)  # type: ignore[arg-type] # as above


def runs(subject: Experiment, blocks: int) -> Iterator[Run]:
    """Yield the runs of a warm-up block and so many blocks; musl takes 1.5 times as long."""
    for block in range(blocks + 1):
        for trial in plan.block(subject, block, plan.groups(subject)):
            factor = 1.5 if "musl" in trial.variant else 1.0
            yield run(trial, 1000.0 * factor + block + trial.position)


def source_of(workload: Workload) -> Source:
    """Return the origin of a workload that is a C program of this project."""
    assert isinstance(workload.origin, Source), workload.name
    return workload.origin


def trial_spec(variant: Variant, program: Program, **changes: object) -> TrialSpec:
    """Return a trial of a program on a target with one processor; any field may be changed."""
    fields: dict[str, object] = {
        "identity": "t",
        "variant": variant,
        "program": program,
        "scratch": "/scratch",
        "cpus": (0,),
        **changes,
    }
    return TrialSpec(**fields)  # type: ignore[arg-type] # one of its fields at a time
