# SPDX-License-Identifier: MIT OR Apache-2.0
"""What happens during an experiment or a study, as events for a display or a log."""

from __future__ import annotations

import dataclasses
import re
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from rich.cells import cell_len

from swapstone.core.model import IDLE, Experiment, Trial
from swapstone.core.model.experiment import WAKEUP_INTERVAL_US
from swapstone.core.model.number_text import percent
from swapstone.core.plan.stop_decision import StopDecision
from swapstone.core.session.budget import first_decisive_look
from swapstone.core.session.time_left import TimeLeft
from swapstone.core.session.values import format_duration

__all__ = [
    "LONGEST_SILENCE_S",
    "MESSAGE_INTERVAL_S",
    "NO_PROGRESS",
    "LineProgress",
    "NullProgress",
    "Part",
    "Progress",
    "ProgressLike",
    "ProgressText",
    "StopDecision",
    "as_progress",
    "fitted",
]

MESSAGE_INTERVAL_S = 15.0
LONGEST_SILENCE_S = 60.0
_TIME_LEFT = re.compile("; (about|at most|less than|~|<=?)[^;]* left(, or longer)?(?=;|$)")
"""An estimate in a line: it is not repeated, because it gets older."""

LINE_WIDTH = 160
"""Of a line that is not on a terminal."""


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


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a line of progress.

    Attributes:
        rank: parts of a lower rank are printed first where there is little room.
        texts: the same from long to short; a part is printed whole or not at all.
    """

    rank: int
    texts: tuple[str, ...]


def fitted(parts: Sequence[Part], width: int, separator: str = " · ") -> str:
    """Return the parts that fit in a line, in their order, each in the longest form that leaves room for the more important ones.

    Args:
        parts: in the order of the line.
        width: columns.
        separator: between two parts.
    """
    chosen: dict[int, int] = {}

    def text(forms: dict[int, int]) -> str:
        return separator.join(parts[number].texts[form] for number, form in sorted(forms.items()))

    ranked = sorted(range(len(parts)), key=lambda number: parts[number].rank)
    for number in ranked:
        shortest = {**chosen, number: len(parts[number].texts) - 1}
        if cell_len(text(shortest)) <= width:
            chosen = shortest
    for number in ranked:
        for form in range(len(parts[number].texts)):
            if number in chosen and cell_len(text({**chosen, number: form})) <= width:
                chosen[number] = form
                break
    return text(chosen)


class ProgressText:
    """Describes the state of an experiment in a few words, for displays."""

    def __init__(self, experiment: Experiment, label: str = "") -> None:
        self.budget_ns = experiment.budget_ns
        self.blocks = experiment.blocks
        self.trial_ns = 0 if experiment.virtual else experiment.wakeups * WAKEUP_INTERVAL_US * 1000
        self.margin = experiment.margin
        self.rows = len(experiment.workloads) * len(experiment.loads)
        self.label = label
        self.prefix = f"{label}: " if label else ""
        self.unit = "replicate" if experiment.virtual else "block"
        self.first = first_decisive_look(experiment)
        self.extends = experiment.budget_extends
        self.block = 0
        self.used_ns = 0
        self.decision: StopDecision | None = None
        self._time_left = TimeLeft()
        self._step = ""
        self._step_began_s = 0.0

    def block_done(self, decision: StopDecision, block: int, used_ns: int) -> None:
        """Store the last decision."""
        self.decision, self.block, self.used_ns = decision, block, used_ns
        self.budget_ns = decision.budget_ns or self.budget_ns
        self._time_left.decided(decision, max(0, self.budget_ns - used_ns))

    def trial(self, trial: Trial, done: int, total: int) -> tuple[Part, ...]:
        """Return the parts that describe a trial: remaining time, state of knowledge, block, place in the block, what runs."""
        load = "" if trial.load == IDLE.name else f" under {trial.load}"
        return (
            *self._label(),
            Part(1, self._remaining(trial, done, total)),
            Part(2, self.knowledge()),
            *self._length(),
            Part(4, self._block(trial)),
            Part(5, (f"trial {done + 1} of {total}", f"{done + 1}/{total}")),
            Part(6, (f"{trial.workload} {trial.variant}{load}", trial.workload)),
            *self._width(),
        )

    def step(self, what: str, done: int, total: int, name: str) -> tuple[Part, ...]:
        """Return the parts that describe a step before measuring: what, how many of how many, the remaining time, and the next one.

        Args:
            what: e.g. ``building``.
            done: how many are complete.
            total: of how many.
            name: of the next one; may be empty.
        """
        now = time.monotonic()
        if what != self._step or done == 0:
            self._step, self._step_began_s = what, now
        count = Part(1, (f"{what} {min(done + 1, total)} of {total}", f"{what} {min(done + 1, total)}/{total}"))
        parts = [*self._label(), count]
        if 0 < done < total and (took_s := now - self._step_began_s) > 1:
            left = format_duration(round(took_s / done * (total - done) * 1e9))
            parts.append(Part(2, (f"about {left} left", f"~{left} left")))
        return (*parts, Part(4, (name, name.partition(" ")[0]))) if name else tuple(parts)

    def _label(self) -> tuple[Part, ...]:
        return (Part(3, (self.label, self.label.replace(" of ", "/"))),) if self.label else ()

    def _length(self) -> tuple[Part, ...]:
        """Return the part that states how long a trial with a chosen number of wake-ups takes."""
        return (Part(3, (f"each trial takes {format_duration(self.trial_ns)}",)),) if self.trial_ns else ()

    def _remaining(self, trial: Trial, done: int, total: int) -> tuple[str, ...]:
        if self.trial_ns and self.blocks and trial.block <= self.blocks:
            trials = (self.blocks - trial.block) * total + total - done
            left = format_duration(trials * self.trial_ns)
            return f"about {left} left", f"~{left} left"
        estimate_ns = self._time_left.estimate_ns(trial.block, done, total)
        if estimate_ns is not None:
            return _about(estimate_ns)
        # What is known is the budget; a block that it does not hold is ended nevertheless.
        budget_ns = self.budget_ns - self.used_ns - self._time_left.elapsed_ns(trial.block, done)
        if (rest_ns := self._time_left.block_ns(trial.block, done, total)) > budget_ns:
            return _about(rest_ns)
        left = format_duration(budget_ns)
        if self.extends:
            return f"about {left} left, or longer", f"~{left} left"
        return f"at most {left} left", f"<={left} left"

    def knowledge(self) -> tuple[str, ...]:
        """Return how many rows have a verdict now, or when verdicts are first computed."""
        decision = self.decision
        if decision is None or decision.decided is None:
            if self._ends_before(self.first):
                return "verdicts at the end", "verdicts at end"
            first = f"{self.unit} {self.first}"
            return f"first verdicts after {first}", f"verdicts from {first}"
        rows = "1 row" if self.rows == 1 else f"{self.rows} rows"
        return f"{decision.decided} of {rows} decided", f"{decision.decided}/{self.rows} decided"

    def _ends_before(self, block: int) -> bool:
        """Return whether measuring ends before a block, as it looks now."""
        if self.blocks:
            return self.blocks < block
        if self.decision is None or not self.decision.next_ns:
            return False
        return self.block + (self.budget_ns - self.used_ns) // self.decision.next_ns < block

    def _block(self, trial: Trial) -> tuple[str, ...]:
        if not trial.block:
            return ("warm-up",)
        of = f" of {self.blocks}" if self.blocks else ""
        return f"{self.unit} {trial.block}{of}", f"{self.unit} {trial.block}"

    def _width(self) -> tuple[Part, ...]:
        if self.decision is None or self.decision.widest is None or self.blocks:
            return ()
        return (Part(7, (f"widest interval ±{percent(self.decision.widest)} of ±{percent(self.margin)}",)),)


def _about(nanoseconds: int) -> tuple[str, ...]:
    left = format_duration(nanoseconds) if nanoseconds >= 10**9 else "1 s"
    about = "about" if nanoseconds >= 10**9 else "less than"
    return f"{about} {left} left", f"{'~' if about == 'about' else '<'}{left} left"


class LineProgress(NullProgress):
    """Turns events into lines of text, with at most one line of each 15 seconds for those that repeat.

    Args:
        write: receives each line, without a newline.
        silence_s: after this long without a line the last one is written again, from another thread: a download, a build or the boot of a
            machine has no events; 0 for never.
    """

    def __init__(self, write: Callable[[str], None], silence_s: float = 0.0) -> None:
        self._write = write
        self._silence_s = silence_s
        self._last = ""
        self._written = threading.Event()
        self._watch: threading.Thread | None = None
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
        self._step("building", "programs", done, total, name)

    def calibrating(self, done: int, total: int, workload: str) -> None:
        """Write a line when calibration starts, and repeatedly how many workloads are calibrated."""
        self._step("calibrating", "workloads on the baseline", done, total, workload)

    def _step(self, what: str, things: str, done: int, total: int, name: str) -> None:
        parts = self._text.step(what, done, total, name) if self._text is not None else ()
        if done == 0:
            self._line(f"{what} {total} {things}", always=True)
        elif done < total:
            self._line(fitted(parts, LINE_WIDTH, "; "))

    def trial(self, trial: Trial, done: int, total: int) -> None:
        """Write repeatedly the remaining time, the rows that are decided, and the trial."""
        if self._text is not None and self._due():
            self._line(fitted(self._text.trial(trial, done, total), LINE_WIDTH, "; "))

    def block_done(self, decision: StopDecision, block: int, used_ns: int) -> None:
        """Store the decision."""
        if self._text is not None:
            self._text.block_done(decision, block, used_ns)

    def experiment_ended(self) -> None:
        """Forget the experiment, and repeat no line: what follows is short."""
        self._text = None
        self._last = ""

    def part_started(self, number: int, total: int, name: str, title: str) -> None:
        """Write which part starts."""
        self._line(f"part {number} of {total}: {name}: {title}", always=True)

    def _due(self) -> bool:
        return time.monotonic() - self._last_s >= MESSAGE_INTERVAL_S

    def _line(self, text: str, *, always: bool = False) -> None:
        if always or self._due():
            self._last_s = time.monotonic()
            prefix = self._text.prefix if self._text and not text.startswith(self._text.label + ";") else ""
            self._last = prefix + text
            self._write(self._last)
            self._written.set()
            if self._watch is None and self._silence_s:
                self._watch = threading.Thread(target=self._repeat, daemon=True)
                self._watch.start()

    def _repeat(self) -> None:
        began_s = time.monotonic()
        while True:
            if self._written.wait(self._silence_s):
                self._written.clear()
                began_s = time.monotonic()
            elif self._last:
                took = format_duration(round((time.monotonic() - began_s) * 1e9))
                self._write(f"still running, {took} after: {_TIME_LEFT.sub('', self._last)}")


def as_progress(progress: ProgressLike) -> Progress:
    """Return the receiver of events that a caller passed as a `Progress`, a function or None."""
    if progress is None:
        return NO_PROGRESS
    if callable(progress):
        return LineProgress(progress)
    return progress
