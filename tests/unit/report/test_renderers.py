# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every renderer prints every kind of block, escapes text from outside, and depends on no topic."""

from __future__ import annotations

import ast
import html as escape
import json
import re
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len
from tests.golden import crossed, latency, reports, servers, synthetic
from tests.json_schema import check_printed

from swapstone.core.report import document as blocks
from swapstone.core.report.document import Document, Item, Mark, Section, Tone
from swapstone.core.report.render import RENDERERS, find_renderer, html, markdown, terminal
from swapstone.core.report.render.terminal import Terminal
from swapstone.core.report.simple_blocks import simplified

EVIL = "x\x1b[31m|<b>&`y\u202e"
WORSE = Mark("worse", "w", Tone.BAD)
RUNS = blocks.PairedRuns(
    title="runs-title",
    before_name="runs-before",
    after_name="runs-after",
    before=(1.0, 2.0),
    after=(2.0, 3.0),
    low="1 ms",
    high="3 ms",
    mark=WORSE,
    text="runs-text",
)
FOREST = blocks.ForestPlot(
    title="forest-title",
    before_name="forest-before",
    after_name="forest-after",
    margin=0.02,
    reference_name="forest-page",
    rows=(
        blocks.ForestRow(
            name="forest-row",
            before="11 ms",
            after="22 ms",
            effect="2.001",
            interval="1.901 to 2.101",
            mark=WORSE,
            ratio=2.001,
            low=1.901,
            high=2.101,
            reference=1.777,
            reference_text="1.777",
            reference_note="agrees",
        ),
    ),
)
TABLE = blocks.Table(
    title="table-title",
    columns=(blocks.Column(("table-name",)), blocks.Column(("table-head",), right=True)),
    rows=((blocks.Cell("table-row", code=True), blocks.Cell("1→2", effect="3.003", mark=WORSE, note="table-note")),),
)
# Each block with the texts that every renderer prints of it.
BLOCKS: tuple[tuple[blocks.Block, tuple[str, ...]], ...] = (
    (blocks.Paragraph("paragraph-text", Tone.NOTE), ("paragraph-text",)),
    (blocks.Heading("heading-text"), ("heading-text",)),
    (
        blocks.BulletList(title="list-title", items=(Item("item-text", label="item-label", items=("inner-text",)),)),
        ("list-title", "item-text", "item-label", "inner-text"),
    ),
    (TABLE, ("table-name", "table-head", "table-row", "3.003", "worse", "table-note")),
    (RUNS, ("runs-title", "runs-text")),
    (FOREST, ("forest-row", "forest-before", "11 ms", "22 ms", "2.001", "1.901 to 2.101", "worse", "1.777", "agrees")),
    (
        blocks.ResultTable(
            title="results-title",
            before_name="results-before",
            after_name="results-after",
            margin=0.02,
            key_names=("results-key",),
            groups=(
                blocks.ResultGroup(
                    title="results-metric",
                    note="results-meaning",
                    rows=(blocks.ResultRow(row=FOREST.rows[0], metric="short", keys=("results-load",)),),
                ),
            ),
        ),
        (
            *("results-before", "results-after", "results-key", "results-metric", "results-meaning", "results-load"),
            *("forest-row", "11 ms", "22 ms", "2.001", "1.901 to 2.101", "worse"),
        ),
    ),
    (
        blocks.Fold(
            summary="fold-drawing", blocks=(blocks.Drawing(title="d", svg="<svg><title>drawing</title></svg>"),)
        ),
        ("fold-drawing",),
    ),
    (blocks.Facts(pairs=(("fact-label", "fact-value"),)), ("fact-label", "fact-value")),
    (blocks.Commands(commands=(("what-for", "swapstone show r"),)), ("what-for", "swapstone show r")),
    (blocks.Links(links=(("link-text", "file.html"),)), ("link-text", "file.html")),
    (
        blocks.Fold(summary="fold-summary", blocks=(blocks.Paragraph("fold-text"),), brief=False),
        ("fold-summary", "fold-text"),
    ),
)
KINDS = [type(block).__name__ for block, _ in BLOCKS]


def _shown(name: str, document: Document) -> str:
    """Return the text of a document in a format."""
    if name == "text":
        return terminal.render(document, Terminal(width=120, every=True))
    made = find_renderer(name).render(document)
    if name == "markdown":
        return re.sub(r"\\(.)", r"\1", made)
    return escape.unescape(re.sub(r"</?(small|b|code|span)[^>]*>", "", made)).replace("\N{NO-BREAK SPACE}", " ")


def _document(block: blocks.Block) -> Document:
    return Document(title="document-title", sections=(Section(title="section-title", blocks=(block,)),))


def test_the_blocks_above_are_all_there_are() -> None:
    assert {*KINDS, "Drawing"} == {kind.__name__ for kind in blocks.Block.__args__}


