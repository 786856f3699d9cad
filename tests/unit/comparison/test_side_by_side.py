# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records side by side: two records, several clocks and several boards. Each outcome, count and ratio by hand or by its formula."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from swapstone.core.comparison.row_judgements import Judgement, Outcome, same_verdict, separation_p_value
from swapstone.core.comparison.side_by_side import SideBySide, differing_setting, side_by_side
from swapstone.core.model import (
    CURRENT_RULES,
    EQUAL_EXTRA_RULES,
    Analysis,
    Direction,
    Experiment,
    FactorLevels,
    Metric,
    OwnProgram,
    Quantity,
    Status,
    UserError,
    Verdict,
)
from swapstone.core.report import study_index
from swapstone.core.report.document import Document, Table
from swapstone.core.report.render import markdown, terminal
from swapstone.core.report.side_by_side_table import (
    answer,
    document_of,
    rows_section,
    sentences,
    span,
    to_csv,
    to_json,
)
from swapstone.core.report.study_index import StudyIndex
from swapstone.core.stats import pooled_estimate
from swapstone.core.stats.mean_ratio import student_quantile
from tests.json_schema import check_printed
from tests.unit.comparison.conftest import CANDIDATE, Bench

Values = tuple[Sequence[float], Sequence[float]]
Record = tuple[Experiment, Analysis]
SAME = [100.0] * 10
SPREAD = [99.0, 101.0, 100.5, 99.5, 100.2, 99.8, 100.1, 99.9, 100.3, 99.7]
STANDARD = np.linspace(-1.0, 1.0, 20) / np.linspace(-1.0, 1.0, 20).std(ddof=1)
"""Numbers with the mean 0 and the variance 1."""
TEXT = Metric(name="text", unit="B", quantity=Quantity.SIZE, better=Direction.LOWER, meaning="code")
VM = {"clock": "virtual", "target": "vm"}
OWN = OwnProgram(name="w", arguments=("w",))


def record(rows: Mapping[str, Values], name: str = "wall", *, null: bool = False, **changes: Any) -> Record:
    """Return an experiment with its analysis: values of baseline and candidate by workload. Each has a file's size, too."""
    made = Bench(
        rules=changes.pop("rules", 1),
        clock=changes.get("clock", "wall"),
        confidence=changes.get("confidence", 0.95),
        null=null,
    )
    for workload, (before, after) in rows.items():
        made.workload(workload, name)
        made.pairs(workload, name, before, after)
        for block in range(1, len(before) * null + 1):
            made.run(workload, "libc=glibc (again)", block, Status.OK, "idle", **{name: 100.0})
    files = {("s", workload, label): [(TEXT, 10.0)] for workload in rows for label in ("libc=glibc", CANDIDATE)}
    return msgspec.structs.replace(made.experiment, **changes), made.analysis(files)


def clock(ns: int, rows: Mapping[str, Values], name: str = "wall", **changes: Any) -> Record:
    usual = {"rules": EQUAL_EXTRA_RULES, "confidence": 0.99, **VM, "ns_per_instruction": ns}
    return record(rows, name, **{**usual, **changes})


def board(target: str, *rows: tuple[float, float], pairs: int = 20, **changes: Any) -> Record:
    """Return a board's record, with the mean and the standard deviation of the log ratio of each workload."""
    numbers = STANDARD if pairs == 20 else np.linspace(-1.0, 1.0, pairs)
    values = {
        f"w{n}": ([100.0] * pairs, list(100 * np.exp(shift + spread * numbers)))
        for n, (shift, spread) in enumerate(rows)
    }
    return record(values, **{"rules": CURRENT_RULES, "confidence": 0.99, "target": target, **changes})


def boards(*rows: Sequence[tuple[float, float]], **changes: Any) -> list[Record]:
    return [board(f"ssh:{number}", *each, **changes) for number, each in enumerate(rows)]


def times(factor: float, values: Sequence[float] = SAME) -> list[float]:
    return [factor * value for value in values]


def judged(table: SideBySide) -> dict[str, tuple[Outcome, str]]:
    return {row.workload: (row.judgement.outcome, row.judgement.reason) for row in table.rows}


def outcomes(records: Sequence[Record]) -> list[Outcome]:
    return [row.judgement.outcome for row in side_by_side(records).rows]


# Two records

SIX, SLOWER, FASTER = [100.0] * 6, [150.0] * 6, [50.0] * 6
UNSURE = [50.0, 200.0, 60.0, 180.0, 100.0, 100.0]


@pytest.fixture(scope="module")
def two() -> SideBySide:
    host = record(
        {
            "both slower": (SIX, SLOWER),
            "opposite": (SIX, SLOWER),
            "only host": (SIX, SLOWER),
            "only vm": (SIX, SIX),
            "neither": (SIX, SIX),
            "unsure": (SIX, UNSURE),
            "threads": (SIX, SLOWER),
            "host alone": (SIX, SLOWER),
        },
        target="host",
    )
    vm = record(
        {
            "both slower": (SIX, [101.0, 102, 103, 104, 105, 120]),
            "opposite": (SIX, FASTER),
            "only host": (SIX, SIX),
            "only vm": (SIX, FASTER),
            "neither": (SIX, [101.0] * 6),
            "unsure": (SIX, SLOWER),
            "threads": (SIX, SLOWER),
            "vm alone": (SIX, SLOWER),
        }
    )
    return side_by_side(
        [host, (msgspec.structs.replace(vm[0], **VM), vm[1])], lambda: [{"threads": True}, {"threads": True}]
    )


