# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which row of a record is explained."""

from __future__ import annotations

import dataclasses
import fnmatch
import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from swapstone.core.model import (
    Analysis,
    Comparison,
    Experiment,
    Run,
    Scale,
    Status,
    UserError,
    Verdict,
    Workload,
    unknown,
)
from swapstone.core.model.safe_text import safe
from swapstone.core.record import RecordView
from swapstone.core.report.verdict_groups import DIFFERS
from swapstone.core.session.progress import NO_PROGRESS, Progress
from swapstone.core.session.trust import require_trust
from swapstone.core.workloads import workloads_of
from swapstone.parts.explain.model.explanation import RowKey
from swapstone.parts.explain.session import explanation_files


@dataclasses.dataclass(frozen=True)
class ExplainOptions:
    """Which row is explained, and how.

    Attributes:
        metric: name of a metric; None for the preferred one.
        workload: name or pattern; None for all.
        candidate: label of a candidate, or its level; None for all.
        load: name of a load; None for all.
        again: whether to run under instruments although evidence is stored.
        without: names of instruments to leave out.
        trust: whether the record's commands may run though another user or machine made it, or it was edited.
        confirm: whether remedies for what is named are tried.
        paths: whether calls are followed on the exact clock; without, there are functions and no call paths.
    """

    metric: str | None = None
    workload: str | None = None
    candidate: str | None = None
    load: str | None = None
    again: bool = False
    without: tuple[str, ...] = ()
    trust: bool = False
    confirm: bool = False
    paths: bool = True


DEFAULT_OPTIONS = ExplainOptions()


@dataclasses.dataclass(frozen=True)
class ExplainedRow:
    """A row of a record that is explained.

    Attributes:
        view: the record.
        comparison: the row.
        options: how it is explained.
        progress: receives events.
    """

    view: RecordView
    comparison: Comparison
    options: ExplainOptions = DEFAULT_OPTIONS
    progress: Progress = NO_PROGRESS

    @cached_property
    def place(self) -> RowKey:
        """Return the row's key."""
        row = self.comparison
        return RowKey(
            suite=row.suite,
            workload=row.workload,
            load=row.load,
            metric=row.metric.name,
            baseline=row.baseline.label,
            candidate=row.candidate.label,
        )

    @property
    def folder(self) -> Path:
        """Return where its explanation is stored."""
        return explanation_files.folder_of(self.view, self.place)

    @property
    def workload(self) -> Workload:
        """Return its workload."""
        return workloads_of(self.view.experiment)[self.place.suite, self.place.workload]

    def runs(self) -> list[Run]:
        """Return the runs of the row that can be run again and compared with the record: they are ok, with output and name."""
        key = (self.place.suite, self.place.workload, self.place.load)
        return [
            run
            for run in self.view.runs
            if run.trial.group == key and run.status is Status.OK and run.output and run.name
        ]

    def require_runnable(self, needs: str) -> None:
        """Check that the row's programs may run again.

        Args:
            needs: what would run, as the error has it.

        Raises:
            UntrustedRecordError: the user did not make the record here, or it was damaged or edited.
            UserError: nothing was built.
        """
        require_trust(self.view, "explain the row", trust=self.options.trust, more=[needs])
        if self.view.manifest is None:
            raise UserError(f"{self.view.path} ended before anything was built: there is nothing to run again.")


def has_other_medians(row: Comparison) -> bool:
    """Return whether a row's verdict is a difference, and its ratio of medians shows it: that is what an explanation splits."""
    if row.verdict not in DIFFERS or row.effect is None or row.median_low is None or row.median_high is None:
        return row.verdict in DIFFERS
    none = 1.0 if row.scale is Scale.RATIO else 0.0
    return row.median_low > none if row.effect > none else row.median_high < none


