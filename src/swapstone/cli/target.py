# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone target`: what Swapstone left on other machines."""

from __future__ import annotations

import click

from swapstone.cli.output import echo
from swapstone.parts.boards.session.boards import clean_target


@click.group()
def target_command() -> None:
    r"""Manage the files of Swapstone on boards.

    \b
    Example:
        swapstone target clean ssh:pi@board
    """


@target_command.command("clean")
@click.argument("target", metavar="TARGET")
def clean_command(target: str) -> None:
    """Remove the programs and C libraries that were copied to a board.

    Example: swapstone target clean ssh:pi@board
    """
    echo(clean_target(target))
