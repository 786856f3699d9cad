# SPDX-License-Identifier: MIT OR Apache-2.0
"""A document on a terminal or in a pipe."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, assert_never

import msgspec
from rich.cells import cell_len

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
from swapstone.core.report.render.terminal_layout import Terminal, forest_lines, marks_of, table_lines, wrap
from swapstone.core.report.simple_blocks import simplified

__all__ = ["Terminal", "command_lines", "render", "render_whole"]


class Brevity(NamedTuple):
    """How much of an overview to print. What is printed is never cut: rows and items are left out whole, and counted.

    Attributes:
        rows: of each table.
        items: of each list, without warnings.
        warnings: of each list.
        commands: of what to do next.
    """

    rows: int
    items: int
    warnings: int
    commands: int


_LEAST_INDICES = 4
"""Rows of the tables above the first heading: elapsed time, CPU time, memory and size."""

_LEAST_DETAILED = 3
"""Of fewer rows of a table, none has a detail."""

BREVITIES = (
    Brevity(10, 20, 20, 4),
    Brevity(8, 20, 20, 4),
    Brevity(8, 9, 20, 4),
    Brevity(6, 6, 20, 4),
    Brevity(4, 4, 20, 4),
    Brevity(3, 2, 20, 4),
    Brevity(3, 1, 20, 3),
    Brevity(2, 1, 20, 3),
    Brevity(2, 1, 20, 2),
)
"""From the longest to the shortest; a terminal gets the first that fits. Caveats do not give way. Ten rows: two kernels, five loads."""


def brief_blocks(blocks: Sequence[Block], brevity: Brevity) -> Iterator[Block]:
    """Yield the blocks of an overview, shortened."""
    most = max(brevity.rows, _LEAST_INDICES)
    for block in blocks:
        match block:
            case Heading():
                most = brevity.rows
                yield block
            case ForestPlot() | Table():
                yield _rows(block, most)
            case BulletList():
                yield _items(block, brevity)
            case Commands():
                yield Commands(commands=block.commands[-brevity.commands :])
            case _:
                yield block


def _rows(block: Table | ForestPlot, most: int) -> Table | ForestPlot:
    """Return a table without rows from its middle, beside those that are left out already."""
    cut = len(block.rows) - most
    if cut <= 0:
        return block
    below = len(block.rows) - (block.left_out_after if block.left_out else len(block.rows))
    # Each side of the gap gives in proportion to its rows, and keeps one row if it has any.
    last = 0 if not below or most < 2 else max(1, most * below // len(block.rows))
    if not block.left_out and most > 1 and isinstance(block, ForestPlot):
        last = most // 2
    first = most - last
    kept = block.rows[:first] + block.rows[len(block.rows) - last :]
    return msgspec.structs.replace(block, rows=kept, left_out=block.left_out + cut, left_out_after=first)


def _items(block: BulletList, brevity: Brevity) -> BulletList:
    """Return a list without its last items; plain ones give way before warnings."""
    kept: list[Item] = []
    left = {True: brevity.warnings, False: brevity.items}
    for item in block.items:
        warning = item.tone is Tone.WARNING
        if left[warning] > 0:
            kept.append(item)
            left[warning] -= 1
    missing = len(block.items) - len(kept)
    return msgspec.structs.replace(block, items=(*kept, *((Item(f"{missing} more with --all"),) if missing else ())))


_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""")
_BREAK = " \\"


def command_lines(label: str, command: str, room: int, width: int) -> list[str]:
    r"""Return a command with its purpose before it, no line wider than `width`.

    Lines that continue end in a backslash, so that a shell joins them. A word that is wider than a line is broken too: the rest of it
    begins in the first column, and a quoted word is quoted in pieces.

    Args:
        label: what the command is for; without characters that steer a terminal.
        command: as a shell accepts it, likewise.
        room: columns for the label.
        width: columns of the terminal, at least 20.
    """
    for start in (f"  {label.ljust(room)} ", f"  {label} ") if label else ("  ",):
        if cell_len(start + command) <= width:
            return [start + command]
    lines = [f"  {label}:"] if label else []
    line, indent = "", "    "
    for word in _WORD.findall(command):
        joined = f"{line} {word}" if line.strip() else f"{indent}{word}"
        if cell_len(joined) + len(_BREAK) <= width:
            line = joined
            continue
        if line.strip():
            lines.append(line + _BREAK)
        *full, line = _pieces(word, indent, width)
        lines += full
    return [*lines, line]


def _pieces(word: str, indent: str, width: int) -> list[str]:
    """Return a word as lines of which each but the last ends in a backslash and continues in the first column."""
    if cell_len(indent + word) + len(_BREAK) <= width:
        return [indent + word]
    try:
        (plain,) = shlex.split(word)
    except ValueError:
        return [indent + word]
    pieces, piece, start = [], "", indent
    for character in plain:
        if cell_len(start + shlex.quote(piece + character)) + len(_BREAK) > width:
            pieces.append(f"{start}{shlex.quote(piece)}\\")
            piece, start = "", ""
        piece += character
    return [*pieces, start + shlex.quote(piece)]


LEAST_WIDTH = 20
"""A narrower terminal gets lines of this width."""
MOST_LINES = 40
"""Lines of a brief rendering, unless the answer and the texts that it has to keep are longer."""