def test_two_records_by_hand(two: SideBySide) -> None:
    assert (two.question.value, two.names) == ("records", ("wall clock", "virtual clock"))
    several = "its threads or processes take turns on the virtual clock, and run at once on the wall clock"
    assert {row.workload: row.signs and (row.signs.outcome, row.signs.reason) for row in two.rows} == {
        "both slower": (Outcome.AGREE, ""),
        "opposite": (Outcome.OPPOSITE, "wall clock: worse, virtual clock: better"),
        "only host": (Outcome.DIFFER, "wall clock: worse, virtual clock: equivalent"),
        "only vm": (Outcome.DIFFER, "wall clock: equivalent, virtual clock: better"),
        "neither": (Outcome.AGREE, ""),
        "unsure": (Outcome.NOT_COMPARABLE, "wall clock: inconclusive, virtual clock: worse"),
        "threads": (Outcome.NOT_COMPARABLE, several),
        "host alone": (Outcome.NOT_COMPARABLE, "wall clock: worse, virtual clock: not measured"),
        "vm alone": (Outcome.NOT_COMPARABLE, "wall clock: not measured, virtual clock: worse"),
    }
    assert judged(two)["threads"] == (Outcome.NOT_COMPARABLE, several)
    assert judged(two)["host alone"] == (Outcome.NOT_COMPARABLE, "virtual clock: not measured")


def test_the_sentences_about_two_records(two: SideBySide) -> None:
    # 0.5 / 1.5 = 1/3, 1 / 1.5 = 2/3, 0.5 / 1; "both slower" and "unsure" have too much noise, and "neither" is 1.01.
    # 8 rows each; on the host only "unsure" varies, from 50 to 200; in the machine only "both slower", from 101 to 120.
    assert sentences(two) == (
        "1 row has opposite signs: opposite, wall, musl 0.500 to 1.500; 1 of 6 rows agree in size, within 2 %; 2 more differ: only vm, "
        "wall, musl 0.500 (exact), only host, wall, musl 0.667 (exact); 2 are undecided; 3 can't be compared.",
        "Signs of 9 rows: 2 of 5 comparable ones agree, 3 disagree (1 with opposite signs, 2 where only one side has a difference); "
        "4 can't be compared.",
        "wall clock: 7 of 8 rows gave one and the same number on each side in every block; the largest spread is 300 % "
        "(unsure libc=musl).",
        "virtual clock: 7 of 8 rows gave one and the same number on each side in every draw; the largest spread is 19 % "
        "(both slower libc=musl).",
    )
    assert two.spreads[1].largest == pytest.approx(120 / 101 - 1)


def test_exchanged_records_exchange_the_sides() -> None:
    one, other = record({"a": (SIX, SLOWER)}), record({"a": (SIX, FASTER)}, target="fake:x")
    (row,), (turned,) = side_by_side([one, other]).rows, side_by_side([other, one]).rows
    assert row.sides == turned.sides[::-1]
    assert row.judgement.ratio == pytest.approx(1 / 3) and turned.judgement.ratio == pytest.approx(3)


def test_records_are_named_by_what_differs() -> None:
    one = record({"a": (SIX, SLOWER)})
    for changes, names in (
        ({}, ("first", "second")),
        ({"target": "vm"}, (one[0].target, "vm")),
        ({**VM, "ns_per_instruction": 4, "processors": 2}, ("wall clock", "virtual clock")),
    ):
        other = msgspec.structs.replace(one[0], **changes), one[1]
        assert side_by_side([one, other], lambda: [{}, {}]).names == names


SEVERAL, MAY = "and run at once on the wall clock", "and may run at once on the wall clock"
UNKNOWN = "whether its threads or processes run at once is not known"


@pytest.mark.parametrize(
    ("wall", "virtual", "reason"),
    [
        ({}, {}, ""),
        ({}, {"a": True}, ""),  # pinned on the wall clock: threads take turns there too
        ({"a": False}, {}, ""),
        ({"a": False}, {"a": False}, ""),
        ({"a": False}, {"a": None}, ""),
        ({"a": None}, {"a": False}, ""),
        ({"a": True}, {"a": False}, SEVERAL),
        ({"a": False}, {"a": True}, MAY),  # threads that wait for each other
        ({"a": None}, {"a": None}, UNKNOWN),
        ({"a": None}, {}, UNKNOWN),
    ],
)
def test_a_work_is_compared_between_clocks_by_what_was_observed_of_both(
    wall: dict[str, bool | None], virtual: dict[str, bool | None], reason: str
) -> None:
    host, vm = record({"a": (SIX, SLOWER)}), record({"a": (SIX, FASTER)})
    sides = [(host, wall), ((msgspec.structs.replace(vm[0], **VM), vm[1]), virtual)]
    for pair in (sides, sides[::-1]):
        (row,) = side_by_side([each for each, _ in pair], [each for _, each in pair].copy).rows
        assert row.signs is not None and row.signs.outcome is (Outcome.NOT_COMPARABLE if reason else Outcome.OPPOSITE)
        assert reason in row.signs.reason and (row.judgement.outcome is Outcome.NOT_COMPARABLE) is bool(reason)


