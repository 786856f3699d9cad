# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whole reports from traces: how many reports of nulls hold a mark, and how many changed rows do, by each correction."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from swapstone.comparison import analyse
from swapstone.model import (
    CURRENT_RULES,
    FAMILY_CORRECTION,
    REPORT_CORRECTION,
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
    Variant,
    Verdict,
    Workload,
)
from swapstone.plan import variants

MARKS = (
    Verdict.BETTER,
    Verdict.WORSE,
    Verdict.CHANGED,
    Verdict.WORSE_TAIL,
    Verdict.BETTER_TAIL,
    Verdict.MIXED,
)
"""Verdicts that state a difference."""

METRICS = tuple(
    Metric(name=name, unit="ns", quantity=Quantity.TIME, better=Direction.LOWER, meaning=name, leads=name == "cpu")
    for name in ("wall", "cpu")
)


@dataclasses.dataclass(frozen=True)
class Correction:
    """A rule for a whole report: which rows share one rate of errors, the rate, and the version of the verdicts' rules."""

    name: str
    correction: str
    confidence: float
    rules: int


CORRECTIONS = (
    Correction("report, 99 %", REPORT_CORRECTION, 0.99, CURRENT_RULES),
    Correction("family, 95 %", FAMILY_CORRECTION, 0.95, CURRENT_RULES),
    Correction("family, 95 %, medians alone (before 0.2)", FAMILY_CORRECTION, 0.95, 1),
)


@dataclasses.dataclass(frozen=True)
class Draw:
    """One report's runs without an effect.

    Attributes:
        values: consecutive runs of each workload, shape (workloads, metrics, 2 pairs), in order of time.
        first: shape (workloads, pairs): whether the candidate comes first in its block.
        changed: index of the one workload that an effect may change.
    """

    values: NDArray[np.float64]
    first: NDArray[np.bool_]
    changed: int


def draws(
    sources: Sequence[Sequence[NDArray[np.float64]]], count: int, pairs: int, random: np.random.Generator
) -> Iterator[Draw]:
    """Yield reports: for each workload a window of one of its sources, from a random start.

    Args:
        sources: for each workload its sources, each of shape (metrics, runs) with at least 2 x `pairs` runs.
        count: number of reports.
        pairs: runs of each arm.
        random: of all choices.
    """
    for _ in range(count):
        windows = []
        for each in sources:
            source = each[int(random.integers(0, len(each)))]
            start = int(random.integers(0, source.shape[1] - 2 * pairs + 1))
            windows.append(source[:, start : start + 2 * pairs])
        first = random.random((len(sources), pairs)) < 0.5
        yield Draw(np.array(windows), first, int(random.integers(0, len(sources))))


def runs_of(draw: Draw, labels: tuple[str, str], effect: float, *, only_one: bool) -> list[Run]:
    """Return the runs of a report in blocks of two.

    Args:
        draw: the values.
        labels: of baseline and candidate.
        effect: relative change of the candidate's values.
        only_one: whether one workload is changed, instead of all.
    """
    found: list[Run] = []
    workloads, _, size = draw.values.shape
    for block, workload, position in itertools.product(range(size // 2), range(workloads), range(2)):
        candidate = (position == 0) == bool(draw.first[workload, block])
        hit = candidate and (workload == draw.changed or not only_one)
        values = draw.values[workload, :, 2 * block + position] * (1 + effect if hit else 1)
        trial = Trial(
            suite="s",
            workload=f"w{workload}",
            load="idle",
            variant=labels[candidate],
            block=block + 1,
            position=2 * workload + position,
        )
        samples = tuple(Sample(metric=m.name, values=(float(v),)) for m, v in zip(METRICS, values, strict=True))
        found.append(Run(trial=trial, status=Status.OK, samples=samples, started_unix_ns=1 + len(found) * 10**7))
    return found


def report_of(draw: Draw, rule: Correction, margin: float, effect: float, *, only_one: bool) -> Analysis:
    """Return the analysis of a report by a rule."""
    names = [f"w{number}" for number in range(len(draw.values))]
    experiment = Experiment(
        name="compare",
        factors=(FactorLevels(factor="libc", levels=("glibc", "musl")),),
        workloads=tuple(("s", name) for name in names),
        budget_ns=1,
        margin=margin,
        confidence=rule.confidence,
        seed=1,
        rules=rule.rules,
        correction=rule.correction,
    )
    workloads = {
        name: Workload(name=name, origin=Source(file="x.c"), description="", metrics=METRICS) for name in names
    }
    sides: Sequence[Variant] = variants(experiment)
    labels = sides[0].label, sides[1].label
    return analyse(experiment, sides, workloads, runs_of(draw, labels, effect, only_one=only_one))


def marked_rows(analysis: Analysis) -> list[str]:
    """Return the rows of an analysis that state a difference, as text: comparisons with candidates, and effects of factors."""
    copies = {null.copy for null in analysis.nulls}
    rows = [
        f"{found.workload} {found.metric.name} ({found.candidate.label}): {found.verdict.value}"
        for found in analysis.comparisons
        if found.verdict in MARKS and found.candidate not in copies
    ]
    effects = [
        f"{found.workload or 'index'} {found.metric.name} ({found.change.label}): {found.verdict.value}"
        for found in analysis.effects
        if found.verdict in MARKS
    ]
    return rows + effects


def any_mark(draw: Draw, rule: Correction, margin: float) -> bool:
    """Return whether a report of nulls holds a mark."""
    return bool(marked_rows(report_of(draw, rule, margin, 0.0, only_one=False)))


def detected(draw: Draw, rule: Correction, margin: float, effect: float, *, only_one: bool) -> tuple[int, int]:
    """Return how many of the changed rows state that they are worse, and how many there are."""
    found = report_of(draw, rule, margin, effect, only_one=only_one).comparisons
    rows = [row for row in found if not only_one or row.workload == f"w{draw.changed}"]
    return sum(row.verdict is Verdict.WORSE for row in rows), len(rows)
