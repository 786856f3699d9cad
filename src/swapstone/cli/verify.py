# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone verify`: checks that a record is whole and unaltered, and that its verdicts are the same."""

from __future__ import annotations

import shlex

import click

from swapstone.cli.command_name import as_typed
from swapstone.cli.display import display
from swapstone.cli.output import echo, echo_labelled, plain
from swapstone.cli.record_options import RECORD, TRUST
from swapstone.core.session.record_handle import open_record
from swapstone.core.session.report_context import describe_experiment
from swapstone.exit_status import ExitStatus


@click.command()
@RECORD
@click.option(
    "--recompute",
    "count",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="Run N random trials again: on the virtual clock their output must be equal to the byte.",
)
@click.option(
    "--against", default="", metavar="DIGEST", help="Compare the record's digest, or 16 or more first digits."
)
@TRUST
def verify_command(record: str, count: int | None, against: str, trust: bool) -> int:
    r"""Check that a record is whole and unaltered, and that its analysis gives the same verdicts.

    Every line of runs.jsonl is compared with its checksum and with the line before it, every raw output with its digest, the other
    files with the seal. Samples, checksums and failures are derived again from the raw output. The runs are compared with the plan
    that the seed gives: a run that was removed is named. Only --recompute runs programs, in virtual machines. Where another emulator,
    kernel or image gives other runs, the first fact that differs is named.

    These checks find edits. A record that is forged entirely, raw output included, can be sealed: compare its digest with one that was
    published (--against), or repeat the experiment (`swapstone rerun`). Reports print the digest; it is
    the SHA-256 of seal.json.

    The first word is Whole, Incomplete or Altered. An incomplete record is honest, and is not all that it was to be: the cause follows.
    The exit status is 0 of a sealed record that was not altered, and 2 of any other.

    \b
    Examples:
      swapstone verify last
      swapstone verify last --against 0123456789abcdef
      swapstone verify last --recompute 3
    """
    opened = open_record(record)
    result = opened.verify(count or 0, display(), against=against, trust=trust)
    echo(click.style(as_typed(plain(result.answer)), fg=None if result.ok else "red"), styled=True)
    for problem in result.problems:
        echo_labelled("altered: ", plain(problem))
    for difference in result.differences:
        echo_labelled("differs: ", plain(difference))
    echo(f"{opened.view.path}: {plain(describe_experiment(opened.experiment))}, {len(opened.view.runs)} runs")
    if result.digest:
        echo(f"digest {result.digest}")
    if result.incomplete and not result.problems:
        echo(as_typed(f"Continue it: swapstone compare --resume {shlex.quote(str(opened.view.path))}"))
    for note in result.notes:
        echo(as_typed(plain(note)))
    return ExitStatus.SUCCESS if result.ok else ExitStatus.REFUSED
