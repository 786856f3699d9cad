# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone published`: the published figures, and a check of the numbers that their pages derive."""

from __future__ import annotations

import click

from swapstone.cli.listing import print_list
from swapstone.cli.printing import print_document
from swapstone.session.catalog import check_published


@click.group()
def published_command() -> None:
    r"""List the published figures, and check them.

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
    r"""Compute the numbers that the pages derived from their figures, and list the statements that disagree with them.

    \b
    Example:
      swapstone published check
    """
    print_document(check_published())
