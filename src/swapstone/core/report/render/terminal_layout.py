# SPDX-License-Identifier: MIT OR Apache-2.0
"""Lines, columns, bars, tables and forest plots of fixed width for a terminal. A table that is too wide continues below."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
from rich.cells import cell_len, chop_cells

from swapstone.core.model import FrozenStruct
from swapstone.core.report.document import Cell, ForestPlot, ForestRow, Mark, Table, Tone
from swapstone.core.report.formatting import safe

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


class Terminal(FrozenStruct, frozen=True, kw_only=True):
    """What a terminal shows.

    Attributes:
        width: its columns.
        colour: whether text gets terminal codes; without, the output holds none, whatever names contain.
        ascii_only: whether to keep to ASCII.
        every: whether to print the sections of a document that has an overview, and all that a brief rendering leaves out.
        lines: its lines: if the output has more, the answer is repeated at its end. 0 for any number, such as in a pipe.
    """

    width: int = 80
    colour: bool = False
    ascii_only: bool = False
    every: bool = False
    lines: int = 0

    def paint(self, text: str, tone: Tone = Tone.PLAIN) -> str:
        """Return text in the colour of a tone."""
        if tone is Tone.PLAIN or not self.colour or not text:
            return text
        return f"\x1b[{_CODES[tone]}m{text}\x1b[0m"

    def final(self, line: str) -> str:
        """Return a line without blanks at its end, in ASCII for an ASCII terminal."""
        line = line.rstrip()
        return line.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii") if self.ascii_only else line


def columns(
    rows: Sequence[Sequence[Styled]], right: Sequence[bool], limit: Sequence[int], terminal: Terminal
) -> list[list[str]]:
    """Lay rows out in columns, a blank between them. A cell that is wider than its column continues below: nothing is cut.

    Args:
        rows: cells, equally many in each row; the first row is the header.
        right: for each column, whether it is flush right.
        limit: for each column, the widest it may be; 0 for as wide as needed.
        terminal: the widest columns get narrower until a line fits it.

    Returns:
        The lines of each row.
    """
    needed = [max(cell_len(row[i].text) for row in rows) for i in range(len(right))]
    widths = [min(size, most) if most else size for size, most in zip(needed, limit, strict=True)]
    while sum(widths) + len(widths) - 1 > terminal.width and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    found = []
    for row in rows:
        cells = [_within(cell.text, size) for cell, size in zip(row, widths, strict=True)]
        lines = []
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            line = [
                _padded(text, size, terminal.paint(text.strip(" "), cell.tone), flush=flush)
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


_LEAST_NAME = 12  # a column that names a row is cut no shorter
_NAME = 29  # a longer name is cut before it costs a column
_NARROW = 100  # from this width on a bar fits
_NO_VALUES = 64  # below this width a forest plot has no values
_WIDE = 116  # from this width on reference ratios fit beside the others
_VALUE, _WIDE_VALUE = 9, 16  # a column of values is no wider, on a narrow terminal and on others


def table_lines(table: Table, terminal: Terminal) -> list[str]:
    """Lay out a table; where it is too wide, as several that begin with the same key columns.

    Args:
        table: what to print.
        terminal: where to.
    """
    table = _without_optional_columns(table, terminal.width)
    body = _composed(table, effects=True)
    if _total(body) > terminal.width and any(cell.text and cell.effect for row in table.rows for cell in row):
        body = _composed(table, effects=False)
    widths = [max(cell_len(row[i].text) for row in body) for i in range(len(table.columns))]
    keys = range(min(table.keys, len(widths)))
    right = [column.right for column in table.columns]
    found: list[str] = []
    for chunk in _chunks(widths, len(keys), terminal.width):
        shown = [*keys, *chunk]
        limit = _limits([widths[i] for i in shown], len(keys), terminal.width)
        laid = columns([[row[i] for i in shown] for row in body], [right[i] for i in shown], limit, terminal)
        found += ["", *_with_gap(laid, table, len(body) - len(table.rows), terminal)]
    return found[1:]


def _without_optional_columns(table: Table, width: int) -> Table:
    """Return a table without its last optional columns, if the table is too wide with them."""
    optional = [place for place, column in enumerate(table.columns) if column.optional]
    while optional and _total(_composed(table, effects=True)) > width:
        last = optional.pop()
        table = msgspec.structs.replace(
            table,
            columns=(*table.columns[:last], *table.columns[last + 1 :]),
            rows=tuple((*row[:last], *row[last + 1 :]) for row in table.rows),
        )
    return table


def _with_gap(rows: list[list[str]], block: Table | ForestPlot, heads: int, terminal: Terminal) -> list[str]:
    """Return the lines of a table's rows with the number of rows that are left out, at their place."""
    gap = [[terminal.paint(f"… and {block.left_out} more", Tone.NOTE)]] if block.left_out else []
    place = heads + block.left_out_after
    return [line for lines in (*rows[:place], *gap, *rows[place:]) for line in lines]


