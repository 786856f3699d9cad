# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records on several virtual clocks: which rows depend on the time of an instruction, each by hand."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pytest

from swapstone.comparison.clock_scales import (
    ScaleOutcome,
    ScaleTable,
    clock_scales,
    same_but_for_the_clock,
    separation_p_value,
)
from swapstone.model import CURRENT_RULES, Analysis, Experiment, FactorLevels, OwnProgram, UserError
from swapstone.report import study_index
from swapstone.report.clock_scale_table import answer, document_of, span, to_csv, to_json
from swapstone.report.render import markdown, terminal
from swapstone.report.study_index import StudyIndex
from tests.json_schema import check_printed
from tests.unit.comparison.conftest import Bench

Values = tuple[Sequence[float], Sequence[float]]
SAME = [100.0] * 10
SPREAD = [99.0, 101.0, 100.5, 99.5, 100.2, 99.8, 100.1, 99.9, 100.3, 99.7]


def record(scale: int, rows: Mapping[str, Values], name: str = "wall") -> tuple[Experiment, Analysis]:
    """Return an experiment on a clock with its analysis: values of baseline and candidate by workload."""
    made = Bench(clock="virtual", rules=CURRENT_RULES, confidence=0.99)
    for workload, (before, after) in rows.items():
        made.workload(workload, name)
        made.pairs(workload, name, before, after)
    return msgspec.structs.replace(made.experiment, target="vm", ns_per_instruction=scale), made.analysis()


def times(factor: float, values: Sequence[float] = SAME) -> list[float]:
    return [factor * value for value in values]


def outcomes(table: ScaleTable) -> dict[str, ScaleOutcome]:
    return {row.workload: row.outcome for row in table.rows}


@pytest.fixture
def table() -> ScaleTable:
    one = record(
        1,
        {
            "compute": (SAME, times(1.5)),
            "device": (SAME, times(0.2)),
            "turns": (SAME, times(0.5)),
            "few": (SAME[:2], times(0.5)[:2]),
            "noisy": (SPREAD, times(1.3, SPREAD[::-1])),
            "alone": (SAME, times(1.5)),
            "now decided": (SAME, [50.0, 200.0] * 5),
        },
    )
    four = record(
        4,
        {
            "compute": (times(4), times(6)),
            "device": (times(4), times(2)),
            "turns": (SAME, times(1.5)),
            "few": (SAME[:2], times(2)[:2]),
            "noisy": (SPREAD, times(1.3, SPREAD)),
            "now decided": (SAME, times(1.5)),
        },
    )
    return clock_scales([four, one])  # in any order


def test_each_row_has_the_outcome_that_its_two_clocks_give(table: ScaleTable) -> None:
    assert table.scales == (1, 4)
    assert outcomes(table) == {
        "compute": ScaleOutcome.SAME,
        "device": ScaleOutcome.SIZE,
        "turns": ScaleOutcome.VERDICT,
        "few": ScaleOutcome.NOT_COMPARABLE,
        "noisy": ScaleOutcome.SAME,
        "now decided": ScaleOutcome.NOT_COMPARABLE,
    }
    assert [row.workload for row in table.dependent] == ["device", "turns"]
    reasons = {row.workload: row.reason for row in table.rows}
    assert reasons["compute"] == ""
    assert reasons["device"] == "another size at 4 ns than at 1 ns"
    assert reasons["turns"] == "1 ns: better, 4 ns: worse"
    assert reasons["few"] == "inconclusive"
    assert reasons["now decided"] == "1 ns: inconclusive, 4 ns: worse"


def test_the_answer_names_the_rows_that_depend_with_their_range(table: ScaleTable) -> None:
    assert answer(table) == (
        "2 of 6 rows depend on the clock (1 and 4 ns for each instruction): turns, wall, musl 0.500 to 1.500, "
        "device, wall, musl 0.200 to 0.500; of the others, 2 the same, 2 without two results."
    )


def test_without_results_at_two_clocks_nothing_is_known(table: ScaleTable) -> None:
    few = next(row for row in table.rows if row.workload == "few")
    assert answer(msgspec.structs.replace(table, rows=(few, few))) == (
        "It is not known whether a row depends on the clock (1 and 4 ns for each instruction): "
        "none of 2 has results at two of them; the widest range of those without a result: "
        "few, wall, musl 0.500 to 2.000."
    )
    same = next(row for row in table.rows if row.outcome is ScaleOutcome.SAME)
    assert answer(msgspec.structs.replace(table, rows=(few, same))).startswith("No row of 2 is shown to depend")


