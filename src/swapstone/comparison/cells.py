# SPDX-License-Identifier: MIT OR Apache-2.0
"""Group runs into cells: the values of each variant of a workload under a load, by block."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Container, Mapping, Sequence

from swapstone.model import Run, Status, Verdict, counted_blocks
from swapstone.stats import run_value

Group = tuple[str, str, str]
"""(suite, workload, load): the variants of a group are compared with each other."""

Cells = Mapping[Group, Mapping[str, "Cell"]]
"""By group, then by the label of the variant."""

TROUBLES = (Status.REFUSED, Status.UNAVAILABLE, Status.FAILED)
"""Statuses without values, the most severe first."""


@dataclasses.dataclass
class Cell:
    """The runs of one variant of one workload under one load.

    Attributes:
        values: the run's value by block and metric name, of successful runs that count.
        times: start (Unix time in nanoseconds, 0 where unknown) and duration in nanoseconds of the same runs, by block.
        counts: number of runs by status, with the warm-up and the discarded runs.
        reasons: the first reason of each status.
    """

    values: dict[int, dict[str, float]] = dataclasses.field(default_factory=dict)
    times: dict[int, tuple[int, int]] = dataclasses.field(default_factory=dict)
    counts: collections.Counter[Status] = dataclasses.field(default_factory=collections.Counter)
    reasons: dict[Status, str] = dataclasses.field(default_factory=dict)

    def exclusion(self, side: str) -> tuple[Verdict, str] | None:
        """Return why this cell can't enter a comparison; None if it can.

        Args:
            side: ``baseline`` or ``candidate``, for the text of the reason.
        """
        runs = self.counts.total()
        if refused := self.counts[Status.REFUSED]:
            return Verdict.INVALID, f"{side} refused in {refused} of {runs} runs: {self.reasons[Status.REFUSED]}"
        if self.counts[Status.UNAVAILABLE] and not self.counts[Status.OK]:
            return Verdict.UNAVAILABLE, f"{side}: {self.reasons[Status.UNAVAILABLE]}"
        failed = self.counts[Status.FAILED]
        if 2 * failed > runs:
            return Verdict.INVALID, f"{side} fails: {self.reasons[Status.FAILED]} ({failed} of {runs} runs)"
        return None


def collect(runs: Sequence[Run], wanted: Container[str] | None = None) -> Cells:
    """Group runs into cells.

    Args:
        runs: in any order; at most one per trial. Those that are discarded are counted and give no values (`counted_blocks`).
        wanted: names of the metrics to reduce to one value per run; None for all.
    """
    cells: dict[Group, dict[str, Cell]] = {}
    counted = counted_blocks(run.trial for run in runs)
    for run in runs:
        trial = run.trial
        place = (trial.suite, trial.workload, trial.load)
        group = cells.setdefault(place, {})
        cell = group.setdefault(trial.variant, Cell())
        cell.counts[run.status] += 1
        if run.status is not Status.OK:
            cell.reasons.setdefault(run.status, run.reason or "no reason given")
        elif not trial.prime and trial.block in counted.get(place, ()):
            cell.times[trial.block] = run.started_unix_ns, run.elapsed_ns
            cell.values[trial.block] = {
                sample.metric: run_value(sample.values)
                for sample in run.samples
                if sample.values and (wanted is None or sample.metric in wanted)
            }
    return cells
