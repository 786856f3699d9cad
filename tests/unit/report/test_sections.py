# SPDX-License-Identifier: MIT OR Apache-2.0
"""A topic's section is printed alike in every format, and text from outside in it does nothing."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from tests.golden import reports, synthetic

from swapstone.core.model import Analysis
from swapstone.core.report import export, topics
from swapstone.core.report.context import ReportContext, Selection
from swapstone.core.report.document import Document, Drawing, Paragraph, Section, Tone
from swapstone.core.report.render import terminal
from swapstone.core.report.render.terminal import Terminal
from swapstone.core.report.tables import Datum, Field, item, known, section_of, unit
from swapstone.core.report.topics import Topic

CONTEXT, ANALYSIS = synthetic.context(), synthetic.analysis()
EVIL = "x\x1b[31m|<b>&`y"
FLAG = f"Held up by {EVIL} for 2004 us."
SVG = '<svg viewBox="0 0 10 10"><title>Toys</title><path d="M0 0h9"/></svg>'
ROWS: tuple[Datum, ...] = (
    {"load": "idle", "kernel": EVIL, "most_us": 12.5},
    {"load": "cpu", "kernel": "rt", "most_us": None},
)
TOY = section_of(
    "toy",
    "Toys by load",
    (item("load", "load", right=False), item("kernel", "kernel", right=False), item("most, us", "most_us")),
    ROWS,
    keys=2,
    notes=("A note *with* stars.",),
    warnings=(FLAG,),
    drawing=Drawing(title="Toys", svg=SVG),
)


@pytest.fixture
def with_toy(monkeypatch: pytest.MonkeyPatch) -> None:
    def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
        assert (context.record_id, analysis) == (CONTEXT.record_id, ANALYSIS)
        return (TOY,)

    toy = Topic("toy", 0, sections)
    every = (toy, toy, *topics.all_topics())
    monkeypatch.setattr(topics, "all_topics", lambda: every)


@pytest.mark.usefixtures("with_toy")
def test_the_terminal_prints_warnings_first_and_the_section_before_the_comparisons() -> None:
    shown = reports.as_whole_text(CONTEXT, ANALYSIS, width=100)
    assert "\x1b" not in shown
    lines = shown.splitlines()
    flag = "! Held up by x\\x1b[31m|<b>&`y for 2004 us."
    assert lines.count(flag) == 3  # once with the caveats, once above each of the two
    start = lines.index("Toys by load")
    assert lines.index(flag) < start
    assert lines[start + 1 : start + 6] == [
        flag,
        "load kernel           most, us",
        "idle x\\x1b[31m|<b>&`y     12.5",
        "cpu  rt",
        "* A note *with* stars.",
    ]
    assert start < lines.index("CPU time")


@pytest.mark.usefixtures("with_toy")
def test_warnings_stay_where_a_user_selects_metrics() -> None:
    shown = reports.as_whole_text(CONTEXT, ANALYSIS, width=100, selection=Selection(metrics=("res",)))
    assert "Toys by load" not in shown
    assert shown.count("for 2004 us.") == 1


@pytest.mark.usefixtures("with_toy")
def test_a_warning_has_its_colour() -> None:
    assert "\x1b[33m! Held up by x\\x1b[31m|" in reports.as_whole_text(CONTEXT, ANALYSIS, width=100, colour=True)


@pytest.mark.usefixtures("with_toy")
def test_markdown_shows_text_from_outside() -> None:
    shown = reports.as_markdown(CONTEXT, ANALYSIS)
    assert r"- **Caveat.** Held up by x\\x1b\[31m\|\<b\>\&\`y for 2004 us." in shown
    assert r"| idle | x\\x1b\[31m\|\<b\>\&\`y | 12.5 |" in shown
    assert "| load | kernel | most, us |\n|---|---|---:|\n" in shown
    assert r"A note \*with\* stars." in shown
    assert shown.index("## Toys by load") < shown.index("## libc:")


@pytest.mark.usefixtures("with_toy")
def test_the_page_holds_the_drawing_and_escapes_the_rest() -> None:
    shown = reports.as_html(CONTEXT, ANALYSIS)
    assert SVG in shown
    assert "<b>&`y" not in shown
    assert shown.count("Held up by x\\x1b[31m|&lt;b&gt;&amp;`y for 2004") == 3
    assert '<td role="cell" class="n">12.5</td>' in shown
    assert shown.index("Toys by load</h2>") < shown.index("<h2>Results")


@pytest.mark.usefixtures("with_toy")
def test_json_has_data_notes_and_warnings() -> None:
    whole = json.loads(export.to_json(CONTEXT, ANALYSIS))
    assert whole["exhibits"][0] == {
        "name": "toy",
        "title": "Toys by load",
        "data": [
            {"load": "idle", "kernel": EVIL, "most_us": 12.5},
            {"load": "cpu", "kernel": "rt", "most_us": None},
        ],
        "notes": ["A note *with* stars."],
        "flags": [FLAG],
    }
    assert len(whole["exhibits"]) == 2


@pytest.mark.usefixtures("with_toy")
def test_csv_has_a_row_for_each_cell() -> None:
    rows = list(csv.reader(io.StringIO(export.EXPORTS["exhibits"](CONTEXT, ANALYSIS), newline="")))
    assert rows[:7] == [
        ["exhibit", "row", "column", "value"],
        ["toy", "1", "load", "idle"],
        ["toy", "1", "kernel", EVIL.replace("\x1b", "\\x1b")],
        ["toy", "1", "most_us", "12.5"],
        ["toy", "2", "load", "cpu"],
        ["toy", "2", "kernel", "rt"],
        ["toy", "2", "most_us", ""],
    ]
    assert len(rows) == 13


@pytest.mark.slow
def test_without_data_sections_no_format_has_any() -> None:
    assert "exhibits" not in json.loads(export.to_json(CONTEXT, ANALYSIS))
    assert export.EXPORTS["exhibits"](CONTEXT, ANALYSIS) == "exhibit,row,column,value\n"
    assert 'class="data"' not in reports.as_html(CONTEXT, ANALYSIS)


def _lines(section: Section, width: int) -> list[str]:
    """Return the lines of a document that holds the section alone."""
    made = terminal.render(Document(title="T", sections=(section,)), Terminal(width=width, ascii_only=True))
    return made.splitlines()[1:]


def _wide(name: str, columns: int, keys: int) -> Section:
    row: Datum = {f"column {i}": f"{i}.25" if i else name for i in range(columns)}
    return section_of("wide", "Wide", [item(head, head, right=False) for head in row], [row], keys=keys)


@pytest.mark.parametrize("width", [64, 80, 100])
@pytest.mark.parametrize("name", ["a", "kernel=" + "x" * 200])
@pytest.mark.parametrize("keys", [1, 2])
def test_a_wide_table_goes_on_below_and_loses_no_column(width: int, name: str, keys: int) -> None:
    lines = _lines(_wide(name, 15, keys), width)
    assert max(map(len, lines)) <= width
    found = re.findall(r"column \d+", "\n".join(lines))
    assert set(found) == {f"column {i}" for i in range(15)}
    assert [found.count(f"column {i}") for i in range(keys, 15)] == [1] * (15 - keys)
    assert found.count("column 0") == found.count(f"column {keys - 1}") > 1
    for i in range(1, 15):
        assert f"{i}.25" in "\n".join(lines)


def test_a_section_of_a_drawing_alone_is_for_pages() -> None:
    drawing = section_of("d", "D", (), (), drawing=Drawing(title="D", svg=SVG))
    assert "\nD\n" not in "\n".join(_lines(drawing, 80))


def test_a_field_is_for_readers_for_programs_or_for_both() -> None:
    section = section_of(
        "s",
        "S",
        (
            Field("time", "time_ns", lambda row: row[0], unit("ns", "?")),
            Field("ratio", "", lambda row: row[1], known("{:.1f}".format)),
            Field("", "plain", lambda row: row[1]),
        ),
        [(1500.0, None), (None, 2.0)],
    )
    found = reports.texts(section)
    assert (found.head, found.right) == (("time", "ratio"), (True, True))
    assert found.rows == (("1.50 us", ""), ("?", "2.0"))
    assert found.data == ({"time_ns": 1500.0, "plain": None}, {"time_ns": None, "plain": 2.0})


def test_programs_may_have_other_rows_and_no_heading_makes_no_table() -> None:
    values: list[Datum] = [{"a": 1.0}, {"a": 2.0}]
    assert section_of("s", "S", [item("a", "a")], values[:1], data=values).data == tuple(values)
    assert section_of("s", "S", [item("", "a")], values, notes=["n"]).blocks[0] == Paragraph("n", Tone.NOTE)
