# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone target`: what Swapstone left on other machines."""

from __future__ import annotations

from pathlib import Path

import click

from swapstone.cli.display import print_note
from swapstone.cli.output import echo
from swapstone.parts.boards.session.boards import clean_target
from swapstone.parts.boards.session.lab_environment import write_lab


@click.group()
def target_command() -> None:
    r"""Manage the files of Swapstone on boards, and make a labgrid lab with a virtual board.

    \b
    Examples:
        swapstone target clean ssh:pi@board
        swapstone target labgrid-env lab
    """


@target_command.command("clean")
@click.argument("target", metavar="TARGET")
def clean_command(target: str) -> None:
    """Remove the programs and C libraries that were copied to a board.

    Example: swapstone target clean ssh:pi@board
    """
    echo(clean_target(target))


@target_command.command("labgrid-env")
@click.argument("folder", metavar="DIR", type=Path)
@click.option("--arch", "architecture", default="", help="Of the board: arm64, armhf, riscv64 or x86_64.  [arm64]")
def labgrid_command(folder: Path, architecture: str) -> None:
    """Write a labgrid environment with a virtual board to a new folder DIR, and print the commands that use it.

    Example: swapstone target labgrid-env lab
    """
    echo(write_lab(folder, architecture, print_note))
