# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone rerun`: runs the experiment of a record again, and compares the two records."""

from __future__ import annotations

import click

from swapstone.cli.display import display
from swapstone.cli.documents import print_document
from swapstone.cli.output import echo, plain
from swapstone.cli.printing import interruptible, print_outcomes, print_table
from swapstone.cli.record_options import RECORD, TRUST
from swapstone.core.report.side_by_side_table import document_of
from swapstone.core.session.experiment import rerun_differences
from swapstone.core.session.record_handle import open_record


@click.command()
@RECORD
@click.option("--out", metavar="DIR", help="Folder of the new record.  [records/TIME-NAME]")
@TRUST
@interruptible
def rerun_command(record: str, out: str | None, trust: bool) -> int:
    r"""Run a record's experiment again, with the same plan and the same passes, and compare the two records.

    Each row's second ratio is divided by its first one, with an interval. Where that interval excludes 1 and reaches beyond the margin,
    the machine, the programs or the time of day made a difference that the records' own intervals do not cover.

    \b
    Example:
      swapstone rerun last
    """
    first = open_record(record)
    second = first.rerun(out, display(), trust=trust)
    print_table(second)
    echo()
    print_document(document_of(first.side_by_side(second)))
    differences = rerun_differences(first.view, second.view)
    echo(
        "Not the same both times: " + "; ".join(map(plain, differences))
        if differences
        else "Machine, tools and programs were the same both times, to the byte."
    )
    return print_outcomes((second,))
