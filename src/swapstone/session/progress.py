# SPDX-License-Identifier: MIT OR Apache-2.0
"""What happens during an experiment or a study, as events for a display or a log."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeAlias

from swapstone.model import IDLE, Experiment, Trial
from swapstone.plan.stopping import first_look
from swapstone.run import StopDecision
from swapstone.session.values import format_duration

__all__ = [
    "MESSAGE_INTERVAL_S",
    "NO_PROGRESS",
    "LineProgress",
    "NullProgress",
    "Progress",
    "ProgressLike",
    "ProgressText",
    "StopDecision",
    "as_progress",
]

MESSAGE_INTERVAL_S = 15.0


class Progress(Protocol):
    """Receives the events of an experiment or a study. Subclass `NullProgress` to handle only some of them."""

    def note(self, text: str) -> None:
        """Receive a message that stays relevant, such as a budget that is too small."""
        ...

    def experiment_started(self, experiment: Experiment, label: str) -> None:
        """An experiment starts. In a study, `label` is e.g. ``part 2 of 4``; else it is empty."""
        ...

    def building(self, done: int, total: int, name: str) -> None:
        """`done` of `total` programs are built; `name` is next."""
        ...

    def calibrating(self, done: int, total: int, workload: str) -> None:
        """`done` of `total` workloads are calibrated; `workload` is next."""
        ...

    def trial(self, trial: Trial, done: int, total: int) -> None:
        """A trial starts; `done` of the `total` trials of its block are complete."""
        ...

    def block_done(self, decision: StopDecision, block: int, used_ns: int) -> None:
        """Block number `block` is complete, and `used_ns` of the budget are used."""
        ...

    def experiment_ended(self) -> None:
        """The experiment ended, or an error or a signal ended it."""
        ...

    def part_started(self, number: int, total: int, name: str, title: str) -> None:
        """Part `number` of the `total` parts of a study starts."""
        ...

    def part_ended(self, state: str, reason: str, record: Path | None) -> None:
        """The part ended in `state`; `record` is the folder of its record if this session changed it."""
        ...


class NullProgress:
    """Ignores every event."""

    def note(self, text: str) -> None:
        """Ignore it."""

    def experiment_started(self, experiment: Experiment, label: str) -> None:
        """Ignore it."""

    def building(self, done: int, total: int, name: str) -> None:
        """Ignore it."""

    def calibrating(self, done: int, total: int, workload: str) -> None:
        """Ignore it."""

    def trial(self, trial: Trial, done: int, total: int) -> None:
        """Ignore it."""

    def block_done(self, decision: StopDecision, block: int, used_ns: int) -> None:
        """Ignore it."""

    def experiment_ended(self) -> None:
        """Ignore it."""

    def part_started(self, number: int, total: int, name: str, title: str) -> None:
        """Ignore it."""

    def part_ended(self, state: str, reason: str, record: Path | None) -> None:
        """Ignore it."""


NO_PROGRESS = NullProgress()

ProgressLike: TypeAlias = Progress | Callable[[str], None] | None
"""A `Progress`, a function that receives lines of text, or None."""


class ProgressText:
    """Describes the state of an experiment in a few words, for displays."""

    def __init__(self, experiment: Experiment, label: str = "") -> None:
        self.budget_ns = experiment.budget_ns
        self.margin = experiment.margin
        self.prefix = f"{label}: " if label else ""
        self.unit = "replicate" if experiment.virtual else "block"
        self.first = first_look(experiment)
        self.block = 0
        self.used_ns = 0
        self.decision: StopDecision | None = None

    def block_done(self, decision: StopDecision, block: int, used_ns: int) -> None:
        """Store the last decision."""
        self.decision, self.block, self.used_ns = decision, block, used_ns

    def precision(self) -> str:
        """Return the width of the widest interval, or when intervals are first computed."""
        if self.decision is None or self.decision.widest is None:
            return f"intervals from {self.unit} {self.first} on, to be within ±{self.margin:.1%}"
        return f"widest interval ±{self.decision.widest:.1%} of ±{self.margin:.1%}, {len(self.decision.still_open)} workloads open"

    def remaining(self) -> str:
        """Return the estimated remaining time."""
        if self.decision is not None and self.decision.remaining_ns is not None:
            return f"about {format_duration(self.decision.remaining_ns)} left"
        return f"at most {format_duration(max(0, self.budget_ns - self.used_ns))} left"

    def position(self, trial: Trial, done: int, total: int) -> str:
        """Return the block, the number and the name of a trial."""
        block = f"{self.unit} {trial.block}" if trial.block else "warm-up"
        load = "" if trial.load == IDLE.name else f" under {trial.load}"
        return f"{block}, {done + 1} of {total}: {trial.workload} {trial.variant}{load}"


class LineProgress(NullProgress):
    """Turns events into lines of text, with at most one line of each 15 seconds for those that repeat.

    Args:
        write: receives each line, without a newline.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._text: ProgressText | None = None
        self._last_s = 0.0

    def note(self, text: str) -> None:
        """Write the note."""
        self._line(text, always=True)

    def experiment_started(self, experiment: Experiment, label: str) -> None:
        """Store what the lines of this experiment need."""
        self._text = ProgressText(experiment, label)

    def building(self, done: int, total: int, name: str) -> None:
        """Write a line when building starts, and repeatedly how many programs are built."""
        if done == 0:
            self._line(f"building {total} programs", always=True)
        else:
            self._line(f"building: {done} of {total}" + (f", next {name}" if name else ""))

    def calibrating(self, done: int, total: int, workload: str) -> None:
        """Write a line when calibration starts, and repeatedly how many workloads are calibrated."""
        if done == 0:
            self._line(f"calibrating {total} workloads on the baseline", always=True)
        else:
            self._line(f"calibrating: {done} of {total}" + (f", next {workload}" if workload else ""))

    def trial(self, trial: Trial, done: int, total: int) -> None:
        """Write repeatedly the trial, the precision and the remaining time."""
        if self._text is not None:
            text = self._text
            self._line(f"{text.position(trial, done, total)}; {text.precision()}; {text.remaining()}")

    def block_done(self, decision: StopDecision, block: int, used_ns: int) -> None:
        """Store the decision."""
        if self._text is not None:
            self._text.block_done(decision, block, used_ns)

    def experiment_ended(self) -> None:
        """Forget the experiment."""
        self._text = None

    def part_started(self, number: int, total: int, name: str, title: str) -> None:
        """Write which part starts."""
        self._line(f"part {number} of {total}: {name}: {title}", always=True)

    def _line(self, text: str, *, always: bool = False) -> None:
        now = time.monotonic()
        if always or now - self._last_s >= MESSAGE_INTERVAL_S:
            self._last_s = now
            self._write((self._text.prefix if self._text else "") + text)


def as_progress(progress: ProgressLike) -> Progress:
    """Return the receiver of events that a caller passed as a `Progress`, a function or None."""
    if progress is None:
        return NO_PROGRESS
    if callable(progress):
        return LineProgress(progress)
    return progress
