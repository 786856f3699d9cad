# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of sizes and signs: two records side by side, each count and ratio by hand."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

import msgspec
import pytest

from swapstone.comparison.agreement import AgreementTable, SignAgreement, signs
from swapstone.comparison.size_agreement import SizeOutcome
from swapstone.model import Analysis, Cpus, Experiment, FactorLevels, Scale, UserError
from swapstone.report import agreement_by_board
from swapstone.report.record_agreement import document_of, sentences, to_csv, to_json
from swapstone.report.render import markdown, terminal
from tests.json_schema import check_printed
from tests.unit.comparison.conftest import Bench

Values = tuple[Sequence[float], Sequence[float]]
SAME = [100.0] * 6


def record(rows: dict[str, Values], *, virtual: bool, several: str = "") -> tuple[Experiment, Analysis]:
    """Return an experiment of these workloads, each with its wall times of baseline and candidate."""
    made = Bench()
    for name, (before, after) in rows.items():
        made.workload(name, "wall", cpus=Cpus.ALL if name == several else Cpus.ONE)
        made.pairs(name, "wall", before, after)
    clock, target = ("virtual", "vm") if virtual else ("wall", "host")
    return msgspec.structs.replace(made.experiment, clock=clock, target=target), made.analysis()


def table(host: dict[str, Values], vm: dict[str, Values], several: str = "") -> AgreementTable:
    one, other = record(host, virtual=False, several=several), record(vm, virtual=True, several=several)
    workloads = Bench()
    for name in (*host, *vm):
        workloads.workload(name, "wall", cpus=Cpus.ALL if name == several else Cpus.ONE)
    return signs(one, other, workloads.workloads)


SLOWER, FASTER = [150.0] * 6, [50.0] * 6
UNSURE = [50.0, 200.0, 60.0, 180.0, 100.0, 100.0]


@pytest.fixture
def found() -> AgreementTable:
    return table(
        {
            "both slower": (SAME, SLOWER),
            "opposite": (SAME, SLOWER),
            "only host": (SAME, SLOWER),
            "only vm": (SAME, SAME),
            "neither": (SAME, SAME),
            "unsure": (SAME, UNSURE),
            "threads": (SAME, SLOWER),
            "host alone": (SAME, SLOWER),
        },
        {
            "both slower": (SAME, [101.0, 102, 103, 104, 105, 120]),
            "opposite": (SAME, FASTER),
            "only host": (SAME, SAME),
            "only vm": (SAME, FASTER),
            "neither": (SAME, [101.0] * 6),
            "unsure": (SAME, SLOWER),
            "threads": (SAME, SLOWER),
            "vm alone": (SAME, SLOWER),
        },
        several="threads",
    )


def test_each_row_by_hand(found: AgreementTable) -> None:
    assert {row.workload: (row.sameness, row.reason) for row in found.rows} == {
        "both slower": (SignAgreement.AGREE, ""),
        "opposite": (SignAgreement.DISAGREE, "opposite signs"),
        "only host": (SignAgreement.DISAGREE, "only wall clock has a difference"),
        "only vm": (SignAgreement.DISAGREE, "only virtual clock has a difference"),
        "neither": (SignAgreement.AGREE, ""),
        "unsure": (SignAgreement.NOT_COMPARABLE, "wall clock: inconclusive"),
        "threads": (
            SignAgreement.NOT_COMPARABLE,
            "it uses several processors, and a machine on the virtual clock has one",
        ),
        "host alone": (SignAgreement.NOT_COMPARABLE, "virtual clock: not measured"),
        "vm alone": (SignAgreement.NOT_COMPARABLE, "wall clock: not measured"),
    }
    assert [found.count(each) for each in SignAgreement] == [2, 3, 4]


def test_the_counts_and_the_spread_in_words(found: AgreementTable) -> None:
    sizes, first, wall, virtual = sentences(found)
    # 0.5 / 1.5 = 1/3, 1 / 1.5 = 2/3, 0.5 / 1; "both slower" and "unsure" have too much noise, and "neither" is 1.01.
    assert sizes == (
        "1 of 6 rows agree in size, within 2 %; 3 differ: opposite 0.333 (exact), only vm 0.500 (exact), only host 0.667 (exact); "
        "2 are undecided; 3 can't be compared."
    )
    assert first == (
        "Signs of 9 rows: 2 of 5 comparable ones agree, 3 disagree (1 with opposite signs, 2 where only one side has a difference); "
        "4 can't be compared."
    )
    # 8 rows each; on the host only "unsure" varies, from 50 to 200; in the machine only "both slower", from 101 to 120.
    assert wall == (
        "wall clock: 7 of 8 rows gave one and the same number on each side in every block; the largest spread is 300 % "
        "(unsure libc=musl)."
    )
    assert "virtual clock: 7 of 8 rows" in virtual and "in every draw; the largest spread is 19 %" in virtual
    assert found.second_spread.largest == pytest.approx(120 / 101 - 1)


def test_every_format_has_every_row(found: AgreementTable) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(found))))
    assert [row["workload"] for row in rows] == [row.workload for row in found.rows]
    assert (rows[1]["first_effect"], rows[1]["second_effect"], rows[1]["signs"]) == ("1.5", "0.5", "disagree")
    assert rows[-1]["first_effect"] == rows[-1]["first_verdict"] == ""
    document = document_of(found)
    text, page = terminal.render(document, terminal.Terminal(width=260)), markdown.render(document)
    line = next(line for line in text.splitlines() if line.startswith("opposite"))
    assert " ".join(line.split()) == (
        "opposite musl 1.500 (exact) worse 0.500 (exact) better 0.333 (exact) differ disagree: opposite signs"
    )
    assert (
        "| `opposite` | musl | 1.500 (exact) | worse | 0.500 (exact) | better | 0.333 (exact) | **differ** "
        "| **disagree** (opposite signs) |" in page
    )
    assert (rows[1]["size"], rows[1]["size_metric"]) == ("differ", "wall")
    assert float(rows[1]["size_low"]) == pytest.approx(1 / 3)
    decoded = json.loads(to_json(found))
    assert check_printed(to_json(found)) == "swapstone-signs" and len(decoded["signs"]["rows"]) == 9
    assert tuple(decoded["sentences"]) == sentences(found)
    assert check_printed(agreement_by_board.to_json({"board": found})) == "swapstone-signs-by-board"


