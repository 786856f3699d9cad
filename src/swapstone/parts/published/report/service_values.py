# SPDX-License-Identifier: MIT OR Apache-2.0
"""Values of lmbench's and UnixBench's rows, in their units, and their ratios; UnixBench's scores and index."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from swapstone.core.report.answer.means import name_of
from swapstone.core.report.answer.wording import listed
from swapstone.core.report.ratios import WALL, Column, Ratio, Ratios, mean_of, weighted
from swapstone.parts.published.data import MeasuredRow, baselines, measured_rows
from swapstone.parts.published.report.throughput import Row, with_values

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


def rows_of(
    which: Iterable[MeasuredRow],
    columns: Sequence[Column],
    known: Ratios,
    page: Callable[[MeasuredRow], tuple[float | None, ...]],
) -> tuple[Row, ...]:
    """Return the rows that were measured; none where none has a value.

    Args:
        which: the page's rows.
        columns: of the values; the ratios are those of the others to the first one.
        known: of the analysis.
        page: the published ratios of a row.
    """
    found = []
    for row in which:
        values = [values_of(row, known, column) for column in columns]
        here = tuple(ratio_of(row, known, columns[0], other) for other in columns[1:])
        metrics = listed(list(dict.fromkeys(each.metric for each in values if each)))
        numbers = tuple(each and each.value for each in values)
        found.append(Row(row.metric, row.workload, numbers, here, page(row), metrics, row))
    return with_values(found)


def means_of(rows: Sequence[Row], page: tuple[float | None, ...] = ()) -> Iterator[Row]:
    """Yield UnixBench's index over the rows with its work, and the means of the ratios of all twelve.

    The index is the geometric mean of the scores in the first column, and in another one that times the mean of the ratios.

    Args:
        rows: of UnixBench.
        page: the published means over all rows; empty for those of the published ratios.
    """
    references = {name: reference for name, reference, _ in baselines()}
    every = measured_rows("unixbench")
    for name, wanted in (("index", [row for row in every if not row.same_kind]), ("all rows", every)):
        those = [row for row in rows if row.published in wanted]
        whole, places = len(those) == len(wanted), range(len(rows[0].here))
        here = tuple(mean_of(row.here[at] for row in those) if whole else None for at in places)
        scores = [
            10 * row.values[0] / references[row.published.metric]
            for row in those
            if row.values[0] is not None and row.published is not None and name == "index"
        ]
        first = statistics.geometric_mean(scores) if scores and len(scores) == len(wanted) else None
        others = (first * each.value if first is not None and each and each.value else None for each in here)
        pages = page if page and name != "index" else tuple(_page_mean(those, at) if whole else None for at in places)
        yield Row(name, name, (first, *others), here, pages)


def _page_mean(rows: Sequence[Row], at: int) -> float | None:
    pages = [page for row in rows if (page := row.page[at]) is not None]
    return statistics.geometric_mean(pages) if len(pages) == len(rows) else None
