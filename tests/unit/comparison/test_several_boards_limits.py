# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records of several boards at their limits: which rows and boards count, at which level, and each figure by its formula."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from swapstone.comparison.several_boards import several_boards
from swapstone.model import (
    CURRENT_RULES,
    Analysis,
    Direction,
    Experiment,
    Metric,
    OwnProgram,
    Quantity,
    Scale,
    UserError,
    Verdict,
)
from swapstone.stats import pooled_estimate
from swapstone.stats.mean_ratio import student_quantile
from tests.unit.comparison.conftest import CANDIDATE, Bench

Board = tuple[Experiment, Analysis]

STANDARD = np.linspace(-1.0, 1.0, 20) / np.linspace(-1.0, 1.0, 20).std(ddof=1)
"""Numbers with the mean 0 and the variance 1."""

TEXT = Metric(name="text", unit="B", quantity=Quantity.SIZE, better=Direction.LOWER, meaning="code")


def board(name: str, *rows: tuple[float, float], pairs: int = 20, null: bool = False, **changes: object) -> Board:
    """Return a board's experiment with its analysis.

    Args:
        name: of its target.
        rows: mean and standard deviation of the log ratio of each workload.
        pairs: of each workload.
        null: whether the baseline takes part again.
        changes: of the experiment.
    """
    made = Bench(rules=CURRENT_RULES, confidence=0.99, null=null)
    numbers = STANDARD if pairs == 20 else np.linspace(-1.0, 1.0, pairs)
    for number, (shift, spread) in enumerate(rows):
        made.pairs(f"w{number}", "wall", [100.0] * pairs, list(100.0 * np.exp(shift + spread * numbers)))
    if null:
        for number in range(len(rows)):
            for block in range(1, pairs + 1):
                made.run(f"w{number}", "libc=glibc (again)", block, wall=100.0)
    sizes = {("s", "w0", label): [(TEXT, 10.0)] for label in ("libc=glibc", CANDIDATE)}
    return msgspec.structs.replace(made.experiment, target=name, **changes), made.analysis(sizes)


def boards(*rows: Sequence[tuple[float, float]], **changes: object) -> list[Board]:
    return [board(f"ssh:{number}", *each, **changes) for number, each in enumerate(rows)]  # type: ignore[arg-type] # one of its fields


def test_each_figure_is_that_of_the_formula_at_5_percent() -> None:
    made = boards([(0.10, 0.02)], [(0.12, 0.03)], [(0.20, 0.01)])
    (row,) = several_boards(made).rows
    expected = pooled_estimate((0.10, 0.12, 0.20), [each**2 / 20 for each in (0.02, 0.03, 0.01)], 0.05)
    assert row.ratio == pytest.approx(math.exp(expected.estimate), rel=1e-9)
    assert row.low == pytest.approx(math.exp(expected.interval.low), rel=1e-9)
    assert row.high == pytest.approx(math.exp(expected.interval.high), rel=1e-9)
    assert row.spread == pytest.approx(expected.spread, rel=1e-6)
    assert row.scale is Scale.RATIO


@pytest.mark.parametrize(("pairs", "omitted"), [(3, 0), (2, 1)])
def test_a_row_needs_three_pairs_on_each_board(pairs: int, omitted: int) -> None:
    made = [*boards([(0.1, 0.01), (0.1, 0.01)], [(0.1, 0.01), (0.1, 0.01)])]
    short = board("ssh:short", (0.1, 0.01), (0.1, 0.01), pairs=pairs)
    long = board("ssh:long", (0.1, 0.01), (0.1, 0.01))
    workloads = [each for each in short[1].comparisons if each.workload == "w0"]
    mixed = msgspec.structs.replace(
        long[1], comparisons=(*workloads, *(each for each in long[1].comparisons if each.workload != "w0"))
    )
    table = several_boards([*made, (long[0], mixed)])
    assert (len(table.rows), table.omitted) == (2 - omitted, omitted)


def test_copies_and_sizes_are_no_rows() -> None:
    table = several_boards(boards([(0.1, 0.01)], [(0.1, 0.01)], [(0.1, 0.01)], null=True))
    assert [(row.workload, row.candidate.label, row.metric.name) for row in table.rows] == [("w0", CANDIDATE, "wall")]
    assert table.omitted == 0