def test_exchanging_the_records_exchanges_the_sides(found: AgreementTable) -> None:
    one, other = record({"a": (SAME, SLOWER)}, virtual=False), record({"a": (SAME, FASTER)}, virtual=True)
    bench = Bench()
    bench.workload("a", "wall")
    (row,) = signs(one, other, bench.workloads).rows
    (turned,) = signs(other, one, bench.workloads).rows
    assert (row.first, row.second) == (turned.second, turned.first)
    assert row.sameness is turned.sameness is SignAgreement.DISAGREE and row.opposite and turned.opposite


def test_several_processors_are_compared_where_both_have_them() -> None:
    one = record({"threads": (SAME, SLOWER)}, virtual=False, several="threads")
    bench = Bench()
    bench.workload("threads", "wall", cpus=Cpus.ALL)
    found = signs(one, one, bench.workloads)
    assert found.rows[0].sameness is SignAgreement.AGREE and found.names == ("first", "second")


def test_other_factors_or_no_workload_in_common_are_refused() -> None:
    one, other = record({"a": (SAME, SAME)}, virtual=False), record({"b": (SAME, SAME)}, virtual=True)
    with pytest.raises(UserError, match="no workload in common"):
        signs(one, other, {})
    changed = msgspec.structs.replace(one[0], factors=(FactorLevels(factor="libc", levels=("musl", "glibc")),))
    with pytest.raises(UserError, match="libc=glibc,musl, and libc=musl,glibc"):
        signs(one, (changed, one[1]), {})


def noisy(rows: dict[str, tuple[float, int]], seed: int, spread: float = 0.01) -> tuple[Experiment, Analysis]:
    """Return a record of workloads with a ratio and a number of pairs each."""
    made = Bench()
    for number, (name, (ratio, pairs)) in enumerate(rows.items()):
        made.noisy(name, ratio, pairs, seed=seed + number, spread=spread)
    return made.experiment, made.analysis()


def sized(first: tuple[Experiment, Analysis], second: tuple[Experiment, Analysis]) -> AgreementTable:
    bench = Bench()
    for _, name in (*first[0].workloads, *second[0].workloads):
        bench.workload(name, "wall")
    return signs(first, second, bench.workloads)


def test_sizes_that_agree_that_differ_and_that_are_undecided() -> None:
    """Both records are worse everywhere, with the same sign; only the sizes differ."""
    first = noisy({"same": (1.5, 60), "more": (1.5, 60), "few": (1.5, 4)}, seed=1)
    second = noisy({"same": (1.5, 60), "more": (1.8, 60), "few": (1.5, 60)}, seed=100)
    found = sized(first, second)
    same, more, few = found.rows
    assert [row.size.outcome for row in found.rows] == [
        SizeOutcome.AGREE,
        SizeOutcome.DIFFER,
        SizeOutcome.UNDECIDED,
    ]
    assert more.sameness is SignAgreement.AGREE
    assert more.size.ratio == pytest.approx(1.8 / 1.5, rel=0.02)
    assert more.size.low is not None and more.size.high is not None and same.size.low is not None
    assert more.size.ratio is not None
    assert 1.15 < more.size.low < more.size.ratio < more.size.high < 1.25
    # The ratio is that of the two effects in the table.
    assert more.first is not None and more.second is not None
    assert more.first.effect is not None and more.second.effect is not None
    assert more.size.ratio == pytest.approx(more.second.effect / more.first.effect)
    assert few.size.ratio is not None and few.size.low is None and "in each record, and one has 4" in few.size.reason
    assert sentences(found)[0].startswith("1 of 3 rows agree in size, within 2 %; 1 differs: more 1.2")


def test_sizes_are_corrected_for_the_number_of_rows() -> None:
    rows = {f"w{number}": (1.0, 20) for number in range(12)}
    found = sized(noisy(rows, seed=1), noisy(rows, seed=100))
    assert [row.size.confidence for row in found.rows] == [pytest.approx(1 - 0.05 / 12)] * 12
    assert found.count_sizes(SizeOutcome.DIFFER) == 0


def test_a_difference_of_values_has_no_ratio() -> None:
    first, second = (record({"zero": ([0.0] * 6, [1.0] * 6)}, virtual=False) for _ in range(2))
    assert first[1].comparisons[0].scale is Scale.DIFFERENCE
    (row,) = sized(first, second).rows
    assert (row.size.outcome, row.size.reason) == (
        SizeOutcome.NOT_COMPARABLE,
        "an effect is a difference, not a ratio",
    )
    assert sentences(sized(first, second))[0] == "No effect of the 1 row can be compared in size."


def test_a_margin_within_which_all_is_equal_agrees() -> None:
    """An interval that excludes 1 and lies within the margin is an agreement: the difference is too small to matter."""
    (row,) = sized(noisy({"a": (1.0, 100)}, 1, spread=0.001), noisy({"a": (1.005, 100)}, 50, spread=0.001)).rows
    assert row.size.low is not None and row.size.low > 1
    assert row.size.outcome is SizeOutcome.AGREE
