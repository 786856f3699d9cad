# SPDX-License-Identifier: MIT OR Apache-2.0
"""The index of a suite: the geometric mean of its workloads' ratios, block by block."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from swapstone.comparison.error_rate import ErrorRates, Family
from swapstone.comparison.machine_noise import TIMES
from swapstone.comparison.rows import Row
from swapstone.model import Index, Scale, Variant
from swapstone.stats import LOG_QUANTUM, SignedRank

FEWEST_PRESENT = 0.5
"""A block counts if at least this share of the workloads has a pair in it, and workloads need a pair in this share of the blocks."""


@dataclasses.dataclass(frozen=True)
class IndexEstimate:
    """The mean log ratio of several rows, block by block.

    Attributes:
        rows: of one suite, load, time metric and candidate.
        inference: on the means.
    """

    rows: Sequence[Row]
    inference: SignedRank

    @property
    def family(self) -> Family:
        """Return its family: the candidates on one metric. A copy of the baseline is a family of its own."""
        first = self.rows[0]
        return Family(
            ("index", first.group[0], first.group[2], first.metric.name), first.candidate if first.null else None
        )


def index_estimates(rows: Iterable[Row], *, fewest: int = 1) -> list[IndexEstimate]:
    """Estimate one index for each (suite, load, time metric, candidate) of the rows, in their order.

    Args:
        rows: any; a row without ratios is left out of its index.
        fewest: an index over fewer rows is left out; 2 because over one row it repeats that row.

    Returns:
        An estimate for each group with a block that counts, see `_means`.
    """
    together: dict[tuple[str, str, str, Variant], list[Row]] = {}
    for row in rows:
        usable = row.inference is not None or (row.constant and not row.exclusion)
        if row.metric.name in TIMES and usable and row.scale is Scale.RATIO:
            together.setdefault((row.group[0], row.group[2], row.metric.name, row.candidate), []).append(row)
    means = [(members, _means(members)) for members in together.values() if len(members) >= fewest]
    return [IndexEstimate(members, SignedRank(values, LOG_QUANTUM)) for members, values in means if values.size]


def indices(estimates: Iterable[IndexEstimate], rates: ErrorRates, *, layouts: bool = False) -> tuple[Index, ...]:
    """Give each estimate the interval at its corrected level.

    Args:
        estimates: of `index_estimates`.
        rates: with the hypotheses of all estimates.
        layouts: whether the rows' blocks are layouts.
    """
    return tuple(_index(each.rows, each.inference, rates.level(each.family), layouts) for each in estimates)


def _means(rows: Sequence[Row]) -> NDArray[np.float64]:
    """Return the mean log ratio over the workloads for each block that at least half of them have; shape (blocks,).

    Let x[w, b] be workload w's log ratio in block b, m[w] its mean, and p[w] the share of these blocks that it has. The value of block b is
    the mean over the workloads of m[w] + (x[w, b] - m[w]) / p[w], or of m[w] alone where w has no pair. So the mean over the blocks is the
    mean of the m[w], and a workload with few pairs adds the variance of those few: its term's variance is that of x[w] over p[w], and over
    all blocks that of x[w] over its number of pairs. This is the influence function of a mean of means (Tsiatis, Semiparametric Theory and
    Missing Data, 2006, ch. 7) and assumes that whether a pair is missing does not depend on its ratio. With all pairs it is the plain mean.
    If a workload has fewer than half of the blocks, only blocks that all workloads have count.
    """
    by_block = [dict(zip(row.blocks, np.log(row.after) - np.log(row.before), strict=True)) for row in rows]
    blocks = sorted(set().union(*by_block))
    ratios = np.array([[ratios.get(block, math.nan) for block in blocks] for ratios in by_block])
    present = ~np.isnan(ratios)
    kept = present.mean(axis=0) >= FEWEST_PRESENT
    shares = present[:, kept].mean(axis=1) if kept.any() else np.zeros(len(rows))
    if shares.min() < FEWEST_PRESENT or present[:, kept].all():
        complete = present.all(axis=0)
        plain: NDArray[np.float64] = ratios[:, complete].mean(axis=0)
        return plain
    ratios, present = ratios[:, kept], present[:, kept]
    centres = np.nanmean(ratios, axis=1, keepdims=True)
    deviations = np.where(present, ratios - centres, 0) / shares[:, np.newaxis]
    means: NDArray[np.float64] = (centres + deviations).mean(axis=0)
    return means


def _index(rows: Sequence[Row], inference: SignedRank, alpha: float, layouts: bool) -> Index:
    interval = inference.interval(alpha)
    first = rows[0]
    return Index(
        suite=first.group[0],
        load=first.group[2],
        metric=first.metric.name,
        baseline=first.baseline,
        candidate=first.candidate,
        workloads=len(rows),
        blocks=inference.n,
        effect=math.exp(inference.estimate()),
        low=None if interval is None else math.exp(interval.low),
        high=None if interval is None else math.exp(interval.high),
        confidence=1 - alpha,
        layouts=layouts,
    )
