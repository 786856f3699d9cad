# SPDX-License-Identifier: MIT OR Apache-2.0
"""What happens during an experiment or a study, as events for a display or a log."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from swapstone.core.model import IDLE, Experiment, Run, Trial
from swapstone.core.model.announcement import RECEIVER
from swapstone.core.model.experiment import WAKEUP_INTERVAL_US
from swapstone.core.model.number_text import percent, quantity
from swapstone.core.plan.stopping import StopDecision, first_block
from swapstone.core.session.option_values import format_duration
from swapstone.core.session.precision_stop import first_decisive_look
from swapstone.core.workloads import workloads_by_name

MESSAGE_INTERVAL_S = 15.0

_FIRST_FIGURES = 8
"""So many runs of a first replicate are printed."""


_LEAST_STEPS, _ALIKE = 4, 1.5
"""The time that other programs, or workloads, take follows from so many, of which both halves took as long, within this factor."""


class Progress:
    """Receives the events of an experiment or a study, and ignores them. Override those to handle."""

    def note(self, text: str) -> None:
        """Receive a message that stays relevant, such as a budget that is too small."""

    def experiment_started(self, experiment: Experiment, label: str) -> None:
        """An experiment starts. In a study, `label` is e.g. ``part 2 of 4``; else it is empty."""

    def building(self, done: int, total: int, name: str) -> None:
        """`done` of `total` programs are built; `name` is next."""

    def calibrating(self, done: int, total: int, workload: str) -> None:
        """`done` of `total` workloads are calibrated; `workload` is next."""

    def trial(self, trial: Trial, done: int, total: int) -> None:
        """A trial starts; `done` of the `total` trials of its block are complete."""

    def measured(self, run: Run) -> None:
        """A trial ended, and its run is in the record."""

    def block_done(self, decision: StopDecision, block: int, used_ns: int) -> None:
        """Block number `block` is complete, and `used_ns` of the budget are used."""

    def experiment_ended(self) -> None:
        """The experiment ended, or an error or a signal ended it."""

    def part_started(self, number: int, total: int, name: str, title: str) -> None:
        """Part `number` of the `total` parts of a study starts."""

    def part_ended(self, state: str, reason: str, record: Path | None) -> None:
        """The part ended in `state`; `record` is the folder of its record if this session changed it."""


NO_PROGRESS = Progress()

ProgressLike: TypeAlias = Progress | Callable[[str], None] | None
"""A `Progress`, a function that receives lines of text, or None."""


class ProgressText:
    """Describes the state of an experiment in a line, for displays: what matters most comes first."""

    def __init__(self, experiment: Experiment, label: str = "") -> None:
        self.experiment = experiment
        self.budget_ns = experiment.budget_ns
        self.trial_ns = 0 if experiment.virtual else experiment.wakeups * WAKEUP_INTERVAL_US * 1000
        self.rows = len(experiment.workloads) * len(experiment.loads)
        self.label = label
        self.unit = "replicate" if experiment.virtual else "block"
        self.first = first_decisive_look(experiment)
        self.block = 0
        self.used_ns = 0
        self.decision: StopDecision | None = None
        self._began_ns = 0
        """When the last block ended, or the first trial began: what is built before has no part of the budget."""
        self._step = ""
        self._step_ends_s: list[float] = []
        self._workloads = workloads_by_name(experiment) if experiment.virtual else {}
        self._figures = 0

    def block_done(self, decision: StopDecision, block: int, used_ns: int) -> None:
        """Store the last decision."""
        self.decision, self.block, self.used_ns = decision, block, used_ns
        self.budget_ns = decision.budget_ns or self.budget_ns
        self._began_ns = time.monotonic_ns()

    def trial(self, trial: Trial, done: int, total: int) -> str:
        """Describe a trial: remaining time, state of knowledge, block, place in the block, what runs, the widest interval."""
        load = "" if trial.load == IDLE.name else f" under {trial.load}"
        of = f" of {self.experiment.blocks}" if self.experiment.blocks else ""
        texts = [
            self.label,
            self._remaining(trial, done, total),
            self.knowledge(),
            f"{self.unit} {trial.block}{of}" if trial.block else "warm-up",
            f"trial {done + 1} of {total}",
            f"{trial.workload} {trial.variant}{load}",
        ]
        if self.decision is not None and self.decision.widest is not None and not self.experiment.blocks:
            texts.append(f"widest interval ±{percent(self.decision.widest)} of ±{percent(self.experiment.margin)}")
        return "; ".join(filter(None, texts))

    def figures(self, run: Run) -> str:
        """Return what a run of a first replicate measured, which is exact: of the metrics that decide. Empty for other runs."""
        if (
            not self.experiment.virtual
            or run.trial.block > first_block(self.experiment)
            or self._figures == _FIRST_FIGURES
        ):
            return ""
        self._figures += 1
        units = {each.name: each.unit for each in self._workloads[run.trial.workload].metrics if each.leads}
        values = {each.metric: statistics.median(each.values) for each in run.samples if each.metric in units}
        shown = ", ".join(f"{name} {quantity(value, units[name])}" for name, value in values.items())
        return f"First replicate: {run.trial.workload} {run.trial.variant} {run.trial.load}: {shown or run.reason}"

    def step(self, what: str, done: int, total: int, name: str) -> str:
        """Describe a step before measuring: what, how many of how many, the remaining time, and the next one.

        Args:
            what: e.g. ``building``.
            done: how many are complete.
            total: of how many.
            name: of the next one; may be empty.
        """
        now = time.monotonic()
        if what != self._step or done == 0:
            self._step, self._step_ends_s = what, [now]
        self._step_ends_s += [now] * (done + 1 - len(self._step_ends_s))
        ends, half, left = self._step_ends_s, done // 2, ""
        early_s, late_s = ends[half] - ends[0], ends[done] - ends[done - half]
        # A program that was built before takes no time, and a network stack minutes: how long others take is not known from them.
        if _LEAST_STEPS <= done < total and now - ends[0] > 1 and max(early_s, late_s) <= _ALIKE * min(early_s, late_s):
            left = f"about {format_duration(round((now - ends[0]) / done * (total - done) * 1e9))} left"
        return "; ".join(filter(None, (self.label, f"{what} {min(done + 1, total)} of {total}", left, name)))

    def _remaining(self, trial: Trial, done: int, total: int) -> str:
        """Return the estimate of the last decision, which counts down; before the first one, what is known is the budget."""
        if self.trial_ns and not self.experiment.timed and trial.block <= self.experiment.blocks:
            return f"about {format_duration(((self.experiment.blocks - trial.block + 1) * total - done) * self.trial_ns)} left"
        self._began_ns = self._began_ns or time.monotonic_ns()
        elapsed_ns = time.monotonic_ns() - self._began_ns
        if self.decision is not None and self.decision.remaining_ns is not None:
            left_ns, text = self.decision.remaining_ns - elapsed_ns, "about {} left"
            most_ns = self.budget_ns - self.used_ns - elapsed_ns
            if self.decision.decided is None and not self.experiment.blocks and most_ns > left_ns > 0:
                text = f"{{}} to {format_duration(most_ns)} left"  # how many blocks follow the first check is not known
        elif not self.experiment.timed:
            return ""
        else:
            left_ns = self.budget_ns - self.used_ns - elapsed_ns
            text = "about {} left, or longer" if self.experiment.budget_extends else "at most {} left"
            # The first block is completed, however long it takes. How long a machine's trials take is known after one of them.
            if (block_ns := elapsed_ns * (total - done) // max(1, done)) > left_ns and done:
                return f"about {format_duration(block_ns)} left of the first {self.unit}"
            if self.experiment.virtual and not done:
                return ""
        # A block that has begun is completed, and the runs on which the estimate depends may have been stored ones.
        return text.format(format_duration(left_ns)) if left_ns >= 0 else "longer than estimated"

    def knowledge(self) -> str:
        """Return how many rows have a verdict now, or when verdicts are first computed."""
        if self.decision is None or self.decision.decided is None:
            return (
                "verdicts at the end"
                if self._ends_before(self.first)
                else f"first verdicts after {self.unit} {self.first}"
            )
        return f"{self.decision.decided} of {'1 row' if self.rows == 1 else f'{self.rows} rows'} decided"

    def _ends_before(self, block: int) -> bool:
        """Return whether measuring ends before a block, as it looks now."""
        if self.experiment.blocks:  # then precision is not checked
            return True
        if self.decision is None or not self.decision.next_ns:
            return False
        return self.block + (self.budget_ns - self.used_ns) // self.decision.next_ns < block


class TextProgress(Progress):
    """Describes the experiment that runs in texts. A subclass shows them: `step`, and `trial`.

    Attributes:
        text: describes the experiment; None between experiments.
    """

    text: ProgressText | None = None

    def experiment_started(self, experiment: Experiment, label: str) -> None:
        """Store what the texts of this experiment need."""
        self.text = ProgressText(experiment, label)

    def building(self, done: int, total: int, name: str) -> None:
        """Show how many programs are built, or unpacked and examined, if they are the user's and built already."""
        own = self.text.experiment.own if self.text is not None else None
        self.step("building" if own is None or own.build else "preparing", done, total, name)

    def calibrating(self, done: int, total: int, workload: str) -> None:
        """Show how many workloads are calibrated."""
        self.step("calibrating", done, total, workload)

    def step(self, what: str, done: int, total: int, name: str) -> None:
        """Show a step before measuring; arguments as `ProgressText.step`."""

    def measured(self, run: Run) -> None:
        """Note what the first runs of a first replicate measured."""
        if self.text is not None and (figures := self.text.figures(run)):
            self.note(figures)

    def block_done(self, decision: StopDecision, block: int, used_ns: int) -> None:
        """Store the decision."""
        if self.text is not None:
            self.text.block_done(decision, block, used_ns)

    def experiment_ended(self) -> None:
        """Forget the experiment."""
        self.text = None