def choose_row(analysis: Analysis, options: ExplainOptions, *, undecided: bool = False) -> Comparison:
    """Return the row with the largest difference among those that match.

    If a workload is named and all rows that match lacked processors (`Verdict.DISTURBED`), it is one of them: the runs under instruments
    have a difference of their own.

    Args:
        analysis: of the record.
        options: which rows match.
        undecided: whether a row may be chosen whose verdict is not that it differs, though several match.

    Raises:
        UserError: no row matches, or none of those that match differs.
    """
    metric, workload, candidate, load = options.metric, options.workload, options.candidate, options.load
    copies = {null.copy for null in analysis.nulls}
    every = [row for row in analysis.comparisons if row.candidate not in copies]
    named = [
        row
        for row in every
        if (row.preferred if metric is None else row.metric.name == metric)
        and (workload is None or fnmatch.fnmatchcase(row.workload, workload) or row.workload == workload)
        and (candidate is None or candidate in {row.candidate.label, row.candidate.short_label})
        and (load is None or row.load == load)
    ]
    matching = [row for row in named if row.effect is not None]
    disturbed = [row for row in named if row.verdict is Verdict.DISTURBED]
    if not matching and disturbed and workload is not None:
        return disturbed[0]
    if not matching:
        if row := next((each for each in named if each.reason), None):
            raise UserError(
                safe(f"The row {row.workload}, {row.metric.name}, has no result to explain: {row.verdict.value}."),
                safe(f"{row.reason}. Repeat the experiment: swapstone rerun RECORD"),
            )
        _check_names(every, options)
        rows = [row for row in every if row.effect is not None]
        names = ", ".join(dict.fromkeys(row.workload for row in rows)) or "none"
        raise UserError(
            "No row of the record matches.",
            safe(
                f"Workloads: {names}. Candidates: {', '.join(dict.fromkeys(row.candidate.label for row in rows)) or 'none'}. "
                f"Metrics: {', '.join(dict.fromkeys(row.metric.name for row in rows)) or 'none'}."
            ),
        )
    different = [row for row in matching if has_other_medians(row)]
    if not different and not undecided and (workload is None or len(matching) > 1):
        undecided_rows = sum(row.verdict is Verdict.INCONCLUSIVE for row in matching)
        if undecided_rows:
            raise UserError(
                f"Too few pairs: {undecided_rows} of the {len(matching)} rows that match decide no difference.",
                "Measure more: swapstone compare --resume RECORD. Or name a row with --only to see its functions and its counts.",
            )
        raise UserError(
            f"There is nothing to explain: none of the {len(matching)} rows that match has a different median.",
            "Name one with --only to see its functions and its counts.",
        )
    return max(different or matching, key=_distance)


def _check_names(rows: Sequence[Comparison], options: ExplainOptions) -> None:
    """Check each name by itself.

    Raises:
        UserError: the record has no row with a result, or no such metric, workload, candidate or load; the hint has those of the record.
    """
    if all(row.effect is None for row in rows):
        raise UserError(
            "No row of this record has a result to explain.",
            "`swapstone show RECORD` prints why, and `swapstone verify RECORD` whether it was edited.",
        )
    candidates = {label for row in rows for label in (row.candidate.label, row.candidate.short_label)}
    workloads = {row.workload for row in rows}
    wanted = options.workload or ""
    patterns = {wanted} if fnmatch.filter(workloads, wanted) else set()
    for what, name, known, shown in (
        ("load", options.load, {row.load for row in rows}, None),
        ("metric", options.metric, {row.metric.name for row in rows}, None),
        ("workload", options.workload, workloads | patterns, workloads),
        ("candidate", options.candidate, candidates, {row.candidate.label for row in rows}),
    ):
        if name is not None and name not in known:
            raise unknown(f"{what} of this record", name, shown or known)


def _distance(row: Comparison) -> float:
    if row.effect is None:
        return 0.0
    return abs(math.log(row.effect)) if row.scale.value == "ratio" and row.effect > 0 else abs(row.effect)


def has_wakeups(workload: Workload) -> bool:
    """Return whether a workload measures wake-ups whose path can be derived."""
    return workload.real_time and workload.unchanged


def measures_wakeups(experiment: Experiment) -> bool:
    """Return whether a workload of an experiment measures wake-ups whose path can be derived."""
    return experiment.virtual and any(has_wakeups(each) for each in workloads_of(experiment).values())
