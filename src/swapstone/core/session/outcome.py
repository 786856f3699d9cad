# SPDX-License-Identifier: MIT OR Apache-2.0
"""The conditions of ``--fail-if``, and the exit status of several records."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from swapstone.core.model import Analysis, Direction, Experiment, UserError, WorkSpec, refuse
from swapstone.core.report.answer.outcome import FailIf, Outcome, outcome_of
from swapstone.core.session.option_values import parse_ratio
from swapstone.exit_status import ExitStatus, Finding

FORM = "For example: --fail-if worse, --fail-if worse:5%, --fail-if maxrss=worse:10%"
_CONDITION = re.compile(r"(?:(?P<metric>.+)=)?worse(?::(?P<margin>.+))?", re.DOTALL)


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
        UserError: no workload has the metric, or the margin is below the experiment's, inside which only exact rows are told apart.
    """
    if not conditions:
        return
    metrics = {metric.name: metric for work in works() for metric in work.metrics}
    for each in conditions:
        metric, percent = metrics.get(each.metric), 100 * (experiment.margin if each.margin is None else each.margin)
        refuse(
            _unknown_metric(each, metrics),
            (
                metric is not None and metric.better is Direction.NEITHER,
                f"--fail-if names the metric {each.metric!r}: neither direction of it is better or worse.",
                "Name another metric. One that your own program prints has a direction if you give it: NAME[UNIT,lower]=regex:PATTERN",
            ),
            (
                percent < 100 * experiment.margin and not experiment.exact(metric),
                f"--fail-if worse:{percent:g}% is below the experiment's margin of {100 * experiment.margin:g} %, inside which "
                "differences are of no interest.",
                f"Lower both: --margin {percent:g}% --fail-if worse",
            ),
        )


def _unknown_metric(condition: FailIf, metrics: Iterable[str]) -> tuple[object, str, str]:
    message = f"--fail-if names the metric {condition.metric!r}, which nothing here measures."
    known = f"Its metrics are {', '.join(sorted(metrics))}. {FORM}"
    return condition.metric and condition.metric not in set(metrics), message, known


def outcome_of_all(
    results: Iterable[tuple[Analysis, Experiment]],
    conditions: Sequence[FailIf] = (),
    ended: Iterable[tuple[Finding, str]] = (),
) -> Outcome:
    """Return the exit status of several comparisons, such as the parts of a study: `WORSE` before `NO_RESULT` before `SUCCESS`.

    Args:
        results: of each record the analysis and the experiment.
        conditions: of ``--fail-if``; one that names a metric judges the records that have it.
        ended: the findings by which further comparisons ended before they had a result, each with its reason.

    Raises:
        UserError: no record has the metric of a condition.
    """
    known = list(results)
    metrics = {row.metric.name for analysis, _ in known for row in analysis.comparisons}
    if known:
        refuse(*(_unknown_metric(each, metrics) for each in conditions))
    found = [outcome_of(analysis, experiment, conditions) for analysis, experiment in known]
    found += [
        Outcome(status=finding.status if conditions else ExitStatus.NO_RESULT, reason=reason)
        for finding, reason in ended
    ]
    return min((each for each in found if each.status), key=lambda each: each.status, default=Outcome())


class Interrupted(KeyboardInterrupt):
    """A signal ended an experiment or a study. What was measured until then is in a sealed record.

    Attributes:
        path: the folder of the record or the study.
        resume: the command that resumes it.
    """

    def __init__(self, path: Path, resume: str) -> None:
        super().__init__(f"Interrupted. Resume with: {resume}")
        self.path = path
        self.resume = resume
