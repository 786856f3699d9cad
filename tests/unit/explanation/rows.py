# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measurements of rows for tests: runs of stacks, counts, and reference runs."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from swapstone.core.model.profile import KERNEL, OWN_OBJECT, Frame, Profile, ProfileRun
from swapstone.parts.explain.model.explanation import (
    Amount,
    ElapsedRun,
    ElapsedTime,
    InstrumentResult,
    Reference,
    RowKey,
    RowMeasurements,
)

BASE, CANDIDATE = "libc=glibc", "libc=musl"
OWN = (Frame(symbol="main", object=OWN_OBJECT), Frame(symbol="work", object=OWN_OBJECT))
FREE = (*OWN, Frame(symbol="free", object="libc.so"))
READ = (*OWN, Frame(symbol="__x64_sys_read", object=KERNEL))
SLEEP = (*OWN, Frame(symbol="__x64_sys_nanosleep", object=KERNEL), Frame(symbol="schedule", object=KERNEL))
Stack = tuple[Frame, ...]
Counts = Sequence[Mapping[Stack, float]]
"""Samples of each run by stack."""
Amounts = Mapping[tuple[str, str], float]
"""Counts by group and name."""


def profile(runs: Counts, kind: str = "on-cpu", weight: float = 0.5e6) -> Profile:
    """Return the profile of these runs, each of one operation."""
    stacks = list(dict.fromkeys(stack for run in runs for stack in run))
    whole = {stack: sum(run.get(stack, 0) for run in runs) * weight for stack in stacks}
    parts = tuple(
        ProfileRun(
            samples=int(sum(run.values())),
            weights=tuple((stacks.index(stack), count * weight) for stack, count in run.items()),
        )
        for run in runs
    )
    facts = {"kind": kind, "unit": "ns", "operations": float(len(runs))}
    return Profile.of(whole, **facts, runs=parts if len(runs) > 1 else ())


def result(instrument: str, variant: str, amounts: Amounts | None = None, **given: object) -> InstrumentResult:
    """Return the result of an instrument with these counts."""
    counted = tuple(Amount(group=group, name=name, value=value) for (group, name), value in (amounts or {}).items())
    plain = {"tool": "t", "command": "c", "operations": 1.0, "overhead": 1.0}
    return InstrumentResult(instrument=instrument, variant=variant, amounts=counted, **{**plain, **given})  # type: ignore[arg-type]


def reference(variant: str, wall: Sequence[float], cpu: Sequence[float] | None = None, **metrics: float) -> Reference:
    """Return reference runs with these times."""
    values = {"wall": tuple(wall), "cpu": tuple(wall if cpu is None else cpu)}
    middles = {name: sorted(each)[len(each) // 2] for name, each in values.items()}
    return Reference(
        variant=variant,
        program_sha256="",
        recorded=middles["wall"],
        time_ns=middles["wall"],
        metrics=tuple({**middles, **metrics}.items()),
        runs=len(wall),
        values=tuple(values.items()) if len(wall) > 1 else (),
    )


def row(
    base: tuple[Counts, Sequence[float]],
    candidate: tuple[Counts, Sequence[float]],
    *more: InstrumentResult,
    metric: str = "cpu",
) -> RowMeasurements:
    """Return a row of these runs of stacks and times, with further results of instruments."""
    sides = ((BASE, base), (CANDIDATE, candidate))
    references = [reference(name, times) for name, (_, times) in sides]
    return RowMeasurements(
        place=RowKey(suite="", workload="w", load="idle", metric=metric, baseline=BASE, candidate=CANDIDATE),
        unit="ns",
        ledger_metric=metric,
        references=(references[0], references[1]),
        runs=(*(result("on-cpu", name, profile=profile(runs)) for name, (runs, _) in sides), *more),
        missing=(),
    )


def counted(instrument: str, before: Amounts, after: Amounts) -> tuple[InstrumentResult, InstrumentResult]:
    """Return the counts of both sides."""
    return result(instrument, BASE, before), result(instrument, CANDIDATE, after)


def elapsed(
    waits: Counts, ran_ns: float, ready_ns: float = 0.0, threads: int = 1, cpu_ns: float | None = None
) -> ElapsedTime:
    """Return the division of runs in each of which threads ran, and waited as sampled with 1 us."""
    spent, several = ran_ns if cpu_ns is None else cpu_ns, len(waits) > 1
    runs = (ElapsedRun(running_ns=ran_ns, ready_ns=ready_ns, cpu_ns=spent),) * len(waits)
    return ElapsedTime(
        wall_ns=1.0,
        running_ns=ran_ns * len(waits),
        ready_ns=ready_ns * len(waits),
        waits=profile(waits, "off-cpu", 1e3),
        most_threads=threads,
        cpu_ns=spent * len(waits),
        runs=runs if several else (),
    )


def noisy(chance: random.Random, middle: float, runs: int = 10) -> list[float]:
    """Return times of runs with a relative standard deviation of 2 %."""
    return [middle * chance.gauss(1.0, 0.02) for _ in range(runs)]


def drawn(chance: random.Random, shares: Mapping[Stack, float], runs: int = 8, samples: int = 150) -> Counts:
    """Return runs of samples that are drawn from these shares."""
    names, weights = list(shares), list(shares.values())
    found = []
    for _ in range(runs):
        of: dict[Stack, int] = {}
        for stack in chance.choices(names, weights, k=samples):
            of[stack] = of.get(stack, 0) + 1
        found.append(of)
    return found
