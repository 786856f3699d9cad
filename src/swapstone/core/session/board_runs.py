# SPDX-License-Identifier: MIT OR Apache-2.0
"""An experiment on several boards, interleaved by block: block 1 on each board, then block 2 on each. Every board has its own record."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from swapstone.core.model import Experiment, Trial, UserError, WorkSpec
from swapstone.core.model.run_sharing import RunSharing
from swapstone.core.model.safe_text import safe
from swapstone.core.plan.stop_decision import StopDecision
from swapstone.core.run import Steps, stop
from swapstone.core.session.agreement_output import records_of
from swapstone.core.session.experiment import resume_by_block
from swapstone.core.session.interrupted import Interrupted
from swapstone.core.session.outcome import check_fail_if, parse_fail_if
from swapstone.core.session.progress import NullProgress, Progress
from swapstone.core.session.record_handle import Record
from swapstone.core.session.run_options import RunOptions, parse_sharing
from swapstone.core.session.values import Duration, duration_ns, duration_seconds
from swapstone.core.session.works import works_of

StartBoard = Callable[[Progress], Steps[Path]]
"""Begins the experiment of a board, whose events the argument receives."""

_BEFORE_BLOCKS = 2
"""Steps of a board before its first block: its target is opened; its programs are built and calibrated."""


class _BoardProgress(NullProgress):
    """Passes the events of one board on, between `proceed` and `pause`."""

    def __init__(self, progress: Progress, label: str) -> None:
        self._progress = progress
        self._label = label
        self._experiment: Experiment | None = None
        self._last: tuple[StopDecision, int, int] | None = None

    def proceed(self) -> None:
        """Show the experiment again, as it was at its last pause."""
        if self._experiment is not None:
            self._progress.experiment_started(self._experiment, self._label)
            if self._last is not None:
                self._progress.block_done(*self._last)

    def pause(self) -> None:
        """Leave the display to another board."""
        if self._experiment is not None:
            self._progress.experiment_ended()

    def note(self, text: str) -> None:
        """Pass it on."""
        self._progress.note(text)

    def experiment_started(self, experiment: Experiment, label: str) -> None:
        """Pass it on, with the board's label."""
        del label
        self._experiment = experiment
        self._progress.experiment_started(experiment, self._label)

    def building(self, done: int, total: int, name: str) -> None:
        """Pass it on."""
        self._progress.building(done, total, name)

    def calibrating(self, done: int, total: int, workload: str) -> None:
        """Pass it on."""
        self._progress.calibrating(done, total, workload)

    def trial(self, trial: Trial, done: int, total: int) -> None:
        """Pass it on."""
        self._progress.trial(trial, done, total)

    def block_done(self, decision: StopDecision, block: int, used_ns: int) -> None:
        """Pass it on."""
        self._last = decision, block, used_ns
        self._progress.block_done(decision, block, used_ns)

    def experiment_ended(self) -> None:
        """Pass it on."""
        self._experiment = None
        self._progress.experiment_ended()


class _Board:
    """One board, whose experiment runs step by step."""

    def __init__(self, name: str, label: str, start: StartBoard, progress: Progress) -> None:
        self.name = name
        self.label = label
        self.record: Path | None = None
        self.error: UserError | None = None
        self.interrupted: Interrupted | None = None
        self._progress = _BoardProgress(progress, label)
        self._steps = start(self._progress)

    @property
    def ended(self) -> bool:
        """Whether the experiment has ended: it returned, or raised an error."""
        return inspect.getgeneratorstate(self._steps) == inspect.GEN_CLOSED

    def step(self) -> None:
        """Run the next step."""
        self._progress.proceed()
        try:
            next(self._steps)
        except StopIteration as end:
            self.record = end.value
        except Interrupted as interrupted:
            self.interrupted = interrupted
            raise
        self._progress.pause()

    def end(self) -> None:
        """End the experiment as a signal would, and keep what was measured."""
        if self.ended:
            return
        with contextlib.suppress(UserError):
            try:
                self.record = stop(self._steps, KeyboardInterrupt())
            except Interrupted as interrupted:
                self.interrupted = interrupted
            except KeyboardInterrupt:
                pass  # before there was a record


def _works(record: Record) -> Iterable[WorkSpec]:
    return works_of(record.view).values()


