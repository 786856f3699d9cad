# SPDX-License-Identifier: MIT OR Apache-2.0
"""A document on a terminal or in a pipe."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import assert_never

from swapstone.core.model import FrozenStruct
from swapstone.core.report.document import (
    Block,
    BulletList,
    Commands,
    Document,
    Drawing,
    Facts,
    Fold,
    ForestPlot,
    Heading,
    Item,
    Links,
    Mark,
    PairedRuns,
    Paragraph,
    ResultTable,
    Section,
    Table,
    Tone,
)
from swapstone.core.report.formatting import safe
from swapstone.core.report.render import terminal_layout
from swapstone.core.report.render.renderer import Renderer
from swapstone.core.report.render.terminal_brief import BREVITIES, Brevity, brief_blocks
from swapstone.core.report.render.terminal_commands import command_lines
from swapstone.core.report.render.terminal_layout import Paint
from swapstone.core.report.render.terminal_table import forest_lines, marks_of, table_lines
from swapstone.core.report.simplify import simplified

LEAST_WIDTH = 20
"""A narrower terminal gets lines of this width."""
MOST_LINES = 40
"""Lines of a brief rendering."""


class Terminal(FrozenStruct, frozen=True, kw_only=True):
    """What a terminal shows.

    Attributes:
        width: its columns.
        colour: whether text gets terminal codes; without, the output holds none, whatever names contain.
        ascii_only: whether to keep to ASCII.
        every: whether to print the sections of a document that has an overview, and all that a brief rendering leaves out.
    """

    width: int = 80
    colour: bool = False
    ascii_only: bool = False
    every: bool = False


def render(document: Document, terminal: Terminal | None = None) -> str:
    """Print a document as text.

    Args:
        document: what to print.
        terminal: where to; by default 80 columns without colour.

    Returns:
        The text, ending in a newline. No line is wider than the terminal (at least `LEAST_WIDTH` columns). A document with an overview
        has at most `MOST_LINES` lines, from 60 columns on, unless `every` is set.
    """
    shown = terminal or Terminal()
    if shown.every or not document.overview:
        return _Printer(shown).document(document)
    for brevity in BREVITIES:
        text = _Printer(shown, brevity).overview(document)
        if text.count("\n") <= MOST_LINES:
            break
    return text


class _Printer:
    """Collects the lines of a document, and the marks that they show as letters."""

    def __init__(self, terminal: Terminal, brevity: Brevity | None = None) -> None:
        self.brevity = brevity
        self.width = max(LEAST_WIDTH, terminal.width)
        self.every = terminal.every
        self.paint = Paint(colour=terminal.colour, ascii_only=terminal.ascii_only)
        self.letters: dict[Mark, None] = {}

    def overview(self, document: Document) -> str:
        """Return the answer, the subject and the overview."""
        lines = self._head(document)
        blocks = (None, *brief_blocks(document.overview, self.brevity or BREVITIES[0]))
        for above, block in itertools.pairwise(blocks):
            gap = isinstance(block, (Table, ForestPlot, Paragraph)) and not isinstance(above, (Heading, Paragraph))
            lines += [""] * gap + self._blocks(filter(None, (block,)))
        return self._final(lines + self._legend())

    def _head(self, document: Document) -> list[str]:
        lines = [*self._wrapped(document.answer, Tone.STRONG, indent=""), ""] if document.answer else []
        lines += self._wrapped(document.title, Tone.STRONG if not document.answer else Tone.PLAIN, indent="")
        return lines + [line for text in document.lead for line in self._wrapped(text)]

    def _legend(self) -> list[str]:
        legend = ", ".join(f"{mark.letter} {mark.name}" for mark in self.letters)
        return self._wrapped(legend, Tone.NOTE, indent="") if legend else []

    def _final(self, lines: list[str]) -> str:
        return "\n".join(map(self.paint.final, lines)) + "\n"

    def document(self, document: Document) -> str:
        """Return the answer, the subject, and every section."""
        lines = self._head(document)
        indices = tuple(itertools.takewhile(lambda block: not isinstance(block, Heading), document.overview))
        lines += ["", *self._blocks(indices), ""] if indices else []
        for notice in document.notices:
            lines += self._item(notice, "! " if notice.tone is Tone.WARNING else "* ")
        for section in document.sections:
            lines += self._section(section)
        lines += ["", *self._legend()] if self.letters else []
        for section in document.closing:
            lines += self._section(section)
        return self._final(lines)

    def _section(self, section: Section) -> list[str]:
        body = self._blocks(section.blocks) if section.brief or self.every else []
        if not body:
            return []
        lines = ["", *self._wrapped(section.title, Tone.STRONG)]
        for text in section.warnings:
            lines += self._wrapped(f"! {text}", Tone.WARNING)
        return lines + (body[1:] if not body[0] and not section.warnings else body)

    def _blocks(self, blocks: Iterable[Block]) -> list[str]:
        return [line for block in blocks for line in self._block(block)]

    def _block(self, block: Block) -> list[str]:  # noqa: PLR0912 - a case per kind of block
        match block:
            case Paragraph():
                bullet = {Tone.NOTE: "* ", Tone.WARNING: "! "}.get(block.tone, "")
                return self._shortened(bullet + block.text, Tone.PLAIN if block.tone is Tone.NOTE else block.tone)
            case Heading():
                return ["", *self._wrapped(block.text, Tone.STRONG)]
            case BulletList():
                return self._list(block)
            case Table():
                self.letters |= dict.fromkeys(marks_of(block))
                return table_lines(block, self.width, self.paint)
            case ResultTable() | PairedRuns():
                return self._blocks(simplified(block))
            case ForestPlot():
                return forest_lines(block, self.width, self.paint, self.brevity.detail if self.brevity else 0)
            case Drawing():
                return []
            case Facts():
                return [line for label, value in block.pairs for line in self._wrapped(f"{label}: {value}")]
            case Commands():
                room = max((len(what) for what, _ in block.commands), default=0)
                pairs = [(safe(what), safe(command)) for what, command in block.commands]
                return [line for pair in pairs for line in command_lines(*pair, room, self.width)]
            case Links():
                return [
                    line
                    for what, where in block.links
                    for line in command_lines(f"{safe(what)}:", safe(where), 0, self.width)
                ]
            case Fold():
                if not (block.brief or self.every):
                    return []
                return ["", *self._wrapped(block.summary, Tone.STRONG), *self._blocks(block.blocks)]
            case _:
                assert_never(block)

    def _list(self, block: BulletList) -> list[str]:
        most = block.most if block.most and not self.every else len(block.items)
        lines = self._wrapped(block.title) if block.title else []
        for item in block.items[:most]:
            lines += self._item(item, "- ")
        rest = len(block.items) - most
        return lines + ([f"  and {rest} {block.rest}"] if rest > 0 else [])

    def _item(self, item: Item, bullet: str) -> list[str]:
        label = f"{item.label}: " if item.label else ""
        inner = item.items if self.brevity is None else ()
        below = (line for text in inner for line in self._wrapped(f"  - {text}", indent="    "))
        return [*self._shortened(f"{bullet}{label}{item.text}", item.tone), *below]

    def _shortened(self, text: str, tone: Tone) -> list[str]:
        """Return the first lines of a text in an overview, with an ellipsis if there are more."""
        lines = terminal_layout.wrap(safe(text), self.width, "  ")
        most = self.brevity.lines if self.brevity is not None else 0
        return [self.paint(line, tone) for line in terminal_layout.first_lines(lines, most, self.width)]

    def _wrapped(self, text: str, tone: Tone = Tone.PLAIN, indent: str = "  ") -> list[str]:
        return [self.paint(line, tone) for line in terminal_layout.wrap(safe(text), self.width, indent)]


def render_whole(document: Document) -> str:
    """Print every section of a document as text of 80 columns."""
    return render(document, Terminal(every=True))


TEXT = Renderer("text", "plain text of 80 columns", render_whole)