def test_rows_of_opposite_signs_are_named_first_in_either_order() -> None:
    far = [2000.0] * 6
    one = record({"far": (SIX, far), "a": (SIX, SLOWER), "b": (SIX, FASTER), "c": (SIX, SIX)})
    other = record(
        {"c": (SIX, SIX), "b": (SIX, [103.0] * 6), "a": (SIX, [97.0] * 6), "far": (SIX, SLOWER)}, target="fake:x"
    )
    for pair in ([one, other], [other, one]):
        text = answer(side_by_side(pair))
        assert text.startswith(
            "2 rows have opposite signs: b, wall, musl 0.500 to 1.030, a, wall, musl 0.970 to 1.500; 1 of 4"
        )
        assert "; 1 more differs: far, wall, musl " in text and text.count("a, wall") == 1
        table = next(each for each in rows_section(side_by_side(pair)).blocks if isinstance(each, Table))
        assert [row[0].text for row in table.rows] == ["b", "a", "far", "c"]


def test_the_rows_that_either_record_reports_first_are_compared() -> None:
    def measured(*names: str) -> Record:
        made = Bench()
        made.workload("w", *names)
        made.workload("sized", "res", "nivcsw")
        for variant in ("libc=glibc", "libc=musl"):
            for block in range(1, 7):
                made.run("w", variant, block, Status.OK, "idle", **{name: float(block) for name in names})
                made.run("sized", variant, block, res=1.0, nivcsw=1.0)
        return made.experiment, made.analysis()

    for first, second, rows in (
        (("res", "wall", "cpu"), ("res", "wall", "cpu"), ["wall"]),
        (("res", "rate"), ("res", "rate"), ["rate"]),
        (("res", "cpu", "rate"), ("cpu", "res"), ["cpu"]),
        (("wall", "cpu"), ("cpu",), ["wall", "cpu"]),  # the second one has no elapsed time
    ):
        assert [row.metric.name for row in side_by_side([measured(*first), measured(*second)]).rows] == rows


def test_each_candidate_has_its_rows() -> None:
    made = Bench(levels=("glibc", "musl", "other"))
    made.pairs("w", "wall", SIX, SLOWER)
    for block in range(1, 7):
        made.run("w", "libc=other", block, wall=200.0)
    one = made.experiment, made.analysis()
    assert [row.candidate.label for row in side_by_side([one, one]).rows] == ["libc=musl", "libc=other"]


def test_effects_without_a_quotient(two: SideBySide) -> None:
    row = two.rows[0]
    for effects, quotient in (((2.0, 3.0), 1.5), ((None, None), 1.0), ((0.0, 2.0), 1.0), ((-1.0, 2.0), 1.0)):
        pairs = zip(row.sides, effects, strict=True)
        sides = tuple(side and msgspec.structs.replace(side, effect=effect) for side, effect in pairs)
        assert msgspec.structs.replace(row, sides=sides).quotient == quotient


def test_sizes_that_agree_that_differ_and_that_are_undecided() -> None:
    """Both records are worse everywhere, with the same sign; only the sizes differ."""

    def noisy(seed: int, **rows: tuple[float, int]) -> Record:
        made = Bench()
        for number, (name, (ratio, pairs)) in enumerate(rows.items()):
            made.noisy(name, ratio, pairs, seed=seed + number, spread=0.001 if name == "tight" else 0.01)
        return made.experiment, made.analysis()

    first = noisy(1, same=(1.5, 60), more=(1.5, 60), few=(1.5, 4), tight=(1.0, 100))
    found = side_by_side([first, noisy(100, same=(1.5, 60), more=(1.8, 60), few=(1.5, 60), tight=(1.005, 100))])
    assert [row.judgement.outcome.name for row in found.rows] == ["AGREE", "DIFFER", "UNDECIDED", "AGREE"]
    _, more, few, tight = (row.judgement for row in found.rows)
    assert more.ratio and more.low and more.high and 1.15 < more.low < more.ratio < more.high < 1.25
    # The ratio is that of the two effects in the table.
    effects = [side and side.effect for side in found.rows[1].sides]
    assert effects[0] and effects[1] and more.ratio == pytest.approx(effects[1] / effects[0])
    assert few.ratio and few.low is None and "in each record, and one has 4" in few.reason
    # An interval that excludes 1 and lies within the margin is an agreement: the difference is too small to matter.
    assert tight.low and tight.low > 1
    assert answer(found).startswith("2 of 4 rows agree in size, within 2 %; 1 differs: more, wall, musl 1.2")
    rows = {f"w{number}": (1.0, 20) for number in range(12)}
    found = side_by_side([noisy(1, **rows), noisy(100, **rows)])
    assert [row.judgement.confidence for row in found.rows] == [
        pytest.approx(1 - 0.05 / 12)
    ] * 12  # corrected for the rows
    assert {row.judgement.outcome for row in found.rows} <= {Outcome.AGREE, Outcome.UNDECIDED}


