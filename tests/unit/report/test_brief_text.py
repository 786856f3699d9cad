# SPDX-License-Identifier: MIT OR Apache-2.0
"""The terminal's default output has at most 40 lines, for every kind of record, no line is wider than the terminal, and no text is cut."""

from __future__ import annotations

import functools
import math
import shlex

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from tests.golden import crossed, latency, reports, servers, synthetic, verdicts

from swapstone.core.model import Analysis, Caveat, CaveatKind, Failure
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import (
    BulletList,
    Cell,
    Column,
    Document,
    ForestPlot,
    ForestRow,
    Heading,
    Item,
    Mark,
    Paragraph,
    Table,
    Tone,
)
from swapstone.core.report.render import terminal
from swapstone.core.report.render.terminal import Terminal, command_lines
from swapstone.core.report.study_index import PartSummary, StudyIndex, document_of, summary

MODULES = {case.__name__.rpartition(".")[2]: case for case in (synthetic, crossed, latency, servers, verdicts)}
LONG = "/a/folder with blanks/" + "very-long-name/" * 8 + "record"


@functools.cache
def case_of(name: str) -> tuple[ReportContext, Analysis]:
    """Return a record and its analysis, made on first use: each worker imports this module."""
    return MODULES[name].context(), MODULES[name].analysis()


def _check(text: str, width: int, most: float = terminal.MOST_LINES) -> None:
    lines = text.splitlines()
    assert [line for line in lines if cell_len(line) > width] == []
    assert width < 80 or len(lines) <= most, text


@pytest.mark.parametrize("width", [30, 45, 60, 64, 72, 80, 100, 120, 200])
@pytest.mark.parametrize("name", MODULES)
def test_forty_lines_and_no_wider_than_the_terminal(name: str, width: int) -> None:
    _check(reports.as_text(*case_of(name), width=width), width)


@pytest.mark.slow
@given(
    st.sampled_from(list(MODULES)),
    st.integers(60, 130),
    st.sampled_from(["records/r", LONG, "./it's here"]),
    st.integers(0, 14),
    st.text(alphabet="ab支 \x1b'", min_size=1, max_size=300),
    st.data(),
)
def test_any_part_of_a_record_with_any_names_fits(  # noqa: PLR0917 - what hypothesis draws
    name: str, width: int, path: str, number: int, text: str, data: st.DataObject
) -> None:
    context, analysis = case_of(name)
    kept = data.draw(st.lists(st.sampled_from(analysis.comparisons), max_size=30, unique_by=id))
    renamed = tuple(msgspec.structs.replace(row, workload=row.workload + text[:40], reason=text) for row in kept)
    made = msgspec.structs.replace(
        analysis,
        comparisons=renamed,
        caveats=tuple(Caveat(kind=kind, message=text) for kind in list(CaveatKind)[:number]),
        failures=tuple(Failure(key=text, status="failed", reason=text) for _ in range(number)),
    )
    _check(
        reports.as_text(msgspec.structs.replace(context, record_path=path, notes=(text,) * number), made, width=width),
        width,
        math.inf,  # long texts are not cut
    )


@pytest.mark.slow
@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_study_of_many_parts_is_no_wider_than_the_terminal(width: int) -> None:
    parts = []
    for number in range(3):
        for name in MODULES:
            context, analysis = case_of(name)
            part = PartSummary(
                name=f"{name}-{number}", title=f"Part {name}", state="complete", record=f"{name}-{number}"
            )
            parts.append(summary(context, analysis, part))
    parts.append(PartSummary(name="later", title="Later", state="unavailable", reason="needs a kernel " * 20))
    index = StudyIndex(
        name="s",
        title="A study",
        question="What does it cost?",
        folder=LONG,
        parts=tuple(parts),
        resume="swapstone study --resume s",
    )
    text = terminal.render(document_of(index), Terminal(width=width))
    _check(text, width, math.inf)
    flat = " ".join(text.split())
    assert flat.startswith(
        "1 of 16 parts is not complete: later (unavailable). synthetic-0: musl uses 1.3 times the CPU time of glibc"
    )