def _composed(table: Table, *, effects: bool) -> list[list[Styled]]:
    """Return heading lines and rows as one text a cell, the parts of a column's cells below each other.

    Args:
        table: what to print.
        effects: whether to print the effect of a cell that has a text too.
    """
    heads = [
        [Styled(safe(column.head[line]) if line < len(column.head) else "", Tone.NOTE) for column in table.columns]
        for line in range(max(len(column.head) for column in table.columns))
    ]
    shown = [_column([row[i] for row in table.rows], dense=table.dense, effects=effects) for i in range(len(heads[0]))]
    return [*heads, *(list(row) for row in zip(*shown, strict=True))]


def _column(cells: Sequence[Cell], *, dense: bool, effects: bool) -> list[Styled]:
    """Return a column's cells as texts: value, effect and mark, each set below the one above it."""
    parts = [_parts(cell, dense=dense, effects=effects) for cell in cells]
    widths = [max((cell_len(part[i]) for part in parts), default=0) for i in range(3)]
    ragged = any("(" in part[1] for part in parts)
    joined = []
    for cell, (text, effect, mark) in zip(cells, parts, strict=True):
        fields = [
            " " * (widths[0] - cell_len(text)) + text if widths[1] or widths[2] else text,
            effect + " " * (widths[1] - cell_len(effect)) if ragged else " " * (widths[1] - cell_len(effect)) + effect,
            mark + " " * (widths[2] - cell_len(mark)),
        ]
        line = " ".join(field for field, size in zip(fields, widths, strict=True) if size)
        joined.append(Styled(line if line.strip() else "", cell.mark.tone if cell.mark else Tone.PLAIN))
    return joined


def _parts(cell: Cell, *, dense: bool, effects: bool) -> tuple[str, str, str]:
    text = safe((dense and cell.short) or cell.text)
    effect = ""
    if cell.effect and (effects or not text):
        between = f" ({safe(cell.interval)})" if cell.interval and not (dense and text) else ""
        effect = f"{'×' if text else ''}{safe(cell.effect)}{between}"  # noqa: RUF001 - a times sign
    if dense:
        return text, effect, (cell.mark.letter if cell.mark else "") + cell.sign
    note = f"{': ' if cell.mark and cell.note else ''}{safe(cell.note)}"
    return text, effect, (cell.mark.name if cell.mark else "") + note


def _total(body: Sequence[Sequence[Styled]]) -> int:
    widths = [max(cell_len(row[i].text) for row in body) for i in range(len(body[0]))]
    return min(widths[0], _NAME) + sum(widths[1:]) + len(widths) - 1


def _chunks(widths: Sequence[int], keys: int, width: int) -> list[list[int]]:
    """Distribute the columns that are no keys over as few tables as fit, about equally many in each."""
    room = width - sum(min(size, _LEAST_NAME * 2) + 1 for size in widths[:keys])
    found: list[list[int]] = [[]]
    used = 0
    for place in range(keys, len(widths)):
        if found[-1] and used + widths[place] > room:
            found.append([])
            used = 0
        found[-1].append(place)
        used += widths[place] + 1
    return found


def _limits(widths: Sequence[int], keys: int, width: int) -> list[int]:
    """Return the widest that each column may be, so that a table fits: keys give way first, then all others alike."""
    limit = list(widths)
    over = sum(limit) + len(limit) - 1 - width
    for place in [*range(keys), *range(keys, len(limit))]:
        cut = min(max(0, over), max(0, limit[place] - _LEAST_NAME))
        limit[place] -= cut
        over -= cut
    return limit


