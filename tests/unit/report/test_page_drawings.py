# SPDX-License-Identifier: MIT OR Apache-2.0
"""Drawings of pages: trade-off, interaction, latency against load, and the axes that they share."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.golden import crossed, latency, servers, synthetic
from tests.unit.report.test_renderers import EVIL

from swapstone.core.model import Analysis, Variant
from swapstone.core.report import plot, svg
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import (
    Drawing,
    ForestRow,
    Mark,
    PairedRuns,
    ResultGroup,
    ResultRow,
    ResultTable,
    Section,
)
from swapstone.core.report.plot import Panel, Point, Scale, Series, Span
from swapstone.core.report.render import html_plots
from swapstone.core.report.topics import comparisons, factorial, trade_off
from swapstone.parts.vm.report import load_latency


def _drawings(sections: tuple[Section, ...]) -> list[Drawing]:
    return [block for section in sections for block in section.blocks if isinstance(block, Drawing)]


def _texts(drawn: str) -> list[str]:
    return ["".join(each.itertext()) for each in ET.fromstring(drawn).iter("text")]


def test_a_logarithmic_axis_has_equal_steps_for_equal_ratios() -> None:
    axis = svg.LogAxis([0.25, 4.0], 0.0, 100.0)
    assert axis.at(1) == pytest.approx(50)
    assert axis.at(2) - axis.at(1) == pytest.approx(axis.at(4) - axis.at(2))
    assert 0 < axis.at(0.25) < axis.at(4) < 100
    assert (axis.at(1e-9), axis.at(1e9)) == (0, 100)


def test_ticks_keep_their_distance_and_1_is_among_those_of_ratios() -> None:
    axis = svg.LogAxis([0.3, 700.0], 0.0, 300.0)
    values = axis.ratios(40)
    assert 1.0 in values and len(values) > 3
    places = list(map(axis.at, values))
    assert all(b - a >= 40 for a, b in pairwise(places))
    assert svg.LogAxis([2e5, 9e6], 0, 300).ticks(30)[0] == 2e5


def test_a_linear_axis_has_round_ticks_that_keep_their_distance() -> None:
    axis = svg.LinearAxis(0.5, 40.5, 0.0, 200.0)
    assert axis.ticks(40) == [10, 20, 30, 40]
    assert (axis.at(0.5), axis.at(20.5), axis.at(99)) == (0, 100, 200)
    nothing = svg.LinearAxis(0.0, 0.0, 0.0, 100.0)
    assert (nothing.at(0.0), nothing.ticks(40)) == (0, [0, 0.5, 1])


def test_names_along_an_axis_stand_on_several_rows_where_they_are_long() -> None:
    names = tuple(f"a-level-with-a-long-name-{number}" for number in range(6))
    series = Series("line", 0, tuple(Point(place, 1.0 + place) for place in range(6)))
    drawing = plot.plot(
        "T", Scale("levels", "names", names=names), [Panel(Scale("y", "log"), (series,))], ["d"], name="n"
    )
    for drawn, rows in ((drawing.svg, 2), (drawing.narrow, 4)):
        root = ET.fromstring(drawn)
        heights = {each.get("y") for each in root.iter("text") if (each.text or "").startswith("a-level")}
        assert len(heights) == rows
        height = float(root.get("height", ""))
        assert all(0 <= float(each.get("y", "0")) <= height for each in root.iter("text"))


def test_spans_that_touch_have_one_outline_and_thin_ones_share_a_point_with_their_extremes() -> None:
    x, y = svg.LinearAxis(0, 1000, 0.0, 100.0), svg.LinearAxis(0, 10, 100.0, 0.0)
    spans = (Span(0, 20, 0, 5), Span(20, 40, 0, 3), Span(500, 501, 2, 4), Span(501, 502, 1, 3))
    touching, thin = plot.area(Series("", 0, spans=spans), x, y)
    assert "M0.0 50.0L2.0 50.0L2.0 70.0L4.0 70.0L4.0 100.0" in touching
    assert "M50.0 60.0L51.0 60.0L51.0 90.0L50.0 90.0Z" in thin


def test_the_trade_off_has_the_variant_its_intervals_and_every_workload() -> None:
    (drawing,) = _drawings(trade_off.page(synthetic.context(), synthetic.analysis()))
    for drawn in (drawing.svg, drawing.narrow):
        root = ET.fromstring(drawn)
        titles = [each.text or "" for each in root.iter("title")]
        assert len(titles) == 1 + 11  # the invalid workload has no dot
        assert {"glibc"} <= set(_texts(drawn))
        assert "CPU time, ratio to glibc" in _texts(drawn) and "peak memory, ratio to glibc" in _texts(drawn)
        described = root.findtext("desc") or ""
        assert "musl: time 1.344 (1.333–1.355), memory 0.268, size" in described  # noqa: RUF001 - a dash between numbers
    assert "Small dots are the 11 workloads" in drawing.caption


def test_a_rate_is_drawn_as_the_time_that_it_costs() -> None:
    (drawing, *_) = _drawings(trade_off.page(servers.context(), servers.analysis()))
    assert "1 / requests a second, ratio to glibc, default" in _texts(drawing.svg)
    described = ET.fromstring(drawing.svg).findtext("desc") or ""
    found = re.search(r"musl, default: time ([0-9.]+)", described)
    assert found and float(found[1]) == pytest.approx(12, rel=0.03)


def test_latencies_without_memory_have_no_trade_off() -> None:
    assert trade_off.page(latency.context(), latency.analysis()) == ()


def test_an_interaction_plot_has_a_line_for_each_level_and_the_index_first() -> None:
    drawings = _drawings(factorial.page(crossed.context(), crossed.analysis()))
    first = drawings[0]
    assert "index of 8 workloads" in first.title
    assert first.compact
    assert {"glibc", "musl", "default", "mimalloc", "tcmalloc", "allocator"} <= set(_texts(first.svg))
    lines = [each for each in ET.fromstring(first.svg).iter("path") if each.get("stroke-linejoin") == "round"]
    assert [len(re.findall("[ML]", each.get("d") or "")) for each in lines] == [
        3,
        2,
    ]  # tcmalloc is unavailable with musl
    described = ET.fromstring(first.svg).findtext("desc") or ""
    assert "libc=glibc: 1.000;" in described and "libc=musl: 1.901 (1.898–1.905)" in described  # noqa: RUF001 - a dash between numbers
    assert "b_malloc_thread_stress" in drawings[1].title


@pytest.mark.parametrize("most", [5.0, 139_600.0, 1_234_567.0, 98_765_432.0])
def test_the_labels_of_a_vertical_axis_leave_room_for_its_title(most: float) -> None:
    lines = (Series("a", 0, (Point(0, 0), Point(1, most))),)
    drawing = plot.plot("t", Scale("x"), [Panel(Scale("y"), lines)], (), name="t")
    for drawn in (drawing.svg, drawing.narrow):
        labels = [each for each in ET.fromstring(drawn).iter("text") if each.get("text-anchor") == "end"]
        lefts = [float(each.attrib["x"]) - svg.LETTER * len(each.text or "") for each in labels]
        assert len(lefts) > 2 and min(lefts) >= 19, "the title's letters end at 18"


def test_one_factor_has_no_interaction_plot() -> None:
    assert _drawings(factorial.page(synthetic.context(), synthetic.analysis())) == []


def test_latency_against_load_joins_servers_that_differ_in_connections_only() -> None:
    (drawing,) = _drawings(load_latency.page(servers.context(), servers.analysis()))
    assert {"1", "10", "connections", "latency of a request"} <= set(_texts(drawing.svg))
    assert "250" not in _texts(drawing.svg)  # has other threads
    described = ET.fromstring(drawing.svg).findtext("desc") or ""
    assert "musl, default p99 at 10: 7.2" in described
    assert drawing.svg.count("stroke-dasharray") == 5  # p99 of each variant
    assert load_latency.page(synthetic.context(), synthetic.analysis()) == ()


def test_the_table_of_results_has_each_comparison_once() -> None:
    for case in (synthetic, crossed, latency, servers):
        analysis = case.analysis()
        table = next(
            b for s in comparisons.page(case.context(), analysis) for b in s.blocks if isinstance(b, ResultTable)
        )
        copies = {null.copy for null in analysis.nulls}
        wanted = sorted((c.workload, c.metric.name, c.load) for c in analysis.comparisons if c.candidate not in copies)
        single = "load" not in table.key_names
        place = 0 if single else table.key_names.index("load")
        shown = sorted((each.row.name, each.metric, "idle" if single else each.keys[place]) for each in table.rows)
        assert shown == wanted


def _hostile(context: ReportContext, analysis: Analysis) -> Analysis:
    del context
    names: dict[Variant, Variant] = {}

    def renamed(variant: Variant) -> Variant:
        levels = tuple((factor, f"{level}{EVIL}") for factor, level in variant.levels)
        return names.setdefault(variant, msgspec.structs.replace(variant, levels=levels))

    def replaced(each: object) -> object:
        assert isinstance(each, msgspec.Struct)
        return msgspec.structs.replace(each, baseline=renamed(each.baseline), candidate=renamed(each.candidate))  # type: ignore[attr-defined] # comparisons and indices have both

    return msgspec.structs.replace(
        analysis,
        comparisons=tuple(map(replaced, analysis.comparisons)),
        indices=tuple(map(replaced, analysis.indices)),
        nulls=(),
    )


@pytest.mark.parametrize("case", [synthetic, servers])
def test_names_from_outside_are_escaped_in_drawings(case: object) -> None:
    context, analysis = case.context(), case.analysis()  # type: ignore[attr-defined] # modules of synthetic records
    hostile = _hostile(context, analysis)
    drawn = [*_drawings(trade_off.page(context, hostile)), *_drawings(load_latency.page(context, hostile))]
    assert drawn
    for each in (text for drawing in drawn for text in (drawing.svg, drawing.narrow)):
        assert "<b>" not in each and "\u202e" not in each and "\x1b" not in each
        assert "&lt;b&gt;" in each
        ET.fromstring(each)


_FINITE = st.floats(allow_nan=False, allow_infinity=False)
_MARK = Mark("worse", "w")


def _paired(before: tuple[float, ...], after: tuple[float, ...]) -> PairedRuns:
    return PairedRuns(
        title="", before_name="a", after_name="b", before=before, after=after, low="", high="", mark=_MARK, text=""
    )


@given(st.lists(st.tuples(_FINITE, _FINITE), min_size=1, max_size=6))
def test_runs_of_any_size_are_drawn_inside_the_strip(pairs: list[tuple[float, float]]) -> None:
    before, after = zip(*pairs, strict=True)
    drawn = html_plots.strip(_paired(before, after))
    places = [int(x) for x in re.findall(r"M(-?[0-9]+) (?:16|60)h0", drawn)]
    assert len(places) == 2 * len(pairs)
    assert all(0 <= x <= 1000 for x in places)


@given(st.lists(st.floats(5e-324, 1.7e308), min_size=1, max_size=6))
def test_an_axis_holds_any_ratios(ratios: list[float]) -> None:
    rows = tuple(
        ResultRow(
            row=ForestRow(name="a", before="", after="", effect="", interval="", mark=_MARK, ratio=ratio), metric="wall"
        )
        for ratio in ratios
    )
    group = ResultGroup(title="wall", rows=rows)
    scale = html_plots.axis(ResultTable(title="", before_name="a", after_name="b", margin=0.01, groups=(group,)))
    assert -math.inf < scale.low < 0 < scale.high < math.inf
    assert all(0 <= scale.at(ratio) <= 100 for ratio in ratios)
