# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compute the analysis of an experiment from its runs."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from swapstone.core.comparison.caveats import DIFFERENT, caveats_of
from swapstone.core.comparison.cells import OF_ALL, collect, left_out_caveats, measured_candidates
from swapstone.core.comparison.checks import Place, check, checked
from swapstone.core.comparison.factor_effects import judged
from swapstone.core.comparison.factorial import estimates
from swapstone.core.comparison.hypotheses import error_rates, fewest_rows
from swapstone.core.comparison.latencies import latencies, time_series
from swapstone.core.comparison.layout_spread import spreads
from swapstone.core.comparison.machine_noise import busy_loads, noise_of, observed_turns, observed_waits, preferred_time
from swapstone.core.comparison.pairs import interval_pairs
from swapstone.core.comparison.processors import undisturbed
from swapstone.core.comparison.rows import ErrorRates, Row, SizeValues, run_rows, size_rows
from swapstone.core.comparison.run_table import OK, STATUSES, Runs, RunTable, as_table, metric_names
from swapstone.core.comparison.suite_index import index_estimates, indices
from swapstone.core.comparison.verdicts import TooFew, comparison, smallest_visible, too_few_pairs_reason
from swapstone.core.model import (
    DIRECTION_RULES,
    FAMILY_CORRECTION,
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
    Variant,
    Verdict,
    WorkSpec,
)
from swapstone.core.plan import groups
from swapstone.core.stats import SignedRank, distinct

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
    found = [
        *run_rows(experiment, variants, workloads, cells, candidates_of),
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
    different = [found for found in compared if found.verdict in DIFFERENT]
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