def test_a_difference_of_values_has_no_ratio() -> None:
    table = side_by_side([record({"zero": ([0.0] * 6, [1.0] * 6)}) for _ in range(2)])
    assert judged(table) == {"zero": (Outcome.NOT_COMPARABLE, "an effect is a difference, not a ratio")}
    assert answer(table) == "No effect of the 1 row can be compared in size."


# Clocks


@pytest.fixture(scope="module")
def clocks() -> SideBySide:
    one = {
        "compute": (SAME, times(1.5)),
        "device": (SAME, times(0.2)),
        "turns": (SAME, times(0.5)),
        "few": (SAME[:2], times(0.5)[:2]),
        "noisy": (SPREAD, times(1.3, SPREAD[::-1])),
        "alone": (SAME, times(1.5)),
        "now decided": (SAME, [50.0, 200.0] * 5),
    }
    four = {
        "compute": (times(4), times(6)),
        "device": (times(4), times(2)),
        "turns": (SAME, times(1.5)),
        "few": (SAME[:2], times(2)[:2]),
        "noisy": (SPREAD, times(1.3, SPREAD)),
        "now decided": (SAME, times(1.5)),
    }
    return side_by_side([clock(4, four), clock(1, one)])  # in any order


def test_each_row_has_the_outcome_that_its_two_clocks_give(clocks: SideBySide) -> None:
    assert (clocks.question.value, clocks.names, clocks.omitted) == ("clocks", ("1 ns", "4 ns"), 1)
    assert judged(clocks) == {
        "compute": (Outcome.AGREE, ""),
        "device": (Outcome.SIZE, "another size at 4 ns than at 1 ns"),
        "turns": (Outcome.VERDICT, "1 ns: better, 4 ns: worse"),
        "few": (Outcome.NOT_COMPARABLE, "inconclusive"),
        "noisy": (Outcome.AGREE, ""),
        "now decided": (Outcome.NOT_COMPARABLE, "1 ns: inconclusive, 4 ns: worse"),
    }
    assert {row.metric.name for row in clocks.rows} == {"wall"}  # and no size of a file


def test_the_answer_names_the_rows_that_depend_with_their_range(clocks: SideBySide) -> None:
    assert answer(clocks) == (
        "2 of 4 rows agree at 1 and 4 ns for each instruction, within 2 %; 2 depend on the clock: turns, wall, musl 0.500 to 1.500, "
        "device, wall, musl 0.200 to 0.500; 2 can't be compared."
    )
    few, same, turns, device = (
        next(row for row in clocks.rows if row.workload == name) for name in ("few", "compute", "turns", "device")
    )
    assert answer(msgspec.structs.replace(clocks, rows=(few, few))) == (
        "No effect of the 2 rows can be compared at 1 and 4 ns for each instruction; the widest range of those without a result: "
        "few, wall, musl 0.500 to 2.000."
    )
    assert answer(msgspec.structs.replace(clocks, rows=(few, same))).startswith("1 of 1 row agree at")
    # The time that is read first is named before other metrics with wider ranges.
    other = tuple(msgspec.structs.replace(side, preferred=False) for side in device.sides if side)
    less = tuple(side and msgspec.structs.replace(side, effect=1.5) for side in turns.sides)
    rows = (
        msgspec.structs.replace(device, sides=other, judgement=turns.judgement),
        msgspec.structs.replace(turns, sides=less),
    )
    named = answer(msgspec.structs.replace(clocks, rows=rows))
    assert named.index("turns") < named.index("device")


@pytest.mark.parametrize(("spread", "same"), [(0.006, (True, True, False)), (0.008, (True, False, False))])
def test_the_rate_is_divided_by_the_number_of_the_other_clocks(spread: float, same: tuple[bool, ...]) -> None:
    """Each other clock is compared with the first one: Bonferroni's correction. So more clocks make every interval wider."""
    random = np.random.default_rng(1)
    before, after, other = (
        [round(level * (1 + spread * each), 2) for each in random.normal(size=10)] for level in (100, 150, 150)
    )
    for count, each in zip((2, 3, 5), same, strict=True):
        made = [clock(ns, {"w": (before, other if ns == 2 else after)}) for ns in range(1, count + 1)]
        assert outcomes(made) == [Outcome.AGREE if each else Outcome.UNDECIDED]


def test_an_equal_verdict_whose_difference_is_not_shown_is_undecided() -> None:
    wide = [80.0, 120.0, 95.0, 105.0, 85.0, 115.0, 90.0, 110.0, 100.0, 100.0]
    table = side_by_side([clock(1, {"w": (SAME, times(3, wide))}), clock(2, {"w": (SAME, times(3.1, wide[::-1]))})])
    assert judged(table) == {"w": (Outcome.UNDECIDED, "the sizes at 1 ns and 2 ns are not shown to be equal")}
    assert "1 is undecided; the widest range" in answer(table)


def test_ratios_that_are_all_beyond_each_other_differ_although_an_interval_needs_more_pairs() -> None:
    rows = {f"w{number}": (SPREAD[:8], times(7, SPREAD[1:9])) for number in range(20)}
    slower = {name: (SPREAD[:8], times(1.8, SPREAD[1:9])) for name in rows}
    assert set(outcomes([clock(1, rows), clock(4, slower)])) == {Outcome.SIZE}
    few = {name: (before[:3], after[:3]) for name, (before, after) in rows.items()}
    assert Outcome.SIZE not in outcomes([clock(1, few), clock(4, slower)])