def test_a_dependent_row_is_never_printed_as_one_number(table: ScaleTable) -> None:
    document = document_of(table, (("answer one", "show one"), ("answer four", "show four")))
    text = terminal.render(document, terminal.Terminal(width=100, every=False))
    (line,) = [line for line in text.splitlines() if line.startswith("device ")]
    assert " ".join(line.split()) == "device wall musl 0.200 0.500 size depends: another size at 4 ns than at 1 ns"
    assert text.startswith("2 of 6 rows depend on the clock")
    assert text.index("turns") < text.index("\ncompute")
    assert "answer four" in markdown.render(document)
    assert "show one" in text


def test_the_time_that_is_read_first_is_named_before_other_metrics_with_wider_ranges(table: ScaleTable) -> None:
    turns = next(row for row in table.rows if row.workload == "turns")
    device = next(row for row in table.rows if row.workload == "device")
    other = tuple(msgspec.structs.replace(side, preferred=False) for side in device.sides if side)
    rest = msgspec.structs.replace(device, sides=other, outcome=ScaleOutcome.VERDICT)
    less = msgspec.structs.replace(
        turns, sides=tuple(side and msgspec.structs.replace(side, effect=1.5) for side in turns.sides)
    )
    made = msgspec.structs.replace(table, rows=(rest, less))
    assert all(side is not None and side.preferred for side in less.sides)
    assert answer(made).index("turns") < answer(made).index("device")


@pytest.mark.parametrize(("load", "noted"), [("idle", False), ("memory", True)])
def test_beside_a_load_a_note_says_that_it_executes_less_in_a_second(table: ScaleTable, load: str, noted: bool) -> None:
    rows = tuple(msgspec.structs.replace(row, load=load) for row in table.rows)
    text = terminal.render(document_of(msgspec.structs.replace(table, rows=rows)), terminal.Terminal(width=200))
    assert ("a load executes an Nth of the instructions" in text) is noted


@pytest.mark.parametrize(("spread", "same"), [(0.006, (True, True, False)), (0.008, (True, False, False))])
def test_the_rate_is_divided_by_the_number_of_the_other_clocks(spread: float, same: tuple[bool, ...]) -> None:
    """Each other clock is compared with the first one: Bonferroni's correction. So more clocks make every interval wider."""
    random = np.random.default_rng(1)
    before, after, other = (
        [round(level * (1 + spread * each), 2) for each in random.normal(size=10)] for level in (100, 150, 150)
    )

    def outcome(clocks: int) -> ScaleOutcome:
        records = [record(scale, {"w": (before, other if scale == 2 else after)}) for scale in range(1, clocks + 1)]
        return clock_scales(records).rows[0].outcome

    expected = [ScaleOutcome.SAME if each else ScaleOutcome.UNDECIDED for each in same]
    assert [outcome(clocks) for clocks in (2, 3, 5)] == expected


def test_an_equal_verdict_whose_difference_is_not_shown_is_undecided() -> None:
    wide = [80.0, 120.0, 95.0, 105.0, 85.0, 115.0, 90.0, 110.0, 100.0, 100.0]
    found = clock_scales([record(1, {"w": (SAME, times(3, wide))}), record(2, {"w": (SAME, times(3.1, wide[::-1]))})])
    assert outcomes(found) == {"w": ScaleOutcome.UNDECIDED}
    assert found.rows[0].reason == "the sizes at 1 ns and 2 ns are not shown to be equal"
    assert (
        "No row of 1 is shown to depend on the clock (1 and 2 ns for each instruction): 1 undecided; the widest"
        in answer(found)
    )


def test_ratios_that_are_all_beyond_each_other_differ_although_an_interval_needs_more_pairs() -> None:
    rows = {f"w{number}": (SPREAD[:8], times(7, SPREAD[1:9])) for number in range(20)}
    slower = {name: (SPREAD[:8], times(1.8, SPREAD[1:9])) for name in rows}
    assert set(outcomes(clock_scales([record(1, rows), record(4, slower)])).values()) == {ScaleOutcome.SIZE}
    few = {name: (before[:3], after[:3]) for name, (before, after) in rows.items()}
    assert ScaleOutcome.SIZE not in outcomes(clock_scales([record(1, few), record(4, slower)])).values()


