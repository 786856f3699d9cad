# SPDX-License-Identifier: MIT OR Apache-2.0
"""Medians that point in the other direction than the effect of pairs are explained where both are printed."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit import builders

from swapstone.core.model import Comparison, Direction, Metric, Quantity, Scale, Verdict
from swapstone.core.report.answer import tails
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
    median_effect=1.242,
    median_low=0.68,
    median_high=2.27,
)
TEXT = "ratio of runs of the same block; that of the medians is 1.24 times (0.68–2.27)"  # noqa: RUF001 - a dash between numbers


def test_a_grid_explains_a_ratio_that_its_medians_seem_to_contradict() -> None:
    cell = grid_cell(Row(comparison=LOST))
    assert (cell.text, cell.short, cell.effect) == ("1.61 k → 2 k", "1.61k→2k", "0.76")
    assert cell.note == TEXT
    assert cell.sign == " pairs"


def test_a_row_explains_it_below() -> None:
    assert forest_row(Row(comparison=LOST)).detail == TEXT


def test_a_record_without_an_interval_of_the_medians_has_no_number_of_them() -> None:
    old = msgspec.structs.replace(LOST, median_effect=None, median_low=None, median_high=None)
    assert tails.opposed(old) == "ratio of runs of the same block; the medians differ in the other direction"


@pytest.mark.parametrize(
    "changes",
    [
        {"effect": 1.24},
        {"effect": 1.0},
        {"effect": None},
        {"candidate_values": ()},
        {"baseline_values": (0.0, 0.0)},
        {"median_effect": 0.9},
        {"median_effect": None, "candidate_values": (1610.0,)},
        {"scale": Scale.DIFFERENCE, "effect": -5.0},
    ],
)
def test_other_rows_need_no_explanation(changes: dict[str, object]) -> None:
    assert tails.opposed(msgspec.structs.replace(LOST, **changes)) == ""
