# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone list`: lists of factors, workloads, suites, loads, targets, libraries, studies and records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    found = all_lists()[what]
    empty = f"There are no {what}."
    if what == "records":
        empty = f"There are no records in {default_root()}. {as_typed('Make one: swapstone compare libc=glibc,musl')}"
    print_rows(("list", {"list": what}), found.head, list(found.rows()), empty, as_json=as_json)


def print_rows(
    document: tuple[str, Mapping[str, object]],
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    empty: str,
    *,
    as_json: bool,
) -> None:
    """Print rows as a table or as JSON.

    Args:
        document: the name of the JSON's format, and its fields beside the rows.
        head: the names of the columns.
        rows: each as long as `head`.
        empty: what is printed instead of a table without rows.
        as_json: whether JSON is printed.
    """
    if as_json:
        name, fields = document
        echo(printed_json(name, **fields, rows=[dict(zip(head, row, strict=True)) for row in rows]), nl=False)
    elif rows:
        echo(table(head, rows, terminal_columns()), nl=False)
    else:
        echo(empty)
