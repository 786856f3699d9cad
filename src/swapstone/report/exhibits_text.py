"""Exhibits for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from swapstone.report import columns, words
from swapstone.report.columns import Cell, Paint
from swapstone.report.exhibit import Exhibit

_LEAST_NAME = 12  # a column that names a row is cut no shorter


def lines(exhibit: Exhibit, width: int, paint: Paint) -> list[str]:
    """Lay out an exhibit: title, flags, table, drawing, notes.

    Args:
        exhibit: what to show; text from outside in it is made safe here.
        width: columns of the terminal.
        paint: applies styles.
    """
    found = ["", *(paint(line, "bold") for line in columns.wrap(words.safe(exhibit.title), width, "  "))]
    for flag in exhibit.flags:
        found += [paint(line, "warn") for line in columns.wrap(f"! {words.safe(flag)}", width, "  ")]
    if exhibit.head:
        found += _table(exhibit, width, paint)
    found += _drawing(exhibit, width, paint)
    for note in exhibit.notes:
        found += columns.wrap(f"* {words.safe(note)}", width, "  ")
    return found


def _drawing(exhibit: Exhibit, width: int, paint: Paint) -> list[str]:
    drawn = [words.safe(line) for line in exhibit.drawn]
    needed = max(map(cell_len, drawn), default=0)
    if needed > width:
        return [paint(f"(Its drawing needs {needed} columns.)", "dim")]
    return ["", *drawn] if drawn and exhibit.head else drawn


def _table(exhibit: Exhibit, width: int, paint: Paint) -> list[str]:
    """Lay out the table; where it is too wide, as several that begin with the same columns."""
    body = [[words.safe(cell) for cell in row] for row in (exhibit.head, *exhibit.rows)]
    widths = [max(cell_len(row[i]) for row in body) for i in range(len(exhibit.head))]
    keys = range(min(exhibit.keys, len(widths)))
    found: list[str] = []
    for chunk in _chunks(widths, len(keys), width):
        shown = [*keys, *chunk]
        cells = [[Cell(row[i], "" if place else "dim") for i in shown] for place, row in enumerate(body)]
        limit = _limits([widths[i] for i in shown], len(keys), width)
        found += ["", *columns.table(cells, [exhibit.right[i] for i in shown], limit, paint)]
    return found[1:]


def _chunks(widths: Sequence[int], keys: int, width: int) -> list[list[int]]:
    """Distribute the columns that are no keys over as many tables as it takes."""
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
