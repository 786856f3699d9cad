# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone show`: a record as table."""

from __future__ import annotations

import click

from swapstone.cli.documents import print_document
from swapstone.cli.output import echo
from swapstone.cli.record_options import ALL, RECORD
from swapstone.core.model import unknown
from swapstone.core.record import find_record
from swapstone.core.report.context import Selection
from swapstone.core.report.document import Document
from swapstone.core.session import record_cache


@click.command()
@RECORD
@click.option("--json", "as_json", is_flag=True, help="Print the whole analysis as JSON.")
@ALL
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Only this metric; repeatable.")
def show_command(record: str, as_json: bool, every: bool, metrics: tuple[str, ...]) -> None:
    r"""Analyse a record again and print the answer.

    RECORD is a folder, its name under records/, or `last`. The answer is followed by the indices, the rows that matter most, what is
    not known and what to do next, in at most 40 lines. --all prints every row.

    \b
    Examples:
      swapstone show last
      swapstone show last --all | less
      swapstone show last --metric res --metric maxrss
      swapstone show last --json | jq '.analysis.indices'
    """
    path = find_record(record)
    if not (as_json or every or metrics):
        kept = record_cache.find(path, record_cache.DOCUMENT, record_cache.state_of(path), Document)
        if kept is not None:
            print_document(kept[0])
            return
    from swapstone.cli.printing import print_table  # noqa: PLC0415 - imports numpy, which the document of an earlier reading does without
    from swapstone.core.session.record_handle import Record  # noqa: PLC0415 - as above

    opened = Record(path)
    if as_json:
        echo(opened.report("json"))
        return
    known = {comparison.metric.name for comparison in opened.analysis().comparisons}
    wrong = next((name for name in metrics if name not in known), None)
    if wrong is not None:
        raise unknown("metric of this record", wrong, known)
    print_table(opened, Selection(every=every, metrics=metrics))
