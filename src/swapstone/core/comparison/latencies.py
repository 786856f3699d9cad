# SPDX-License-Identifier: MIT OR Apache-2.0
"""Latency histograms and time series: the data of runs besides the metrics that are compared."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from swapstone.core.comparison.run_table import HISTOGRAM, OK, SERIES, Place, RunTable
from swapstone.core.model import Experiment, Latency, Run, TimeSeries, Variant, merged, percentile
from swapstone.core.stats import exceedance, median_interval

PERCENTS = (50.0, 99.0, 99.9, 99.99, 99.999)
_NS_PER_US = 1000.0


def latencies(experiment: Experiment, variants: Sequence[Variant], table: RunTable) -> tuple[Latency, ...]:
    """Add up the histograms of all replicates of each variant.

    experiment: gives the order of workloads and loads.
    variants: in their order.
    table: of the runs; those that do not count (`RunTable.counted`) and those without success are ignored.
    """
    found = _runs_with(HISTOGRAM, experiment, variants, table)
    return tuple(_latency(place, list(made), exact=experiment.virtual) for place, made in found)


def time_series(experiment: Experiment, variants: Sequence[Variant], table: RunTable) -> tuple[TimeSeries, ...]:
    """Return the series of the first run of each variant that has any; arguments as `latencies`."""
    return tuple(
        TimeSeries(
            **place,
            block=first.trial.block,
            series=tuple((one.metric, one.values) for one in first.series),
        )
        for place, made in _runs_with(SERIES, experiment, variants, table)
        for first in itertools.islice(made, 1)
    )


def _runs_with(
    extra: int, experiment: Experiment, variants: Sequence[Variant], table: RunTable
) -> Iterator[tuple[dict[str, Any], Iterator[Run]]]:
    """Yield the fields that name a variant's runs, and those that are successful, count, and have a histogram or series, by block."""
    rows = np.flatnonzero((table.extras & extra != 0) & (table.status == OK) & (table.prime == 0))
    rows = rows[table.counted[rows]] if rows.size else rows
    found: dict[Place, list[int]] = collections.defaultdict(list)
    for row in rows[np.argsort(table.block[rows], kind="stable")].tolist():
        found[table.places[int(table.place[row])]].append(row)
    for (suite, workload), load, variant in itertools.product(experiment.workloads, experiment.loads, variants):
        if mine := found.get((suite, workload, load, variant.label)):
            yield {"suite": suite, "workload": workload, "load": load, "variant": variant}, map(table.run, mine)


def _latency(place: Mapping[str, Any], runs: Sequence[Run], *, exact: bool) -> Latency:
    histogram = merged(run.histogram for run in runs)
    maxima = tuple(value for run in runs for value in _sample(run, "max"))
    return Latency(
        **place,
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
    found = [dict(run.by_processor) for run in runs]
    processors = sorted(set().union(*found))
    return tuple((number, merged(each[number] for each in found if number in each)) for number in processors)


def _sample(run: Run, metric: str) -> tuple[float, ...]:
    return next((sample.values for sample in run.samples if sample.metric == metric), ())
