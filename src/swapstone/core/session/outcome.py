# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a record means for a script: whether a candidate is worse, whether a variant gave no result, and the exit status for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from swapstone.core.model import (
    Analysis,
    Comparison,
    Direction,
    Experiment,
    FailureRates,
    FrozenStruct,
    Quantity,
    Scale,
    UserError,
    Verdict,
    WorkSpec,
)
from swapstone.core.report.answer.failing import share, shown
from swapstone.core.report.answer.places import Place, have_numbers, places_of
from swapstone.core.report.formatting import estimate
from swapstone.core.session.values import parse_ratio

EXIT_WORSE = 3
"""A candidate is worse by more than the margin of ``--fail-if``, or fails more often."""

EXIT_NO_RESULT = 4
"""A variant gave no result; with ``--fail-if`` also: a row that decides gave none."""

FORM = "For example: --fail-if worse, --fail-if worse:5%, --fail-if maxrss=worse:10%"
_CONDITION = re.compile(r"(?:(?P<metric>.+)=)?worse(?::(?P<margin>.+))?", re.DOTALL)
_WITHOUT_RESULT = (Verdict.INVALID, Verdict.UNAVAILABLE, Verdict.DISTURBED)
_MOST_ROWS = 5


class FailIf(FrozenStruct, frozen=True, kw_only=True):
    """A condition of ``--fail-if``.

    Attributes:
        metric: whose rows are judged; empty for the time or rate that reports read first.
        margin: how much worse a candidate may be, as a ratio, e.g. 0.05; None for the experiment's margin.
    """

    metric: str = ""
    margin: float | None = None

    def margin_of(self, experiment: Experiment) -> float:
        """Return how much worse a candidate may be, as a ratio."""
        return experiment.margin if self.margin is None else self.margin


class Outcome(FrozenStruct, frozen=True, kw_only=True):
    """An exit status, and why.

    Attributes:
        status: 0, `EXIT_WORSE` or `EXIT_NO_RESULT`.
        reason: one line; empty for status 0. It contains names of the record unescaped.
    """

    status: int = 0
    reason: str = ""


def parse_fail_if(texts: Sequence[str]) -> tuple[FailIf, ...]:
    """Parse texts of the form ``[METRIC=]worse[:MARGIN]``.

    Raises:
        UserError: a text has another form, or its margin is not between 0 and 100 %.
    """
    found = []
    for text in texts:
        match = _CONDITION.fullmatch(text.strip())
        if match is None:
            raise UserError(f"{text!r} is not [METRIC=]worse[:MARGIN].", FORM)
        margin = parse_ratio(match["margin"], "--fail-if", 0.0, 1.0) if match["margin"] else None
        found.append(FailIf(metric=match["metric"] or "", margin=margin))
    return tuple(found)


def check_fail_if(
    conditions: Sequence[FailIf], experiment: Experiment, works: Callable[[], Iterable[WorkSpec]]
) -> None:
    """Check before anything is measured that each condition can be judged.

    Raises:
        UserError: no workload has the metric, or the margin is below the experiment's, inside which rows are not told apart.
    """
    if not conditions:
        return
    metrics = {metric.name: metric for work in works() for metric in work.metrics}
    for each in conditions:
        if each.metric and each.metric not in metrics:
            raise UserError(
                f"--fail-if names the metric {each.metric!r}, which nothing here measures.", _known(metrics)
            )
        if each.metric and metrics[each.metric].better is Direction.NEITHER:
            raise UserError(
                f"--fail-if names the metric {each.metric!r}: neither direction of it is better or worse.",
                "Name another metric. One that your own program prints has a direction if you give it: NAME[UNIT,lower]=regex:PATTERN",
            )
        if each.margin is not None and each.margin < experiment.margin:
            raise UserError(
                f"--fail-if worse:{100 * each.margin:g}% is below the experiment's margin of {100 * experiment.margin:g} %, inside which "
                "differences are of no interest.",
                f"Lower both: --margin {100 * each.margin:g}% --fail-if worse",
            )


def _known(metrics: Iterable[str]) -> str:
    return f"Its metrics are {', '.join(sorted(metrics))}. {FORM}"


def worse_rows(
    analysis: Analysis, experiment: Experiment, conditions: Sequence[FailIf] = (FailIf(),)
) -> tuple[Comparison, ...]:
    """Return the rows that show a candidate to be worse by more than a margin, in the order of the analysis.

    A row counts if its verdict is worse, worse tail, or mixed, and if the whole interval of its ratio is beyond the margin: that of
    the medians, or, where the tail or the mean is worse, that of the means. Copies of the baseline never count.

    Args:
        analysis: of a record.
        experiment: gives the default margin.
        conditions: which rows, and which margins.
    """
    found = []
    for place in places_of(analysis):
        for each in conditions:
            margin = each.margin_of(experiment)
            found += [row for row in _judged(place, each) if row not in found and is_worse(row, margin)]
    return tuple(found)


