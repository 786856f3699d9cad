# SPDX-License-Identifier: MIT OR Apache-2.0
"""Latency histograms and time series: the data of runs besides the metrics that are compared."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from swapstone.core.comparison.run_table import HISTOGRAM, OK, SERIES, Runs, RunTable, as_table
from swapstone.core.model import Experiment, Latency, Run, TimeSeries, Variant, percentile
from swapstone.core.stats import exceedance, median_interval

PERCENTS = (50.0, 99.0, 99.9, 99.99, 99.999)
_NS_PER_US = 1000.0


def latencies(experiment: Experiment, variants: Sequence[Variant], runs: Runs) -> tuple[Latency, ...]:
    """Add up the histograms of all replicates of each variant.

    experiment: gives the order of workloads and loads.
    variants: in their order.
    runs: in any order; those that do not count (`RunTable.counted`) and those without success are ignored.
    """
    table = as_table(runs, ())
    found = {key: [table.run(row) for row in rows] for key, rows in _grouped(table, HISTOGRAM).items()}
    return tuple(
        _latency(place, found[_key(place)], exact=experiment.virtual)
        for place in _places(experiment, variants)
        if _key(place) in found
    )


def time_series(experiment: Experiment, variants: Sequence[Variant], runs: Runs) -> tuple[TimeSeries, ...]:
    """Return the series of the first run of each variant that has any; arguments as `latencies`."""
    table = as_table(runs, ())
    found = {key: table.run(rows[0]) for key, rows in _grouped(table, SERIES).items()}
    return tuple(
        TimeSeries(
            suite=place[0],
            workload=place[1],
            load=place[2],
            variant=place[3],
            block=found[_key(place)].trial.block,
            series=tuple((one.metric, one.values) for one in found[_key(place)].series),
        )
        for place in _places(experiment, variants)
        if _key(place) in found
    )


Place = tuple[str, str, str, Variant]
"""(suite, workload, load, variant)"""

Key = tuple[str, str, str, str]
"""(suite, workload, load, label of the variant), as a run's trial has them."""


def _places(experiment: Experiment, variants: Sequence[Variant]) -> Iterable[Place]:
    return (
        (suite, workload, load, variant)
        for suite, workload in experiment.workloads
        for load in experiment.loads
        for variant in variants
    )


def _key(place: Place) -> Key:
    return (*place[:3], place[3].label)


def _grouped(table: RunTable, extra: int) -> Mapping[Key, list[int]]:
    """Return the rows of successful runs that count and have a histogram or series, by block."""
    rows = np.flatnonzero((table.extras & extra != 0) & (table.status == OK) & (table.prime == 0))
    rows = rows[table.counted[rows]] if rows.size else rows
    found: dict[Key, list[int]] = collections.defaultdict(list)
    for row in rows[np.argsort(table.block[rows], kind="stable")].tolist():
        found[table.places[int(table.place[row])]].append(row)
    return found


def _latency(place: Place, runs: Sequence[Run], *, exact: bool) -> Latency:
    counts: collections.Counter[int] = collections.Counter()
    for run in runs:
        counts.update(dict(run.histogram))
    histogram = tuple(sorted(counts.items()))
    maxima = tuple(value for run in runs for value in _sample(run, "max"))
    return Latency(
        suite=place[0],
        workload=place[1],
        load=place[2],
        variant=place[3],
        blocks=tuple(run.trial.block for run in runs for _ in _sample(run, "max")),
        maxima=maxima,
        averages=tuple(value for run in runs for value in _sample(run, "avg")),
        histogram=histogram,
        percentiles=tuple((percent, percentile(histogram, percent) * _NS_PER_US) for percent in PERCENTS),
        by_processor=_by_processor(runs),
        median_interval=None if exact else median_interval(maxima),
        exceedance=None if exact else exceedance(len(maxima)),
    )


def _by_processor(runs: Iterable[Run]) -> tuple[tuple[int, tuple[tuple[int, int], ...]], ...]:
    counts: dict[int, collections.Counter[int]] = {}
    for run in runs:
        for processor, histogram in run.by_processor:
            counts.setdefault(processor, collections.Counter()).update(dict(histogram))
    return tuple((processor, tuple(sorted(each.items()))) for processor, each in sorted(counts.items()))


def _sample(run: Run, metric: str) -> tuple[float, ...]:
    return next((sample.values for sample in run.samples if sample.metric == metric), ())
