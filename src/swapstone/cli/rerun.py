# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone rerun`: runs the experiment of a record again, and compares the two records."""

from __future__ import annotations

import click

from swapstone.cli.display import display
from swapstone.cli.options import RECORD
from swapstone.cli.printing import print_interruption, print_table
from swapstone.cli.tables import plain, table, terminal_columns
from swapstone.model import Comparison
from swapstone.report.formatting import estimate
from swapstone.session.interrupted import Interrupted
from swapstone.session.record_handle import open_record
from swapstone.session.rerun import APART, UNKNOWN, RerunRow, rerun_differences, rerun_rows


@click.command()
@RECORD
@click.option("--out", metavar="DIR", help="Folder of the new record.  [records/TIME-NAME]")
def rerun_command(record: str, out: str | None) -> int:
    r"""Run a record's experiment again, with the same plan and the same passes, and compare the two records.

    The intervals of two runs of one experiment should overlap. If they do not, the machine, the programs or the time of day made a
    difference that the intervals did not cover.

    \b
    Example:
      swapstone rerun last
    """
    first = open_record(record)
    try:
        second = first.rerun(out, display())
    except Interrupted as interrupted:
        return print_interruption(interrupted)
    print_table(second)
    click.echo("\n" + format_rows(rerun_rows(first.experiment, first.analysis(), second.analysis())), nl=False)
    differences = rerun_differences(first.view, second.view)
    click.echo(
        "Not the same both times: " + "; ".join(map(plain, differences))
        if differences
        else "Machine, tools and programs were the same both times, to the byte."
    )
    return 0


def format_rows(rows: list[RerunRow]) -> str:
    """Return the rows of two records side by side, and a sentence that sums them up, ending with a newline."""
    cells: list[list[object]] = [
        [
            row.first.workload,
            row.first.candidate.label,
            *(_cell(row.first), row.first.verdict.value, _cell(row.second), row.second.verdict.value, row.intervals),
        ]
        for row in rows
    ]
    head = ["workload", "candidate", "first", "verdict", "again", "verdict", "intervals"]
    if not rows:
        return table(head, cells) + "No row can be compared.\n"
    apart, unknown = (sum(row.intervals == kind for row in rows) for kind in (APART, UNKNOWN))
    return (
        table(head, cells, terminal_columns())
        + f"{len(rows)} rows: the intervals of {apart} lie apart by more than the margin; "
        + f"{sum(row.changed_sign for row in rows)} changed sign"
        + (f"; {unknown} had too few runs for an interval.\n" if unknown else ".\n")
    )


def _cell(comparison: Comparison) -> str:
    return estimate(comparison) or "none"