@pytest.mark.parametrize(
    ("sides", "name", "outcome", "reason"),
    [
        ([1.5, 1.5, None], "wall", Outcome.UNDECIDED, "1 ns: worse, 2 ns: worse, 4 ns: inconclusive"),
        ([1.01, 1.5], "wall", Outcome.VERDICT, "1 ns: same median, 2 ns: worse"),
        ([0.5, 2], "nivcsw", Outcome.VERDICT, "1 ns: changed, less, 2 ns: changed, more"),
    ],
)
def test_a_row_on_several_clocks(sides: list[float | None], name: str, outcome: Outcome, reason: str) -> None:
    made = [
        clock(ns, {"w": (SAME, [50.0, 200.0] * 5 if each is None else times(each))}, name)
        for ns, each in zip((1, 2, 4), sides, strict=False)
    ]
    assert judged(side_by_side(made)) == {"w": (outcome, reason)}


@pytest.mark.parametrize(
    ("key", "values", "wanted"),
    [
        ("margin", (0.02, 0.02), "SIZE"),
        ("margin", (0.05, 0.02), "AGREE"),
        ("margin", (0.02, 0.05), "AGREE"),
        ("confidence", (0.5, 0.5), "SIZE"),
        ("confidence", (0.99, 0.5), "UNDECIDED"),
        ("confidence", (0.5, 0.99), "UNDECIDED"),
    ],
)
def test_the_larger_margin_and_confidence_count(key: str, values: tuple[float, float], wanted: str) -> None:
    """The ratio of the effects is 1.04. Four pairs on each clock are separate with a p-value of 2/70."""
    records = []
    for ns, value in zip((1, 2), values, strict=True):
        apart = (SPREAD[:4], times(10.0 * ns**2, SPREAD[1:5]))
        experiment, analysis = clock(ns, {"w": (SAME, times(1.46 + 0.04 * 1.5 * ns)) if key == "margin" else apart})
        records.append((msgspec.structs.replace(experiment, **{key: value}), analysis))
    table = side_by_side(records)
    assert (table.rows[0].judgement.outcome.name, getattr(table, key)) == (wanted, max(values))


@pytest.mark.parametrize("zero", [0, 1])
def test_values_of_zero_on_one_clock_have_no_ratio_on_another(zero: int) -> None:
    """Such a row is compared by its difference: it is neither separate nor equal in size."""
    rows = [(SAME, times(1.5)), ([0.0, *SAME[1:]], times(1.5))]
    table = side_by_side([clock(ns, {"w": rows[number == zero]}) for number, ns in enumerate((1, 2))])
    kinds = ("difference", "ratio") if zero == 0 else ("ratio", "difference")
    reason = "1 ns: a {}, 2 ns: a {} (a baseline of zero has no ratio)".format(*kinds)
    assert judged(table) == {"w": (Outcome.UNDECIDED, reason)}
    # A difference and a ratio have no order: none of them is the smallest effect of a range.
    assert table.rows[0].quotient == 1 and span(table.rows[0]).split(" and ")[1 - zero] == "1.500"
    assert answer(table).endswith("1 is undecided.")


def test_a_record_may_lack_some_of_the_rows_that_others_have() -> None:
    rows = {"a": (SAME, times(1.5)), "b": (SAME, times(2.0))}
    for lacking in (1, 2, 4):
        table = side_by_side([clock(ns, {"a": rows["a"]} if ns == lacking else rows) for ns in (1, 2, 4)])
        assert {row.workload: [side is not None for side in row.sides] for row in table.rows} == {
            "a": [True] * 3,
            "b": [ns != lacking for ns in (1, 2, 4)],
        }


def test_the_p_value_of_a_separation() -> None:
    for first, second, limit, p_value in (
        ((0, 1), (3, 4), 0.0, 2 / 6),
        ((3, 4), (0, 1), 0.0, 2 / 6),
        ((0, 1), (3, 4), 1.99, 2 / 6),
        ((0, 1), (3, 4), 2.0, 1.0),
        ((0, 1), (1, 4), 0.0, 1.0),
        ((0, 3), (1, 4), 0.0, 1.0),
        ((0,), (1,), 0.0, 1.0),
        ((), (1,), 0.0, 1.0),
        ((1,) * 8, (2,) * 8, 0.5, 2 / 12870),
    ):
        assert separation_p_value(first, second, limit) == pytest.approx(p_value)
    samples = np.random.default_rng(1).normal(size=(20_000, 2, 3))
    share = np.mean([separation_p_value(list(one), list(other), 0.0) < 1 for one, other in samples])
    assert share == pytest.approx(2 / 20, abs=0.01)  # as rare as stated; its standard error is 0.002


# Boards


