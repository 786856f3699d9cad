# SPDX-License-Identifier: MIT OR Apache-2.0
"""The engine: calibrate, then block after block until the results are precise enough or the budget is spent.

The seal of a record states in words why the experiment ended.
"""

from __future__ import annotations

import collections
import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from swapstone.core import plan
from swapstone.core.model import (
    CONSOLE,
    DID_OTHER_WORK,
    DIRECTION_RULES,
    TIMED_OUT,
    Copy,
    Experiment,
    NothingComparableError,
    Run,
    Status,
    Trial,
    UserError,
    discarded_by_block,
)
from swapstone.core.model.observation import describe_conditions, different_conditions
from swapstone.core.plan import Group
from swapstone.core.plan.stopping import MadeRuns, StopDecision, StopReason, first_block
from swapstone.core.record import Manifest, RecordWriter
from swapstone.core.run.mapped_files import RESIDENT, MappedFiles
from swapstone.core.run.prepare import Key, Prepared, manifest_of
from swapstone.core.run.subject import Judgement, Outcome, Subject
from swapstone.core.run.trials_ahead import TrialsAhead, TrialSpecs
from swapstone.core.targets import MachineConfigError, Target, TargetError, UnequalRunsError
from swapstone.core.wire import TrialRequest
from swapstone.core.wire.output_reading import first_lines
from swapstone.exit_status import Finding

_FAILED = " failed"
"""How the reason of a workload ends on which all runs of a side failed."""


def why_complete(stop: str, lost: Mapping[Group, str], groups: int) -> str:
    """Return why an experiment is complete: with the workloads that can't be compared, if there are others.

    Args:
        stop: the reason of the stopping rule, or of `why_none`.
        lost: why groups could not be compared.
        groups: of the experiment.
    """
    if not lost or len(lost) == groups:
        return stop or "no workload is left"
    return f"{stop}; {len(lost)} of {groups} workloads can't be compared, the first: {_first(lost)}"


def why_none(lost: Mapping[Group, str], groups: int) -> str:
    """Return why no group is left to measure; arguments as `why_complete`."""
    if len(lost) < groups:
        return StopReason.LOST.value  # the others ended before
    failed = all(why.endswith(_FAILED) for why in lost.values())
    return f"{(StopReason.FAILED if failed else StopReason.INCOMPARABLE).value}, the first: {_first(lost)}"


def why_gone(runs: Iterable[Run], label: str, *, built: bool) -> str:
    """Return why a variant is not run on a workload.

    Args:
        runs: of this variant on the workload.
        label: of the variant.
        built: whether it could be built.
    """
    if not built:
        return f"{label} can't be built or run here"
    ended = collections.Counter(run.status for run in runs)
    if refused := ended[Status.REFUSED]:
        return f"{refused} of {ended.total()} runs of {label} were refused"
    if ended[Status.OK]:  # of an experiment before 0.2
        return f"{ended[Status.FAILED]} of {ended.total()} runs of {label} failed, and it was given up"
    return f"all {ended[Status.FAILED]} runs of {label}{_FAILED}"


def _first(lost: Mapping[Group, str]) -> str:
    (_, workload, _), why = next(iter(lost.items()))
    return f"{workload}: {why}"


def _observed(request: TrialRequest) -> TrialRequest:
    """Return a request whose process is observed for its resident memory too."""
    return msgspec.structs.replace(request, observe=(*request.observe, RESIDENT))


class Attempt(msgspec.Struct, frozen=True):
    """A trial that was attempted: its outcome, or the error of the target instead.

    Attributes:
        outcome: None if the target broke, or could not make the machine.
        error: None if there is an outcome.
        times: ``started_unix_ns`` and ``elapsed_ns``, as in `Run`.
    """

    outcome: Outcome | None
    error: TargetError | MachineConfigError | None
    times: Mapping[str, int]


_LONGEST_LINE = 200


