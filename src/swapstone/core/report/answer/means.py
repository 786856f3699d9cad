# SPDX-License-Identifier: MIT OR Apache-2.0
"""One ratio for each quantity of a suite: time, CPU time, memory, size."""

from __future__ import annotations

import collections
import enum
import functools
import math
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from swapstone.core.model import (
    MEDIAN_DIFFERS,
    NO_NUMBERS,
    OWN_SUITE,
    REFERENCE_SUITE,
    TAIL_DIFFERS,
    WITHOUT_DIRECTION,
    Analysis,
    Comparison,
    Direction,
    FactorEffect,
    FrozenStruct,
    Index,
    Metric,
    Quantity,
    Scale,
    Variant,
    Verdict,
    grouped,
)
from swapstone.core.model.metric import TIMES
from swapstone.core.model.parts import provided
from swapstone.core.report import formatting
from swapstone.core.report.variant_values import without_copies

PROCESSOR_TIMES = frozenset({"cpu", "tree_cpu", "cpu_per_request"})
"""Metrics of processor time. They decide beside the time or rate to read first."""

_OF_ALL = "tree_cpu"
"""Of runs with several processes, it is in the sentence instead of `cpu`."""

_SERVER = ("requests", "latency_p99", "cpu_per_request", "ready")
_MEMORY = ("tree_memory", "maxrss", "peak", "res", "resident")
_TIMED = (Quantity.TIME, Quantity.RATE)


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
    "tree_cpu": Phrase("CPU time of all processes", "uses", "used"),
    "maxrss": Phrase("peak memory", "uses", "used", "memory"),
    "tree_memory": Phrase("peak memory of all processes", "uses", "used", "memory"),
    "peak": Phrase("peak memory", "uses", "used", "memory"),
    "res": Phrase("resident memory", "uses", "used", "memory"),
    "resident": Phrase("resident memory", "uses", "used", "memory"),
    "file": Phrase("program size"),
    "cpu_per_request": Phrase("CPU time of a request"),
    "requests": Phrase("requests a second", "answers", "answered", counted=True),
    "latency_p99": Phrase("p99 latency"),
    "ready": Phrase("start to first connection"),
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

    @property
    def exact(self) -> bool:
        """Return whether all of its rows are judged without statistics."""
        return all(formatting.is_exact(row) for row in self.rows if row.verdict not in NO_NUMBERS)

    def standing(self, margin: float) -> Standing:
        """Return where the interval lies, relative to ratios from 1 / (1 + margin) to 1 + margin; of one row, as its verdict has it."""
        found = standing(self.low, self.high, margin)
        undecided = found is not Standing.UNKNOWN and self.workloads == 1 and self.count(Verdict.INCONCLUSIVE) == 1
        return Standing.OPEN if undecided else found

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


def means_of(rows: Sequence[Comparison], indices: Sequence[Index], asked: Sequence[str] = ()) -> tuple[Mean, ...]:
    """Return the ratios of one candidate on one suite under one load: what the user asked for, times to read first, memory, size.

    Args:
        rows: its comparisons.
        indices: those of the same suite, load and candidate.
        asked: metrics that the user asked for.
    """
    # At a constant rate the schedule sets the requests a second: their ratio is no result.
    results = (row for row in rows if row.metric.name != "requests" or row.metric.leads)
    by_metric = grouped(results, lambda row: row.metric.name)
    known = {index.metric: index for index in indices}
    names = dict.fromkeys((*asked, *_chosen(rows)))
    found = (mean_of(by_metric[name], known.get(name)) for name in names if name in by_metric)
    return tuple(mean for mean in found if mean is not None)


def leading_metric(rows: Sequence[Comparison]) -> str | None:
    """Return the time or rate to read first for most workloads; None without any."""
    preferred = Counter(row.metric.name for row in rows if row.preferred).most_common(1)
    timed = (row.metric.name for row in rows if row.metric.quantity in _TIMED)
    return next((name for name, _ in preferred), None) or next(timed, None)


def _chosen(rows: Sequence[Comparison]) -> Iterator[str]:
    names = list(dict.fromkeys(row.metric.name for row in rows))
    first = leading_metric(rows)
    if first is not None:
        yield first
    others = dict.fromkeys(row.metric.name for row in rows if row.preferred)
    times = (_OF_ALL if name == "cpu" and _OF_ALL in names else name for name in TIMES)
    yield from (name for name in dict.fromkeys((*others, *_SERVER, *times)) if name != first)
    memory = [
        row.metric.name
        for row in rows
        if row.metric.quantity is Quantity.MEMORY and row.metric.better is Direction.LOWER
    ]
    yield from [name for name in _MEMORY if name in names][:1] or memory[:1]
    yield from dict.fromkeys(
        row.metric.name for row in rows if row.metric.quantity is Quantity.SIZE and row.metric.name in _phrases()
    )


