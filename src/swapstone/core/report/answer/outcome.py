# SPDX-License-Identifier: MIT OR Apache-2.0
"""The finding of each row about its candidate, and the exit status of a command that follows from them (`swapstone.exit_status`).

A row with an interval is judged by it. One without is the candidate's fault where only the candidate's runs fail, where it alone does not
build, or where it does other work. Two failed runs are needed, because one is a caveat: a machine can kill a run by chance.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from swapstone.core.model import (
    NO_CANDIDATE_BUILDS,
    NO_NUMBERS,
    NOT_BUILT,
    OTHER_WORK,
    Analysis,
    Comparison,
    Direction,
    Experiment,
    FailureRates,
    FrozenStruct,
    Quantity,
    Scale,
    Verdict,
    grouped,
)
from swapstone.core.report import formatting
from swapstone.core.report.answer.limits import share, shown
from swapstone.core.report.answer.means import bounds_of, have_numbers, places_of
from swapstone.exit_status import ExitStatus, Finding

_MOST_ROWS = 5


class FailIf(FrozenStruct, frozen=True, kw_only=True):
    """A condition of ``--fail-if``.

    Attributes:
        metric: whose rows are judged; empty for those that an answer states: what the user asked for, times, CPU time.
        margin: how much worse a candidate may be, as a ratio, e.g. 0.05; None for the experiment's margin.
    """

    metric: str = ""
    margin: float | None = None


class Outcome(FrozenStruct, frozen=True, kw_only=True):
    """An exit status, and why.

    Attributes:
        status: `ExitStatus.SUCCESS`, `WORSE` or `NO_RESULT`.
        reason: one line; empty for `SUCCESS`. It contains names of the record unescaped.
    """

    status: ExitStatus = ExitStatus.SUCCESS
    reason: str = ""


def worse_rows(
    analysis: Analysis, experiment: Experiment, conditions: Sequence[FailIf] = (FailIf(),)
) -> tuple[Comparison, ...]:
    """Return the rows that show a candidate to be worse by more than a margin, in the order of the analysis.

    A row counts if its verdict is worse, worse tail, or mixed, or exact and below the experiment's margin, and if the whole interval of its
    ratio is beyond the margin: that of the medians, or, where the tail or the mean is worse, that of the means. Copies never count.

    Args:
        analysis: of a record.
        experiment: gives the default margin.
        conditions: which rows, and which margins.
    """
    found = _findings(analysis, experiment, conditions)
    return tuple(dict.fromkeys(row for row, finding, _ in found if finding is Finding.WORSE))


def is_worse(row: Comparison, margin: float) -> bool:
    """Return whether the whole interval of a row is beyond a margin, on the worse side.

    Args:
        row: judged.
        margin: as a ratio, e.g. 0.05.
    """
    differs = row.verdict in {Verdict.WORSE, Verdict.MIXED, Verdict.BELOW_MARGIN}
    median = [(row.low, row.high)] if differs else []
    mean = [(row.mean_low, row.mean_high)] if row.verdict in {Verdict.WORSE_TAIL, Verdict.MIXED} else []
    return any(
        _beyond(row, low, high, margin) for low, high in (*median, *mean) if low is not None and high is not None
    )


def _beyond(row: Comparison, low: float, high: float, margin: float) -> bool:
    most, least = 1 + margin, 1 / (1 + margin)
    if row.scale is not Scale.RATIO:
        ordered = sorted(row.baseline_values)
        most = margin * abs(ordered[len(ordered) // 2]) if ordered else 0.0
        least = -most
    return {Direction.LOWER: low > most, Direction.HIGHER: high < least}.get(row.metric.better, False)


def finding_of(row: Comparison, margin: float, rates: FailureRates | None = None) -> Finding:
    """Return what a row shows about its candidate.

    Args:
        row: judged.
        margin: how much worse the candidate may be, as a ratio.
        rates: how often the runs of both sides fail; None where no run was made.
    """
    if rates is not None and row.metric.quantity is not Quantity.SIZE and _fails_alone(rates):
        return Finding.FAILS
    if row.verdict not in NO_NUMBERS and bounds_of(row) is not None:
        return Finding.WORSE if is_worse(row, margin) else Finding.NONE
    reason = row.reason.removeprefix("candidate: ").removeprefix(f"baseline: {NO_CANDIDATE_BUILDS}")
    if row.verdict is Verdict.UNAVAILABLE and reason != row.reason and NOT_BUILT in reason:
        return Finding.NOT_BUILT
    if row.verdict is Verdict.INVALID and not row.reason.startswith("baseline"):
        words = reason.partition(" runs: ")[2] if reason.startswith("candidate refused") else reason
        if words.startswith(OTHER_WORK):
            return Finding.OTHER_WORK
    side_fails = rates is not None and rates.baseline_runs.failed and rates.unfit
    return Finding.BASELINE if side_fails or row.reason.startswith("baseline") else Finding.NOT_COMPARED


def _fails_alone(rates: FailureRates) -> bool:
    """Return whether the candidate's runs fail and the baseline works: without a failed run, or failing significantly less often."""
    before, after = rates.baseline_runs, rates.candidate_runs
    often = "candidate" in rates.unfit or 0 < after.failed == after.runs
    return rates.fails_more == "candidate" or (often and before.runs > before.refused and not before.failed)


