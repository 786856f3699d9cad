# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reruns: the experiment of a record again, and how far the two records agree."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from swapstone.model import Analysis, Comparison, Experiment, Scale, UserError, Verdict
from swapstone.record import RecordView, manifest_differences, new_record_path
from swapstone.session.experiment import start
from swapstone.session.progress import NO_PROGRESS, Progress

APART, NEAR, OVERLAP, UNKNOWN = "apart", "near", "overlap", "unknown"


@dataclasses.dataclass(frozen=True)
class RerunRow:
    """A comparison of both records.

    Attributes:
        first, second: the comparison in each.
        intervals: ``overlap``; ``near`` if the gap is within the margin; ``apart``; ``unknown`` if one has no interval.
    """

    first: Comparison
    second: Comparison
    intervals: str

    @property
    def changed_sign(self) -> bool:
        """Return whether one is better and the other worse."""
        return {self.first.verdict, self.second.verdict} == {Verdict.BETTER, Verdict.WORSE}


def rerun(view: RecordView, out: Path | None = None, progress: Progress = NO_PROGRESS) -> Path:
    """Run a record's experiment again, with the same plan and the same passes.

    Returns:
        The folder of the new record.

    Raises:
        UserError: the record ended before anything was built, or as `swapstone.session.experiment.start`.
        Interrupted: a signal ended it.
    """
    if view.manifest is None:
        raise UserError(f"{view.path} ended before anything was built: there is nothing to repeat.")
    passes = {(suite, workload): count for suite, workload, count in view.manifest.passes}
    path = out or new_record_path(f"rerun-{view.path.name[16:] or view.experiment.name}")
    return start(view.experiment, path, passes=passes, progress=progress)


def rerun_rows(experiment: Experiment, first: Analysis, second: Analysis) -> list[RerunRow]:
    """Pair the comparisons of the preferred metrics.

    Args:
        experiment: its margin decides which gaps between intervals matter.
        first: the analysis of the first record.
        second: of the second.
    """
    again = {_key(comparison): comparison for comparison in second.comparisons}
    rows = []
    for comparison in first.comparisons:
        other = again.get(_key(comparison))
        if other is None or not comparison.preferred:
            continue
        if comparison.scale is Scale.RATIO and other.scale is Scale.RATIO:
            rows.append(RerunRow(comparison, other, _intervals(comparison, other, experiment.margin)))
    return rows


def rerun_differences(first: RecordView, second: RecordView) -> tuple[str, ...]:
    """Return what differs between machine, tools and programs of two records."""
    if first.manifest is None or second.manifest is None:
        return ("a record has no manifest",)
    return manifest_differences(first.manifest, second.manifest)


def _key(comparison: Comparison) -> tuple[str, ...]:
    return (comparison.suite, comparison.workload, comparison.load, comparison.metric.name, comparison.candidate.label)


def _intervals(first: Comparison, second: Comparison, margin: float) -> str:
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return UNKNOWN
    gap = max(first.low, second.low) / min(first.high, second.high) - 1
    if gap <= 0:
        return OVERLAP
    return NEAR if gap <= margin else APART
