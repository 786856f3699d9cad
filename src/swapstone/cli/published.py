"""`swapstone published`: the published figures, and what becomes of them when they are computed again."""

from __future__ import annotations

import shutil
import sys

import click

from swapstone.cli.listing import print_list


@click.group()
def published_command() -> None:
    r"""Look at the published figures, and check them.

    \b
    Examples:
      swapstone published list
      swapstone published check
    """


@published_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of objects.")
def list_figures(as_json: bool) -> None:
    r"""List every published figure with its study, platform and condition.

    \b
    Example:
      swapstone published list --json | jq '.[] | select(.study == "musl-malloc")'
    """
    print_list("published", as_json)


@published_command.command("check")
def check_figures() -> None:
    r"""Compute again what the pages derived from their figures, and list where their words and numbers disagree.

    \b
    Example:
      swapstone published check
    """
    from swapstone.published import check  # noqa: PLC0415 - reads tables that the other commands don't need
    from swapstone.report import pages  # noqa: PLC0415 - as above

    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else 120
    ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
    click.echo(pages.render(check(), width=width, colour=terminal, ascii_only=ascii_only), nl=False)
