# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goodput over an emulated link: a row for each stack, a column for each level of the link, and curves."""

from __future__ import annotations

import itertools

import msgspec
from tests.golden import reports
from tests.unit import builders
from tests.unit.builders import analysis, experiment

from swapstone.core.model import (
    Comparison,
    Direction,
    FactorLevels,
    Metric,
    Quantity,
    Scale,
    Verdict,
)
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Drawing
from swapstone.core.report.topics import all_topics
from swapstone.parts.net.report.goodput import GOODPUT, sections

LINKS = ("clean", "loss:1%", "reorder:1%+delay:10ms")
STACKS = ("kernel", "lwip", "kernel:bbr")
RATES = {("kernel", "clean"): 50e6, ("lwip", "loss:1%"): 1e6, ("kernel:bbr", "loss:1%"): 20e6}
CONTEXT = ReportContext(
    experiment=msgspec.structs.replace(
        experiment(),
        factors=(FactorLevels(factor="netstack", levels=STACKS), FactorLevels(factor="link", levels=LINKS)),
    ),
    record_id="id",
    record_path="path",
)


def compared(
    stack: str, link: str, *, verdict: Verdict = Verdict.INCONCLUSIVE, suite: str = "netstack-link"
) -> Comparison:
    rate = RATES.get((stack, link), 10e6)
    return Comparison(
        suite=suite,
        workload="link-out",
        load="idle",
        metric=Metric(name="rate", unit="B/s", quantity=Quantity.RATE, better=Direction.HIGHER, meaning="goodput"),
        baseline=builders.variant("netstack=kernel,link=clean"),
        candidate=builders.variant(f"netstack={stack},link={link}"),
        baseline_values=(50e6, 50e6, 50e6),
        candidate_values=(rate, rate / 2, rate * 2),
        scale=Scale.RATIO,
        effect=None,
        low=None,
        high=None,
        confidence=0.95,
        p_value=None,
        smallest_visible=None,
        exact=False,
        verdict=verdict,
    )


FOUND = analysis(*(compared(*place) for place in itertools.product(STACKS, LINKS) if place != ("kernel", "clean")))


def test_only_the_suite_has_curves() -> None:
    assert GOODPUT in all_topics()
    assert sections(CONTEXT, analysis(compared("lwip", "clean", suite="netstack"))) == ()
    assert sections(CONTEXT, analysis(compared("lwip", "clean", verdict=Verdict.INVALID))) == ()


def test_a_row_for_each_stack_in_the_order_of_the_experiment() -> None:
    (section,) = sections(CONTEXT, FOUND)
    texts = reports.texts(section)
    assert texts.rows == (
        ("kernel", "400", "80.0 (40.0 to 160)", "80.0 (40.0 to 160)"),
        ("lwip", "80.0 (40.0 to 160)", "8.00 (4.00 to 16.0)", "80.0 (40.0 to 160)"),
        ("kernel:bbr", "80.0 (40.0 to 160)", "160 (80.0 to 320)", "80.0 (40.0 to 160)"),
    )
    assert section.data[4] == {
        "stack": "lwip",
        "link": "loss:1%",
        "goodput_mbit": 8.0,
        "lowest_mbit": 4.0,
        "highest_mbit": 16.0,
        "runs": 3.0,
    }


def test_a_page_has_a_line_for_each_stack() -> None:
    (section,) = sections(CONTEXT, FOUND)
    (drawing,) = (block for block in section.blocks if isinstance(block, Drawing))
    for svg in (drawing.svg, drawing.narrow):
        assert all(f">{name}</text>" in svg for name in (*STACKS, *LINKS))
        assert svg.count('stroke-width="2" fill="none" stroke-linejoin') == len(STACKS)
        assert "lwip, loss:1%: 8.00 Mbit/s" in svg


def test_one_level_has_a_table_and_no_curves() -> None:
    (section,) = sections(CONTEXT, analysis(compared("lwip", "loss:1%")))
    # The baseline and the candidate have different links.
    assert [row[0] for row in reports.texts(section).rows] == ["kernel", "lwip"]
    held = msgspec.structs.replace(
        compared("lwip", "clean"),
        baseline=builders.variant("netstack=kernel"),
        candidate=builders.variant("netstack=lwip"),
    )
    factors = (FactorLevels(factor="netstack", levels=("kernel", "lwip")),)
    context = msgspec.structs.replace(CONTEXT, experiment=msgspec.structs.replace(CONTEXT.experiment, factors=factors))
    (section,) = sections(context, analysis(held))
    assert not any(isinstance(block, Drawing) for block in section.blocks)
    assert [row[0] for row in reports.texts(section).rows] == ["kernel", "lwip"]
