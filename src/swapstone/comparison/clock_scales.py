# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compare records of one experiment whose virtual clocks count different times for an instruction.

The virtual clock has one constant: the guest time of an instruction. Work that only executes instructions takes a multiple of it on both
sides of a ratio, so the ratio does not depend on it. Work that competes with a device, a timer or another clock in guest time does: its
ratio is a property of the constant too, and no single number may stand for it.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence

from swapstone.comparison.agreement import sign_of
from swapstone.comparison.size_agreement import SizeOutcome, sizes
from swapstone.model import Analysis, Comparison, Experiment, FrozenStruct, Metric, Quantity, Scale, UserError, Variant
from swapstone.model.safe_text import safe
from swapstone.stats import rejections

Place = tuple[str, str, str, Variant, str]
"""(suite, workload, load, candidate, metric)"""


class ScaleOutcome(enum.Enum):
    """Whether a row depends on the time of an instruction.

    `VERDICT`: two clocks give different verdicts or signs. `SIZE`: the same verdict, but effects whose sizes differ. `UNDECIDED`: neither
    a difference nor its absence is shown. `SAME`: the same verdict, and effects within the margin of each other. `NOT_COMPARABLE`: fewer
    than two clocks gave a result.
    """

    VERDICT = "verdict depends"
    SIZE = "size depends"
    UNDECIDED = "undecided"
    NOT_COMPARABLE = "not comparable"
    SAME = "same"

    @property
    def depends(self) -> bool:
        """Return whether the row is scale-dependent: no single number stands for it."""
        return self in {ScaleOutcome.VERDICT, ScaleOutcome.SIZE}


class ScaleRow(FrozenStruct, frozen=True, kw_only=True):
    """One row of the experiment on each of the clocks.

    Attributes:
        suite, workload, load: of the runs.
        candidate: the variant that is compared with the baseline.
        metric: of the values.
        sides: the comparison by each clock, in the order of `ScaleTable.scales`; None where a record has none.
        outcome: whether the row depends on the clock.
        reason: which clocks differ, or why there is no result; empty for `ScaleOutcome.SAME`.
    """

    suite: str
    workload: str
    load: str
    candidate: Variant
    metric: Metric
    sides: tuple[Comparison | None, ...]
    outcome: ScaleOutcome
    reason: str = ""

    @property
    def effects(self) -> tuple[float, ...]:
        """Return the effects of the clocks that have one: ratios, or differences in the metric's unit."""
        return tuple(each.effect for each in self.sides if each is not None and each.effect is not None)

    @property
    def one_kind(self) -> bool:
        """Return whether the effects can be compared: all are ratios, or all are differences."""
        return _one_kind(self.sides)


class ScaleTable(FrozenStruct, frozen=True, kw_only=True):
    """The rows of an experiment on several clocks.

    Attributes:
        scales: nanoseconds per instruction, ascending.
        rows: those that at least two records have, but for sizes of files, in the order of the first record.
        margin: ratio of two effects that is of no interest.
    """

    scales: tuple[int, ...]
    rows: tuple[ScaleRow, ...]
    margin: float

    def count(self, outcome: ScaleOutcome) -> int:
        """Return the number of rows with this outcome."""
        return sum(row.outcome is outcome for row in self.rows)

    @property
    def dependent(self) -> tuple[ScaleRow, ...]:
        """Return the rows that depend on the clock."""
        return tuple(row for row in self.rows if row.outcome.depends)


