# SPDX-License-Identifier: MIT OR Apache-2.0
"""Values of lmbench's and UnixBench's rows, in their units, from medians of workloads; UnixBench's scores and index."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from swapstone.parts.published.data import MeasuredRow, baselines, measured_rows

_PER_MINUTE = 60.0
_RATES = {"lps": 1.0, "KBps": 1.0, "lpm": _PER_MINUTE, "MWIPS": 1.0, "1/s": 1.0}
"""Units of rates: how many seconds they count in."""

Times = Mapping[tuple[str, str], float]
"""Median elapsed time of one operation in ns, or the bandwidth in MB/s, by (workload, metric)."""


def value_of(row: MeasuredRow, times: Times) -> float | None:
    """Return a row's value in its unit; None if a workload of the row has no value, or a difference is not above 0."""
    if row.unit == "MB/s":
        return times.get((row.workload, "bandwidth"))
    time = times.get((row.workload, "wall"))
    less = times.get((row.less, "wall")) if row.less else 0.0
    plus = times.get((row.plus, "wall")) if row.plus else 0.0
    if time is None or less is None or plus is None or time + plus <= less:
        return None
    return (time + plus - less) / 1e3 if row.unit == "us" else _RATES[row.unit] * 1e9 / time


def index_of(values: Mapping[str, float | None]) -> float | None:
    """Return UnixBench's index: the geometric mean of the scores of the rows with UnixBench's work.

    Args:
        values: by the page's name of a test, in its unit.

    Returns:
        The index; None unless all of those rows have a value.
    """
    references = {name: reference for name, reference, _ in baselines()}
    scores = []
    for row in measured_rows("unixbench"):
        if not row.same_kind:
            value = values.get(row.metric)
            if value is None:
                return None
            scores.append(10 * value / references[row.metric])
    return statistics.geometric_mean(scores)
