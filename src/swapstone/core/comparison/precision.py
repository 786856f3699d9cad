# SPDX-License-Identifier: MIT OR Apache-2.0
"""How precise the comparisons are so far. An experiment stops when they are precise enough."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from swapstone.core.comparison import outputs
from swapstone.core.comparison.cells import Group, collect
from swapstone.core.comparison.factorial import estimates
from swapstone.core.comparison.findings import Findings, checked
from swapstone.core.comparison.hypotheses import error_rates, fewest_rows
from swapstone.core.comparison.machine_noise import busy_loads
from swapstone.core.comparison.means import runs_needed
from swapstone.core.comparison.processors import without_disturbed_blocks
from swapstone.core.comparison.rows import MEDIANS_ALPHA, ErrorRates, Row, run_rows
from swapstone.core.comparison.run_table import Runs, as_table, metric_names
from swapstone.core.comparison.suite_index import index_estimates
from swapstone.core.comparison.verdicts import comparison
from swapstone.core.model import (
    REPORT_CORRECTION,
    TAIL_RULES,
    Experiment,
    Scale,
    Variant,
    Verdict,
    WorkloadPrecision,
    WorkSpec,
)
from swapstone.core.stats import KnownCentre, SignedRank, median

LARGE_MODE = 0.1
"""Share of runs of the rarest slow mode that must have been able to show before an own program with a difference stops."""

WIDEST_SAMPLE = 0.02
"""Half-width, as a ratio less 1, that suffices where exact differences depend on the replicate: their margin is that of equal ones."""

TURNED_BELOW = 2.0
"""Ratio of medians that a mode of `LARGE_MODE` of ten times the time does not turn: 0.9 + 0.1 x 10 = 1.9."""


def precision(
    experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, WorkSpec], runs: Runs
) -> dict[Group, WorkloadPrecision]:
    """Return the width of each workload's intervals, at the level that its verdicts would have now.

    Only metrics that decide count (`Metric.leads`): CPU time never does for work that waits, and on a busy machine wall time
    does only for such work. Null comparisons don't count, nor do blocks in which work lacked processors that it needs.

    Args:
        experiment: gives workloads, loads and confidence.
        variants: the baseline first.
        workloads: by name.
        runs: those made so far.

    Returns:
        One entry for each (suite, workload, load) of the experiment, in its order.
    """
    quantities = {metric.quantity for workload in workloads.values() for metric in workload.metrics if metric.leads}
    wanted = {m.name for workload in workloads.values() for m in workload.metrics if m.quantity in quantities}
    runs = as_table(runs, metric_names(workloads) if experiment.correction == REPORT_CORRECTION else wanted)
    busy = busy_loads(experiment, runs, workloads)
    # More runs can't give a verdict on a variant that does other work.
    known = experiment.rules >= TAIL_RULES
    other = outputs.check(experiment, variants, workloads, runs, fewest=outputs.MANY_RUNS) if known else Findings()
    runs = without_disturbed_blocks(experiment, workloads, runs)
    cells = collect(runs)
    rows = [row for row in checked(run_rows(experiment, variants, workloads, cells), other) if not row.null]
    of_indices, of_effects = [], []
    if experiment.correction == REPORT_CORRECTION:
        of_indices = index_estimates(rows, fewest=fewest_rows(experiment))
        of_effects = estimates(experiment, variants, workloads, cells, sizes={}, busy=busy, excluded=other.excluded)
    rates = error_rates(experiment, rows, of_indices, of_effects)
    rows = [row for row in rows if row.metric.quantity in quantities]
    groups: dict[Group, list[Row]] = {
        (suite, workload, load): [] for suite, workload in experiment.workloads for load in experiment.loads
    }
    for row in rows:
        groups[row.group].append(row)
    return {
        group: workload_precision(experiment, group, members, rates, group[2] in busy)
        for group, members in groups.items()
    }


def deciding(rows: Sequence[Row], busy: bool) -> list[Row]:
    """Return the rows whose widths decide whether their workload is precise enough."""
    leading = [row for row in rows if row.metric.leads]
    informative = [
        row for row in leading if row.metric.name != ("cpu" if row.workload.waits else "wall" if busy else "")
    ]
    return informative or leading


def workload_precision(
    experiment: Experiment, group: Group, rows: Sequence[Row], rates: ErrorRates, busy: bool
) -> WorkloadPrecision:
    """Return the precision of a workload.

    Args:
        experiment: gives the margin and the rules.
        group: of the workload.
        rows: its comparisons; those that `deciding` returns count.
        rates: the level of each row.
        busy: whether the machine was busy under the group's load.
    """
    suite, workload, load = group
    chosen = deciding(rows, busy)
    hopeful = [row for row in chosen if not _lost(row)]
    widths = [_half_width(row, rates) for row in hopeful]
    fine = [is_at_resolution(experiment, row, width) for row, width in zip(hopeful, widths, strict=True)]
    known = [
        min(width, experiment.margin) if enough or (row.exactness and width <= WIDEST_SAMPLE) else width
        for row, width, enough in zip(hopeful, widths, fine, strict=True)
        if width is not None
    ]
    return WorkloadPrecision(
        suite=suite,
        workload=workload,
        load=load,
        pairs=min((row.before.size for row in hopeful), default=0),
        half_width=max(known) if known and len(known) == len(widths) else None,
        lost="" if hopeful else next(map(_lost, chosen), "none of its metrics decides"),
        missing_runs=max((_missing_runs(experiment, row, rates) for row in hopeful), default=0),
        at_resolution=any(fine),
        decided=bool(chosen)
        and all(_verdict(row, rates, experiment.margin) is not Verdict.INCONCLUSIVE for row in chosen),
    )


def is_at_resolution(experiment: Experiment, row: Row, width: float | None) -> bool:
    """Return whether a row's interval is wider than the margin, and as narrow as the step between two values that its tool can print.

    A maximum of 6 us that a tool prints in whole microseconds is known to 17 %, with any number of runs. The step is compared with the
    smaller of the two medians, because a step changes a ratio most there.

    Args:
        experiment: gives the margin and the rules.
        row: what was measured.
        width: half the width of its interval as a ratio less 1; None without one.
    """
    if width is None or width <= experiment.margin or experiment.rules < TAIL_RULES:
        return False
    smaller = min(abs(median(values)) for values in (row.before, row.after))
    base = smaller if row.scale is Scale.RATIO else abs(median(row.before))
    return width * base <= row.metric.resolution


def _lost(row: Row) -> str:
    """Return why more blocks can't give this row a verdict; empty if they can."""
    return row.exclusion[1] if row.exclusion and row.exclusion[0] is not Verdict.INCONCLUSIVE else ""


