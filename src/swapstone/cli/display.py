"""What a user sees while an experiment runs: one line that moves on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column

from swapstone.model import IDLE, Experiment, Trial
from swapstone.plan.stopping import first_look
from swapstone.run import Look
from swapstone.session.values import format_duration

PLAIN_EVERY_S = 15.0


class Display(Protocol):
    """What both kinds of display have in common: `swapstone.run.Progress`, building, and a context manager."""

    def __enter__(self) -> Self:
        """Start to show."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the line away again."""
        ...

    def note(self, text: str) -> None:
        """Something that stays to be read."""
        ...

    def building(self, done: int, total: int, name: str) -> None:
        """`done` of `total` programs are built; `name` is next."""
        ...

    def calibrating(self, done: int, total: int, workload: str) -> None:
        """`done` of `total` workloads are calibrated."""
        ...

    def trial(self, trial: Trial, done: int, total: int) -> None:
        """A trial starts."""
        ...

    def looked(self, look: Look, block: int, used_ns: int) -> None:
        """A block is finished."""
        ...


def display(experiment: Experiment, part: str = "") -> Display:
    """Return the display that suits standard error: a moving line on a terminal, else plain lines.

    Args:
        experiment: its budget, margin and clock.
        part: which part of a study it is, e.g. ``part 2 of 4``; said before each line.
    """
    return TerminalDisplay(experiment, part) if sys.stderr.isatty() else PlainDisplay(experiment, part)


class _State:
    """What both displays say, as text."""

    def __init__(self, experiment: Experiment, part: str) -> None:
        self.budget_ns = experiment.budget_ns
        self.margin = experiment.margin
        self.part = f"{part}: " if part else ""
        self.unit = "draw" if experiment.virtual else "block"
        self.first = first_look(experiment)
        self.block = 0
        self.used_ns = 0
        self.look: Look | None = None

    def looked(self, look: Look, block: int, used_ns: int) -> None:
        self.look, self.block, self.used_ns = look, block, used_ns

    def precision(self) -> str:
        """Say how tight the intervals are."""
        if self.look is None or self.look.widest is None:
            return f"intervals from {self.unit} {self.first} on, to be within ±{self.margin:.1%}"
        return (
            f"widest interval ±{self.look.widest:.1%} of ±{self.margin:.1%}, {len(self.look.still_open)} workloads open"
        )

    def remaining(self) -> str:
        """Say how much longer it will take."""
        if self.look is not None and self.look.remaining_ns is not None:
            return f"about {format_duration(self.look.remaining_ns)} left"
        return f"at most {format_duration(max(0, self.budget_ns - self.used_ns))} left"

    def where(self, trial: Trial, done: int, total: int) -> str:
        """Say which trial it is."""
        block = f"{self.unit} {trial.block}" if trial.block else "warm-up"
        load = "" if trial.load == IDLE.name else f" under {trial.load}"
        return f"{block}, {done + 1} of {total}: {trial.workload} {trial.variant}{load}"


class PlainDisplay:
    """Lines on standard error, at most one each fifteen seconds."""

    def __init__(self, experiment: Experiment, part: str = "") -> None:
        self._state = _State(experiment, part)
        self._last_s = 0.0

    def __enter__(self) -> Self:
        """Start to show."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to take away."""

    def note(self, text: str) -> None:
        """Say it."""
        self._say(text, always=True)

    def building(self, done: int, total: int, name: str) -> None:
        """Say once that building begins, then now and then how far it is."""
        if done == 0:
            self._say(f"building {total} programs", always=True)
        else:
            self._say(f"building: {done} of {total}" + (f", next {name}" if name else ""))

    def calibrating(self, done: int, total: int, workload: str) -> None:
        """Say once that calibration begins."""
        if done == 0:
            self._say(f"calibrating {total} workloads on the baseline", always=True)
        else:
            self._say(f"calibrating: {done} of {total}" + (f", next {workload}" if workload else ""))

    def trial(self, trial: Trial, done: int, total: int) -> None:
        """Say now and then where it is."""
        self._say(self._state.where(trial, done, total) + f"; {self._state.precision()}; {self._state.remaining()}")

    def looked(self, look: Look, block: int, used_ns: int) -> None:
        """Remember what the look found."""
        self._state.looked(look, block, used_ns)

    def _say(self, text: str, *, always: bool = False) -> None:
        now = time.monotonic()
        if always or now - self._last_s >= PLAIN_EVERY_S:
            self._last_s = now
            print(self._state.part + text, file=sys.stderr, flush=True)  # noqa: T201 - cli prints


class TerminalDisplay:
    """One moving line on standard error."""

    def __init__(self, experiment: Experiment, part: str = "") -> None:
        self._state = _State(experiment, part)
        self._progress = Progress(
            BarColumn(bar_width=20),
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
            console=Console(stderr=True),
            transient=True,
            refresh_per_second=4,
        )
        self._task: TaskID = self._progress.add_task("starting", total=None)

    def __enter__(self) -> Self:
        """Start to show."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the line away again."""
        self._progress.stop()

    def note(self, text: str) -> None:
        """Print it above the moving line."""
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def building(self, done: int, total: int, name: str) -> None:
        """Move the bar through the programs to build."""
        self._progress.update(self._task, total=total, completed=done, description=f"{self._state.part}building {name}")

    def calibrating(self, done: int, total: int, workload: str) -> None:
        """Move the bar through the workloads to calibrate."""
        self._progress.update(
            self._task, total=total, completed=done, description=f"{self._state.part}calibrating {workload}"
        )

    def trial(self, trial: Trial, done: int, total: int) -> None:
        """Move the bar through the budget."""
        share = min(1.0, self._state.used_ns / self._state.budget_ns)
        if self._state.look is not None and self._state.look.remaining_ns is not None:
            share = self._state.used_ns / max(1, self._state.used_ns + self._state.look.remaining_ns)
        where = self._state.where(trial, done, total)
        text = f"{self._state.part}{self._state.remaining()} · {self._state.precision()} · {where}"
        self._progress.update(self._task, total=1.0, completed=share, description=text)

    def looked(self, look: Look, block: int, used_ns: int) -> None:
        """Remember what the look found."""
        self._state.looked(look, block, used_ns)