def run_boards(boards: Mapping[str, StartBoard], progress: Progress, out: Path | None = None) -> list[Path]:
    """Run an experiment on several boards, a block on each of them in turn.

    All boards are opened before the first record is created, and prepared before the first block. An error until then ends the whole
    experiment. A board that fails later ends alone: the others continue to their end, and then its error is raised.

    Args:
        boards: what begins the experiment of each, by the name of its target.
        progress: receives events.
        out: the folder of the records; None if they have no common one.

    Returns:
        The folder of each board's record.

    Raises:
        UserError: the experiment can't run on a board.
        Interrupted: a signal ended it; the records are sealed.
    """
    count = len(boards)
    every = [
        _Board(name, f"board {number} of {count}", start, progress)
        for number, (name, start) in enumerate(boards.items(), start=1)
    ]
    try:
        for round_number in itertools.count():
            going = [board for board in every if not board.ended]
            if not going:
                break
            for board in going:
                if round_number == 0:
                    progress.note(f"{board.label}: {safe(board.name)}")
                try:
                    board.step()
                except UserError as error:
                    if round_number < _BEFORE_BLOCKS:
                        raise
                    board.error = error
                    progress.note(f"{board.label}, {safe(board.name)}, ended early: {error.message}")
    except KeyboardInterrupt:
        _end(every)
        interrupted = [board.interrupted for board in every if board.interrupted is not None]
        if not interrupted:
            raise
        raise Interrupted(out or interrupted[0].path, _resume_command(interrupted, out)) from None
    except BaseException:
        _end(every)
        raise
    for board in every:
        if board.error is not None:
            board.error.hint = f"{board.error.hint}\n{_others(every, out)}".strip()
            raise board.error
    return [board.record for board in every if board.record is not None]


def _end(boards: Sequence[_Board]) -> None:
    for board in boards:
        board.end()


def _resume_command(interrupted: Sequence[Interrupted], out: Path | None) -> str:
    """Return the command that resumes the boards of a folder, or one command for each record."""
    if out is not None:
        return f"swapstone compare --resume {shlex.quote(str(out))}"
    return "; ".join(each.resume for each in interrupted)


def _others(boards: Sequence[_Board], out: Path | None) -> str:
    """Return what there is of the other boards, for the error of one."""
    records = [str(board.record) for board in boards if board.record is not None]
    again = f" Resume the experiment: swapstone compare --resume {shlex.quote(str(out))}" if out is not None else ""
    ended = (
        f"The other boards were measured to their end: {', '.join(records)}."
        if records
        else "No board was measured to its end."
    )
    return f"{ended}{again}"


def resume_named(name: str, options: Mapping[str, Any], *, trust: bool, progress: Progress) -> list[Record]:
    """Resume the record that a name stands for, or those of a folder of several boards.

    Args:
        name: as of `swapstone.core.session.agreement_output.records_of`.
        options: of `swapstone compare`, by the names of its parameters.
        trust: as of `resume_records`.
        progress: as of `resume_records`.

    Raises:
        UserError, Interrupted: as of `resume_records`.
    """
    return resume_records(
        records_of(name),
        options["budget"],
        out=Path(name),
        guest_timeout=options["guest_timeout"],
        fail_if=options["fail_if"],
        trust=trust,
        sharing=parse_sharing(options["store"], options["executor"], options["recheck"]),
        progress=progress,
    )


def resume_records(
    records: Sequence[Record],
    budget: Duration,
    *,
    out: Path,
    guest_timeout: Duration,
    fail_if: Sequence[str],
    trust: bool,
    sharing: RunSharing,
    progress: Progress,
) -> list[Record]:
    """Resume a record, or the experiment of several boards: those of its records that are not complete; with a new budget, all of them.

    Args:
        records: one, or those of the boards.
        budget: a new budget for each whole experiment; None for the old ones.
        out: the folder of the records.
        guest_timeout: as of `Record.resume`, as are the following.
        fail_if: texts of ``--fail-if``.
        trust: whether the records' commands may run though another user or machine made them.
        sharing: the store and the workers of the runs.
        progress: receives events.

    Returns:
        All records, in their order.

    Raises:
        UserError: there is nothing to resume, or as `swapstone.core.session.experiment.resume`.
        Interrupted: a signal ended it; the records are sealed.
    """
    if len(records) == 1:
        (record,) = records
        return [
            record.resume(
                budget, guest_timeout=guest_timeout, fail_if=fail_if, trust=trust, sharing=sharing, progress=progress
            )
        ]
    options = RunOptions(guest_timeout_s=duration_seconds(guest_timeout), trust=trust, sharing=sharing)
    for record in records:
        check_fail_if(parse_fail_if(fail_if), record.experiment, functools.partial(_works, record))
    going = [record for record in records if budget is not None or record.state != "complete"]
    if not going:
        raise UserError(
            f"The records of all boards in {out} are complete: there is nothing to resume.",
            f"Give them more time with --budget, or print them: swapstone agree {shlex.quote(str(out))}",
        )

    def begin(record: Record) -> StartBoard:
        return lambda events: resume_by_block(record.path, duration_ns(budget), options=options, progress=events)

    run_boards({record.experiment.target: begin(record) for record in going}, progress, out)
    return [record.reload() for record in records]
