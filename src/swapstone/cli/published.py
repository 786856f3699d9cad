# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone published`: the published figures, a check of what their pages derive, and what this program has of them."""

from __future__ import annotations

import sys

import click

from swapstone.cli.listing import print_list
from swapstone.cli.output import echo
from swapstone.cli.printing import print_document
from swapstone.cli.shell_completion import complete_records
from swapstone.session.catalog import check_published
from swapstone.session.published_output import EXIT_MISSING, claims_output, coverage_output

_RECORDS = click.argument("records", metavar="[RECORD...]", nargs=-1, shell_complete=complete_records)
_FORMAT = click.option(
    "--format",
    "kind",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the output.",
)

_JSON = click.option("--json", "as_json", is_flag=True, help="The same as --format json.")


@click.group()
def published_command() -> None:
    r"""List the published figures, check them, and compare records with them.

    \b
    Examples:
      swapstone published list
      swapstone published check
      swapstone published coverage
    """


@published_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_figures(as_json: bool) -> None:
    r"""List every published figure with its study, platform and condition.

    \b
    Example:
      swapstone published list --json | jq '.rows[] | select(.study == "musl-malloc")'
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


@published_command.command("coverage")
@_RECORDS
@_FORMAT
@_JSON
@click.option(
    "--reasons",
    metavar="FILE",
    type=click.Path(),
    help="A TOML file with reasons why ratios differ, beside those that come with swapstone.",
)
def print_coverage(records: tuple[str, ...], kind: str, as_json: bool, reasons: str | None) -> None:
    r"""Print which published figures a report of this program has a row for, and why the others have none.

    With records, print also the published ratios whose sign differs from the records', or whose size does by more than a factor of 1.5.

    The command ends with 4 if a figure has no row.

    \b
    Examples:
      swapstone published coverage
      swapstone published coverage host vm --reasons reasons.toml
      swapstone published coverage --json | jq '.rows[] | select(.missing)'
    """
    found = coverage_output(records, reasons)
    if as_json or kind == "json":
        echo(found.json, nl=False)
    else:
        print_document(found.document, every=True)
    if found.missing:
        sys.stdout.flush()
        sys.exit(EXIT_MISSING)


@published_command.command("claims")
@_RECORDS
@_FORMAT
@_JSON
def print_claims(records: tuple[str, ...], kind: str, as_json: bool) -> None:
    r"""Print the claims of the pages, the command that measures each, and with records a verdict on each with the evidence.

    A claim holds if all its tests do. A ratio or a difference is decided by its interval, so that few runs leave a claim undecided.

    \b
    Examples:
      swapstone published claims
      swapstone published claims records/20261121-180000-preempt-rt
    """
    found = claims_output(records)
    if as_json or kind == "json":
        echo(found.json, nl=False)
    else:
        print_document(found.document, every=True)
