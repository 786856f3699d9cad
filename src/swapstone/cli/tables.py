# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plain tables for lists and queries, with control characters escaped."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterable, Sequence


def plain(text: object) -> str:
    """Return a text with control characters escaped, so that text from outside can't control the terminal."""
    return "".join(
        character if character.isprintable() else f"\\x{ord(character):02x}"
        for character in ("" if text is None else str(text))
    )


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Format rows as columns, numbers to the right.

    Args:
        head: the columns' names.
        rows: each as long as `head`.

    Returns:
        Lines without trailing blanks, ending with a newline.
    """
    cells = [[plain(_short(value)) for value in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(head, *cells, strict=True)]
    numeric = [all(_is_number(row[index]) for row in cells) and bool(cells) for index in range(len(head))]
    lines = [_line(head, widths, numeric), _line(["-" * width for width in widths], widths, numeric)]
    lines += [_line(row, widths, numeric) for row in cells]
    return "\n".join(lines) + "\n"


def comma_separated(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV with a header line."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return buffer.getvalue()


def _short(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text == ""
    return True


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = (
        " " * (width - _width(cell)) + cell if right else cell + " " * (width - _width(cell))
        for cell, width, right in zip(cells, widths, numeric, strict=True)
    )
    return "  ".join(padded).rstrip()
