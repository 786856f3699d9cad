# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records of several boards: the effect over them, which one differs, and what can't be compared."""

from __future__ import annotations

import csv
import io

import msgspec
import numpy as np
import pytest

from swapstone.comparison.several_boards import BoardTable, several_boards
from swapstone.model import CURRENT_RULES, VIRTUAL_CLOCK, Analysis, Experiment, FactorLevels, UserError, Verdict
from swapstone.report.render import markdown, terminal
from swapstone.report.several_boards_table import answer, document_of, to_csv, to_json
from tests.json_schema import check_printed
from tests.unit.comparison.conftest import Bench

BASE = np.linspace(0.98, 1.02, 20)


def record(board: str, seed: int, **factors: float) -> tuple[Experiment, Analysis]:
    """Return a board's experiment with its analysis: the candidate's factor by workload."""
    random, made = np.random.default_rng(seed), Bench(rules=CURRENT_RULES, confidence=0.99)
    for workload, factor in factors.items():
        before, after = (list(100.0 * random.permutation(BASE)) for _ in range(2))
        made.workload(workload, "wall")
        made.pairs(workload, "wall", before, [factor * each for each in after])
    return msgspec.structs.replace(made.experiment, target=board), made.analysis()


@pytest.fixture
def boards() -> list[tuple[Experiment, Analysis]]:
    return [
        record("ssh:a", 1, same=1.5, slow=1.5, none=1.0, alone=1.2),
        record("ssh:b", 2, same=1.5, slow=1.9, none=1.0),
        record("ssh:c", 3, same=1.5, slow=1.5, none=1.0),
    ]


@pytest.fixture
def table(boards: list[tuple[Experiment, Analysis]]) -> BoardTable:
    return several_boards(boards)


def test_the_effect_over_boards_has_the_spread_between_them(table: BoardTable) -> None:
    rows = {row.workload: row for row in table.rows}
    assert set(rows) == {"same", "slow", "none"} and table.omitted == 1
    same, slow, none = rows["same"], rows["slow"], rows["none"]
    assert same.ratio == pytest.approx(1.5, rel=0.01) and same.deviating == () and same.spread < 0.005
    assert slow.ratio == pytest.approx((1.5 * 1.5 * 1.9) ** (1 / 3), rel=0.01)
    assert slow.deviating == (1,) and slow.spread == pytest.approx(np.std(np.log((1.5, 1.5, 1.9)), ddof=1), rel=0.05)
    assert slow.high / slow.low - 1 > 5 * (same.high / same.low - 1) and slow.low < 1.5 and slow.high > 1.9
    assert same.verdict is Verdict.WORSE and none.verdict is Verdict.EQUIVALENT
    assert table.held(same) and table.held(none)


def test_a_verdict_that_holds_on_each_board_may_not_hold_over_all() -> None:
    table = several_boards([record(f"ssh:{seed}", seed, work=factor) for seed, factor in enumerate((1.05, 1.1, 2.5))])
    (row,) = table.rows
    assert {side.verdict for side in row.sides} == {Verdict.WORSE}
    assert row.verdict is Verdict.INCONCLUSIVE and not table.held(row)
    assert answer(table).startswith(
        "0 of 1 row have the same verdict on each of 3 boards and over all of them; board 3, ssh:2, differs"
    )


def test_the_report_has_the_answer_first(table: BoardTable) -> None:
    assert answer(table) == (
        "3 of 3 rows have the same verdict on each of 3 boards and over all of them; board 2, ssh:b, differs in 1 row."
    )
    document = document_of(table, [(f"answer {number}", f"swapstone show {number}") for number in range(3)])
    text = terminal.render(document)
    assert text.startswith("3 of 3 rows") and "board 2, ssh:b: answer 1" in text and "swapstone show 2" in text
    assert "1 row without 3 pairs" in text
    assert "| `slow` |" in markdown.render(document)
    rows = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert [row["deviating"] for row in rows if row["workload"] == "slow"] == ["ssh:b"]
    assert check_printed(to_json(table)) == "swapstone-boards"


def test_a_target_s_name_steers_no_terminal(boards: list[tuple[Experiment, Analysis]]) -> None:
    hostile = [(msgspec.structs.replace(each, target=f"{each.target}\x1b[31m\n# x"), found) for each, found in boards]
    shown = terminal.render(document_of(several_boards(hostile), [("a", "b")] * 3))
    assert "\x1b" not in shown and "\n# x" not in shown


def test_what_can_t_be_compared(boards: list[tuple[Experiment, Analysis]]) -> None:
    with pytest.raises(UserError, match="three or more records"):
        several_boards(boards[:2])
    with pytest.raises(UserError, match="Two records are of the target ssh:a"):
        several_boards([boards[0], boards[1], boards[0]])
    (experiment, analysis), *others = boards
    virtual = msgspec.structs.replace(experiment, clock=VIRTUAL_CLOCK)
    with pytest.raises(UserError, match="on the wall clock"):
        several_boards([(virtual, analysis), *others])
    factors = (FactorLevels(factor="compiler", levels=("gcc", "clang")),)
    with pytest.raises(UserError, match="in their factors or levels"):
        several_boards([(msgspec.structs.replace(experiment, factors=factors), analysis), *others])
    with pytest.raises(UserError, match="no row in common"):
        several_boards([record("ssh:d", 4, other=1.0), *boards[1:]])