@pytest.mark.parametrize(
    ("first", "second", "limit", "p_value"),
    [
        ((0, 1), (3, 4), 0.0, 2 / 6),
        ((3, 4), (0, 1), 0.0, 2 / 6),
        ((0, 1), (3, 4), 1.99, 2 / 6),
        ((0, 1), (3, 4), 2.0, 1.0),
        ((0, 1), (1, 4), 0.0, 1.0),
        ((0, 3), (1, 4), 0.0, 1.0),
        ((0,), (1,), 0.0, 1.0),
        ((), (1,), 0.0, 1.0),
        ((1,) * 8, (2,) * 8, 0.5, 2 / 12870),
    ],
)
def test_the_p_value_of_a_separation(
    first: tuple[float, ...], second: tuple[float, ...], limit: float, p_value: float
) -> None:
    assert separation_p_value(first, second, limit) == pytest.approx(p_value)


def test_separate_samples_of_one_distribution_are_as_rare_as_stated() -> None:
    random = np.random.default_rng(1)
    samples = random.normal(size=(20_000, 2, 3))
    share = np.mean([separation_p_value(list(one), list(other), 0.0) < 1 for one, other in samples])
    assert share == pytest.approx(2 / 20, abs=0.01)  # its standard error is 0.002


def test_a_third_clock_without_a_result_leaves_a_row_undecided() -> None:
    made = [record(scale, {"w": (SAME, times(1.5))}) for scale in (1, 2)]
    made.append(record(4, {"w": (SAME, [50.0, 200.0] * 5)}))
    found = clock_scales(made)
    assert outcomes(found) == {"w": ScaleOutcome.UNDECIDED}
    assert found.rows[0].reason == "1 ns: worse, 2 ns: worse, 4 ns: inconclusive"


def test_a_verdict_within_the_margin_differs_from_one_beyond_it() -> None:
    found = clock_scales([record(1, {"w": (SAME, times(1.01))}), record(2, {"w": (SAME, times(1.5))})])
    assert outcomes(found) == {"w": ScaleOutcome.VERDICT}


def test_opposite_signs_of_a_quantity_without_a_better_direction_are_named() -> None:
    made = [record(scale, {"w": (SAME, times(factor))}, "nivcsw") for scale, factor in ((1, 0.5), (2, 2))]
    (row,) = clock_scales(made).rows
    assert (row.outcome, row.reason) == (ScaleOutcome.VERDICT, "1 ns: changed, less, 2 ns: changed, more")


def test_sizes_of_files_are_no_rows() -> None:
    made = [record(scale, {"w": (SAME, times(1.5))}) for scale in (1, 2)]
    assert [row.metric.name for row in clock_scales(made).rows] == ["wall"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clock": "wall"}, "between two or more records on the virtual clock"),
        ({"ns_per_instruction": 1}, "Two records count 1 ns"),
        ({"architecture": "arm64"}, "in their architectures\\."),
        ({"target": "vm:rt"}, "in their targets\\."),
        ({"factors": (FactorLevels(factor="libc", levels=("musl", "glibc")),)}, "in their factors or levels\\."),
        ({"cpu_model": "Nehalem"}, "in their processors\\."),
        ({"processors": 2}, "in their numbers of processors\\."),
        ({"module_files": ("/x.ko",)}, "in their modules\\."),
        ({"own": OwnProgram(name="p", arguments=("p",))}, "in their programs\\."),
    ],
)
def test_records_that_differ_in_more_are_refused(changes: dict[str, object], message: str) -> None:
    first, (experiment, analysis) = (record(scale, {"w": (SAME, times(1.5))}) for scale in (1, 2))
    changed = msgspec.structs.replace(experiment, **changes)
    assert same_but_for_the_clock(first[0], experiment)
    assert not same_but_for_the_clock(first[0], changed)
    with pytest.raises(UserError, match=message):
        clock_scales([first, (changed, analysis)])


