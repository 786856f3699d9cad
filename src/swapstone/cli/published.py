# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone published`: the published figures, a check of what their pages derive, and records beside them."""

from __future__ import annotations

import click

from swapstone.cli.documents import print_document
from swapstone.cli.listing import print_list
from swapstone.cli.output import echo
from swapstone.cli.shell_completion import COMPLETIONS
from swapstone.parts.published.session.published_output import Output, check_output, claims_output, differences_output

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def published_command() -> None:
    r"""List the published figures, check them, and compare records with them.

    \b
    Examples:
      swapstone published list
      swapstone published check
      swapstone published differences host vm
    """


@published_command.command("list")
@_JSON
def list_figures(as_json: bool) -> None:
    r"""List every published figure with its study, platform and condition.

    \b
    Example:
      swapstone published list --json | jq '.rows[] | select(.study == "musl-malloc")'
    """
    print_list("published", as_json)


@published_command.command("coverage")
@_JSON
def print_coverage(as_json: bool) -> None:
    r"""Print how many numbers of each table of the pages have a row here, and of how many another program of the same kind is measured.

    \b
    Example:
      swapstone published coverage
    """
    print_list("published-coverage", as_json)


@published_command.command("check")
def check_figures() -> None:
    r"""Print which numbers that the pages derived follow from their figures, and the statements that disagree with them.

    \b
    Example:
      swapstone published check
    """
    print_document(check_output())


@published_command.command("differences")
@click.argument("records", metavar="RECORD...", nargs=-1, required=True, shell_complete=COMPLETIONS["records"])
@_JSON
def print_differences(records: tuple[str, ...], as_json: bool) -> None:
    r"""Print the published ratios whose sign differs from the records', or whose size does by more than a factor of 1.5.

    \b
    Examples:
      swapstone published differences host vm
      swapstone published differences host --json | jq '.rows[] | select(.differs)'
    """
    _print(differences_output(records), as_json)


@published_command.command("claims")
@click.argument("records", metavar="[RECORD...]", nargs=-1, shell_complete=COMPLETIONS["records"])
@_JSON
def print_claims(records: tuple[str, ...], as_json: bool) -> None:
    r"""Print the claims of the pages, the command that measures each, and with records a verdict on each with the evidence.

    A claim holds if all its tests do. A ratio or a difference is decided by its interval, so that few runs leave a claim undecided.

    \b
    Examples:
      swapstone published claims
      swapstone published claims records/20261121-180000-preempt-rt
    """
    _print(claims_output(records), as_json)


def _print(found: Output, as_json: bool) -> None:
    document, text = found
    if as_json:
        echo(text, nl=False)
    else:
        print_document(document, every=True)
