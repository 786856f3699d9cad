# SPDX-License-Identifier: MIT OR Apache-2.0
"""The one place where text is printed: nothing in it, wherever it comes from, can control the terminal."""

from __future__ import annotations

import click

from swapstone.cli.command_name import as_typed
from swapstone.core.model.safe_text import safe, safe_lines


def plain(text: object) -> str:
    """Return a text in one line, with control characters escaped, so that text from outside can't control the terminal."""
    return safe("" if text is None else str(text))


def echo(text: object = "", *, err: bool = False, nl: bool = True, styled: bool = False) -> None:
    """Print text: newlines and tabs stay, other control characters are escaped.

    Args:
        text: from anywhere.
        err: on standard error.
        nl: whether a newline follows.
        styled: whether colours stay, of text of which every part from outside was made `plain`.
    """
    click.echo(safe_lines(str(text), colours=styled), err=err, nl=nl)


def echo_labelled(label: str, text: str, *, colour: str = "red", err: bool = False) -> None:
    """Print a message behind a coloured label such as ``error:``, with the command's name as typed."""
    click.echo(click.style(label, fg=colour, bold=True) + safe_lines(as_typed(text)), err=err)
