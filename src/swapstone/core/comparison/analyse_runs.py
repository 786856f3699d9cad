# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compute the analysis of an experiment from its runs, and how precise the comparisons are so far.

An experiment stops when they are precise enough.

`check` applies the checks of the rows' assumptions: they find rows that can't be judged, and limits of the results. There is one module for
each assumption, and parts add checks of facts that only their runs have. Of experiments by the first rules (`Experiment.rules`) only
failures are counted. `error_rates` has the levels that follow from all hypotheses of a report.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import numpy as np

from swapstone.core.comparison import (
    carry_over,
    conditions,
    failures,
    outputs,
    processors,
    storage,
    uncounted_work,
)
from swapstone.core.comparison.caveats import caveats_of
from swapstone.core.comparison.cells import OF_ALL, Group, collect, left_out_caveats, measured_candidates
from swapstone.core.comparison.contrast_estimates import Estimate
from swapstone.core.comparison.factor_effects import judged
from swapstone.core.comparison.factorial import estimates
from swapstone.core.comparison.latencies import latencies, time_series
from swapstone.core.comparison.layout_spread import spreads
from swapstone.core.comparison.machine_noise import busy_loads, noise_of, observed_turns, observed_waits, preferred_time
from swapstone.core.comparison.means import runs_needed
from swapstone.core.comparison.pairs import interval_pairs
from swapstone.core.comparison.processors import undisturbed, without_disturbed_blocks
from swapstone.core.comparison.rows import (
    MEDIANS_ALPHA,
    Check,
    ErrorRates,
    Findings,
    Place,
    Row,
    SizeValues,
    checked,
    run_rows,
    size_rows,
)
from swapstone.core.comparison.run_table import OK, STATUSES, Runs, RunTable, as_table, metric_names
from swapstone.core.comparison.session_effect import reference_caveat, with_session_effect
from swapstone.core.comparison.suite_index import IndexEstimate, index_estimates, indices
from swapstone.core.comparison.verdicts import TooFew, comparison, smallest_visible, too_few_pairs_reason
from swapstone.core.model import (
    DECIDED,
    DIRECTION_RULES,
    FAMILY_CORRECTION,
    REFERENCE_SUITE,
    REPORT_CORRECTION,
    TAIL_RULES,
    Analysis,
    CarryOver,
    Caveat,
    Comparison,
    Copy,
    Experiment,
    Failure,
    Index,
    NullResult,
    Quantity,
    Scale,
    Variant,
    Verdict,
    WorkloadPrecision,
    WorkSpec,
)
from swapstone.core.model.parts import provided
from swapstone.core.plan import groups
from swapstone.core.stats import KnownCentre, SignedRank, distinct, median


@functools.cache
def _checks() -> tuple[Check, ...]:
    return (
        *(module.check for module in (failures, outputs, storage, conditions, uncounted_work)),
        *provided("check", Callable),
        conditions.overloaded,
        processors.check,
        carry_over.check,
    )


def check(
    experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, WorkSpec], table: RunTable
) -> Findings:
    """Check the assumptions of every row.

    Args:
        experiment: that the runs are of.
        variants: the baseline first.
        workloads: by name.
        table: of all runs, with those that are discarded.
    """
    if experiment.rules < TAIL_RULES:
        return Findings(failure_rates=failures.rates(experiment, variants, table))
    found = [each(experiment, variants, workloads, table) for each in _checks()]
    excluded: dict[Place, tuple[Verdict, str]] = {}
    for each in found:
        for place, exclusion in each.excluded.items():
            excluded.setdefault(place, exclusion)
    caveats: tuple[Caveat, ...] = tuple(caveat for each in found for caveat in each.caveats)
    carried = {place: effect for each in found for place, effect in each.carry_overs.items()}
    failing = tuple(rates for each in found for rates in each.failure_rates)
    return Findings(excluded=excluded, caveats=caveats, carry_overs=carried, failure_rates=failing)