def clock_scales(records: Sequence[tuple[Experiment, Analysis]]) -> ScaleTable:
    """Compare the rows of records that differ in the time of an instruction alone.

    Sizes are compared with those of the shortest time of an instruction. They differ if every pair's ratio of one record is beyond every
    ratio of the other one by more than the margin: under equal distributions that has the probability 2 / C(n + m, n) for n and m pairs
    (the most extreme outcome of a permutation test of two independent samples), corrected over all rows by Benjamini and Hochberg's
    procedure. They also differ, or agree, by `swapstone.comparison.size_agreement.sizes`, at the rate divided by the number of the other
    clocks (Bonferroni). Draws of the same number on two clocks may be similar, which makes the separation less likely than stated.

    Args:
        records: at least two: experiment and analysis, each with another time of an instruction.

    Raises:
        UserError: the records differ in something else, are on another clock, share a time of an instruction, or have no row in common.
    """
    ordered = sorted(records, key=lambda record: record[0].ns_per_instruction)
    experiments = [experiment for experiment, _ in ordered]
    _check(experiments)
    scales = tuple(experiment.ns_per_instruction for experiment in experiments)
    found = [_by_place(analysis) for _, analysis in ordered]
    margin = max(experiment.margin for experiment in experiments)
    rate = 1 - max(experiment.confidence for experiment in experiments)
    compared = [_sizes(found[0], other, margin, rate / (len(ordered) - 1)) for other in found[1:]]
    for number, place in _separate(found, margin, rate):
        compared[number][place] = SizeOutcome.DIFFER
    rows = []
    for place in dict.fromkeys(place for side in found for place in side):
        if sum(place in side for side in found) < 2:
            continue  # an experiment may have been repeated for some of its rows alone
        sides = tuple(side.get(place) for side in found)
        outcome, reason = scale_outcome(
            sides, [each.get(place, SizeOutcome.NOT_COMPARABLE) for each in compared], scales
        )
        suite, workload, load, candidate, _ = place
        rows.append(
            ScaleRow(
                suite=suite,
                workload=workload,
                load=load,
                candidate=candidate,
                metric=next(each.metric for each in sides if each is not None),
                sides=sides,
                outcome=outcome,
                reason=reason,
            )
        )
    hint = "Give them the same --suite, --only and --load."
    if not rows:
        raise UserError("The records have no row in common.", hint)
    for number, scale in enumerate(scales):
        if all(row.sides[number] is None for row in rows):
            raise UserError(f"The record at {scale} ns has no row in common with the others.", hint)
    return ScaleTable(scales=scales, rows=tuple(rows), margin=margin)


_COMPARED = (
    ("factors or levels", lambda each: each.applied_factors),
    ("targets", lambda each: each.target),
    ("architectures", lambda each: each.architecture),
    ("processors", lambda each: each.cpu_model),
    ("numbers of processors", lambda each: each.processors),
    ("modules", lambda each: (each.modules, each.module_files)),
    ("programs", lambda each: each.own),
)
"""What records on different clocks have in common: name in messages, and how it is read from an experiment."""


def same_but_for_the_clock(first: Experiment, second: Experiment) -> bool:
    """Return whether two experiments on the virtual clock differ in the time of an instruction, and in nothing that decides a result."""
    return (
        first.virtual
        and second.virtual
        and first.ns_per_instruction != second.ns_per_instruction
        and all(read(first) == read(second) for _, read in _COMPARED)
    )


def _check(experiments: Sequence[Experiment]) -> None:
    hint = "Make them with: swapstone compare ... --target vm --ns-per-instruction 1,2,4"
    if len(experiments) < 2 or not all(each.virtual for each in experiments):
        raise UserError(
            "The time of an instruction is compared between two or more records on the virtual clock.", hint
        )
    scales = [each.ns_per_instruction for each in experiments]
    if twice := next((scale for scale in scales if scales.count(scale) > 1), 0):
        raise UserError(f"Two records count {twice} ns for an instruction.", hint)
    for what, read in _COMPARED:
        if any(read(each) != read(experiments[0]) for each in experiments):
            raise UserError(f"The records differ in more than the time of an instruction: in their {safe(what)}.", hint)


def _by_place(analysis: Analysis) -> dict[Place, Comparison]:
    copies = {null.copy for null in analysis.nulls}
    return {
        (each.suite, each.workload, each.load, each.candidate, each.metric.name): each
        for each in analysis.comparisons
        if each.candidate not in copies and each.metric.quantity is not Quantity.SIZE
    }


def _sizes(
    first: Mapping[Place, Comparison], other: Mapping[Place, Comparison], margin: float, rate: float
) -> dict[Place, SizeOutcome]:
    pairs = {place: (found, other[place]) for place, found in first.items() if place in other}
    return {place: size.outcome for place, size in sizes(pairs, ("first", "other"), margin=margin, rate=rate).items()}