def _findings(
    analysis: Analysis, experiment: Experiment, conditions: Sequence[FailIf]
) -> Iterator[tuple[Comparison, Finding, FailureRates | None]]:
    """Yield the rows that conditions judge, in the order of the analysis, each with its finding and the rates of failed runs.

    Without a metric these are the rows that the answer states. Those beside the rows to read first count where they are worse.
    """
    known = {(each.suite, each.workload, each.load, each.candidate): each for each in analysis.failure_rates}
    for place, condition in itertools.product(places_of(analysis, experiment.printed_metrics), conditions):
        margin = experiment.margin if condition.margin is None else condition.margin
        named = [row for row in place.rows if row.metric.name == condition.metric]
        first = named if condition.metric else place.leads or place.rows
        for row in named if condition.metric else place.deciding:
            rates = known.get((row.suite, row.workload, row.load, row.candidate))
            finding = finding_of(row, margin, rates)
            if row in first or finding.status is ExitStatus.WORSE:
                yield row, finding, rates


def without_result(analysis: Analysis) -> tuple[Comparison, ...]:
    """Return a row of each candidate that has no usable row at all, with the reason. Sizes of programs are no result of a run."""
    every = (row for place in places_of(analysis) for row in place.rows)
    found = grouped((row for row in every if row.metric.quantity is not Quantity.SIZE), lambda row: row.candidate)
    return tuple(
        next((row for row in rows if row.verdict in NO_NUMBERS), rows[0])
        for rows in found.values()
        if not have_numbers(rows)
    )


def failing(analysis: Analysis) -> tuple[FailureRates, ...]:
    """Return the failure rates of candidates that fail although the baseline works, without copies of the baseline."""
    return tuple(each for each in shown(analysis) if _fails_alone(each))


def outcome_of(analysis: Analysis, experiment: Experiment, conditions: Sequence[FailIf] = ()) -> Outcome:
    """Return the exit status of a comparison, as `Finding` has it for the findings of its rows.

    Args:
        analysis: of a record.
        experiment: of the record.
        conditions: of ``--fail-if``; without any, only a candidate without any number ends a command with another status than 0.
    """
    found = list(_findings(analysis, experiment, conditions))
    for finding in Finding:
        why = dict.fromkeys(_why(row, finding, rates) for row, each, rates in found if each is finding)
        if why and finding.status:
            return Outcome(status=finding.status, reason=f"--fail-if: {_listed(list(why))}")
    if lost := without_result(analysis):
        texts = [f"{row.candidate.shown_label} has no result: {row.verdict.value}: {row.reason}" for row in lost]
        return Outcome(status=ExitStatus.NO_RESULT, reason=_listed(texts))
    if not analysis.comparisons:
        return Outcome(status=ExitStatus.NO_RESULT, reason=Finding.NOT_COMPARED.text)
    return Outcome()


def _why(row: Comparison, finding: Finding, rates: FailureRates | None) -> str:
    """Return a row's finding with the figures that show it."""
    load = f" under {row.load}" if row.load != "idle" else ""
    name = f"{row.workload}{load}, {row.candidate.shown_label}"
    if finding is Finding.WORSE:
        return f"{name}: {row.metric.name} {formatting.estimate(row)} is {row.verdict.value}"
    if finding is Finding.FAILS and rates is not None:
        return f"{name}: {share(rates.candidate_runs)} of its runs fail, and {share(rates.baseline_runs)} of the baseline's"
    return f"{name}: {row.verdict.value}: {row.reason}"


def _listed(texts: Sequence[str]) -> str:
    more = [f"and {len(texts) - _MOST_ROWS} more"] if len(texts) > _MOST_ROWS else []
    return "; ".join([*texts[:_MOST_ROWS], *more])