def error_rates(
    experiment: Experiment, rows: Iterable[Row], of_indices: Iterable[IndexEstimate], of_effects: Iterable[Estimate]
) -> ErrorRates:
    """Return the levels of all intervals of a report. Rows and estimates without inference are no hypotheses and don't count.

    Args:
        experiment: gives confidence and correction.
        rows: all, with their exclusions.
        of_indices: estimates of indices.
        of_effects: estimates of main effects, simple effects and interactions.
    """
    rates = ErrorRates(experiment)
    for row in rows:
        if row.group[0] == REFERENCE_SUITE:  # it has the level of the others
            continue
        rates.add(row.family, [None if row.inference is None else row.inference.p_value])
        rates.add(row.tail_family, [None if row.tail is None else row.tail[0]])
    for index in of_indices:
        rates.add(index.family, [index.inference.p_value])
    for effect in of_effects:
        rates.add(effect.family, [None if effect.inference is None else effect.inference.p_value])
    return rates


def fewest_rows(experiment: Experiment) -> int:
    """Return over how many rows an index must be at least. By the first rules one suffices; of two sessions there are none."""
    if experiment.earlier:
        return len(experiment.workloads) + 1
    return 2 if experiment.rules >= TAIL_RULES else 1


CORRECTIONS = {
    FAMILY_CORRECTION: "Benjamini-Hochberg, with false-coverage-rate intervals (Benjamini and Yekutieli 2005)",
    REPORT_CORRECTION: "Benjamini-Hochberg over all medians, means, indices and effects of the report, "
    "with false-coverage-rate intervals (Benjamini and Yekutieli 2005)",
}
"""How the levels of intervals are corrected, by `Experiment.correction`."""


def analyse(
    experiment: Experiment,
    variants: Sequence[Variant],
    workloads: Mapping[str, WorkSpec],
    runs: Runs,
    caveats: Sequence[Caveat] = (),
    *,
    sizes: SizeValues | None = None,
) -> Analysis:
    """Compute all comparisons, effects and caveats of an experiment. A pure function: equal runs give an equal analysis.

    Args:
        experiment: the experiment that the runs are of.
        variants: the baseline first, then its null copies and the candidates.
        workloads: each that the experiment names, by name.
        runs: at most one per trial, in any order. The warm-up (block 0) is excluded from every figure.
        caveats: those that depend on the record and not on its runs (interrupted, resumed, damaged); they come first.
        sizes: of the programs.

    Returns:
        The analysis. Every number in it is finite.
    """
    table = as_table(runs, metric_names(workloads))
    waits = observed_waits(experiment, workloads, table)
    turns = observed_turns(experiment, workloads, table)
    if experiment.rules >= DIRECTION_RULES:
        workloads = {
            name: msgspec.structs.replace(work, waits=work.waits and waits.get(name) is not False)
            for name, work in workloads.items()
        }
    cells = collect(undisturbed(experiment, workloads, table))
    findings = check(experiment, variants, workloads, table)
    candidates_of = measured_candidates(experiment, variants, workloads, table)
    lost = any(verdict is Verdict.DISTURBED for verdict, _ in findings.excluded.values())
    printed = collect(undisturbed(experiment, workloads, table, keep_lost=True)) if lost else cells
    found = [
        *run_rows(experiment, variants, workloads, printed, candidates_of),
        *size_rows(experiment, variants, workloads, sizes or {}),
    ]
    # Sizes follow the other rows of their workload.
    places = {group: number for number, group in enumerate(groups(experiment))}
    rows = checked(sorted(found, key=lambda row: places[row.group]), findings)
    busy = busy_loads(experiment, table, workloads)
    of_indices = index_estimates(rows, fewest=fewest_rows(experiment))
    of_effects = estimates(
        experiment, variants, workloads, cells, sizes=sizes or {}, busy=busy, excluded=findings.excluded
    )
    rates = error_rates(experiment, rows, of_indices, of_effects)
    needed = interval_pairs(experiment, variants, workloads) if experiment.rules >= TAIL_RULES else 0
    unit = "replicates" if experiment.virtual else "blocks"
    too_few = functools.partial(too_few_pairs_reason, needed=needed, unit=unit)
    comparisons = _judged(experiment, rows, busy, rates, too_few=too_few, carried=findings.carry_overs)
    if experiment.earlier:
        comparisons = with_session_effect(comparisons, experiment.margin)
    noise = noise_of(experiment, table, workloads)
    effects, interactions = judged(
        of_effects, rates=rates, margin=experiment.margin, rules=experiment.rules, too_few=too_few
    )
    every_index = indices(of_indices, rates, experiment)
    copies = [variant for variant in variants if variant.copy is not Copy.FIRST]
    return Analysis(
        comparisons=comparisons,
        indices=tuple(index for index in every_index if index.candidate not in copies),
        nulls=tuple(null_result(copy, comparisons, every_index, busy) for copy in copies),
        noise=noise,
        caveats=(
            *caveats,
            *(reference_caveat(comparisons) if experiment.earlier else ()),
            *findings.caveats,
            *caveats_of(experiment, table, rows, comparisons, noise, waits=waits, turns=turns, needed=needed),
            *left_out_caveats(experiment, variants, workloads, candidates_of),
        ),
        failures=tuple(
            Failure(
                key=table.trial(row).key,
                status=STATUSES[int(table.status[row])].value,
                reason=table.reasons[int(table.reason[row])],
            )
            for row in np.flatnonzero(table.status != OK).tolist()
        ),
        blocks=_blocks(table) if experiment.layouts else max((row.blocks.size for row in rows), default=0),
        runs=len(table),
        correction=CORRECTIONS.get(experiment.correction, CORRECTIONS[FAMILY_CORRECTION]),
        layouts=tuple(spreads(experiment, variants, workloads, cells, busy)) if experiment.layouts else (),
        effects=effects,
        interactions=interactions,
        latencies=latencies(experiment, variants, table),
        time_series=time_series(experiment, variants, table),
        failure_rates=findings.failure_rates,
    )