@pytest.mark.parametrize(
    ("margins", "outcome"),
    [
        ((0.02, 0.02), ScaleOutcome.SIZE),
        ((0.05, 0.02), ScaleOutcome.SAME),
        ((0.02, 0.05), ScaleOutcome.SAME),
    ],
)
def test_the_larger_margin_decides_whether_sizes_differ(margins: tuple[float, float], outcome: ScaleOutcome) -> None:
    """The effects are 1.5 and 1.56: their ratio is 1.04."""
    records = []
    for scale, margin in zip((1, 2), margins, strict=True):
        experiment, analysis = record(scale, {"w": (SAME, times(1.5 if scale == 1 else 1.56))})
        records.append((msgspec.structs.replace(experiment, margin=margin), analysis))
    found = clock_scales(records)
    assert (outcomes(found), found.margin) == ({"w": outcome}, max(margins))


@pytest.mark.parametrize(
    ("confidences", "outcome"),
    [
        ((0.5, 0.5), ScaleOutcome.SIZE),
        ((0.99, 0.5), ScaleOutcome.UNDECIDED),
        ((0.5, 0.99), ScaleOutcome.UNDECIDED),
    ],
)
def test_the_larger_confidence_decides_whether_separate_ratios_differ(
    confidences: tuple[float, float], outcome: ScaleOutcome
) -> None:
    """Four pairs on each clock are separate with a p-value of 2/70."""
    records = []
    for scale, confidence in zip((1, 2), confidences, strict=True):
        slower = times(10.0 * scale**2, SPREAD[1:5])
        experiment, analysis = record(scale, {"w": (SPREAD[:4], slower)})
        records.append((msgspec.structs.replace(experiment, confidence=confidence), analysis))
    assert outcomes(clock_scales(records)) == {"w": outcome}


@pytest.mark.parametrize("zero", [0, 1])
def test_values_of_zero_on_one_clock_have_no_ratio_on_another(zero: int) -> None:
    """Such a row is compared by its difference: it is neither separate nor equal in size."""
    rows = [(SAME, times(1.5)), ([0.0, *SAME[1:]], times(1.5))]
    first, second = (record(scale, {"w": rows[number == zero]}) for number, scale in enumerate((1, 2)))
    table = clock_scales([first, second])
    (row,) = table.rows
    kinds = ("difference", "ratio") if zero == 0 else ("ratio", "difference")
    assert not row.one_kind
    assert row.outcome is ScaleOutcome.UNDECIDED
    assert row.reason == "1 ns: a {}, 2 ns: a {} (a baseline of zero has no ratio)".format(*kinds)
    # A difference and a ratio have no order: none of them is the smallest effect of a range.
    assert span(row).split(" and ")[1 - zero] == "1.500"
    assert answer(table).endswith("1 undecided.")


def test_a_record_may_lack_some_of_the_rows_that_others_have() -> None:
    rows = {"a": (SAME, times(1.5)), "b": (SAME, times(2.0))}
    for lacking in (1, 2, 4):
        made = [record(scale, {"a": rows["a"]} if scale == lacking else rows) for scale in (1, 2, 4)]
        table = clock_scales(made)
        assert {row.workload: [side is not None for side in row.sides] for row in table.rows} == {
            "a": [True] * 3,
            "b": [scale != lacking for scale in (1, 2, 4)],
        }


def test_records_without_a_common_row_are_refused() -> None:
    with pytest.raises(UserError, match="no row in common"):
        clock_scales([record(1, {"a": (SAME, SAME)}), record(2, {"b": (SAME, SAME)})])
    with pytest.raises(UserError, match="The record at 4 ns has no row in common with the others"):
        clock_scales([record(scale, {"b" if scale == 4 else "a": (SAME, SAME)}) for scale in (1, 2, 4)])
    with pytest.raises(UserError, match="two or more"):
        clock_scales([record(1, {"a": (SAME, SAME)})])


def test_the_exports_have_every_number(table: ScaleTable) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(table))))
    device = next(row for row in rows if row["workload"] == "device")
    assert (device["effect_1ns"], device["verdict_4ns"], device["outcome"]) == ("0.2", "better", "size depends")
    assert check_printed(to_json(table)) == "swapstone-clock-scales"
    whole = json.loads(to_json(table))
    index = StudyIndex(name="s", title="", question="", folder="f", parts=(), clocks=(table,))
    assert check_printed(study_index.to_json(index)) == "swapstone-study-index"
    assert whole["answer"] == answer(table)
    assert whole["table"]["scales"] == [1, 4]
    assert len(whole["table"]["rows"]) == len(rows) == 6