def reason_of_break(error: TargetError) -> str:
    """Return the reason of a run whose target broke: with the last lines of the machine's console, if it has one."""
    lines = " | ".join(line.strip()[:_LONGEST_LINE] for line in error.console.splitlines())
    return f"the target broke: {error.message}" + (CONSOLE + lines if lines else "")


def failure_text(run: Run, output: bytes, again: str) -> str:
    """Return the reason of a failed run for an error message: with its machine's last console lines, or else what it printed.

    Args:
        run: which.
        output: what it printed.
        again: how often it failed; empty for once.
    """
    reason, _, console = run.reason.partition(CONSOLE)
    lines = CONSOLE.strip() + "\n" + console.replace(" | ", "\n") if console else first_lines(output)
    return f"{reason}{again}\n{lines}"


def run_of(trial: Trial, outcome: Outcome, *, passes: int, times: Mapping[str, int], output: str) -> Run:
    """Return the run of a trial.

    Args:
        trial: which.
        outcome: what it amounts to.
        passes: how many were requested.
        times: ``started_unix_ns`` and ``elapsed_ns``.
        output: digest of the raw output.
    """
    judgement, answer = outcome.judgement, outcome.answer
    return Run(
        trial=trial,
        status=judgement.status,
        reason=judgement.reason,
        samples=judgement.measured.samples,
        observed=judgement.observed,
        facts=answer.facts if answer else (),
        passes=passes,
        check=judgement.measured.check,
        histogram=judgement.measured.histogram,
        by_processor=judgement.measured.by_processor,
        series=judgement.measured.series,
        seen=judgement.measured.seen,
        started_unix_ns=times["started_unix_ns"],
        elapsed_ns=times["elapsed_ns"],
        output=output,
        name=answer.name if answer else "",
        digests=judgement.digests,
        found_files=judgement.found_files,
    )


BREAKS = 3
"""After so many failures in a row of a target, the session ends."""


class SessionEnd(msgspec.Struct, frozen=True):
    """How a session ended: ``complete`` or ``interrupted``, and why in a few words."""

    state: str
    why: str


class StoppingRule(Protocol):
    """Decides after each block what is precise enough. It depends on its arguments alone, so that a resumed session repeats it."""

    def __call__(
        self, runs: Sequence[Run], still_open: tuple[Group, ...], block: int, used_ns: int, next_block_ns: int
    ) -> StopDecision:
        """Decide from the runs of blocks 0 to `block`."""
        ...


class Progress(Protocol):
    """Receives the engine's progress."""

    def calibrating(self, done: int, total: int, workload: str) -> None:
        """`done` of `total` workloads are calibrated; `workload` is next."""
        ...

    def trial(self, trial: Trial, done: int, total: int) -> None:
        """A trial starts; `done` of the `total` trials of its block are done."""
        ...

    def measured(self, run: Run) -> None:
        """A trial ended, and its run is in the record."""
        ...

    def block_done(self, decision: StopDecision, block: int, used_ns: int) -> None:
        """Block number `block` is finished; `decision` is what the stopping rule decided."""
        ...