@pytest.fixture(scope="module")
def three() -> SideBySide:
    base, made = np.linspace(0.98, 1.02, 20), []
    for seed, slow in enumerate((1.5, 1.9, 1.5), start=1):
        random = np.random.default_rng(seed)
        factors = {"same": 1.5, "slow": slow, "none": 1.0, **({"alone": 1.2} if seed == 1 else {})}
        rows = {
            name: (list(100.0 * random.permutation(base)), list(factor * 100.0 * random.permutation(base)))
            for name, factor in factors.items()
        }
        made.append(record(rows, target=f"ssh:{'abc'[seed - 1]}", rules=CURRENT_RULES, confidence=0.99))
    return side_by_side(made)


def test_the_effect_over_boards_has_the_spread_between_them(three: SideBySide) -> None:
    assert (three.question.value, three.names, three.omitted) == ("boards", ("ssh:a", "ssh:b", "ssh:c"), 1)
    same, slow, none = (row.judgement for row in three.rows)
    assert [each.deviating for each in (same, slow, none)] == [(), (1,), ()]
    assert [each.verdict for each in (same, slow, none)] == [Verdict.WORSE, Verdict.WORSE, Verdict.EQUIVALENT]
    assert same.ratio == pytest.approx(1.5, rel=0.01) and same.spread is not None and same.spread < 0.005
    assert slow.ratio == pytest.approx((1.5 * 1.5 * 1.9) ** (1 / 3), rel=0.01)
    assert slow.spread == pytest.approx(np.std(np.log((1.5, 1.5, 1.9)), ddof=1), rel=0.05)
    assert same.low and same.high and slow.low and slow.high
    assert slow.high / slow.low - 1 > 5 * (same.high / same.low - 1) and slow.low < 1.5 and slow.high > 1.9
    assert answer(three) == (
        "3 of 3 rows have the same verdict on each of 3 boards and over all of them; board 2, ssh:b, differs in 1 row."
    )


def test_each_figure_over_boards_is_that_of_the_formula_at_5_percent() -> None:
    (row,) = side_by_side(boards([(0.10, 0.02)], [(0.12, 0.03)], [(0.20, 0.01)])).rows
    expected = pooled_estimate((0.10, 0.12, 0.20), [each**2 / 20 for each in (0.02, 0.03, 0.01)], 0.05)
    found = row.judgement
    exact = [math.exp(each) for each in (expected.estimate, expected.interval.low, expected.interval.high)]
    assert [found.ratio, found.low, found.high] == pytest.approx(exact, rel=1e-9)
    assert found.spread == pytest.approx(expected.spread, rel=1e-6) and found.confidence == 0.95


def test_a_verdict_that_holds_on_each_board_may_not_hold_over_all() -> None:
    table = side_by_side(boards(*([(math.log(factor), 0.02)] for factor in (1.05, 1.1, 2.5))))
    (row,) = table.rows
    assert {side and side.verdict for side in row.sides} == {Verdict.WORSE}
    assert row.judgement.verdict is Verdict.INCONCLUSIVE and row.signs == Judgement(outcome=Outcome.DIFFER)
    text = "0 of 1 row have the same verdict on each of 3 boards and over all of them; board 3, ssh:2, differs"
    assert answer(table).startswith(text)


@pytest.mark.parametrize(("pairs", "omitted"), [(3, 0), (2, 1)])
def test_a_row_needs_three_pairs_on_each_board(pairs: int, omitted: int) -> None:
    rows = [(0.1, 0.01), (0.1, 0.01)]
    short, long = board("ssh:short", *rows, pairs=pairs)[1], board("ssh:long", *rows)
    found = [each for each in short.comparisons if each.workload == "w0"]
    found += [each for each in long[1].comparisons if each.workload != "w0"]
    mixed = long[0], msgspec.structs.replace(long[1], comparisons=tuple(found))
    table = side_by_side([*boards(rows, rows), mixed])
    assert (len(table.rows), table.omitted) == (2 - omitted, omitted)


def test_a_row_needs_positive_values_on_each_board() -> None:
    first, second, (experiment, analysis) = boards(*[[(0.1, 0.01), (0.1, 0.01)]] * 3)
    zero = msgspec.structs.replace(analysis.comparisons[0], candidate_values=(0.0,) * 20)
    changed = msgspec.structs.replace(analysis, comparisons=(zero, *analysis.comparisons[1:]))
    table = side_by_side([first, second, (experiment, changed)])
    assert ([row.workload for row in table.rows], table.omitted) == (["w1"], 1)


def test_copies_and_sizes_are_no_rows_and_the_largest_margin_and_confidence_count() -> None:
    made = boards(*[[(0.1, 0.01)]] * 3, null=True)
    changes: list[dict[str, float]] = [{"margin": 0.01, "confidence": 0.95}, {"margin": 0.2}, {"confidence": 0.999}]
    table = side_by_side(
        [(msgspec.structs.replace(each[0], **change), each[1]) for each, change in zip(made, changes, strict=True)]
    )
    (row,) = table.rows
    assert (row.candidate.label, row.metric.name, table.omitted) == (CANDIDATE, "wall", 0)
    assert (table.margin, table.confidence) == (0.2, 0.999)
    assert row.judgement.verdict is Verdict.EQUIVALENT  # within 20 %, though larger


