"""How precise the answers are so far: what decides when an experiment stops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from swapstone.compare.cells import Group, collect
from swapstone.compare.machine_noise import busy_loads
from swapstone.compare.rows import Family, Row, levels, run_rows
from swapstone.model import Experiment, Run, Scale, Variant, Verdict, Workload, WorkloadPrecision


def precision(
    experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, Workload], runs: Sequence[Run]
) -> dict[Group, WorkloadPrecision]:
    """Measure how far each workload has come, at the level that its verdicts would have now.

    The widths are those of the metrics that decide (`Metric.leads`); of work that waits, CPU time never does, and on a busy
    machine wall time only of such work. The nulls don't decide.

    Args:
        experiment: what was asked.
        variants: the baseline first.
        workloads: by name.
        runs: so far.

    Returns:
        One entry for each (suite, workload, load) of the experiment, in its order.
    """
    quantities = {metric.quantity for workload in workloads.values() for metric in workload.metrics if metric.leads}
    wanted = {m.name for workload in workloads.values() for m in workload.metrics if m.quantity in quantities}
    rows = [
        row
        for row in run_rows(experiment, variants, workloads, collect(runs, wanted))
        if not row.null and row.metric.quantity in quantities
    ]
    alphas = levels(rows, experiment.confidence)
    busy = busy_loads(experiment, runs, workloads)
    groups: dict[Group, list[Row]] = {
        (suite, workload, load): [] for suite, workload in experiment.workloads for load in experiment.loads
    }
    for row in rows:
        groups[row.group].append(row)
    return {group: _precision(group, members, alphas, group[2] in busy) for group, members in groups.items()}


def deciding(rows: Sequence[Row], busy: bool) -> list[Row]:
    """Choose the rows whose widths decide when their workload is precise enough."""
    leading = [row for row in rows if row.metric.leads]
    telling = [row for row in leading if row.metric.name != ("cpu" if row.workload.waits else "wall" if busy else "")]
    return telling or leading


def _precision(group: Group, rows: Sequence[Row], alphas: Mapping[Family, float], busy: bool) -> WorkloadPrecision:
    suite, workload, load = group
    chosen = deciding(rows, busy)
    hopeful = [row for row in chosen if not _lost(row)]
    widths = [_half_width(row, alphas) for row in hopeful]
    known = [width for width in widths if width is not None]
    return WorkloadPrecision(
        suite=suite,
        workload=workload,
        load=load,
        pairs=min((row.before.size for row in hopeful), default=0),
        half_width=max(known) if known and len(known) == len(widths) else None,
        lost="" if hopeful else next(map(_lost, chosen), "none of its metrics decides"),
    )


def _lost(row: Row) -> str:
    """Return why more blocks can't give this row a verdict; empty when they can, if only because none was made yet."""
    return row.trouble[1] if row.trouble and row.trouble[0] is not Verdict.INCONCLUSIVE else ""


def _half_width(row: Row, alphas: Mapping[Family, float]) -> float | None:
    """Return half the width of a row's interval as a ratio less 1; None when there is no interval or no such ratio."""
    if row.constant:
        return 0.0
    interval = None if row.inference is None else row.inference.interval(alphas[row.family])
    if interval is None:
        return None
    if row.scale is Scale.RATIO:
        return math.expm1(interval.half_width)
    middle = abs(float(np.median(row.before)))
    return interval.half_width / middle if middle > 0 else None