def _separate(found: Sequence[Mapping[Place, Comparison]], margin: float, rate: float) -> list[tuple[int, Place]]:
    """Return the rows whose ratios on another clock are all beyond those on the first one, as (number of the other clock, row)."""
    p_values = {
        (number, place): separation_p_value(_log_ratios(one), _log_ratios(other[place]), math.log1p(margin))
        for number, other in enumerate(found[1:])
        for place, one in found[0].items()
        if place in other and _positive(one) and _positive(other[place])
    }
    ordered = sorted(p_values, key=lambda key: p_values[key])
    return ordered[: rejections(list(p_values.values()), rate)]


def _log_ratios(found: Comparison) -> list[float]:
    pairs = zip(found.baseline_values, found.candidate_values, strict=True)
    return [math.log(after) - math.log(before) for before, after in pairs]


def separation_p_value(first: Sequence[float], second: Sequence[float], limit: float) -> float:
    """Return the p-value of two samples that are separate: all of one beyond all of the other by more than a limit; else 1.

    Args:
        first: a sample; an empty one gives 1.
        second: an independent sample; likewise.
        limit: a difference of no interest, at least 0.

    Returns:
        2 / C(n + m, n), at most 1: the probability under one distribution without ties, and an upper bound with ties.
    """
    if not first or not second or max(min(first) - max(second), min(second) - max(first)) <= limit:
        return 1.0
    return min(1.0, 2 / math.comb(len(first) + len(second), len(first)))


def _positive(found: Comparison) -> bool:
    return found.scale is Scale.RATIO and min((*found.baseline_values, *found.candidate_values), default=0.0) > 0


def scale_outcome(
    sides: Sequence[Comparison | None], outcomes: Sequence[SizeOutcome], scales: Sequence[int]
) -> tuple[ScaleOutcome, str]:
    """Return a row's outcome, and the reason.

    Args:
        sides: the row on each clock; None where a record does not have it.
        outcomes: whether the size on each other clock is that on the first.
        scales: nanoseconds per instruction of each clock.
    """
    signs = {scale: sign_of(side) for scale, side in zip(scales, sides, strict=True) if side is not None}
    decided = {scale: sign for scale, sign in signs.items() if sign is not None}
    if len(set(decided.values())) > 1:
        return ScaleOutcome.VERDICT, _verdicts(sides, scales, signs)
    if len(decided) < 2:
        return ScaleOutcome.NOT_COMPARABLE, _verdicts(sides, scales)
    pairs = list(zip(scales[1:], outcomes, strict=True))
    if differing := [f"{scale} ns" for scale, outcome in pairs if outcome is SizeOutcome.DIFFER]:
        return ScaleOutcome.SIZE, f"another size at {', '.join(differing)} than at {scales[0]} ns"
    if len(decided) < len(sides):
        return ScaleOutcome.UNDECIDED, _verdicts(sides, scales)
    if not _one_kind(sides):
        kinds = ", ".join(
            f"{scale} ns: a {side.scale.value}" for scale, side in zip(scales, sides, strict=True) if side
        )
        return ScaleOutcome.UNDECIDED, f"{kinds} (a baseline of zero has no ratio)"
    effects = {side.effect for side in sides if side is not None}
    if len(effects) == 1 or all(outcome is SizeOutcome.AGREE for outcome in outcomes):
        return ScaleOutcome.SAME, ""
    unsure = [f"{scale} ns" for scale, outcome in pairs if outcome is not SizeOutcome.AGREE]
    return ScaleOutcome.UNDECIDED, f"the sizes at {scales[0]} ns and {', '.join(unsure)} are not shown to be equal"


def _one_kind(sides: Sequence[Comparison | None]) -> bool:
    return len({side.scale for side in sides if side is not None and side.effect is not None}) < 2


_SIGNS = {-1: "less", 0: "the same", 1: "more"}


def _verdicts(
    sides: Sequence[Comparison | None], scales: Sequence[int], signs: Mapping[int, int | None] | None = None
) -> str:
    """Return each clock's verdict, with the sign where all verdicts are the same word."""
    words = [side.verdict.value if side is not None else "not measured" for side in sides]
    if len(set(words)) == 1:
        if signs is None:
            return words[0]
        words = [f"{word}, {_SIGNS[signs.get(scale) or 0]}" for word, scale in zip(words, scales, strict=True)]
    return ", ".join(f"{scale} ns: {word}" for scale, word in zip(scales, words, strict=True))