def mean_of(rows: Sequence[Comparison], index: Index | None = None) -> Mean | None:
    """Return the ratio of one metric; None where no row has a ratio, or exact ones differ in both directions.

    Args:
        rows: of one metric and candidate, one for each workload.
        index: the suite's index of the metric, if it has one.
    """
    usable = [
        row
        for row in rows
        if row.verdict not in NO_NUMBERS and row.scale is Scale.RATIO and row.effect is not None and row.effect > 0
    ]
    signs = {(row.effect or 0.0) > 1 for row in usable if formatting.is_exact(row) and row.verdict in MEDIAN_DIFFERS}
    if not usable or len(signs) > 1:
        return None
    if index is not None and len(usable) > 1:
        effect, workloads = index.effect, index.workloads
        low, high = decided_bounds(index) or (None, None)
    else:
        effect = statistics.geometric_mean([row.effect or 1.0 for row in usable])
        workloads, low, high = len(usable), None, None
        whole = [bound for bound in map(decided_bounds, usable) if bound is not None and bound[0] > 0]
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


def bounds_of(row: Comparison | FactorEffect | Index) -> tuple[float, float] | None:
    """Return a row's interval; None without one."""
    return None if row.low is None or row.high is None else (row.low, row.high)


def decided_bounds(each: Comparison | FactorEffect | Index) -> tuple[float, float] | None:
    """Return an interval of a ratio. One whose direction the medians don't have is extended by that of the medians; None without one."""
    found = bounds_of(each)
    if found is None or each.median_low is None or each.median_high is None or found[0] <= 1 <= found[1]:
        return found
    tail = isinstance(each, Comparison) and each.verdict in TAIL_DIFFERS
    if not tail and not each.reason.startswith(WITHOUT_DIRECTION):
        return found
    return min(found[0], each.median_low), max(found[1], each.median_high)


IDLE = "idle"


class Place(FrozenStruct, frozen=True, kw_only=True):
    """A candidate on a suite under a load.

    Attributes:
        suite, load, baseline, candidate: of the comparisons.
        rows: all comparisons.
        asked: those of metrics that the user asked for.
        times: of each workload the time or rate to read first.
        means: one ratio for each quantity: what the user asked for, the time to read first, then others.
    """

    suite: str
    load: str
    baseline: Variant
    candidate: Variant
    rows: tuple[Comparison, ...]
    asked: tuple[Comparison, ...]
    times: tuple[Comparison, ...]
    means: tuple[Mean, ...]

    @property
    def leads(self) -> tuple[Comparison, ...]:
        """Return the rows to read first: what the user asked for, then of each workload a time or rate."""
        return tuple(dict.fromkeys((*self.asked, *self.times)))

    @property
    def deciding(self) -> tuple[Comparison, ...]:
        """Return the rows that an answer states, and that `--fail-if` judges, where they are decided: those to read first, and CPU times.

        Where CPU time is read first, elapsed time is among them. Without a time or rate these are all rows.
        """
        first = self.leads
        beside = {*PROCESSOR_TIMES, *(TIMES if any(row.metric.name in TIMES for row in first) else ())}
        return (
            tuple(dict.fromkeys((*first, *(row for row in self.rows if row.metric.name in beside))))
            if first
            else self.rows
        )

    @property
    def lead(self) -> Mean | None:
        """Return the ratio of the time or rate to read first; None without one."""
        return self.mean(leading_metric(self.rows) or "")

    def mean(self, metric: str) -> Mean | None:
        """Return the ratio of a metric by its name; None without one."""
        return next((mean for mean in self.means if mean.metric.name == metric), None)

    @property
    def memory(self) -> Mean | None:
        """Return the ratio of memory; None without one."""
        return next((mean for mean in self.means if mean.metric.quantity is Quantity.MEMORY), None)

    @property
    def size(self) -> Mean | None:
        """Return the ratio of the programs' sizes; None without one."""
        return next((mean for mean in self.means if mean.metric.quantity is Quantity.SIZE), None)

    @property
    def workloads(self) -> int:
        """Return the number of workloads."""
        return len({row.workload for row in self.rows})

    @property
    def names(self) -> tuple[str, str]:
        """Return the names of candidate and baseline in a sentence, e.g. ``musl with mimalloc``; a factor is named once."""
        candidate, baseline = prose_name(self.candidate), prose_name(self.baseline)
        alone = len(self.candidate.levels) == 1 and candidate.partition("=")[0] == baseline.partition("=")[0]
        return candidate, formatting.safe(self.baseline.shown_levels[0][1]) if alone else baseline

    def scope(self, workloads: int, rows: Sequence[Comparison]) -> str:
        """Return where rows were measured: ``27 workloads of libc``, or the name of the workload that has a number if there is one only."""
        if workloads == 1:
            usable = [row for row in rows if row.verdict not in NO_NUMBERS and row.effect is not None] or rows
            text = formatting.safe(usable[0].workload)
        elif self.suite == OWN_SUITE:
            text = formatting.count(workloads, "program run")
        else:
            text = f"{formatting.count(workloads, 'workload')} of {formatting.safe(self.suite)}"
        return text if self.load == IDLE else f"{text} under load {formatting.safe(self.load)}"