def is_worse(row: Comparison, margin: float) -> bool:
    """Return whether the whole interval of a row is beyond a margin, on the worse side.

    Args:
        row: judged.
        margin: as a ratio, e.g. 0.05.
    """
    median, mean = (row.low, row.high), (row.mean_low, row.mean_high)
    intervals = {
        Verdict.WORSE: (median,),
        Verdict.WORSE_TAIL: (mean,),
        Verdict.MIXED: (median, mean),
    }.get(row.verdict, ())
    return any(_beyond(row, low, high, margin) for low, high in intervals if low is not None and high is not None)


def _beyond(row: Comparison, low: float, high: float, margin: float) -> bool:
    if row.scale is Scale.RATIO:
        above, below = low > 1 + margin, high < 1 / (1 + margin)
    else:
        ordered = sorted(row.baseline_values)
        limit = margin * abs(ordered[len(ordered) // 2]) if ordered else 0.0
        above, below = low > limit, high < -limit
    return above if row.metric.better is Direction.LOWER else below if row.metric.better is Direction.HIGHER else False


def _judged(place: Place, condition: FailIf) -> Sequence[Comparison]:
    """Return the rows of a place that a condition judges."""
    if condition.metric:
        return [row for row in place.rows if row.metric.name == condition.metric]
    return place.leads or place.rows


def without_result(analysis: Analysis) -> tuple[Comparison, ...]:
    """Return a row of each candidate that has no usable row at all, with the reason. Sizes of programs are no result of a run."""
    found = []
    places = places_of(analysis)
    for candidate in dict.fromkeys(place.candidate for place in places):
        rows = [
            row
            for place in places
            if place.candidate == candidate
            for row in place.rows
            if row.metric.quantity is not Quantity.SIZE
        ]
        if rows and not have_numbers(rows):
            found.append(next((row for row in rows if row.verdict in _WITHOUT_RESULT), rows[0]))
    return tuple(found)


def failing(analysis: Analysis) -> tuple[FailureRates, ...]:
    """Return the failure rates of candidates that fail significantly more often than the baseline, without copies of the baseline."""
    return tuple(each for each in shown(analysis) if each.fails_more == "candidate")


def outcome_of(analysis: Analysis, experiment: Experiment, conditions: Sequence[FailIf] = ()) -> Outcome:
    """Return the exit status of a comparison. A worse row decides before rows without a result: it is a finding.

    A candidate that fails significantly more often than the baseline is worse, whatever the margin, unless each condition names a metric.

    Args:
        analysis: of a record.
        experiment: of the record.
        conditions: of ``--fail-if``; without any, no row can be too bad.
    """
    worse = [_worse_text(row) for row in worse_rows(analysis, experiment, conditions)]
    if any(not each.metric for each in conditions):
        worse += [_failing_text(each) for each in failing(analysis)]
    if worse:
        return Outcome(status=EXIT_WORSE, reason=f"--fail-if: {_listed(iter(worse), len(worse))}")
    if lost := without_result(analysis):
        return Outcome(status=EXIT_NO_RESULT, reason=_listed(map(_lost_text, lost), len(lost)))
    if conditions:
        rows = [row for place in places_of(analysis) for each in conditions for row in _judged(place, each)]
        bad = tuple(dict.fromkeys(row for row in rows if row.verdict in _WITHOUT_RESULT))
        if bad:
            texts = (f"{row.workload}, {row.candidate.label}: {row.verdict.value}: {row.reason}" for row in bad)
            return Outcome(status=EXIT_NO_RESULT, reason=f"--fail-if: {_listed(texts, len(bad))}")
    return Outcome()


def outcome_of_all(results: Iterable[tuple[Analysis, Experiment]], conditions: Sequence[FailIf] = ()) -> Outcome:
    """Return the exit status of several comparisons, such as the parts of a study: `EXIT_WORSE` before `EXIT_NO_RESULT` before 0.

    Args:
        results: of each record the analysis and the experiment.
        conditions: of ``--fail-if``; one that names a metric judges the records that have it.

    Raises:
        UserError: no record has the metric of a condition.
    """
    known = list(results)
    metrics = {row.metric.name for analysis, _ in known for row in analysis.comparisons}
    for each in conditions:
        if known and each.metric and each.metric not in metrics:
            raise UserError(
                f"--fail-if names the metric {each.metric!r}, which nothing here measures.", _known(metrics)
            )
    found = (outcome_of(analysis, experiment, conditions) for analysis, experiment in known)
    return min((each for each in found if each.status), key=lambda each: each.status, default=Outcome())


def _worse_text(row: Comparison) -> str:
    load = f" under {row.load}" if row.load != "idle" else ""
    return f"{row.workload}{load}, {row.candidate.label}: {row.metric.name} {estimate(row)} is {row.verdict.value}"


def _failing_text(each: FailureRates) -> str:
    load = f" under {each.load}" if each.load != "idle" else ""
    after, before = share(each.candidate_runs), share(each.baseline_runs)
    return f"{each.workload}{load}, {each.candidate.label}: {after} of its runs fail, and {before} of the baseline's"


def _lost_text(row: Comparison) -> str:
    return f"{row.candidate.label} has no result: {row.verdict.value}: {row.reason}"


def _listed(texts: Iterator[str], count: int) -> str:
    shown = [text for text, _ in zip(texts, range(_MOST_ROWS), strict=False)]
    more = f"; and {count - len(shown)} more" if count > len(shown) else ""
    return "; ".join(shown) + more
