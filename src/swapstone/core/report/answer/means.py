# SPDX-License-Identifier: MIT OR Apache-2.0
"""One ratio for each quantity of a suite: time, CPU time, memory, size."""

from __future__ import annotations

import collections
import enum
import functools
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from swapstone.core.model import Comparison, Direction, FrozenStruct, Index, Metric, Quantity, Scale, Verdict
from swapstone.core.model.metric import TIMES
from swapstone.core.model.parts import provided
from swapstone.core.report.verdict_groups import NO_NUMBERS

PROCESSOR_TIMES = frozenset({"cpu", "cpu_per_request"})
"""Metrics of processor time. Their difference is in the sentence where that of the time or rate to read first is not significant."""

_SERVER = ("requests", "latency_p99", "cpu_per_request")
_MEMORY = ("maxrss", "peak", "res", "resident")
_SIZES = ("file",)


class Phrase(NamedTuple):
    """The words of sentences about a metric. A part provides those of its metrics, by name: objects of the kind ``phrases``.

    Attributes:
        name: of the metric.
        verb: before an amount of it, in the present.
        past: the first word of the verb, in the past.
        noun: what the amount is of; empty for the name.
        lasts: of a metric that is how long something takes, what follows ``takes twice as long``; None for other metrics.
        counted: whether the noun is a plural: ``fewer``, not ``less``.
    """

    name: str
    verb: str = "has"
    past: str = "had"
    noun: str = ""
    lasts: str | None = None
    counted: bool = False


_PHRASES = {
    "wall": Phrase("elapsed time", lasts=""),
    "cpu": Phrase("CPU time", "uses", "used"),
    "maxrss": Phrase("peak memory"),
    "peak": Phrase("peak memory"),
    "res": Phrase("resident memory"),
    "resident": Phrase("resident memory"),
    "file": Phrase("program size"),
    "cpu_per_request": Phrase("CPU time of a request"),
    "requests": Phrase("requests a second", "answers", "answered", counted=True),
    "latency_p99": Phrase("p99 latency"),
}


class Standing(enum.Enum):
    """Where an interval lies, relative to the margin."""

    MORE = "more"  # the whole interval is above the margin
    LESS = "less"
    SAME = "same"  # the whole interval is within the margin
    SLIGHT = "slight"  # it excludes 1 and reaches into the margin
    OPEN = "open"  # it contains 1 and a ratio outside the margin
    UNKNOWN = "unknown"  # there are too few runs for an interval


class Mean(FrozenStruct, frozen=True, kw_only=True):
    """The ratio candidate / baseline of one metric over a suite's workloads.

    Attributes:
        metric: of the rows.
        rows: all rows of the metric, also those without a number.
        workloads: number of workloads in the mean. Of one workload, the ratio is that of its row.
        effect: for ``wall`` and ``cpu`` the suite's index, else the geometric mean over the rows.
        low, high: its interval. Of a geometric mean it is the mean of the rows' bounds (of an exact row, its ratio). That interval is
            wider than needed: it contains the true mean where each row's interval contains the true ratio. None where a row has none.
        indexed: whether `effect` is the suite's index.
    """

    metric: Metric
    rows: tuple[Comparison, ...]
    workloads: int
    effect: float
    low: float | None
    high: float | None
    indexed: bool = False

    @property
    def name(self) -> str:
        """Return the metric's name in a sentence."""
        return name_of(self.metric)

    def standing(self, margin: float) -> Standing:
        """Return where the interval lies, relative to ratios from 1 / (1 + margin) to 1 + margin."""
        return standing(self.low, self.high, margin)

    def count(self, *verdicts: Verdict) -> int:
        """Return how many rows have one of the verdicts."""
        return sum(row.verdict in verdicts for row in self.rows)


@functools.cache
def _phrases() -> Mapping[str, Phrase]:
    return collections.ChainMap(_PHRASES, *provided("phrases", dict))


def phrase_of(metric: Metric) -> Phrase:
    """Return the words of sentences about a metric."""
    return _phrases().get(metric.name, Phrase(metric.name))