@pytest.mark.parametrize(("rows", "deviating"), [(1, (2,)), (4, ())])
def test_the_level_of_deviating_boards_is_divided_by_the_number_of_rows(rows: int, deviating: tuple[int, ...]) -> None:
    """One board differs by 3.6 standard errors. 19 degrees of freedom, three boards, 1 %: 3.4 for one row, 3.9 for four."""
    assert student_quantile(19, 0.01 / 3) < 3.6 < student_quantile(19, 0.01 / 3 / 4)
    spread = 0.05
    apart = 3.6 * math.sqrt(1.5 * spread**2 / 20)
    same = [(0.0, spread)] * rows
    found = side_by_side(boards(same, same, [(apart, spread), *same[1:]]))
    assert found.rows[0].judgement.deviating == deviating and apart > math.log1p(found.margin)


def test_the_degrees_of_freedom_are_those_of_the_pairs() -> None:
    """The board with the fewest pairs decides: 4 have 3 degrees of freedom."""
    spread, pairs = 0.05, 4
    error = math.sqrt(1.5 * (spread * np.linspace(-1.0, 1.0, pairs)).var(ddof=1) / pairs)
    for factor, deviating in ((0.99, ()), (1.01, (2,))):
        apart = factor * student_quantile(pairs - 1, 0.01 / 3) * error
        (row,) = side_by_side(boards(*([(shift, spread)] for shift in (0.0, 0.0, apart)), pairs=pairs)).rows
        assert row.judgement.deviating == deviating


def test_a_ratio_that_no_number_holds_is_cut() -> None:
    (row,) = side_by_side(boards([(-299.0, 0.1)], [(0.0, 0.1)], [(299.0, 0.1)])).rows
    assert row.judgement.high == math.exp(700.0) and row.judgement.low and row.judgement.low < 1e-100
    assert row.judgement.verdict is Verdict.INCONCLUSIVE


def test_a_row_holds_if_its_verdict_is_that_of_each_board() -> None:
    worse, equal, median, unsure = Verdict.WORSE, Verdict.EQUIVALENT, Verdict.SAME_MEDIAN, Verdict.INCONCLUSIVE
    for verdicts in ([worse] * 4, [median, equal, equal, equal], [median] * 4, [unsure] * 4):
        assert same_verdict(verdicts)
    for verdicts in ([worse, worse, Verdict.MIXED, worse], [equal, equal, equal, unsure], [worse, equal, equal, equal]):
        assert not same_verdict(verdicts)


# Which records may stand beside each other


def _made(*each: Mapping[str, Any]) -> Callable[[], list[Record]]:
    return lambda: [
        record(
            {changes.get("workload", "a"): (SAME, times(1.5))}, **{k: v for k, v in changes.items() if k != "workload"}
        )
        for changes in each
    ]


def _clocks(**changes: Any) -> Callable[[], list[Record]]:
    return _made({**VM, "ns_per_instruction": 1}, {**VM, "ns_per_instruction": 2, **changes})


def _boards(**changes: Any) -> Callable[[], list[Record]]:
    return _made({"target": "ssh:a"}, {"target": "ssh:b", **changes}, {"target": "ssh:c"})


FACTORS = (FactorLevels(factor="libc", levels=("musl", "glibc")),)
REFUSED: list[tuple[Callable[[], list[Record]], str]] = [
    (_made({}), "compares two records; 1 was given"),
    (_made({}, {"workload": "b"}), "The record of first has no row in common with the others"),
    (_made({}, {"factors": FACTORS}), "in their factors or levels: libc=glibc,musl, and libc=musl,glibc\\."),
    (_made({**VM}, {**VM, "processors": 2}), "in their numbers of processors .*1/N of the speed.*--smp.*: 1, and 2\\."),
    (
        _made(*({**VM, "ns_per_instruction": ns} for ns in (1, 4, 1))),
        "Two records are of 1 ns: they would count as two clocks",
    ),
    (_clocks(architecture="arm64"), "in their architectures: , and arm64\\."),
    (_clocks(target="vm:rt"), "in their targets: vm, and vm:rt\\."),
    (_clocks(factors=FACTORS), "in their factors or levels"),
    (_clocks(held=(("compiler", "gcc"),)), "in their held levels: , and compiler=gcc\\."),
    (_clocks(cpu_model="Nehalem"), "in their processors: the default, and Nehalem\\."),
    (_clocks(processors=2), "in their numbers of processors"),
    (_clocks(module_files=("/x.ko",)), "in their modules: , and /x.ko\\."),
    (_clocks(own=OWN), "in their programs\\."),
    (_clocks(workload="b"), "The record of 1 ns has no row in common"),
    (_boards(target="ssh:a"), "Two records are of ssh:a: they would count as two boards"),
    (_boards(clock="virtual"), "on the wall clock"),
    (_boards(factors=FACTORS), "in their factors or levels"),
    (_boards(own=OWN), "in their programs\\."),
    (_boards(workload="b"), "The record of ssh:a has no row in common"),
]