_STEPS = {"building": ("program", ""), "preparing": ("program", ""), "calibrating": ("workload", " on the baseline")}
"""For each step before measuring, of what."""


class LineProgress(TextProgress):
    """Turns events into lines of text, with at most one line of each 15 seconds for those that repeat.

    Args:
        write: receives each line, without a newline.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._last_s = 0.0

    def note(self, text: str) -> None:
        """Write the note."""
        self._line(text, always=True)

    def step(self, what: str, done: int, total: int, name: str) -> None:
        """Write a line when a step starts, and repeatedly how far it is."""
        text = self.text.step(what, done, total, name) if self.text is not None else ""
        if not done or done < total:
            noun, where = _STEPS[what]
            self._line(text if done else f"{what} {total} {noun}{'s' * (total != 1)}{where}", always=done == 0)

    def trial(self, trial: Trial, done: int, total: int) -> None:
        """Write repeatedly the remaining time, the rows that are decided, and the trial."""
        if self.text is not None and self._due():
            self._line(self.text.trial(trial, done, total))

    def part_started(self, number: int, total: int, name: str, title: str) -> None:
        """Write which part starts."""
        self._line(f"part {number} of {total}: {name}: {title}", always=True)

    def _due(self) -> bool:
        return time.monotonic() - self._last_s >= MESSAGE_INTERVAL_S

    def _line(self, text: str, *, always: bool = False) -> None:
        if always or self._due():
            self._last_s = time.monotonic()
            label = self.text.label if self.text else ""
            self._write(text if not label or text.startswith(f"{label};") else f"{label}: {text}")


def as_progress(progress: ProgressLike) -> Progress:
    """Return the receiver of events that a caller passed as a `Progress`, a function or None; it gets announced acts, too."""
    if progress is None:
        progress = NO_PROGRESS
    elif callable(progress):
        progress = LineProgress(progress)
    RECEIVER.set(progress.note)
    return progress
