"""The index of a suite: the geometric mean of its workloads' ratios, block by block."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from swapstone.compare.rows import Row
from swapstone.model import Index, Scale
from swapstone.stats import LOG_QUANTUM, SignedRank

TIMES = ("wall", "cpu")
"""Metrics that have an index."""


def indices(rows: Iterable[Row], confidence: float, *, layouts: bool = False) -> tuple[Index, ...]:
    """Compute one index for each (suite, load, time metric, candidate) of the rows, in their order.

    Args:
        rows: any; those without usable ratios are left out of their index.
        confidence: of the intervals; each index is one claim, so it isn't corrected.
        layouts: whether the rows' blocks are layouts.

    Returns:
        An index for each that has a block in which all its workloads have a pair.
    """
    together: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in rows:
        usable = row.inference is not None or (row.constant and not row.trouble)
        if row.metric.name in TIMES and usable and row.scale is Scale.RATIO:
            together.setdefault((row.group[0], row.group[2], row.metric.name, row.candidate), []).append(row)
    found = (_index(members, confidence, layouts) for members in together.values())
    return tuple(index for index in found if index is not None)


def _index(rows: Sequence[Row], confidence: float, layouts: bool) -> Index | None:
    """Average the log ratios over the workloads in every block that all of them have, then infer over blocks."""
    by_block = [dict(zip(row.blocks, np.log(row.after) - np.log(row.before), strict=True)) for row in rows]
    common = sorted(set.intersection(*(set(ratios) for ratios in by_block)))
    if not common:
        return None
    means = np.array([[ratios[block] for block in common] for ratios in by_block]).mean(axis=0)
    inference = SignedRank(means, LOG_QUANTUM)
    interval = inference.interval(1 - confidence)
    first = rows[0]
    return Index(
        suite=first.group[0],
        load=first.group[2],
        metric=first.metric.name,
        baseline=first.baseline,
        candidate=first.candidate,
        workloads=len(rows),
        blocks=len(common),
        effect=math.exp(inference.estimate()),
        low=None if interval is None else math.exp(interval.low),
        high=None if interval is None else math.exp(interval.high),
        confidence=confidence,
        layouts=layouts,
    )
