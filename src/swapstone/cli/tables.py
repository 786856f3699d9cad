# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plain tables for lists and queries, with control characters escaped."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterable, Sequence

from rich.box import Box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from swapstone.cli.output import plain

_HEAD_LINE = Box("    \n    \n -  \n    \n    \n    \n    \n    \n", ascii=True)
"""Columns without lines between them, and dashes below the head."""
_UNLIMITED = 100_000


def terminal_columns() -> int | None:
    """Return the width of the terminal; None if standard output is none, where a row keeps its one line."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table(head: Sequence[str], rows: Iterable[Sequence[object]], width: int | None = None) -> str:
    """Format rows as columns, numbers to the right.

    Args:
        head: the columns' names.
        rows: each as long as `head`.
        width: of the terminal; cells that are too wide for it are wrapped. None for one line a row.

    Returns:
        Lines without trailing blanks, ending with a newline.
    """
    cells = [[plain(f"{value:.6g}" if isinstance(value, float) else value) for value in row] for row in rows]
    made = Table(box=_HEAD_LINE, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    for index, name in enumerate(head):
        numeric = all(_is_number(row[index]) for row in cells) and bool(cells)
        made.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        made.add_row(*map(Text, row))
    printed = io.StringIO()
    console = Console(file=printed, width=width or _UNLIMITED, color_system=None, force_terminal=False)
    console.print(made, soft_wrap=False)
    return "\n".join(line.rstrip() for line in printed.getvalue().splitlines()) + "\n"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text == ""
    return True
