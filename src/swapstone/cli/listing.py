# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone list`: lists of factors, workloads, suites, loads, targets, libraries, studies and records."""

from __future__ import annotations

import click

from swapstone.cli.command_name import as_typed
from swapstone.cli.output import echo
from swapstone.cli.tables import table, terminal_columns
from swapstone.core.report.printed_json import printed_json
from swapstone.core.session.catalog import all_lists, default_root


@click.command()
@click.argument("what", type=click.Choice(list(all_lists())))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(what: str, as_json: bool) -> None:
    r"""List factors, levels, workloads, suites, loads, targets, libraries, studies, records or published figures.

    \b
    Examples:
      swapstone list workloads
      swapstone list records --json
    """
    print_list(what, as_json)


def print_list(what: str, as_json: bool) -> None:
    """Print one of the lists as a table or as JSON."""
    head, rows = all_lists()[what]()
    if as_json:
        found = [dict(zip(head, row, strict=True)) for row in rows]
        echo(printed_json("list", list=what, rows=found), nl=False)
    elif rows:
        echo(table(head, rows, terminal_columns()), nl=False)
    elif what == "records":
        echo(f"There are no records in {default_root()}. {as_typed('Make one: swapstone compare libc=glibc,musl')}")
    else:
        echo(f"There are no {what}.")