def _blocks(table: RunTable) -> int:
    """Return the number of blocks with a successful run, without the warm-up."""
    return int(distinct(table.block[(table.status == OK) & (table.block > 0)]).size)


def _judged(
    experiment: Experiment,
    rows: Sequence[Row],
    busy: frozenset[str],
    rates: ErrorRates,
    *,
    too_few: TooFew,
    carried: Mapping[Place, CarryOver],
) -> tuple[Comparison, ...]:
    counted = {row.group for row in rows if row.metric.name == OF_ALL["cpu"] and row.before.size}

    def preferred(row: Row) -> str:
        name = preferred_time(row.workload, row.group[2] in busy)
        return OF_ALL.get(name, name) if row.group in counted else name

    def judged(row: Row) -> Comparison:
        alpha = rates.level(row.family) if isinstance(row.inference, SignedRank) else rates.plain
        return msgspec.structs.replace(
            comparison(
                row,
                alpha=alpha,
                margin=experiment.margin,
                preferred=row.metric.name == preferred(row),
                tail_alpha=rates.level(row.tail_family),
                too_few=too_few,
            ),
            smallest_visible=smallest_visible(row, alpha),
            carry_over=carried.get(row.place),
        )

    return tuple(map(judged, rows))


def null_result(
    copy: Variant, comparisons: Sequence[Comparison], every_index: Sequence[Index], busy: frozenset[str]
) -> NullResult:
    """Count how often a copy of the baseline was judged different from it. Sizes are excluded, because they don't vary.

    Args:
        copy: of the baseline.
        comparisons: all of the analysis.
        every_index: all indices of suites.
        busy: the loads under which CPU time is read first.
    """
    compared = [
        found
        for found in comparisons
        if found.candidate == copy
        and found.metric.quantity is not Quantity.SIZE
        and found.verdict not in (Verdict.INVALID, Verdict.UNAVAILABLE)
    ]
    different = [found for found in compared if found.verdict in DECIDED]
    return NullResult(
        copy=copy,
        compared=len(compared),
        different=len(different),
        rows=tuple(f"{found.workload} {found.metric.name}" for found in different),
        index=tuple(
            index
            for index in every_index
            if index.candidate == copy and index.metric == ("cpu" if index.load in busy else "wall")
        ),
    )


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
    base = smaller if row.scale is Scale.RATIO else row.level
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
    if (
        experiment.own is None
        or experiment.virtual
        or experiment.rules < TAIL_RULES
        or row.inference is None
        or row.alone
    ):
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
    return interval.half_width / row.level if row.level > 0 else None