@pytest.mark.parametrize(("records", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_records_that_can_t_be_compared_are_refused(records: Callable[[], list[Record]], message: str) -> None:
    made = records()
    with pytest.raises(UserError, match=message) as caught:
        side_by_side(made)
    assert caught.value.hint
    assert bool(differing_setting([each[0] for each in made])) == ("in their" in message)


def test_records_that_differ_as_they_may_are_compared() -> None:
    for records in (_made({}, {"held": (("compiler", "gcc"),)}), _clocks(), _boards(), _boards(processors=2)):
        assert len(side_by_side(records()).rows) == 1
    rows = {"a": (SAME, SAME), "b": (SAME, SAME)}
    with pytest.raises(UserError, match="The record of 4 ns has no row in common with the others"):
        side_by_side([clock(ns, {"b" if ns == 4 else "a": rows["a"]}) for ns in (1, 2, 4)])
    assert len(side_by_side([*(record(rows, target=f"ssh:{n}", own=OWN) for n in range(3))]).rows) == 2


# What is printed


def shown(document: Document, width: int = 260) -> str:
    return terminal.render(document, terminal.Terminal(width=width, every=False))


def line_of(text: str, start: str) -> str:
    return " ".join(next(line for line in text.splitlines() if line.startswith(start)).split())


def test_each_table_has_its_columns(two: SideBySide, clocks: SideBySide, three: SideBySide) -> None:
    for table, head, row in (
        (
            two,
            "workload metric candidate wall clock virtual clock virtual clock / wall clock sizes signs",
            "opposite wall musl 1.500 (exact) worse 0.500 (exact) better 0.333 (exact) differ opposite signs",
        ),
        (
            clocks,
            "workload metric candidate 1 ns 4 ns clock",
            "device wall musl 0.200 b 0.500 b size depends: another size at 4 ns than at 1 ns",
        ),
        (
            three,
            "workload metric candidate board 1 board 2 board 3 over boards spread boards verdicts",
            "slow wall musl 1.500 w 1.904 w 1.499 w 1.62 (1.16–2.28) w 14.2 % differ: board 2 agree",  # noqa: RUF001 - a dash between numbers
        ),
    ):
        text = shown(document_of(table))
        assert text.startswith(answer(table)) and line_of(text, "workload") == head
        assert line_of(text, row.split()[0]) == row
        assert f"`{row.split()[0]}` | wall | musl |" in markdown.render(document_of(table))
    assert shown(document_of(clocks)).index("turns") < shown(document_of(clocks)).index("\ncompute")
    assert "1 row of one record alone: left out." in shown(document_of(clocks))
    assert "1 row without 3 pairs of positive values on every board: left out." in shown(document_of(three))
    document = document_of(three, [(f"answer {number}", f"swapstone show {number}") for number in range(3)])
    assert "board 2, ssh:b: answer 1" in shown(document) and "swapstone show 2" in shown(document)


@pytest.mark.parametrize(("load", "noted"), [("idle", False), ("memory", True)])
def test_beside_a_load_a_note_says_that_it_executes_less_in_a_second(
    clocks: SideBySide, load: str, noted: bool
) -> None:
    rows = tuple(msgspec.structs.replace(row, load=load) for row in clocks.rows)
    text = shown(document_of(msgspec.structs.replace(clocks, rows=rows)))
    assert ("a load executes an Nth of the instructions" in text) is noted


def test_a_long_table_of_clocks_is_cut_and_one_of_two_records_is_not(two: SideBySide, clocks: SideBySide) -> None:
    long = [
        markdown.render(document_of(msgspec.structs.replace(each, rows=each.rows[:1] * 20))) for each in (two, clocks)
    ]
    assert ["4 more, which differ less or not at all" in text for text in long] == [False, True]


def test_every_format_has_every_row(two: SideBySide, clocks: SideBySide, three: SideBySide) -> None:
    for table, name, values in (
        (two, "opposite", {"side_1": "wall clock", "effect_1": "1.5", "effect_2": "0.5", "signs": "opposite signs"}),
        (two, "vm alone", {"effect_1": "", "verdict_1": "", "effect_2": "1.5", "outcome": "not comparable"}),
        (clocks, "device", {"side_2": "4 ns", "effect_1": "0.2", "verdict_2": "better", "outcome": "size depends"}),
        (three, "slow", {"side_3": "ssh:c", "deviating": "ssh:b", "verdict": "worse", "confidence": "0.95"}),
    ):
        rows = list(csv.DictReader(io.StringIO(to_csv(table))))
        assert [row["workload"] for row in rows] == [row.workload for row in table.rows]
        assert next(row for row in rows if row["workload"] == name).items() >= values.items()
        assert check_printed(to_json(table)) == "swapstone-side-by-side"
        (whole,) = json.loads(to_json(table))["tables"]
        assert (whole["board"], tuple(whole["sentences"]), len(whole["table"]["rows"])) == (
            "",
            sentences(table),
            len(rows),
        )
        assert set(rows[0]) == set(document_of(table).sections[0].data[0])
    index = StudyIndex(name="s", title="", question="", folder="f", parts=(), clocks=(clocks,))
    assert check_printed(study_index.to_json(index)) == "swapstone-study-index"
    assert answer(clocks) in markdown.render(study_index.document_of(index))


def test_a_target_s_name_steers_no_terminal(three: SideBySide) -> None:
    hostile = msgspec.structs.replace(three, names=tuple(f"{name}\x1b[31m\n# x" for name in three.names))
    text = shown(document_of(hostile, [("a", "b")] * 3))
    assert "\x1b" not in text and "\n# x" not in text
