# SPDX-License-Identifier: MIT OR Apache-2.0
"""Values of lmbench's and UnixBench's rows, in their units, and their ratios; UnixBench's scores and index."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from swapstone.core.report.answer.means import name_of
from swapstone.core.report.ratios import WALL, Column, Ratio, Ratios, mean_of, weighted
from swapstone.parts.published.data import MeasuredRow, baselines, measured_rows

_BANDWIDTH = "bandwidth"
_PER_MINUTE = 60.0
_RATES = {"lps": 1.0, "KBps": 1.0, "lpm": _PER_MINUTE, "MWIPS": 1.0, "1/s": 1.0}
"""Units of rates: how many seconds they count in."""


_WEIGHTS = (1.0, -1.0, 1.0)
"""Of a row's workloads: the second one's time is subtracted, that of the third was subtracted from it before."""


class Values(NamedTuple):
    """The medians of a row's workloads in one column, in the metric's unit.

    Attributes:
        metric: the metric's name in a sentence: ``elapsed time``, or ``CPU time`` where the machine was busy.
        terms: of the workload, of that whose time is subtracted, and of that whose time is added; without one that the row lacks.
        value: of the row, in its unit.
    """

    metric: str
    terms: tuple[float, ...]
    value: float


def values_of(row: MeasuredRow, known: Ratios, column: Column) -> Values | None:
    """Return a row's values; None if a workload of the row has none, or a difference is not above 0.

    Bandwidths are of elapsed time: there is none where CPU time is the time to read first.
    """
    metric = _metric(row, known, column.load)
    found = [known.side((row.own_suite, work), column, metric) for work in _works(row)]
    terms = [each for each in found if each is not None]
    medians = tuple(each.median for each in terms)
    total = sum(map(operator.mul, _WEIGHTS, medians))
    if len(terms) < len(found) or len({each.metric.name for each in terms}) > 1 or total <= 0:
        return None
    if row.unit == "MB/s":
        return Values("elapsed time", medians, total) if metric == _BANDWIDTH else None
    value = total / 1e3 if row.unit == "us" else _RATES[row.unit] * 1e9 / total
    return Values(name_of(terms[0].metric), medians, value)


def ratio_of(row: MeasuredRow, known: Ratios, over: Column, side: Column) -> Ratio | None:
    """Return a row's ratio from the comparisons of its workloads; None if one is missing, or a difference is not above 0."""
    metric = _metric(row, known, over.load)
    if metric != _metric(row, known, side.load):
        return None
    found = [known.ratio((row.own_suite, work), over, side, metric) for work in _works(row)]
    if len(found) > 1:
        base = values_of(row, known, over)
        return weighted(found, list(map(operator.mul, _WEIGHTS, base.terms))) if base else None
    (ratio,) = found
    return ratio if ratio is None or row.unit == "us" or metric == _BANDWIDTH else ratio.inverse


def _works(row: MeasuredRow) -> tuple[str, ...]:
    return tuple(filter(None, (row.workload, row.less, row.plus)))


def _metric(row: MeasuredRow, known: Ratios, load: str) -> str:
    wall = known.metric((row.own_suite, row.workload), load) == WALL
    return _BANDWIDTH if row.unit == "MB/s" and wall else WALL


def score_of(rows: Sequence[tuple[MeasuredRow, float | None, Ratio | None]]) -> tuple[float | None, Ratio | None]:
    """Return UnixBench's index of a column, and its ratio to another column.

    Args:
        rows: (row, its value in the column, its ratio to the other column).

    Returns:
        The geometric means of the scores and of the ratios of the rows with UnixBench's work; None unless all of those have one.
    """
    references = {name: reference for name, reference, _ in baselines()}
    same = [each for each in rows if not each[0].same_kind]
    scores = [10 * value / references[row.metric] for row, value, _ in same if value is not None]
    whole = len(same) == sum(not row.same_kind for row in measured_rows("unixbench"))
    if not whole:
        return None, None
    index = statistics.geometric_mean(scores) if len(scores) == len(same) else None
    return index, mean_of(ratio for _, _, ratio in same)