def marks_of(table: Table) -> tuple[Mark, ...]:
    """Return the marks that a table shows as letters, each once."""
    marks = dict.fromkeys(cell.mark for row in table.rows for cell in row if table.dense and cell.mark is not None)
    return tuple(mark for mark in marks if mark.letter not in {"", mark.name})


def forest_lines(plot: ForestPlot, terminal: Terminal, *, details: bool = True) -> list[str]:
    """Lay out one row a ratio: name, both values, ratio, and as the width allows a bar and the reference ratio.

    Args:
        plot: what to print.
        terminal: where to.
        details: whether each row's detail stands below it.
    """
    # The bars reach to a power of two.
    most_bits = max((abs(math.log2(row.ratio)) for row in plot.rows if row.ratio is not None), default=0.0)
    reach = float(2 ** max(1, math.ceil(most_bits - 1e-9)))
    scale = f"1/{reach:.0f}".ljust(6) + "1" + f"{reach:.0f}".rjust(6)
    value = _VALUE if terminal.width < _NARROW else _WIDE_VALUE
    references: tuple[_RowColumn, ...] = (
        (_WIDE, safe(plot.reference_name), True, 0, lambda row: Styled(safe(row.reference_text))),
        (_WIDE, "sign", False, 0, lambda row: Styled(safe(row.reference_note), row.reference_tone)),
    )
    every: tuple[_RowColumn, ...] = (
        (0, "", False, 0, lambda row: Styled(safe(row.name))),
        (_NO_VALUES, safe(plot.before_name), True, value, lambda row: Styled(safe(row.before))),
        (_NO_VALUES, safe(plot.after_name), True, value, lambda row: Styled(safe(row.after))),
        (0, "ratio (interval)", False, 0, lambda row: Styled(safe(_ratio(row)))),
        (
            _NARROW,
            scale,
            False,
            0,
            lambda row: Styled("" if row.ratio is None else bar(row.ratio, reach), row.mark.tone),
        ),
        (0, "verdict", False, 0, lambda row: Styled(row.mark.name, row.mark.tone)),
        *(references if plot.reference_name else ()),
    )
    laid = _laid([column for column in every if terminal.width >= column[0]], plot.rows, terminal)
    for lines, row in zip(laid[1:], plot.rows if details else (), strict=details):
        below = wrap(f"  {safe(row.detail)}", terminal.width, "  ") if row.detail else []
        lines += [terminal.paint(text, Tone.NOTE) for text in below]
    found = _with_gap(laid, plot, 1, terminal)
    if plot.reference_name and terminal.width < _WIDE:  # then they are a table of their own
        name: _RowColumn = (0, f"beside the {safe(plot.reference_name)}", False, 40, lambda row: Styled(safe(row.name)))
        here: _RowColumn = (0, "here", True, 0, lambda row: Styled(safe(row.effect)))
        rows = [row for row in plot.rows if row.reference is not None]
        found += ["", *(line for lines in _laid((name, here, *references), rows, terminal) for line in lines)]
    return found


_RowColumn = tuple[int, str, bool, int, Callable[[ForestRow], Styled]]
"""A column of a forest plot: the width from which on it fits, heading, whether flush right, the widest it may be or 0, a row's cell."""


def _laid(shown: Sequence[_RowColumn], rows: Sequence[ForestRow], terminal: Terminal) -> list[list[str]]:
    """Lay rows out in columns. The first one gives way to the others, unless it has a limit of its own."""
    _, heads, right, most, cells = zip(*shown, strict=True)
    body = [[Styled(head, Tone.NOTE) for head in heads], *([cell(row) for cell in cells] for row in rows)]
    widest = [max(cell_len(line[i].text) for line in body) for i in range(len(shown))]
    others = sum(min(size, limit) if limit else size for size, limit in zip(widest[1:], most[1:], strict=True))
    first = most[0] or max(_LEAST_NAME, terminal.width - others - (len(shown) - 1))
    return columns(body, right, (first, *most[1:]), terminal)


def _ratio(row: ForestRow) -> str:
    interval = row.interval if row.interval == "exact" else f"({row.interval})"
    return f"{row.effect} {interval}" if row.interval else row.effect
