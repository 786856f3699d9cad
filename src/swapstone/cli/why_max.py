# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone compare --why-max`: after the comparison, the path of the worst wake-up."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

import click

from swapstone.cli.command_name import as_typed
from swapstone.cli.display import display
from swapstone.cli.output import echo, plain
from swapstone.cli.printing import print_document
from swapstone.model import UserError
from swapstone.session.explain_wakeup import EXPLAINED_LATENCY
from swapstone.session.record_handle import Record

WHY_MAX = click.option(
    "--why-max",
    "why_max",
    is_flag=True,
    help="Afterwards run the replicate with the worst wake-up of each side again, and print its path and the path that grew.",
)


def print_why_max(records: Iterable[Record]) -> None:
    """Print the path of the worst wake-up of each record, of the load where the two sides differ most."""
    for record in records:
        if not record.view.runs:
            continue
        echo("")
        try:
            found = record.explain(metric=EXPLAINED_LATENCY, progress=display())
        except UserError as error:
            echo(f"The path of the worst wake-up is unavailable: {plain(error.message)}", err=True)
            if error.hint:
                echo(plain(error.hint), err=True)
            continue
        print_document(found.document())
        if len(record.experiment.loads) > 1:
            command = f"swapstone explain {shlex.quote(str(record.path))} {EXPLAINED_LATENCY} --load LOAD"
            echo(f"\nThe same for another load: {plain(as_typed(command))}")
