# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints documents: coloured and as wide as the terminal on a terminal, else plain. Imports neither numpy nor what makes documents."""

from __future__ import annotations

import os
import shutil
import sys

from swapstone.cli.command_name import as_typed
from swapstone.cli.output import echo
from swapstone.core.report.document import Document, with_texts
from swapstone.core.report.render.terminal import Terminal, render

PIPED_WIDTH = 120


def print_document(document: Document, *, every: bool = False) -> None:
    """Print a document: coloured and as wide as the terminal on a terminal, else plain. After more than a screen the answer is repeated.

    Args:
        document: what to print.
        every: whether to print what a brief report leaves out.
    """
    terminal = sys.stdout.isatty()
    size = shutil.get_terminal_size() if terminal else os.terminal_size((PIPED_WIDTH, 0))
    shown = Terminal(
        width=size.columns,
        lines=size.lines,
        colour=terminal and not os.environ.get("NO_COLOR"),
        ascii_only="utf" not in (sys.stdout.encoding or "").lower(),
        every=every,
    )
    echo(render(with_texts(document, as_typed), shown), nl=False, styled=shown.colour)