def prose_name(variant: Variant) -> str:
    """Return a variant's levels in a sentence: ``musl``, ``musl with mimalloc`` or ``MALLOC_ARENA_MAX=1``.

    A value that the user varies has the name of its factor, and so has a level without a letter.
    """
    return " with ".join(formatting.safe(_in_prose(*pair)) for pair in variant.shown_levels)


def _in_prose(factor: str, level: str) -> str:
    name = factor.removeprefix("env:").strip("{}")
    return level if name == factor and re.search("[A-Za-z]", level) else f"{name}={level}"


def places_of(analysis: Analysis, asked: Sequence[str] = ()) -> tuple[Place, ...]:
    """Return the places of an analysis, in its order, without copies of the baseline. Those without rows to read first come last.

    The reference program has none: it is what others are judged by.

    Args:
        analysis: of a record.
        asked: metrics that the user asked for.
    """
    found = grouped(without_copies(analysis), lambda row: (row.suite, row.load, row.baseline, row.candidate))
    indices = grouped(analysis.indices, lambda each: (each.suite, each.load, each.candidate))
    places = [
        Place(
            suite=suite,
            load=load,
            baseline=baseline,
            candidate=candidate,
            rows=tuple(rows),
            asked=tuple(row for name in asked for row in rows if row.metric.name == name),
            times=time_rows(rows),
            means=means_of(rows, indices.get((suite, load, candidate), ()), asked),
        )
        for (suite, load, baseline, candidate), rows in found.items()
        if suite != REFERENCE_SUITE
    ]
    return tuple(sorted(places, key=lambda place: not place.leads))


def time_rows(rows: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Return of each workload the time or rate to read first: the preferred one, else the first."""
    timed = grouped((row for row in rows if row.metric.quantity in _TIMED), lambda row: row.workload)
    return tuple(next((row for row in of if row.preferred), of[0]) for of in timed.values())


def have_numbers(rows: Sequence[Comparison]) -> bool:
    """Return whether any row has a number."""
    return any(row.verdict not in NO_NUMBERS and row.baseline_values for row in rows)


_WORDS = {"string": "strings", "pthread": "threads"}
_ENOUGH = 0.8
"""Groups are named until they hold this share of the difference."""
_LEAST = 0.1
"""A group with a smaller share is not named."""
_MOST = 3


def group_name(workload: str, all_names: Sequence[str]) -> str:
    """Return a workload's group: the first part of its name that not all workloads share.

    Args:
        workload: e.g. ``b_string_strstr(abcd)``. Parts end at underscores, hyphens, dots, brackets and ``#``.
        all_names: of all workloads.

    Returns:
        For example ``strings`` for ``b_string_strstr(abcd)`` among workloads whose names begin with ``b_``.
    """
    parts = [_parts(name) for name in all_names]
    place = 0
    while all(len(each) > place + 1 and each[place] == parts[0][place] for each in parts):
        place += 1
    own = _parts(workload)
    word = own[min(place, len(own) - 1)]
    return _WORDS.get(word, word)


def _parts(name: str) -> list[str]:
    return [part.strip() for part in re.split(r"[_.(#-]", name.rstrip(")")) if part.strip()] or [name]


def cost_groups(rows: Sequence[Comparison], *, more: bool) -> tuple[str, ...]:
    """Return the names of the groups in which a difference is, the largest share first; none where they explain too little.

    Only rows whose verdict is a difference count. Groups are named until they hold 80 % of the difference, at most three, each with at
    least 10 %. If those hold less than half of it, or if there is only one group, none is named. A group of one workload has its name.

    Args:
        rows: of one metric and candidate, one for each workload.
        more: whether the difference is that the candidate's values are larger.
    """
    names = [row.workload for row in rows]
    groups = {name: group_name(name, names) for name in names}
    sizes = dict.fromkeys(groups.values(), 0.0)
    for row in rows:
        if row.verdict in MEDIAN_DIFFERS and row.scale is Scale.RATIO and row.effect is not None and row.effect > 0:
            size = math.log(row.effect)
            sizes[groups[row.workload]] += abs(size) if (size > 0) == more else 0.0
    total = sum(sizes.values())
    shares: dict[str, float] = {}
    for group, size in sorted(sizes.items(), key=lambda pair: -pair[1])[:_MOST]:
        if total and size / total >= _LEAST and sum(shares.values()) < _ENOUGH:
            members = [name for name in names if groups[name] == group]
            shares[members[0] if len(members) == 1 else group] = size / total
    return tuple(shares) if sum(shares.values()) >= 0.5 and len(shares) < len(sizes) else ()
