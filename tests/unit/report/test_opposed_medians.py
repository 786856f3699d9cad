# SPDX-License-Identifier: MIT OR Apache-2.0
"""Medians that point in the other direction than the effect of pairs are explained where both are printed."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit import builders

from swapstone.core.model import Comparison, Direction, Metric, Quantity, Scale, Verdict
from swapstone.core.report import formatting
from swapstone.core.report.topics.comparison_groups import Row
from swapstone.core.report.topics.comparisons import forest_row, grid_cell

LOST = Comparison(
    suite="netstack",
    workload="udp-in",
    load="idle",
    metric=Metric(name="lost", unit="1", quantity=Quantity.EVENTS, better=Direction.LOWER, meaning="lost"),
    baseline=builders.variant("netstack=kernel"),
    candidate=builders.variant("netstack=lwip"),
    baseline_values=(900.0, 1610.0, 2700.0),
    candidate_values=(680.0, 2000.0, 2050.0),
    scale=Scale.RATIO,
    effect=0.762,
    low=0.5,
    high=1.3,
    confidence=0.95,
    p_value=None,
    smallest_visible=None,
    exact=False,
    verdict=Verdict.INCONCLUSIVE,
)
TEXT = "ratio of runs of the same block; of the medians it is 1.242"


def test_a_grid_explains_a_ratio_that_its_medians_seem_to_contradict() -> None:
    cell = grid_cell(Row(comparison=LOST))
    assert (cell.text, cell.short, cell.effect) == ("1.61 k → 2 k", "1.61k→2k", "0.76")
    assert cell.note == TEXT
    assert cell.sign == " pairs"


def test_a_row_explains_it_below() -> None:
    assert forest_row(Row(comparison=LOST)).detail == TEXT


@pytest.mark.parametrize(
    "changes",
    [
        {"effect": 1.24},
        {"effect": 1.0},
        {"effect": None},
        {"candidate_values": ()},
        {"baseline_values": (0.0, 0.0)},
        {"candidate_values": (1610.0,)},
        {"scale": Scale.DIFFERENCE, "effect": -5.0},
    ],
)
def test_other_rows_need_no_explanation(changes: dict[str, object]) -> None:
    assert formatting.opposed(msgspec.structs.replace(LOST, **changes)) == ""