def name_of(metric: Metric) -> str:
    """Return a metric's name in a sentence, e.g. ``CPU time`` for ``cpu``; its own name where there is no other."""
    return phrase_of(metric).name


def standing(low: float | None, high: float | None, margin: float) -> Standing:
    """Return where an interval of ratios lies, relative to the margin."""
    if low is None or high is None:
        return Standing.UNKNOWN
    # The margin is a limit for logarithms, as in the verdicts; a bound of exactly 1 + margin is within it.
    least, most = 1 / (1 + margin), 1 + margin
    if low > most:
        return Standing.MORE
    if high < least:
        return Standing.LESS
    if low >= least and high <= most:
        return Standing.SAME
    return Standing.OPEN if low <= 1 <= high else Standing.SLIGHT


def means_of(rows: Sequence[Comparison], indices: Sequence[Index]) -> tuple[Mean, ...]:
    """Return the ratios of one candidate on one suite under one load: the time to read first, the other time, memory, size.

    Args:
        rows: its comparisons.
        indices: those of the same suite, load and candidate.
    """
    by_metric: dict[str, list[Comparison]] = {}
    for row in rows:
        # At a constant rate the schedule sets the requests a second: their ratio is no result.
        if row.metric.name != "requests" or row.metric.leads:
            by_metric.setdefault(row.metric.name, []).append(row)
    known = {index.metric: index for index in indices}
    found = (mean_of(by_metric[name], known.get(name)) for name in _chosen(rows) if name in by_metric)
    return tuple(mean for mean in found if mean is not None)


def leading_metric(rows: Sequence[Comparison]) -> str | None:
    """Return the time or rate to read first for most workloads; None without any."""
    preferred = Counter(row.metric.name for row in rows if row.preferred).most_common(1)
    timed = (row.metric.name for row in rows if row.metric.quantity in {Quantity.TIME, Quantity.RATE})
    return next((name for name, _ in preferred), None) or next(timed, None)


def _chosen(rows: Sequence[Comparison]) -> Iterator[str]:
    names = list(dict.fromkeys(row.metric.name for row in rows))
    first = leading_metric(rows)
    if first is not None:
        yield first
    others = dict.fromkeys(row.metric.name for row in rows if row.preferred)
    yield from (name for name in dict.fromkeys((*others, *_SERVER, *TIMES)) if name != first)
    memory = [
        row.metric.name
        for row in rows
        if row.metric.quantity is Quantity.MEMORY and row.metric.better is Direction.LOWER
    ]
    yield from [name for name in _MEMORY if name in names][:1] or memory[:1]
    yield from _SIZES


def mean_of(rows: Sequence[Comparison], index: Index | None = None) -> Mean | None:
    """Return the ratio of one metric; None where no row has a ratio.

    Args:
        rows: of one metric and candidate, one for each workload.
        index: the suite's index of the metric, if it has one.
    """
    usable = [
        row
        for row in rows
        if row.verdict not in NO_NUMBERS and row.scale is Scale.RATIO and row.effect is not None and row.effect > 0
    ]
    if not usable:
        return None
    if index is not None and len(usable) > 1:
        effect, low, high, workloads = index.effect, index.low, index.high, index.workloads
    else:
        effect = statistics.geometric_mean([row.effect or 1.0 for row in usable])
        workloads, low, high = len(usable), None, None
        whole = [bound for bound in map(bounds_of, usable) if bound is not None and bound[0] > 0]
        if len(whole) == len(usable):
            low, high = map(statistics.geometric_mean, zip(*whole, strict=True))
    return Mean(
        metric=rows[0].metric,
        rows=tuple(rows),
        workloads=workloads,
        effect=effect,
        low=low,
        high=high,
        indexed=index is not None and len(usable) > 1,
    )


def bounds_of(row: Comparison) -> tuple[float, float] | None:
    """Return a row's interval: of an exact row its effect twice; None without one."""
    if row.exact and row.effect is not None:
        return row.effect, row.effect
    return None if row.low is None or row.high is None else (row.low, row.high)
