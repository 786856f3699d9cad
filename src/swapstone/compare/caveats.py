"""Caveats: reasons for distrust that the runs themselves give."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence

import numpy as np

from swapstone.compare.rows import Family, Row
from swapstone.model import Caveat, CaveatKind, Comparison, Experiment, Noise, Run, Scale, Status, Verdict
from swapstone.stats import binomial_tail, common_level, dependence_p_value

STEAL_PERCENT = 1.0
"""From so much stolen processor time on the report says so: the smallest effect that users commonly ask about."""

DEPENDENCE_RATE = 0.05
"""False discovery rate of the search for rows whose neighbouring pairs resemble each other."""

SURPRISE = 0.05
"""The nulls are called unusual when so many differing families have at most this probability."""

DIFFERENT = (Verdict.BETTER, Verdict.WORSE, Verdict.CHANGED)


def caveats_of(
    experiment: Experiment, runs: Sequence[Run], rows: Sequence[Row], comparisons: Sequence[Comparison], noise: Noise
) -> tuple[Caveat, ...]:
    """Find every caveat that the runs and their comparisons call for.

    Args:
        experiment: its confidence, and whether it has layouts.
        runs: all of the experiment.
        rows: as compared, parallel to `comparisons`.
        comparisons: with verdicts.
        noise: how busy the machine was.
    """
    return (
        *_few_blocks(experiment, comparisons),
        # On the virtual clock neither the host's noise nor the time of day has a part in any figure.
        *(() if experiment.virtual else _noisy(noise)),
        *_without_numbers(runs),
        # With layouts a row's values are in order of layouts, not of time.
        *(() if experiment.layouts or experiment.virtual else _dependent(rows)),
        *_nulls(rows, comparisons, 1 - experiment.confidence),
    )


def _few_blocks(experiment: Experiment, comparisons: Sequence[Comparison]) -> Iterator[Caveat]:
    few = [c for c in comparisons if c.verdict is Verdict.INCONCLUSIVE and c.low is None]
    if few:
        fewest = min(len(c.baseline_values) for c in few)
        yield Caveat(
            kind=CaveatKind.FEW_BLOCKS,
            message=f"{len(few)} of {len(comparisons)} comparisons have too few pairs of {_what_pairs(experiment)} "
            f"(from {fewest}) for any interval.",
            hint="Give it more --layouts, or fewer workloads with --only."
            if experiment.layouts
            else "Give it more time with --budget, or fewer workloads with --only.",
        )


def _what_pairs(experiment: Experiment) -> str:
    return "layouts" if experiment.layouts else "draws" if experiment.virtual else "runs"


def _noisy(noise: Noise) -> Iterator[Caveat]:
    if noise.busy:
        yield Caveat(
            kind=CaveatKind.BUSY_MACHINE,
            message=f"The machine was busy: in {noise.cpu_pressure_percent:.0f} % of a typical trial's time some task waited "
            "for a processor. CPU time is the figure to read first, except for work that waits.",
            hint="Stop what else runs here, or read CPU time.",
        )
    if noise.steal_percent is not None and noise.steal_percent >= STEAL_PERCENT:
        yield Caveat(
            kind=CaveatKind.STOLEN_TIME,
            message=f"The hypervisor gave {noise.steal_percent:.1f} % of this machine's processor time to others.",
            hint="Measure at another hour or on a machine of your own.",
        )


def _without_numbers(runs: Sequence[Run]) -> Iterator[Caveat]:
    kinds = (
        (Status.FAILED, CaveatKind.FAILED_TRIALS, "failed", "Those that failed are not among the numbers."),
        (Status.REFUSED, CaveatKind.REFUSED_TRIALS, "did not run as asked", "Their comparisons are invalid."),
    )
    for status, kind, what, consequence in kinds:
        found = [run for run in runs if run.status is status]
        if found:
            workloads = sorted({run.trial.workload for run in found})
            yield Caveat(
                kind=kind,
                message=f"{len(found)} of {len(runs)} trials {what} ({_some(workloads)}). {consequence}",
                hint="The report lists each with its reason.",
            )


def _dependent(rows: Sequence[Row]) -> Iterator[Caveat]:
    """Look at time rows only: their pairs are in order of time, and dependence there makes every interval too narrow."""
    timed = [row for row in rows if row.inference is not None and row.scale is Scale.RATIO and row.metric.unit == "ns"]
    if not timed:
        return
    p_values = [dependence_p_value(np.log(row.after) - np.log(row.before)) for row in timed]
    alpha = common_level(p_values, DEPENDENCE_RATE)
    found = [row for row, p in zip(timed, p_values, strict=True) if p <= alpha]
    if found:
        names = [f"{row.group[1]} {row.metric.name}" for row in found]
        yield Caveat(
            kind=CaveatKind.DEPENDENT_RUNS,
            message=f"Neighbouring pairs resemble each other in {len(found)} of {len(timed)} rows of times "
            f"({_some(names)}): their intervals may be too narrow.",
            hint="Measure longer, or again at another hour, and see whether the verdicts hold.",
        )


def _nulls(rows: Sequence[Row], comparisons: Sequence[Comparison], rate: float) -> Iterator[Caveat]:
    """Count by family: within one, rows share their runs, and the correction promises the rate for the family."""
    differing: collections.Counter[Family] = collections.Counter()
    for row, found in zip(rows, comparisons, strict=True):
        if row.null and (row.inference is not None or found.verdict in DIFFERENT):
            differing[row.family] += found.verdict in DIFFERENT
    hits, families = sum(1 for count in differing.values() if count), len(differing)
    if hits and binomial_tail(hits, families, rate) <= SURPRISE:
        yield Caveat(
            kind=CaveatKind.NULL_DIFFERS,
            message=f"The baseline differs from its own copies in {hits} of {families} tables, where chance would make it "
            f"{100 * rate:.3g} % of them: {differing.total()} rows. Verdicts of that size are not to be trusted here.",
            hint="Look at the same workloads in the null results before believing a verdict. Where only the relinked copy differs, it "
            "is where the code lies in memory that matters, and not the level.",
        )


def _some(names: Sequence[str], most: int = 4) -> str:
    """Name the first few of a list."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