def test_the_worst_and_the_best_row_are_always_shown_and_the_rest_is_counted() -> None:
    text = reports.as_text(*case_of("synthetic"), width=60)
    assert "b_malloc_th" in text and "worse" in text
    assert "b_string_memset" in text and "better" in text
    shown = sum(line.startswith("b_") for line in text.splitlines())
    (more,) = (line for line in text.splitlines() if line.startswith("… and "))
    assert shown + int(more.split()[2]) == len(synthetic.WORKLOADS)


@pytest.mark.parametrize("width", [40, 60, 80])
def test_caveats_are_neither_cut_nor_left_out(width: int) -> None:
    flat = " ".join(reports.as_text(*case_of("synthetic"), width=width).split())
    for caveat in case_of("synthetic")[1].caveats:
        assert " ".join(caveat.message.split()) in flat


def test_rows_that_are_left_out_are_counted_where_they_would_be() -> None:
    rows = tuple((Cell(name),) for name in ("first", "second", "last"))
    table = Table(title="t", columns=(Column(("name",)),), rows=rows, left_out=7, left_out_after=2)
    lines = terminal.render(Document(title="t", overview=(table,))).splitlines()
    assert lines[-4:] == ["first", "second", "… and 7 more", "last"]


def test_optional_columns_give_way_on_a_narrow_terminal() -> None:
    columns = (Column(("name",)), Column(("value",), optional=True), Column(("verdict",)))
    table = Table(title="t", columns=columns, rows=((Cell("x" * 10), Cell("v" * 20), Cell("worse")),))
    wide, narrow = (
        terminal.render(Document(title="t", overview=(table,)), Terminal(width=width)) for width in (60, 30)
    )
    assert "vvv" in wide and "vvv" not in narrow and "worse" in narrow


@pytest.mark.parametrize("width", [20, 30, 60, 120])
@pytest.mark.parametrize("number", [1, 30])
def test_no_text_is_cut(width: int, number: int) -> None:
    """Whole items and rows are left out, and counted; what is printed is whole, also in the cells of a table."""
    long = " ".join(f"word{place}" for place in range(60))
    items = tuple(Item(f"{long} of {place}", tone=Tone.WARNING) for place in range(number))
    row = ForestRow(name=long, before="1", after="2", effect="2.0", interval="", mark=Mark("worse", "w"), detail=long)
    plot = ForestPlot(title="t", before_name="a", after_name="b", margin=0.02, rows=(row,) * 3)
    table = Table(title="t", columns=(Column(("x",)), Column(("y",))), rows=((Cell("a"), Cell(long)),))
    blocks = (Heading("h"), table, plot, Paragraph(long), BulletList(items=items))
    made = terminal.render(Document(title=long, answer=long, overview=blocks), Terminal(width=width))
    assert "…" not in made.replace("… and", "") and all(cell_len(line) <= width for line in made.splitlines())
    flat = " ".join(made.split())
    assert all(f" of {place} " in f"{flat} " for place in range(min(number, 20)))
    assert f"{number - 20} more with --all" in flat or number <= 20
    assert flat.count("word59") >= 4 + min(number, 20)


@pytest.mark.parametrize("every", [False, True])
def test_the_answer_is_the_last_line_after_more_than_a_screen(every: bool) -> None:
    context, analysis = case_of("synthetic")
    document = reports.document(context, analysis)
    whole, short, piped = (
        terminal.render(document, Terminal(width=300, every=every, lines=lines)) for lines in (24, 1000, 0)
    )
    assert short == piped
    assert whole == f"{piped}\n{document.answer}\n"


WORDS = st.lists(st.text(alphabet="ab/-._=,'\" $*支", min_size=1, max_size=90), min_size=1, max_size=8)


@given(WORDS, st.integers(20, 130), st.sampled_from(["", "as a page", "why it differs"]))
def test_a_wrapped_command_is_the_same_command_to_a_shell(words: list[str], width: int, label: str) -> None:
    command = shlex.join(words)
    lines = command_lines(label, command, len(label), width)
    assert all(cell_len(line) <= width for line in lines)
    if label:
        head = f"  {label} " if len(lines) == 1 else f"  {label}:"
        assert lines[0].startswith(head)
        lines = [lines[0].removeprefix(head)] if len(lines) == 1 else lines[1:]
    assert all(line.endswith("\\") for line in lines[:-1])
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == words