def test_the_largest_margin_and_confidence_of_the_records_count() -> None:
    made = boards([(0.1, 0.01)], [(0.1, 0.01)], [(0.1, 0.01)])
    changes = ({"margin": 0.01, "confidence": 0.95}, {"margin": 0.2}, {"confidence": 0.999})
    mixed = [
        (msgspec.structs.replace(experiment, **change), analysis)
        for (experiment, analysis), change in zip(made, changes, strict=True)
    ]
    table = several_boards(mixed)
    assert (table.margin, table.confidence) == (0.2, 0.999)
    assert table.boards == ("ssh:0", "ssh:1", "ssh:2")
    (row,) = table.rows
    assert row.verdict is Verdict.EQUIVALENT  # within 20 %, though larger


@pytest.mark.parametrize(("rows", "deviating"), [(1, (2,)), (4, ())])
def test_the_level_of_deviating_boards_is_divided_by_the_number_of_rows(rows: int, deviating: tuple[int, ...]) -> None:
    """One board differs by 3.6 standard errors. 19 degrees of freedom, three boards, 1 %: 3.4 for one row, 3.9 for four."""
    assert student_quantile(19, 0.01 / 3) < 3.6 < student_quantile(19, 0.01 / 3 / 4)
    spread = 0.05
    error = math.sqrt(1.5 * spread**2 / 20)
    found = several_boards(
        boards(*([(0.0, spread)] * rows for _ in range(2)), [(3.6 * error, spread)] + [(0.0, spread)] * (rows - 1))
    )
    assert found.rows[0].deviating == deviating
    assert 3.6 * error > math.log1p(found.margin)


def test_the_degrees_of_freedom_are_those_of_the_pairs() -> None:
    """The board with the fewest pairs decides: 4 have 3 degrees of freedom."""
    spread, pairs = 0.05, 4
    numbers = np.linspace(-1.0, 1.0, pairs)
    error = math.sqrt(1.5 * (spread * numbers).var(ddof=1) / pairs)
    for factor, deviating in ((0.99, ()), (1.01, (2,))):
        apart = factor * student_quantile(pairs - 1, 0.01 / 3) * error
        made = [board(f"ssh:{each}", (shift, spread), pairs=pairs) for each, shift in enumerate((0.0, 0.0, apart))]
        (row,) = several_boards(made).rows
        assert row.deviating == deviating


def test_a_ratio_that_no_number_holds_is_cut() -> None:
    (row,) = several_boards(boards([(-299.0, 0.1)], [(0.0, 0.1)], [(299.0, 0.1)])).rows
    assert row.high == math.exp(700.0) and row.low < 1e-100
    assert row.verdict is Verdict.INCONCLUSIVE


def test_records_of_other_programs_are_not_compared() -> None:
    made = boards([(0.1, 0.01)], [(0.1, 0.01)], [(0.1, 0.01)])
    own = OwnProgram(name="w", arguments=("w",))
    other = msgspec.structs.replace(made[1][0], own=own)
    with pytest.raises(UserError, match="in more than the target: in their programs") as caught:
        several_boards([made[0], (other, made[1][1]), made[2]])
    assert "--target ssh:BOARD" in caught.value.hint
    same = [(msgspec.structs.replace(experiment, own=own), analysis) for experiment, analysis in made]
    assert len(several_boards(same).rows) == 1


@pytest.mark.parametrize(
    ("sides", "over", "held"),
    [
        ((Verdict.WORSE,) * 3, Verdict.WORSE, True),
        ((Verdict.WORSE, Verdict.WORSE, Verdict.MIXED), Verdict.WORSE, False),
        ((Verdict.SAME_MEDIAN, Verdict.EQUIVALENT, Verdict.EQUIVALENT), Verdict.EQUIVALENT, True),
        ((Verdict.SAME_MEDIAN,) * 3, Verdict.SAME_MEDIAN, True),
        ((Verdict.EQUIVALENT,) * 3, Verdict.INCONCLUSIVE, False),
        ((Verdict.INCONCLUSIVE,) * 3, Verdict.INCONCLUSIVE, True),
        ((Verdict.WORSE, Verdict.EQUIVALENT, Verdict.EQUIVALENT), Verdict.EQUIVALENT, False),
    ],
)
def test_a_row_holds_if_its_verdict_is_that_of_each_board(
    sides: tuple[Verdict, ...], over: Verdict, held: bool
) -> None:
    table = several_boards(boards([(0.1, 0.01)], [(0.1, 0.01)], [(0.1, 0.01)]))
    (row,) = table.rows
    changed = [msgspec.structs.replace(side, verdict=verdict) for side, verdict in zip(row.sides, sides, strict=True)]
    assert table.held(msgspec.structs.replace(row, sides=tuple(changed), verdict=over)) == held
