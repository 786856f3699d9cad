# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints tables, answers and outcomes of records."""

from __future__ import annotations

import contextlib
import functools
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import ParamSpec

from swapstone.cli.command_name import as_typed
from swapstone.cli.documents import print_document
from swapstone.cli.output import echo, plain
from swapstone.core.report.context import Selection
from swapstone.core.report.document import Document
from swapstone.core.session.outcome import Interrupted, outcome_of_all, parse_fail_if
from swapstone.core.session.record_errors import named_record
from swapstone.core.session.record_handle import Record
from swapstone.exit_status import ExitStatus, Finding

Arguments = ParamSpec("Arguments")


def print_table(record: Record, selection: Selection | None = None) -> None:
    """Print a record's analysis as a table. A record without runs has none."""
    if not record.view.runs and selection is None:
        return
    document = record.document(selection)
    with named_record(record.path):
        print_document(document, every=selection is not None and selection.every)
    if selection is not None and selection.every and record.view.manifest is not None:
        for certificate in record.view.manifest.image_differences:
            which = " Those that differ, each with its part:" if certificate.differing else ""
            echo(f"\nImages of {plain(certificate.summary())}.{which}")
            for path, part in certificate.differing:
                echo(f"  {plain(path)} ({plain(part)})")


def print_answer(record: Record) -> None:
    """Print the answer of a record and the command that prints more. A record without runs has none."""
    if record.view.runs:
        print_document(Document(answer=record.answer, title=f"More: swapstone show {shlex.quote(str(record.path))}"))


def print_outcomes(
    records: Iterable[Record], fail_if: Sequence[str] = (), ended: Iterable[tuple[Finding, str]] = ()
) -> int:
    """Print on standard error why a command does not end with 0; return the exit status, as `outcome_of_all` has it."""
    results = ((record.analysis(), record.experiment) for record in records)
    worst = outcome_of_all(results, parse_fail_if(fail_if), ended)
    if worst.status:
        sys.stdout.flush()
        echo(f"Exit status {worst.status}: {plain(worst.reason)}", err=True)
    return worst.status


def interruptible(command: Callable[Arguments, int]) -> Callable[Arguments, int]:
    """Return a command that ends with `print_interruption` if a signal ends its experiment or study."""

    @functools.wraps(command)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> int:
        try:
            return command(*args, **kwargs)
        except Interrupted as interrupted:
            return print_interruption(interrupted)

    return run


def print_interruption(interrupted: Interrupted) -> int:
    """Print the table of what was measured, and the command that resumes it; return the exit status."""
    with contextlib.suppress(KeyboardInterrupt):  # a second signal: the table is left out
        if (interrupted.path / "record.json").is_file():  # a study has printed its parts already
            print_table(Record(interrupted.path))
        sys.stdout.flush()
    echo(f"Interrupted. Nothing is lost. Resume with: {as_typed(interrupted.resume)}", err=True)
    return ExitStatus.INTERRUPTED
