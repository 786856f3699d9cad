# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records of one experiment on several boards: the effect over all of them, and which board differs. See docs/boards.md."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from swapstone.comparison.verdicts import verdict_of
from swapstone.model import (
    Analysis,
    Comparison,
    Experiment,
    FrozenStruct,
    Metric,
    Quantity,
    Scale,
    UserError,
    Variant,
    Verdict,
)
from swapstone.model.safe_text import safe
from swapstone.stats import deviating_units, pooled_estimate

ALPHA = 0.05
"""Of the interval over boards: three boards have two degrees of freedom, and 99 % would be 2.3 times as wide."""

_LEAST_PAIRS = 3

Place = tuple[str, str, str, Variant, str]
"""(suite, workload, load, candidate, metric)"""


class BoardRow(FrozenStruct, frozen=True, kw_only=True):
    """One row of the experiment on each board.

    Attributes:
        suite, workload, load: of the runs.
        candidate: the variant that is compared with the baseline.
        metric: of the values.
        sides: the comparison on each board, in the order of `BoardTable.boards`.
        ratio: over all boards: the exponential of the mean log ratio, with the boards as a random effect.
        low, high: its interval of level 1 - `ALPHA`, not corrected for the number of rows.
        spread: standard deviation of the boards' log ratios, without the error of their estimates.
        verdict: of that interval.
        deviating: numbers of the boards that differ from the others.
    """

    suite: str
    workload: str
    load: str
    candidate: Variant
    metric: Metric
    sides: tuple[Comparison, ...]
    ratio: float
    low: float
    high: float
    spread: float
    verdict: Verdict
    deviating: tuple[int, ...]

    @property
    def scale(self) -> Scale:
        """The scale of the interval, for formatting."""
        return Scale.RATIO


class BoardTable(FrozenStruct, frozen=True, kw_only=True):
    """The rows of an experiment on several boards.

    Attributes:
        boards: their names.
        rows: those of which every board has at least three pairs of runs of positive values, but for sizes of files.
        omitted: number of the other rows.
        margin: ratio of two effects that is of no interest.
        confidence: of the test of which board differs, for all rows and boards together.
    """

    boards: tuple[str, ...]
    rows: tuple[BoardRow, ...]
    omitted: int
    margin: float
    confidence: float

    def held(self, row: BoardRow) -> bool:
        """Return whether each board has the row's verdict over all boards; the same median is within the margin, too."""
        verdicts = {*(side.verdict for side in row.sides), row.verdict}
        return len(verdicts) == 1 or verdicts <= {Verdict.EQUIVALENT, Verdict.SAME_MEDIAN}


def several_boards(records: Sequence[tuple[Experiment, Analysis]]) -> BoardTable:
    """Compare the rows of an experiment over boards, each of which is a random draw from the boards of interest.

    A board's estimate is the mean of the log ratios of its pairs, and its standard error that of Student's t. docs/statistics.md gives the
    method.

    Args:
        records: at least three: experiment and analysis of each board.

    Raises:
        UserError: the records differ in something else than the target, are on the virtual clock, name a target twice, or have no row in
            common.
    """
    experiments = [experiment for experiment, _ in records]
    _check(experiments)
    found = [_by_place(analysis) for _, analysis in records]
    every = dict.fromkeys(place for side in found for place in side)
    common = [place for place in every if all(place in side and _usable(side[place]) for side in found)]
    if not common:
        raise UserError("The records have no row in common.", "Give them the same --suite and --only, and more blocks.")
    margin = max(experiment.margin for experiment in experiments)
    confidence = max(experiment.confidence for experiment in experiments)
    rate = (1 - confidence) / len(common)
    return BoardTable(
        boards=tuple(experiment.target for experiment in experiments),
        rows=tuple(_row(place, [side[place] for side in found], margin, rate) for place in common),
        omitted=len(every) - len(common),
        margin=margin,
        confidence=confidence,
    )


def _check(experiments: Sequence[Experiment]) -> None:
    hint = "Make one record on each board: swapstone compare ... --target ssh:BOARD"
    if len(experiments) < 3 or any(each.virtual for each in experiments):
        raise UserError("Boards are compared over three or more records on the wall clock.", hint)
    targets = [each.target for each in experiments]
    if twice := next((target for target in targets if targets.count(target) > 1), ""):
        raise UserError(
            f"Two records are of the target {safe(twice)}: they would count as two boards.",
            f"Name one of them, or print the two side by side: swapstone agree RECORD RECORD. {hint}",
        )
    first = experiments[0]
    for what, same in (
        ("factors or levels", all(each.applied_factors == first.applied_factors for each in experiments)),
        ("programs", all(each.own == first.own for each in experiments)),
    ):
        if not same:
            raise UserError(f"The records differ in more than the target: in their {what}.", hint)


def _by_place(analysis: Analysis) -> dict[Place, Comparison]:
    copies = {null.copy for null in analysis.nulls}
    return {
        (each.suite, each.workload, each.load, each.candidate, each.metric.name): each
        for each in analysis.comparisons
        if each.candidate not in copies and each.metric.quantity is not Quantity.SIZE
    }


def _usable(found: Comparison) -> bool:
    values = (*found.baseline_values, *found.candidate_values)
    return found.scale is Scale.RATIO and len(found.baseline_values) >= _LEAST_PAIRS and min(values) > 0


def _row(place: Place, sides: Sequence[Comparison], margin: float, rate: float) -> BoardRow:
    ratios = [np.log(side.candidate_values) - np.log(side.baseline_values) for side in sides]
    estimates = [float(each.mean()) for each in ratios]
    variances = [float(each.var(ddof=1)) / each.size for each in ratios]
    limit = math.log1p(margin)
    pooled = pooled_estimate(estimates, variances, ALPHA)
    suite, workload, load, candidate, _ = place
    return BoardRow(
        suite=suite,
        workload=workload,
        load=load,
        candidate=candidate,
        metric=sides[0].metric,
        sides=tuple(sides),
        ratio=math.exp(pooled.estimate),
        low=math.exp(pooled.interval.low),
        high=math.exp(min(pooled.interval.high, 700.0)),
        spread=pooled.spread,
        verdict=verdict_of(pooled.interval, limit, sides[0].metric.better),
        deviating=deviating_units(estimates, variances, [each.size - 1 for each in ratios], rate, limit),
    )
