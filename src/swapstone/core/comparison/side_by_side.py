# SPDX-License-Identifier: MIT OR Apache-2.0
"""Put the rows of several records of one experiment side by side, and judge each row.

Three questions are answered: do two records agree, which rows depend on the clock's time of an instruction, and is the effect the same on
each board?
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence

from swapstone.core.comparison.row_judgements import (
    Judgement,
    Outcome,
    Sides,
    judge_boards,
    judge_clocks,
    judge_records,
    one_scale,
)
from swapstone.core.model import (
    WALL_CLOCK,
    Analysis,
    Comparison,
    Experiment,
    FrozenStruct,
    Metric,
    Quantity,
    Scale,
    UserError,
    Variant,
    refuse,
)
from swapstone.core.model.safe_text import safe

_LEAST_PAIRS = 3

AtOnce = Mapping[str, bool | None]
"""As `swapstone.core.comparison.machine_noise.several_at_once` returns it."""

Place = tuple[str, str, str, Variant, str]
"""(suite, workload, load, candidate, metric)"""


class Question(enum.Enum):
    """What several records answer.

    `RECORDS`: do two records agree? `CLOCKS`: which rows depend on the time of an instruction? `BOARDS`: is the effect the same on each of
    three or more boards?
    """

    RECORDS = "records"
    CLOCKS = "clocks"
    BOARDS = "boards"


class SideBySideRow(FrozenStruct, frozen=True, kw_only=True):
    """One row of the experiment in each record.

    Attributes:
        suite, workload, load: of the runs.
        candidate: the variant that is compared with the baseline.
        metric: of the values.
        sides: the comparison of each record, in the order of `SideBySide.names`; None where a record has none.
        judgement: whether the sizes agree, whether the row depends on the clock, or whether a board differs.
        signs: whether the signs of two records agree, or the verdict of each board with that over all; None for clocks.
    """

    suite: str
    workload: str
    load: str
    candidate: Variant
    metric: Metric
    sides: tuple[Comparison | None, ...]
    judgement: Judgement
    signs: Judgement | None = None

    @property
    def quotient(self) -> float:
        """Return the largest effect over the smallest one; 1 where one is not above zero, or one is a ratio and another a difference."""
        known = [each.effect for each in self.sides if each is not None and each.effect is not None]
        return max(known) / min(known) if known and min(known) > 0 and one_scale(self.sides) else 1.0


class Spread(FrozenStruct, frozen=True, kw_only=True):
    """How far apart the repeated runs of a record are, over its rows.

    Attributes:
        rows: number of rows with runs on both sides.
        exact: number of rows in which every run of a side gave the same value.
        largest: the largest relative range of one side, max / min - 1; None if there are no rows, or if a minimum is not above zero.
        where: workload and variant of `largest`; empty if that is None.
    """

    rows: int
    exact: int
    largest: float | None
    where: str


class SideBySide(FrozenStruct, frozen=True, kw_only=True):
    """The rows of several records of one experiment.

    Attributes:
        question: that the records answer.
        names: of the records: their times of an instruction, ascending; their boards; or of two their clocks, their targets, or ``first``
            and ``second``, whichever differ.
        clocks: of the records.
        rows: of two records those that either reports first; on several clocks those that at least two records have; on several boards
            those of which every board has at least three pairs of runs of positive values. In the order of the first record, then those
            that only others have. Sizes of files are left out.
        omitted: number of the other rows.
        spreads: the range of each record's repeated runs.
        margin: ratio of two effects that is of no interest: the largest one of the experiments.
        confidence: of all rows together: the largest one of the experiments.
    """

    question: Question
    names: tuple[str, ...]
    clocks: tuple[str, ...]
    rows: tuple[SideBySideRow, ...]
    omitted: int
    spreads: tuple[Spread, ...]
    margin: float
    confidence: float


_SETTINGS: tuple[tuple[str, Callable[[Experiment], object], str], ...] = (
    (
        "factors or levels",
        lambda each: [f"{one.factor}={','.join(one.levels)}" for one in each.factors],
        "records clocks boards",
    ),
    ("held levels", lambda each: [f"{factor}={level}" for factor, level in each.held], "clocks boards"),
    ("programs", lambda each: each.own, "clocks boards"),
    ("targets", lambda each: [each.target], "clocks"),
    ("architectures", lambda each: [each.architecture], "clocks"),
    ("processors", lambda each: [each.cpu_model or "the default"], "clocks"),
    (
        "numbers of processors (one clock counts the instructions of all, so each of N runs at 1/N of the speed: give both the same --smp)",
        lambda each: [str(each.processors)],
        "virtual",
    ),
    ("modules", lambda each: [*each.modules, *each.module_files], "clocks"),
)
"""What may not differ: its name, how it is read from an experiment, and for which questions, or whether on the virtual clock."""

_HINTS = {
    Question.RECORDS: "Make two records of the same factors and levels, on different targets.",
    Question.CLOCKS: "Make them with: swapstone compare ... --target vm --ns-per-instruction 1,2,4",
    Question.BOARDS: "Make one record on each board: swapstone compare ... --target ssh:BOARD",
}


def question_of(experiments: Sequence[Experiment]) -> Question:
    """Return which question records of these experiments answer."""
    if all(each.virtual for each in experiments) and len({each.ns_per_instruction for each in experiments}) > 1:
        return Question.CLOCKS
    return Question.RECORDS if len(experiments) <= 2 else Question.BOARDS


def differing_setting(experiments: Sequence[Experiment]) -> str:
    """Return in which setting the experiments differ that may not differ for their question; empty if there is none."""
    applied = {question_of(experiments).value, "virtual" if all(each.virtual for each in experiments) else ""}
    for name, read, where in _SETTINGS:
        values = [read(each) for each in experiments]
        if applied & {*where.split()} and (others := [value for value in values if value != values[0]]):
            texts = [safe(" ".join(value)) for value in (values[0], others[0]) if isinstance(value, list)]
            return f"{name}{': ' if texts else ''}{', and '.join(texts)}"
    return ""


def _check(experiments: Sequence[Experiment], question: Question, names: Sequence[str]) -> None:
    hint = _HINTS[question]
    twice = next((name for name in names if names.count(name) > 1), "")
    setting = differing_setting(experiments)
    refuse(
        (
            len(experiments) < 2,
            f"`swapstone agree` compares two records; {len(experiments)} was given.",
            "More than two are compared where they differ in the time of an instruction (--ns-per-instruction), or in the board.",
        ),
        (
            question is Question.BOARDS and any(each.virtual for each in experiments),
            "Boards are compared over three or more records on the wall clock.",
            hint,
        ),
        (
            twice,
            f"Two records are of {safe(twice)}: they would count as two {question.value}.",
            f"Name one of them, or print the two side by side: swapstone agree RECORD RECORD. {hint}",
        ),
        (setting, f"The records differ in their {setting}.", hint),
    )


def _names(experiments: Sequence[Experiment], question: Question) -> tuple[str, ...]:
    if question is Question.CLOCKS:
        return tuple(f"{each.ns_per_instruction} ns" for each in experiments)
    clocks, targets = zip(*((f"{each.clock} clock", each.target) for each in experiments), strict=True)
    both = (targets,) if question is Question.BOARDS else (clocks, targets, ("first", "second"))
    return next((names for names in both if len({*names}) > 1), targets)


def side_by_side(
    records: Sequence[tuple[Experiment, Analysis]], at_once: Callable[[], Sequence[AtOnce]] = tuple
) -> SideBySide:
    """Put the rows of several records side by side, and judge each.

    Args:
        records: experiment and analysis of each: of other runs of the same experiment. On several clocks they may be in any order.
        at_once: returns of each record whether its works run on several processors at once. It is called if the clocks of two differ.

    Raises:
        UserError: the experiments differ in more than they may, there are too few of them, two are of one clock or board, or a record has
            no row in common with the others.
    """
    question = question_of([experiment for experiment, _ in records])
    if question is Question.CLOCKS:
        records = sorted(records, key=lambda record: record[0].ns_per_instruction)
    experiments = [experiment for experiment, _ in records]
    names = _names(experiments, question)
    _check(experiments, question, names)
    found = [_by_place(analysis) for _, analysis in records]
    places = dict.fromkeys(place for side in found for place in side)
    leading = {place for side in found for place in _leading(side)}
    kept: dict[Question, Callable[[Place, Sides], bool]] = {
        Question.RECORDS: lambda place, _: place in leading,
        Question.CLOCKS: lambda _, sides: _in_two(sides),  # an experiment may be repeated for some of its rows alone
        Question.BOARDS: lambda _, sides: all(side is not None and _is_usable(side) for side in sides),
    }
    every = {place: tuple(side.get(place) for side in found) for place in places}
    rows = {place: sides for place, sides in every.items() if kept[question](place, sides)}
    for number, name in enumerate(names):
        if not any(sides[number] for sides in rows.values() if _in_two(sides)):
            raise UserError(
                f"The record of {safe(name)} has no row in common with the others.",
                "Give them the same --suite, --only and --load, and more blocks.",
            )
    margin = max(each.margin for each in experiments)
    confidence = max(each.confidence for each in experiments)
    judged = _JUDGES[question](rows, names, margin, 1 - confidence)
    clocks = tuple(each.clock for each in experiments)
    if question is Question.RECORDS and len({*clocks}) > 1:
        by_clock = dict(zip(clocks, at_once(), strict=True))
        for place, sides in rows.items():
            if _in_two(sides) and (reason := _why_not_comparable(place[1], by_clock)):
                several = Judgement(outcome=Outcome.NOT_COMPARABLE, reason=reason)
                judged[place] = several, several
    return SideBySide(
        question=question,
        names=names,
        clocks=clocks,
        rows=tuple(
            SideBySideRow(
                suite=place[0],
                workload=place[1],
                load=place[2],
                candidate=place[3],
                metric=next(side.metric for side in sides if side is not None),
                sides=sides,
                judgement=judged[place][0],
                signs=judged[place][1],
            )
            for place, sides in rows.items()
        ),
        omitted=len(every) - len(rows),
        spreads=tuple(map(spread, zip(*rows.values(), strict=True))),
        margin=margin,
        confidence=confidence,
    )


def _why_not_comparable(work: str, by_clock: Mapping[str, AtOnce]) -> str:
    """Return why the clocks can't agree on a work; empty if it is pinned to one processor on the wall clock, or does not use several."""
    if work not in by_clock[WALL_CLOCK]:
        return ""
    observed = {each.get(work) for each in by_clock.values()}
    if True in observed:
        verb = "run" if by_clock[WALL_CLOCK][work] else "may run"
        return f"its threads or processes take turns on the virtual clock, and {verb} at once on the wall clock"
    return "" if False in observed else "whether its threads or processes run at once is not known"


