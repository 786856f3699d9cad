# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone verify`: checks that a record is whole and unaltered, and that its verdicts are the same."""

from __future__ import annotations

import click

from swapstone.cli.command_name import as_typed
from swapstone.cli.display import display
from swapstone.cli.options import RECORD
from swapstone.cli.tables import plain
from swapstone.session.record_handle import open_record
from swapstone.session.report_context import describe_experiment


@click.command()
@RECORD
@click.option(
    "--recompute",
    "count",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="Run N random trials again: on the virtual clock their output must be equal to the byte.",
)
def verify_command(record: str, count: int | None) -> int:
    r"""Check that a record is whole and unaltered, and that its analysis gives the same verdicts.

    Every line of runs.jsonl is compared with its checksum and with the line before it, every raw output with its digest, the
    experiment and the manifest with the seal. The exit status is 0 if all are equal, and 2 if not.

    \b
    Examples:
      swapstone verify last
      swapstone verify last --recompute 3
    """
    opened = open_record(record)
    view = opened.view
    result = opened.verify(count or 0, display())
    click.echo(f"{view.path}: {plain(describe_experiment(view.experiment))}, {len(view.runs)} runs")
    if result.recomputed:
        equal = sum(each.equal for each in result.recomputed)
        click.echo(f"{equal} of {len(result.recomputed)} trials gave the same bytes when they ran again.")
    for problem in result.problems:
        click.echo(click.style("damaged: ", fg="red") + as_typed(plain(problem)))
    if not result.ok:
        return 2
    assert view.seal is not None
    click.echo(
        f"Whole and unaltered: {view.seal.runs} runs, sealed as {view.seal.state} ({view.seal.why}); the same verdicts."
    )
    return 0
