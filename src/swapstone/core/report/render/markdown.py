# SPDX-License-Identifier: MIT OR Apache-2.0
"""A document as Markdown (GitHub's dialect): for an issue, a merge request or a wiki."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import assert_never

from swapstone.core.report import formatting
from swapstone.core.report.document import (
    Block,
    BulletList,
    Cell,
    Commands,
    Document,
    Drawing,
    Facts,
    Fold,
    ForestPlot,
    Heading,
    Item,
    Links,
    PairedRuns,
    Paragraph,
    ResultTable,
    Section,
    Table,
    Tone,
)
from swapstone.core.report.formatting import safe
from swapstone.core.report.simple_blocks import simplified

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&!$@])")


def plain(text: str) -> str:
    """Return text from outside so that Markdown shows it and does nothing else."""
    return _SPECIAL.sub(r"\\\1", formatting.safe(text))


def code(text: str) -> str:
    """Return text from outside as code; in a table a bar must be escaped even there."""
    shown = formatting.safe(text).replace("`", "'").replace("|", "\\|").strip()
    return f"`{shown}`" if shown else ""


def html_text(text: str) -> str:
    """Return text for HTML inside Markdown, without the characters that either of the two interprets."""
    return re.sub(r"[<>&\"'`*_\[\]\\|]", "", formatting.safe(text))


def link(text: str, target: str) -> str:
    """Return a link to a file beside the document; a target with a scheme is shown and not linked."""
    shown = formatting.safe(target)
    if ":" in shown or re.search(r"[<>()\s]", shown):
        return f"{plain(text)}: {plain(target)}"
    return f"[{plain(text)}]({shown})"


_STRONG = {Tone.GOOD, Tone.BAD}


def render(document: Document) -> str:
    """Print a document as Markdown.

    Returns:
        The text, ending in a newline. Text from outside is shown, never interpreted.
    """
    lines = [f"# {plain(document.title)}", ""]
    if document.answer:
        lines += [f"**{plain(document.answer)}**", ""]
    for text in document.lead:
        lines += [plain(text), ""]
    lines += _blocks(document.overview)
    notices = (Item(each.text, label="Caveat") if each.tone is Tone.WARNING else each for each in document.notices)
    lines += ["", *(line for notice in notices for line in _item(notice))]
    for section in (*document.sections, *document.closing):
        lines += _section(section)
    if document.version:
        lines += ["", f"swapstone {plain(document.version)}"]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def _section(section: Section) -> list[str]:
    body = _blocks(section.blocks)
    warnings = (f"**{plain(text)}**\n" for text in section.warnings)
    return ["", f"## {plain(section.title)}", "", *warnings, *body] if body else []


def _blocks(blocks: Iterable[Block]) -> list[str]:
    return [line for block in blocks for line in _block(block)]


def _block(block: Block) -> list[str]:
    match block:
        case Paragraph():
            text = plain(block.text)
            return ["", f"**{text}**" if block.tone in {Tone.STRONG, Tone.WARNING} else text, ""]
        case Heading():
            return ["", f"### {plain(block.text)}", ""]
        case BulletList():
            title = ["", plain(block.title), ""] if block.title else [""]
            return [*title, *(line for item in block.items for line in _item(item)), ""]
        case PairedRuns() | ForestPlot() | ResultTable() | Facts():
            return _blocks(simplified(block))
        case Table():
            rule = "|".join("---:" if column.right else "---" for column in block.columns)
            head = [plain(column.name) for column in block.columns]
            rows = [head, *([_cell(cell) for cell in row] for row in block.rows)]
            first, *lines = (f"| {' | '.join(row)} |" for row in rows)
            return ["", first, f"|{rule}|", *lines, ""]
        case Drawing():
            return []
        case Commands():
            return [
                "",
                *(
                    line
                    for what, command in block.commands
                    for line in (f"{plain(what)}:", "", f"    {safe(command)}", "")
                ),
            ]
        case Links():
            return ["", *(f"- {link(what, where)}" for what, where in block.links), ""]
        case Fold():
            note = f" ({block.note})" if block.note else ""
            summary = f"<details><summary>{html_text(block.summary + note)}</summary>"
            return ["", summary, *_blocks(block.blocks), "</details>", ""]
        case _:
            assert_never(block)


def _item(item: Item) -> list[str]:
    label = "" if not item.label else f"{code(item.label)}: " if item.code else f"**{plain(item.label)}.** "
    text = plain(item.text)
    shown = f"**{text}**" if item.tone is Tone.STRONG and not label else text
    return [f"- {label}{shown}", *(f"  - {plain(each)}" for each in item.items)]


def _cell(cell: Cell) -> str:
    text = code(cell.text) if cell.code else plain(cell.text)
    effect = plain(cell.effect + (f" ({cell.interval})" if cell.interval else ""))
    mark = cell.mark.name if cell.mark else ""
    mark = f"**{mark}**" if cell.mark and cell.mark.tone in _STRONG else mark
    effect = f"({effect})" if text and effect else effect
    return " ".join(filter(None, (text, effect, mark, f"({plain(cell.note)})" if cell.note else "")))