_JUDGES = {Question.RECORDS: judge_records, Question.CLOCKS: judge_clocks, Question.BOARDS: judge_boards}


def _by_place(analysis: Analysis) -> dict[Place, Comparison]:
    return {
        (each.suite, each.workload, each.load, each.candidate, each.metric.name): each
        for each in analysis.comparisons
        if each.candidate not in analysis.copies and each.metric.quantity is not Quantity.SIZE
    }


def _leading(side: Mapping[Place, Comparison]) -> Iterable[Place]:
    """Return the rows that a record reports first: of each candidate and work the preferred time, else the first time or rate."""
    timed = [place for place, each in side.items() if each.metric.quantity in {Quantity.TIME, Quantity.RATE}]
    ordered = sorted(timed, key=lambda place: not side[place].preferred)
    return {place[:4]: place for place in reversed(ordered)}.values()


def _in_two(sides: Sides) -> bool:
    return sum(side is not None for side in sides) > 1


def _is_usable(side: Comparison) -> bool:
    values = (*side.baseline_values, *side.candidate_values)
    return side.scale is Scale.RATIO and len(side.baseline_values) >= _LEAST_PAIRS and min(values) > 0


def spread(comparisons: Iterable[Comparison | None]) -> Spread:
    """Return the relative range of a record's repeated runs.

    Args:
        comparisons: the rows to read; a row without runs on both sides is ignored.
    """
    rows = [each for each in comparisons if each is not None and each.baseline_values and each.candidate_values]
    sides = [
        (max(values) / min(values) - 1, f"{each.workload} {variant.shown_label}")
        for each in rows
        for variant, values in ((each.baseline, each.baseline_values), (each.candidate, each.candidate_values))
        if min(values) > 0
    ]
    complete = bool(sides) and len(sides) == 2 * len(rows)
    largest: tuple[float | None, str] = max(sides, key=lambda side: side[0]) if complete else (None, "")
    return Spread(
        rows=len(rows),
        exact=sum(len(set(each.baseline_values)) == len(set(each.candidate_values)) == 1 for each in rows),
        largest=largest[0],
        where=largest[1],
    )
