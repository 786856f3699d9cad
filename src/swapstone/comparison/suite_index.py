# SPDX-License-Identifier: MIT OR Apache-2.0
"""The index of a suite: the geometric mean of its workloads' ratios, block by block."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from swapstone.comparison.rows import Row
from swapstone.model import Index, Scale, Variant
from swapstone.stats import LOG_QUANTUM, SignedRank, common_level

Family = tuple[str, str, str, Variant | None]
"""(suite, load, metric, copy of the baseline): indices that are corrected together."""

TIMES = ("wall", "cpu")
"""Metrics that have an index."""


def indices(rows: Iterable[Row], confidence: float, *, layouts: bool = False) -> tuple[Index, ...]:
    """Compute one index for each (suite, load, time metric, candidate) of the rows, in their order.

    Args:
        rows: any; a row without ratios is left out of its index.
        confidence: of the intervals. All candidates of one suite, load and metric are corrected together. The index of a single
            candidate, or of a copy of the baseline, needs no correction.
        layouts: whether the rows' blocks are layouts.

    Returns:
        An index for each group that has a block in which all its workloads have a pair.
    """
    together: dict[tuple[str, str, str, Variant], list[Row]] = {}
    for row in rows:
        usable = row.inference is not None or (row.constant and not row.exclusion)
        if row.metric.name in TIMES and usable and row.scale is Scale.RATIO:
            together.setdefault((row.group[0], row.group[2], row.metric.name, row.candidate), []).append(row)
    means = {key: _means(members) for key, members in together.items()}
    found = {key: SignedRank(values, LOG_QUANTUM) for key, values in means.items() if values.size}
    p_values: dict[Family, list[float]] = {}
    for key, inference in found.items():
        p_values.setdefault(_family(key, together[key][0]), []).append(inference.p_value)
    alphas = {family: common_level(values, 1 - confidence) for family, values in p_values.items()}
    made = (
        _index(together[key], inference, alphas[_family(key, together[key][0])]) for key, inference in found.items()
    )
    return tuple(msgspec.structs.replace(index, layouts=layouts) for index in made)


def _family(key: tuple[str, str, str, Variant], row: Row) -> Family:
    return (*key[:3], row.candidate if row.null else None)


def _means(rows: Sequence[Row]) -> NDArray[np.float64]:
    """Return the mean log ratio over the workloads, in every block that all of them have; shape (blocks,)."""
    by_block = [dict(zip(row.blocks, np.log(row.after) - np.log(row.before), strict=True)) for row in rows]
    common = sorted(set.intersection(*(set(ratios) for ratios in by_block)))
    means: NDArray[np.float64] = np.mean([[ratios[block] for block in common] for ratios in by_block], axis=0)
    return means


def _index(rows: Sequence[Row], inference: SignedRank, alpha: float) -> Index:
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
    )
