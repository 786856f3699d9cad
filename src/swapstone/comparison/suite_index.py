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
        An estimate for each group that has a block in which all its workloads have a pair.
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
    """Return the mean log ratio over the workloads, in every block that all of them have; shape (blocks,)."""
    by_block = [dict(zip(row.blocks, np.log(row.after) - np.log(row.before), strict=True)) for row in rows]
    common = sorted(set.intersection(*(set(ratios) for ratios in by_block)))
    means: NDArray[np.float64] = np.mean([[ratios[block] for block in common] for ratios in by_block], axis=0)
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