@pytest.mark.parametrize("name", [renderer.name for renderer in RENDERERS])
@pytest.mark.parametrize(("block", "expected"), BLOCKS, ids=KINDS)
def test_a_renderer_prints_every_kind_of_block(name: str, block: blocks.Block, expected: tuple[str, ...]) -> None:
    made = _shown(name, _document(block))
    for text in ("document-title", "section-title", *expected):
        assert text in made, made


@pytest.mark.parametrize(("block", "expected"), BLOCKS, ids=KINDS)
def test_simplified_blocks_keep_the_content(block: blocks.Block, expected: tuple[str, ...]) -> None:
    whole = Document(title="t", sections=(Section(title="s", blocks=simplified(block)),))
    made = terminal.render(whole, Terminal(width=120, every=True))
    assert all(text in made for text in expected)


def _evil(value: object) -> object:
    """Return a block with every text of it replaced, those of marks and drawings excepted."""
    if isinstance(value, (Mark, blocks.Drawing)):
        return value
    if isinstance(value, msgspec.Struct):
        return type(value)(**{name: _evil(getattr(value, name)) for name in value.__struct_fields__})
    if isinstance(value, tuple):
        return tuple(map(_evil, value))
    return EVIL if isinstance(value, str) and value else value


@pytest.mark.parametrize(("block", "expected"), BLOCKS, ids=KINDS)
def test_text_from_outside_is_shown_and_never_interpreted(block: blocks.Block, expected: tuple[str, ...]) -> None:
    del expected
    document = _document(_evil(block))  # type: ignore[arg-type] # the same type as before
    made = (
        terminal.render(document, Terminal(width=100, every=True)),
        markdown.render(document),
        html.render(document),
    )
    for text in made:
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert "<b>&" not in made[2]
    outside_code = re.sub(r"`[^`\n]*`", "", re.sub(r"(?m)^    .*$", "", made[1]))
    assert not re.search(r"(?<!\\)<b>", outside_code)


@pytest.mark.parametrize("width", [64, 80, 116])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for block, _ in BLOCKS:
        made = terminal.render(_document(block), Terminal(width=width, every=True))
        assert max(map(cell_len, made.splitlines())) <= width


@pytest.mark.slow
def test_json_decodes_to_the_same_document() -> None:
    for case in (synthetic, crossed, latency, servers):
        document = reports.document(case.context(), case.analysis())
        whole = json.loads(find_renderer("document-json").render(document))
        assert check_printed(json.dumps(whole)) == "swapstone-document"
        assert msgspec.convert(whole["document"], Document) == msgspec.structs.replace(document, page_sections=())


def test_a_brief_text_leaves_out_what_is_folded_away_and_counts_the_rest_of_a_list() -> None:
    fold = blocks.Fold(summary="fold-summary", blocks=(blocks.Paragraph("fold-text"),), brief=False)
    items = blocks.BulletList(items=tuple(Item(f"item {n}") for n in range(5)), most=2, rest="that are smaller")
    document = Document(title="t", sections=(Section(title="s", blocks=(fold, items)),))
    brief, whole = (terminal.render(document, Terminal(every=every)) for every in (False, True))
    assert "fold-summary" not in brief and "fold-text" in whole
    assert "item 1" in brief and "item 2" not in brief and "  and 3 that are smaller" in brief
    assert "item 4" in whole and "and 3" not in whole


@pytest.mark.parametrize("name", [renderer.name for renderer in RENDERERS])
def test_the_answer_stands_before_the_indices_and_these_before_the_sections(name: str) -> None:
    section = Section(title="section-title", blocks=(blocks.Paragraph("text"),))
    document = Document(title="t", answer="the answer", overview=(blocks.Paragraph("the index"),), sections=(section,))
    made = find_renderer(name).render(document)
    if name == "document-json":
        assert json.loads(made)["document"]["answer"] == "the answer"
    else:
        assert 0 <= made.index("the answer") < made.index("the index") < made.index("section-title")


def test_a_brief_text_has_the_overview_and_no_section() -> None:
    section = Section(title="section-title", blocks=(blocks.Paragraph("text"),))
    document = Document(title="t", answer="the answer", overview=(blocks.Paragraph("the index"),), sections=(section,))
    made = terminal.render(document)
    assert made.startswith("the answer\n") and "the index" in made and "section-title" not in made


def test_the_legend_explains_the_letters_that_are_shown_and_no_others() -> None:
    dense = msgspec.structs.replace(TABLE, dense=True)
    made = terminal.render(_document(dense))
    assert made.splitlines()[-1] == "w worse"
    assert "w worse" not in terminal.render(_document(TABLE))
    unlettered = blocks.Cell(effect="1.5", mark=Mark("reproduced", ""))
    coloured = msgspec.structs.replace(dense, rows=((blocks.Cell("a"), unlettered),))
    assert "reproduced" not in terminal.render(_document(coloured))


def test_renderers_and_the_document_import_no_topic() -> None:
    folder = Path(blocks.__file__).parent
    for path in (folder / "document.py", folder / "simple_blocks.py", *(folder / "render").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            assert not module.startswith("swapstone.core.report.topics"), path
            assert module not in {"swapstone.core.report.context", "swapstone.core.report.verdict_groups"}, path
