# SPDX-License-Identifier: MIT OR Apache-2.0
"""Lines, columns and bars of fixed width for a terminal."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells

from swapstone.core.report.document import Tone

_CODES = {
    Tone.GOOD: "32",
    Tone.BAD: "31",
    Tone.NEUTRAL: "35",
    Tone.NOTE: "2",
    Tone.STRONG: "1",
    Tone.WARNING: "33",
}
"""SGR parameters (ECMA-48, 8.3.117)."""
# One character each, so that columns stay aligned in ASCII.
_ASCII = str.maketrans("→–×…█▌▐│─·±", ">-x~===|--~")  # noqa: RUF001 - a dash between numbers, a times sign


_LEAST_WRAPPED = 8
"""Narrower columns break a text anywhere, others at blanks."""


class Styled(NamedTuple):
    """A text with its tone."""

    text: str
    tone: Tone = Tone.PLAIN


class Paint:
    """Adds terminal codes to text, or none, and replaces characters outside ASCII where a terminal has none.

    Args:
        colour: whether tones become terminal codes.
        ascii_only: whether every character outside ASCII is replaced.
    """

    def __init__(self, *, colour: bool, ascii_only: bool) -> None:
        self.colour = colour
        self.ascii_only = ascii_only

    def __call__(self, text: str, tone: Tone = Tone.PLAIN) -> str:
        """Return text in the colour of a tone."""
        if tone is Tone.PLAIN or not self.colour or not text:
            return text
        return f"\x1b[{_CODES[tone]}m{text}\x1b[0m"

    def final(self, line: str) -> str:
        """Return a line without blanks at its end, in ASCII for an ASCII terminal."""
        line = line.rstrip()
        return line.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii") if self.ascii_only else line


def table(
    rows: Sequence[Sequence[Styled]], right: Sequence[bool], limit: Sequence[int], paint: Paint, width: int = 0
) -> list[list[str]]:
    """Lay rows out in columns, a blank between them. A cell that is wider than its column continues below: nothing is cut.

    Args:
        rows: cells, equally many in each row; the first row is the header.
        right: for each column, whether it is flush right.
        limit: for each column, the widest it may be; 0 for as wide as needed.
        paint: applies tones.
        width: of the terminal; the widest columns get narrower until a line fits. 0 for any.

    Returns:
        The lines of each row.
    """
    needed = [max(cell_len(row[i].text) for row in rows) for i in range(len(right))]
    widths = [min(size, most) if most else size for size, most in zip(needed, limit, strict=True)]
    while width and sum(widths) + len(widths) - 1 > width and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    found = []
    for row in rows:
        cells = [_within(cell.text, size) for cell, size in zip(row, widths, strict=True)]
        lines = []
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            line = [
                _padded(text, size, paint(text.strip(" "), cell.tone), flush=flush)
                for text, cell, size, flush in zip(parts, row, widths, right, strict=True)
            ]
            lines.append(" ".join(line))
        found.append(lines)
    return found


def _within(text: str, width: int) -> list[str]:
    """Return a cell's text in lines of at most `width` columns."""
    if cell_len(text) <= width:
        return [text]
    return wrap(text.strip(), width) if width >= _LEAST_WRAPPED else chop_cells(text.strip(), width)


def _padded(text: str, width: int, painted: str, *, flush: bool) -> str:
    """Return a text of `width` columns whose part between blanks is replaced by that with terminal codes."""
    room = " " * (width - cell_len(text))
    body = text.strip(" ")
    whole = text.replace(body, painted, 1) if body else text
    return room + whole if flush else whole + room


def bar(ratio: float, reach: float, width: int = 13) -> str:
    """Draw a ratio as a bar from the middle: to the right above 1, to the left below, on a logarithmic scale.

    Args:
        ratio: above 0.
        reach: the ratio whose bar fills a whole side; above 1.
        width: columns, odd.
    """
    side = width // 2
    share = min(1.0, abs(math.log(ratio)) / math.log(reach)) if ratio > 0 and reach > 1 else 0.0
    full, half = divmod(round(share * side * 2), 2)
    if ratio >= 1:
        return " " * side + "│" + ("█" * full + "▌" * half).ljust(side)
    return ("▐" * half + "█" * full).rjust(side) + "│" + " " * side


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Break a sentence into lines at its blanks; continuation lines are indented. A word that is wider than a line is broken."""
    lines: list[str] = []
    start = text[: len(text) - len(text.lstrip(" "))]
    line, room = "", max(8, width - len(indent))
    for word in (part for whole in text.split() for part in chop_cells(whole, room)):
        joined = f"{line} {word}" if line else start + word
        if line and cell_len(joined) > width:
            lines.append(line)
            joined = indent + word
        line = joined
    return [*lines, line or start]