def _missing_runs(experiment: Experiment, row: Row, rates: ErrorRates) -> int:
    """Return how many more pairs an own program's row needs at least; 0 if it needs none.

    If its median is inside the margin, it needs those that show it to be equivalent; else those of `missing_for_direction`. Whether the
    median differs significantly does not matter, so that significance never stops an experiment. Bundled workloads are many, and would
    need several times their usual budget.
    """
    if experiment.own is None or experiment.virtual or experiment.rules < TAIL_RULES or row.inference is None:
        return 0
    if abs(row.inference.estimate()) > row.limit(experiment.margin):
        return missing_for_direction(row, experiment.margin)
    if _verdict(row, rates, experiment.margin) is Verdict.EQUIVALENT:
        return 0
    return max(1, runs_needed() - row.observed_runs)


def missing_for_direction(row: Row, margin: float) -> int:
    """Return how many more pairs a row needs whose median is outside the margin; 0 where a slow mode is unlikely to turn its direction.

    A mode of a tenth of the runs must have been able to show, unless the effect is so large that one of ten times the time would not turn
    it; and the mean must be outside the margin on the same side, or the runs be as many as an equivalent row needs and more.
    """
    mean = row.mean_effect(MEDIANS_ALPHA)  # its interval is of no interest; the verdict needs the same quantile
    if row.inference is None or mean is None:
        return 0
    centre = row.inference.estimate()
    ratio = row.scale is Scale.RATIO
    of_means = math.log(mean.effect) if ratio else mean.effect
    if math.copysign(1.0, centre) * of_means <= row.limit(margin):
        return max(1, runs_needed() - row.observed_runs)
    if ratio and abs(centre) >= math.log(TURNED_BELOW):
        return 0
    return max(0, runs_needed(LARGE_MODE) - row.observed_runs)


def _verdict(row: Row, rates: ErrorRates, margin: float) -> Verdict:
    alpha = rates.level(row.family) if isinstance(row.inference, SignedRank) else rates.plain
    return comparison(row, alpha=alpha, margin=margin, preferred=False, tail_alpha=rates.level(row.tail_family)).verdict


def _half_width(row: Row, rates: ErrorRates) -> float | None:
    """Return half the width of a row's interval as a ratio less 1; None without an interval or a ratio, or if exact pairs vary too much."""
    if isinstance(row.inference, KnownCentre):
        return 0.0 if row.exact is None or row.exact.settled else None
    interval = None if row.inference is None else row.inference.interval(rates.level(row.family))
    if interval is None:
        return None
    if row.scale is Scale.RATIO:
        return math.expm1(interval.half_width)
    middle = abs(median(row.before))
    return interval.half_width / middle if middle > 0 else None