def render(document: Document, terminal: Terminal | None = None) -> str:
    """Print a document as text.

    Args:
        document: what to print.
        terminal: where to; by default 80 columns without colour.

    Returns:
        The text, ending in a newline. No line is wider than the terminal (at least `LEAST_WIDTH` columns), and no text is cut. A document
        with an overview has at most `MOST_LINES` lines, from 80 columns on, unless `every` is set or single texts are long.
    """
    asked = terminal or Terminal()
    shown = msgspec.structs.replace(asked, width=max(LEAST_WIDTH, asked.width))
    for brevity in (None,) if shown.every or not document.overview else BREVITIES:
        printer = _Printer(shown, brevity)
        lines = printer.document(document) if brevity is None else printer.overview(document)
        if len(lines) <= MOST_LINES:
            break
    if shown.lines and document.answer and len(lines) >= shown.lines:
        lines += ["", *printer.wrapped(document.answer, Tone.STRONG, indent="")]
    return "\n".join(map(shown.final, lines)) + "\n"


class _Printer:
    """Collects the lines of a document, and the marks that they show as letters."""

    def __init__(self, terminal: Terminal, brevity: Brevity | None) -> None:
        self.brevity = brevity
        self.terminal = terminal
        self.letters: dict[Mark, None] = {}

    def overview(self, document: Document) -> list[str]:
        """Return the answer, the subject and the overview."""
        lines = self._head(document)
        blocks = (None, *brief_blocks(document.overview, self.brevity or BREVITIES[0]))
        for above, block in itertools.pairwise(blocks):
            gap = isinstance(block, (Table, ForestPlot, Paragraph)) and not isinstance(above, (Heading, Paragraph))
            lines += [""] * gap + self._blocks(filter(None, (block,)))
        return lines + self._legend()

    def _head(self, document: Document) -> list[str]:
        lines = [*self.wrapped(document.answer, Tone.STRONG, indent=""), ""] if document.answer else []
        lines += self.wrapped(document.title, Tone.STRONG if not document.answer else Tone.PLAIN, indent="")
        return lines + [line for text in document.lead for line in self.wrapped(text)]

    def _legend(self) -> list[str]:
        legend = ", ".join(f"{mark.letter} {mark.name}" for mark in self.letters)
        return self.wrapped(legend, Tone.NOTE, indent="") if legend else []

    def document(self, document: Document) -> list[str]:
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
        return lines

    def _section(self, section: Section) -> list[str]:
        body = self._blocks(section.blocks) if section.brief or self.terminal.every else []
        if not body:
            return []
        head: tuple[Block, ...] = (
            Heading(section.title),
            *(Paragraph(text, Tone.WARNING) for text in section.warnings),
        )
        return self._blocks(head) + (body[1:] if not body[0] and not section.warnings else body)

    def _blocks(self, blocks: Iterable[Block]) -> list[str]:
        return [line for block in blocks for line in self._block(block)]

    def _block(self, block: Block) -> list[str]:  # noqa: PLR0912 - a case per kind of block
        match block:
            case Paragraph():
                bullet = {Tone.NOTE: "* ", Tone.WARNING: "! "}.get(block.tone, "")
                return self.wrapped(bullet + block.text, Tone.PLAIN if block.tone is Tone.NOTE else block.tone)
            case Heading():
                return ["", *self.wrapped(block.text, Tone.STRONG)]
            case BulletList():
                return self._list(block)
            case Table():
                self.letters |= dict.fromkeys(marks_of(block))
                return table_lines(block, self.terminal)
            case ResultTable() | PairedRuns():
                return self._blocks(simplified(block))
            case ForestPlot():
                details = self.brevity is None or self.brevity.rows >= _LEAST_DETAILED
                return forest_lines(block, self.terminal, details=details)
            case Drawing():
                return []
            case Facts():
                return [line for label, value in block.pairs for line in self.wrapped(f"{label}: {value}")]
            case Commands():
                room = max((len(what) for what, _ in block.commands), default=0)
                pairs = [(safe(what), safe(command)) for what, command in block.commands]
                return [line for pair in pairs for line in command_lines(*pair, room, self.terminal.width)]
            case Links():
                return [
                    line
                    for what, where in block.links
                    for line in command_lines(f"{safe(what)}:", safe(where), 0, self.terminal.width)
                ]
            case Fold():
                if not (block.brief or self.terminal.every):
                    return []
                return self._blocks((Heading(block.summary), *block.blocks))
            case _:
                assert_never(block)

    def _list(self, block: BulletList) -> list[str]:
        most = block.most if block.most and not self.terminal.every else len(block.items)
        lines = self.wrapped(block.title) if block.title else []
        for item in block.items[:most]:
            lines += self._item(item, "- ")
        rest = len(block.items) - most
        return lines + ([f"  and {rest} {block.rest}"] if rest > 0 else [])

    def _item(self, item: Item, bullet: str) -> list[str]:
        label = f"{item.label}: " if item.label else ""
        inner = item.items if self.brevity is None else ()
        below = (line for text in inner for line in self.wrapped(f"  - {text}", indent="    "))
        return [*self.wrapped(f"{bullet}{label}{item.text}", item.tone), *below]

    def wrapped(self, text: str, tone: Tone = Tone.PLAIN, indent: str = "  ") -> list[str]:
        """Return the lines of a text of the document."""
        return [self.terminal.paint(line, tone) for line in wrap(safe(text), self.terminal.width, indent)]


def render_whole(document: Document) -> str:
    """Print every section of a document as text of 80 columns."""
    return render(document, Terminal(every=True))
