"""Prints tables of records and of studies: coloured and as wide as the terminal on a terminal, else plain."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass

import click

from swapstone.cli.tables import plain
from swapstone.report import text
from swapstone.session.experiment import Interrupted
from swapstone.session.record_handle import Record

PIPED_WIDTH = 120
EXIT_INTERRUPT = 130


@dataclass(frozen=True)
class OutputStyle:
    """How standard output is printed to."""

    terminal: bool
    width: int
    colour: bool
    ascii_only: bool


def output_style() -> OutputStyle:
    """Return the style that suits standard output."""
    terminal = sys.stdout.isatty()
    return OutputStyle(
        terminal=terminal,
        width=shutil.get_terminal_size().columns if terminal else PIPED_WIDTH,
        colour=terminal and not os.environ.get("NO_COLOR"),
        ascii_only="utf" not in (sys.stdout.encoding or "").lower(),
    )


def print_styled(content: str, style: OutputStyle) -> None:
    """Print text that may hold escape sequences for colours."""
    click.echo(content, nl=False, color=True if style.terminal else None)


def print_table(record: Record, selection: text.Selection | None = None) -> None:
    """Print a record's analysis as a table. A record without runs has none."""
    if not record.view.runs and selection is None:
        return
    style = output_style()
    rendered = text.render(
        record.context(),
        record.analysis(),
        width=style.width,
        colour=style.colour,
        selection=selection,
        ascii_only=style.ascii_only,
    )
    print_styled(rendered, style)
    if selection is not None and selection.every and record.view.manifest is not None:
        for certificate in record.view.manifest.image_differences:
            click.echo(f"\nImages of {plain(certificate.summary())}. Those that differ, each with its part:")
            for path, part in certificate.differing:
                click.echo(f"  {plain(path)} ({plain(part)})")


def print_interruption(interrupted: Interrupted) -> int:
    """Print the table of what was measured, and the command that resumes it; return the exit status."""
    if (interrupted.path / "record.json").is_file():  # a study has printed its parts already
        print_table(Record(interrupted.path))
    sys.stdout.flush()
    click.echo(f"Interrupted. Nothing is lost. Resume with: {interrupted.resume}", err=True)
    return EXIT_INTERRUPT
