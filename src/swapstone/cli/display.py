# SPDX-License-Identifier: MIT OR Apache-2.0
"""Displays progress on standard error: one moving line on a terminal, else a line now and then."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from swapstone.cli.command_name import as_typed
from swapstone.cli.output import echo, plain
from swapstone.cli.printing import print_answer
from swapstone.core.model import Experiment, Trial
from swapstone.core.session.progress import (
    LineProgress,
    Progress,
    TextProgress,
    as_progress,
)
from swapstone.core.session.record_handle import Record

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

WIDE = 90
"""Columns from which the bar is longer."""

_BESIDE = 10
"""Columns of the elapsed time and of the spaces between the columns."""


def display() -> Progress:
    """Return the display that suits standard error. It also prints the answer of each part of a study."""
    return as_progress(TerminalDisplay() if sys.stderr.isatty() else PlainDisplay(print_note))


def print_note(line: str) -> None:
    """Print a line on standard error, with control characters escaped."""
    echo(as_typed(plain(line)), err=True)


class PartDisplay(Progress):
    """Prints the parts of a study on standard output."""

    def part_started(self, number: int, total: int, name: str, title: str) -> None:
        """Print which part starts."""
        echo(f"\nPart {number} of {total}: {name}: {plain(title)}")
        sys.stdout.flush()

    def part_ended(self, state: str, reason: str, record: Path | None) -> None:
        """Print the answer of a part, and its state if a reason is given for it."""
        if record is not None:
            print_answer(Record(record))
        if reason:
            echo(f"{state}: {as_typed(plain(reason))}")


class PlainDisplay(PartDisplay, LineProgress):
    """Lines on standard error, at most one each fifteen seconds for what repeats."""


class TerminalDisplay(PartDisplay, TextProgress):
    """One moving line on standard error while an experiment runs."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console  # noqa: PLC0415 - takes 40 ms with the bar, which few but terminals need

        self._console = console or Console(stderr=True)
        self._bar: Bar | None = None
        self._task: TaskID
        self._bar_width = 16 if self._console.width >= WIDE else 6

    def experiment_started(self, experiment: Experiment, label: str) -> None:
        """Start the moving line: a bar, the elapsed time, and the parts of the text that have room."""
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - as above
        from rich.progress import Progress as Bar  # noqa: PLC0415 - as above
        from rich.table import Column  # noqa: PLC0415 - as above

        super().experiment_started(experiment, label)
        self._bar = Bar(
            BarColumn(bar_width=self._bar_width),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="crop")),
            console=self._console,
            transient=True,
            refresh_per_second=4,
        )
        self._task = self._bar.add_task("starting", total=None)
        self._bar.start()

    def experiment_ended(self) -> None:
        """Remove the moving line."""
        super().experiment_ended()
        if self._bar is not None:
            self._bar.stop()
        self._bar = None

    def note(self, text: str) -> None:
        """Print it, above the moving line if there is one."""
        if self._bar is None:
            print_note(text)
        else:
            self._bar.console.print(as_typed(plain(text)), markup=False, highlight=False, soft_wrap=True)

    def step(self, what: str, done: int, total: int, name: str) -> None:
        """Move the bar through the programs to build, or the workloads to calibrate."""
        if self.text is not None:
            self._move(self.text.step(what, done, total, name), done, total)

    def trial(self, trial: Trial, done: int, total: int) -> None:
        """Move the bar through the budget."""
        if (text := self.text) is None:
            return
        share = min(1.0, text.used_ns / text.budget_ns)
        if text.decision is not None and text.decision.remaining_ns is not None:
            share = text.used_ns / max(1, text.used_ns + text.decision.remaining_ns)
        self._move(text.trial(trial, done, total), share, 1.0)

    def _move(self, text: str, done: float, total: float) -> None:
        if self._bar is not None:
            room = self._console.width - self._bar_width - _BESIDE
            self._bar.update(self._task, total=total, completed=done, description=plain(text)[:room])