class Engine:
    """Runs the trials of one experiment.

    Args:
        experiment: what is measured.
        prepared: its programs.
        target: where they run.
        writer: where the runs go.
        stopping_rule: when to stop.
        progress: receives progress.
        earlier: runs that the record holds already (resuming).
        passes: calibration that the record holds already.
        manifest: that the record holds already.
    """

    def __init__(
        self,
        experiment: Experiment,
        prepared: Prepared,
        target: Target,
        writer: RecordWriter,
        *,
        stopping_rule: StoppingRule,
        progress: Progress,
        earlier: Sequence[Run] = (),
        passes: Mapping[tuple[str, str], int] | None = None,
        manifest: Manifest | None = None,
    ) -> None:
        self._experiment = experiment
        self._prepared = prepared
        self._target = target
        self._writer = writer
        self._stopping_rule = stopping_rule
        self._progress = progress
        self._made = MadeRuns(earlier)
        self._passes = dict(passes or {})
        self._checks: dict[tuple[str, str], str] = {}
        self._breaks = 0
        self._first: dict[tuple[str, str, str], NothingComparableError | None] = {}
        """Of the first run of each (suite, workload, variant) why no attempt succeeds; None where one does."""
        self._lost: dict[Group, str] = {}
        self._conditions: dict[str, Mapping[str, int]] = {}
        """The facts of this session's first run that is ok, by variant where each has a kernel of its own: all must have its conditions."""
        self._ahead: TrialsAhead[Trial, Attempt] = TrialsAhead(self._attempt, target, lambda trial: trial.key)
        self._began_ns: int
        self._earlier = tuple((run.trial.block, run.elapsed_ns) for run in earlier)
        self._between_ns: int
        """Time of the last block that no trial took: writing and syncing the record."""
        self._trials = TrialSpecs(prepared, target)
        self._mapped = MappedFiles(target, manifest)
        baseline = next(iter(prepared.variants))
        for run in earlier:
            if run.status is Status.OK and run.trial.variant == baseline:
                self._set_check((run.trial.suite, run.trial.workload), run.check)

    def run(self) -> SessionEnd:
        """Run the experiment to its end.

        Returns:
            How it ended. Every run is in the record by then.

        Raises:
            NothingComparableError: own programs failed or were refused in the first block.
            UserError: the target broke several times in a row, or the record can't be written.
            KeyboardInterrupt: the user stopped it; the record is complete up to there.
        """
        # On the baseline: how many passes a trial makes, and the checksum of its work, hold for every variant.
        self._passes, checks = self._trials.calibrate(self._passes, self._checks, self._progress.calibrating)
        for work, check in checks.items():
            self._set_check(work, check)
        for key, program in self._prepared.programs.items():
            self._add_mapped(key, *(each.path for each in (program, *program.links)))
        self._mapped.settle()
        self._write_manifest()
        everything = plan.groups(self._experiment)
        still_open = tuple(group for group in everything if self._prepared.runs(*group[:2]))
        self._refuse(everything)
        baseline = next(iter(self._prepared.variants))
        self._lost = {group: self._why_gone(group, baseline) for group in everything if group not in still_open}
        block = first_block(self._experiment)
        discarded: Mapping[Group, int] = {}
        self._began_ns = time.monotonic_ns()
        with self._ahead:
            while True:
                began_ns = time.monotonic_ns()
                self._run_block(block, still_open, discarded)
                if self._mapped.settle():
                    self._write_manifest()
                made_ns = sum(run.elapsed_ns for run in self._made.of_block(block))
                self._between_ns = max(0, time.monotonic_ns() - began_ns - made_ns)
                still_open = self._comparable(block, still_open)
                decision = (
                    self._decide(block, still_open)
                    if still_open
                    else StopDecision((), why_none(self._lost, len(everything)), 0, None)
                )
                self._progress.block_done(decision, block, self._used_ns(block))
                still_open, discarded = decision.still_open, decision.discarded
                if decision.stop or not still_open:
                    return SessionEnd("complete", why_complete(decision.stop or "", self._lost, len(everything)))
                block += 1

    def _write_manifest(self) -> None:
        self._writer.write_manifest(manifest_of(self._prepared, self._target, self._passes, self._mapped))

    def _run_block(self, block: int, still_open: tuple[Group, ...], discarded: Mapping[Group, int]) -> None:
        lost = plan.given_up(self._experiment, self._made.of_troubled_places(), block - 1)
        # A block that was begun ends as it was begun, although the budget that decided may be another one now.
        begun = discarded_by_block(
            run.trial
            for run in self._made.of_block(block)
            if (run.trial.suite, run.trial.workload, run.trial.variant) not in self._prepared.refused
        )
        numbers = {group: begun.get((block, group), discarded.get(group, 0)) for group in still_open}
        trials = self._planned(block, still_open, numbers, lost)
        waiting = [trial for trial in trials if trial not in self._made]
        attempts = self._ahead.results(waiting, self._probably_later(block, still_open, numbers, lost))
        for done, trial in enumerate(waiting, start=len(trials) - len(waiting)):
            self._progress.trial(trial, done, len(trials))
            run, output = self._concluded(trial, next(attempts))
            self._append(run)
            self._progress.measured(run)
            if self._subject(trial).aborts_early and block == first_block(self._experiment):
                self._abort_if_incomparable(run, output)

    def _planned(
        self, block: int, still_open: tuple[Group, ...], discarded: Mapping[Group, int], lost: frozenset[plan.Place]
    ) -> list[Trial]:
        """Return a block's trials, without those of variants that could not be built or that are lost."""
        return [
            trial
            for trial in plan.block(self._experiment, block, still_open, discarded)
            if (trial.suite, trial.workload, trial.variant) not in self._prepared.refused
            and (trial.suite, trial.workload, trial.load, trial.variant) not in lost
        ]

    def _probably_later(
        self, block: int, still_open: tuple[Group, ...], discarded: Mapping[Group, int], lost: frozenset[plan.Place]
    ) -> Iterator[Trial]:
        """Yield the trials that follow a block unless it closes groups, in order; an exact number of blocks is not exceeded."""
        for later in itertools.count(block + 1):
            if self._experiment.blocks and later > self._experiment.blocks:
                return
            planned = self._planned(later, still_open, discarded, lost)
            if not planned:
                return
            yield from (trial for trial in planned if trial not in self._made)

    def _subject(self, trial: Trial) -> Subject:
        return self._prepared.subjects[trial.suite, trial.workload]

    def _attempt(self, trial: Trial, identity: str = "") -> Attempt:
        """Run one trial, as the request of another identity if one is given.

        Several threads may call this at once, so it does not change the engine.
        """
        key = (trial.suite, trial.workload)
        if "reboots" in self._target.offers:
            self._target.begin(f"{trial.block} {trial.variant}")
        started_unix_ns, start = time.time_ns(), time.monotonic_ns()
        outcome: Outcome | None = None
        error: TargetError | MachineConfigError | None = None
        try:
            spec = self._trials.spec(trial, identity or trial.identity, self._passes[key], self._checks.get(key, ""))
            changes = (_observed,) if self._observes_memory(trial) else ()
            outcome = self._subject(trial).run(spec, self._target, *changes)
        except (TargetError, MachineConfigError) as broken:
            error = broken
        times = {"started_unix_ns": started_unix_ns, "elapsed_ns": time.monotonic_ns() - start}
        return Attempt(outcome, error, times)

    def _concluded(self, trial: Trial, attempt: Attempt) -> tuple[Run, bytes]:
        """Return the run of a trial that was attempted, and what it printed.

        A target that breaks gives a failed run; one that stays broken ends the session.
        """
        outcome = attempt.outcome or Outcome(self._without_answer(attempt.error), None, b"")
        if not isinstance(attempt.error, TargetError):
            self._breaks = 0
        outcome = self._under_equal_conditions(outcome, trial.variant if "reboots" in self._target.offers else "")
        if (answer := outcome.answer) is not None:
            self._add_mapped((trial.suite, trial.workload, trial.variant), *answer.objects)
            if self._observes_memory(trial):
                self._mapped.add_resident(trial, dict(answer.observed).get(RESIDENT, ""))
        output = self._writer.keep_raw(outcome.output)
        passes = self._passes[trial.suite, trial.workload]
        run = run_of(trial, outcome, passes=passes, times=attempt.times, output=output)
        return msgspec.structs.replace(run, answer=self._writer.keep_raw(outcome.kept_answer)), outcome.output

    @property
    def _settles(self) -> bool:
        """Return whether the files in which variants differ are settled: by the current rules, unless each run boots with new ones."""
        return self._experiment.rules >= DIRECTION_RULES and "boots" not in self._target.offers

    def _observes_memory(self, trial: Trial) -> bool:
        """Return whether a trial is a warm-up run, whose times count nowhere."""
        return self._settles and trial.block == 0 and "shares_files" in self._target.offers

    def _add_mapped(self, key: Key, *paths: str) -> None:
        """Add files of a variant to those that are settled where they differ. The paths of files in a root are those of others here."""
        if self._settles and not self._prepared.programs[key].root:
            self._mapped.add(key, paths)

    def _under_equal_conditions(self, outcome: Outcome, start: str) -> Outcome:
        """Refuse a run that inherited other conditions than the first run of this session. A booted machine has its own."""
        judgement, answer = outcome.judgement, outcome.answer
        if judgement.status is not Status.OK or answer is None or "boots" in self._target.offers:
            return outcome
        facts = dict(answer.facts)
        first = self._conditions.setdefault(start, facts)
        if not (names := different_conditions(first, facts)):
            return outcome
        found = describe_conditions(names, facts, first)
        reason = f"its conditions are not those of the first run of this session: {found}"
        return msgspec.structs.replace(
            outcome, judgement=Judgement(Status.REFUSED, reason, observed=judgement.observed)
        )

    def _without_answer(self, error: TargetError | MachineConfigError | None) -> Judgement:
        """Return what a trial without an answer amounts to; count a failure of the target.

        Raises:
            UserError: the target broke too often in a row.
        """
        assert error is not None
        if isinstance(error, MachineConfigError):
            return Judgement(Status.REFUSED if isinstance(error, UnequalRunsError) else Status.FAILED, error.message)
        self._breaks += 1
        if self._breaks >= BREAKS:
            raise UserError(f"The target broke {self._breaks} times in a row: {error.message}", error.hint) from error
        return Judgement(Status.FAILED, reason_of_break(error))

    def _abort_if_incomparable(self, run: Run, output: bytes) -> None:
        """End the session if the first runs show that there is nothing to compare.

        Raises:
            NothingComparableError: it always fails, or was refused, on the baseline, or on every candidate while the baseline works.
        """
        baseline, *others = self._prepared.variants.values()
        key = (run.trial.suite, run.trial.workload)
        of_baseline = (*key, baseline.label)
        self._first[(*key, run.trial.variant)] = self._why_hopeless(run, output)
        if error := self._first.get(of_baseline):
            error.finding = Finding.NOT_COMPARED if self._experiment.alone else Finding.BASELINE
            raise error
        first = [(*key, variant.label) for variant in others if variant.copy is Copy.FIRST]
        candidates = [self._first.get(each) for each in first if each not in self._prepared.refused]
        if of_baseline in self._first and candidates and all(candidates) and (error := candidates[-1]):
            raise error

    def _why_hopeless(self, run: Run, output: bytes) -> NothingComparableError | None:
        """Return the error for a first run of which no attempt succeeds; None if one does."""
        if run.status is Status.OK or not (attempts := self._attempts_without_success(run)):
            return None
        again = f" ({attempts} of {attempts} attempts)" if attempts > 1 else ""
        where = "" if self._experiment.alone else f" with {run.trial.variant}"
        other = Finding.OTHER_WORK if run.reason.startswith(DID_OTHER_WORK) else Finding.NOT_COMPARED
        return NothingComparableError(
            f"{run.trial.workload} can't be measured{where}: {failure_text(run, output, again)}",
            f"The record has {'these lines too' if CONSOLE in run.reason else 'its whole output'}: {self._writer.path}"
            + (". --ignore-failure lets such runs count." if "it ended with status" in run.reason else ""),
            Finding.FAILS if run.status is Status.FAILED else other,
        )

    def _attempts_without_success(self, run: Run) -> int:
        """Return how often a trial was attempted if it never succeeded, else 0. A failed one is tried again; that is not recorded.

        So a program that fails in some of its runs is measured although its first one fails. One that exceeded its time limit, which may be
        long, is tried once more only.
        """
        if run.status is not Status.FAILED or not self._experiment.failures_count:
            return 1
        most = 2 if run.reason.startswith(TIMED_OUT) else plan.GIVE_UP_AFTER
        for attempt in range(1, most):
            outcome = self._attempt(run.trial, f"again-{run.trial.identity}-{attempt}").outcome
            if outcome is not None and outcome.judgement.status is Status.OK:
                return 0
        return most

    def _append(self, run: Run) -> None:
        self._writer.append(run)
        self._made.add(run)

    def _set_check(self, key: tuple[str, str], check: str) -> None:
        """Set the checksum that equal work has, as the baseline printed it, unless it is known."""
        if check:
            self._checks.setdefault(key, check)

    def _refuse(self, groups: Iterable[Group]) -> None:
        """Append a run with the reason for each variant of a workload that could not be built."""
        for suite, workload, load in groups:
            for position, label in enumerate(self._prepared.variants):
                reason = self._prepared.refused.get((suite, workload, label))
                trial = Trial(suite=suite, workload=workload, load=load, variant=label, block=1, position=position)
                if reason is not None and trial not in self._made:
                    one_line = " | ".join(reason.splitlines())  # a report prints it in a row
                    now = time.time_ns()
                    self._append(Run(trial=trial, status=Status.UNAVAILABLE, reason=one_line, started_unix_ns=now))

    def _comparable(self, block: int, still_open: tuple[Group, ...]) -> tuple[Group, ...]:
        """Return the groups that still have a baseline and a candidate. The reasons of the others are stored."""
        lost = plan.given_up(self._experiment, self._made.of_troubled_places(), block)
        baseline, *others = self._prepared.variants.values()
        candidates = [variant.label for variant in others if variant.copy is Copy.FIRST]

        def gone(group: Group, label: str) -> bool:
            return (*group, label) in lost or (*group[:2], label) in self._prepared.refused

        kept = []
        for group in still_open:
            missing = baseline.label if gone(group, baseline.label) else ""
            if not missing and candidates and all(gone(group, label) for label in candidates):
                missing = candidates[0]
            if missing:
                self._lost[group] = self._why_gone(group, missing)
            else:
                kept.append(group)
        return tuple(kept)

    def _why_gone(self, group: Group, label: str) -> str:
        """Return why a variant is not run on a workload."""
        built = (*group[:2], label) not in self._prepared.refused
        return why_gone(self._made.of_place(*group, label), label, built=built)

    def _decide(self, block: int, still_open: tuple[Group, ...]) -> StopDecision:
        runs = self._made.up_to(block)
        going = set(still_open)
        last = self._made.of_block(block)
        cost_ns = sum(run.elapsed_ns for run in last if (run.trial.suite, run.trial.workload, run.trial.load) in going)
        if not self._experiment.virtual:
            cost_ns += self._between_ns
        return self._stopping_rule(runs, still_open, block, self._used_ns(block), cost_ns // self._width(len(runs)))

    def _used_ns(self, block: int) -> int:
        """Return how much of the budget blocks up to `block` used: on the wall clock what lies between this session's trials counts too."""
        made_ns = self._made.elapsed_ns(block)
        if not self._experiment.virtual:
            earlier_ns = sum(elapsed_ns for number, elapsed_ns in self._earlier if number <= block)
            return max(made_ns, earlier_ns + time.monotonic_ns() - self._began_ns)
        return made_ns // self._width(len(self._made.up_to(block)))

    def _width(self, trials: int) -> int:
        """Return how many of some trials run at once: as many as the target can run, across blocks."""
        return max(1, min(self._target.at_once, trials))
