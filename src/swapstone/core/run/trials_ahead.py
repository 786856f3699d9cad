# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trials of several blocks at once, where a target can run them.

Results are returned in the order of the plan. Trials of later blocks run ahead as long as processors are idle. Which of them count is
decided later, from the runs of the earlier blocks alone: a trial that the plan turns out not to contain is discarded, with its result.
Where several trials can run at once, a run is a function of its inputs, so running it earlier does not change it.

`TrialSpecs` has trials as their subjects run them, and how many passes each makes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, Self, TypeVar

from swapstone.core import plan
from swapstone.core.model import IDLE, Experiment, Status, Trial
from swapstone.core.plan import WORK_NS
from swapstone.core.plan.stopping import first_block
from swapstone.core.run.prepare import Prepared
from swapstone.core.run.subject import TrialSpec
from swapstone.core.targets import Target


class TrialSpecs:
    """Makes the trials of an experiment ready to run.

    Args:
        prepared: its programs.
        target: where they run.
    """

    def __init__(self, prepared: Prepared, target: Target) -> None:
        self._prepared = prepared
        self._target = target
        self._cpus = target.describe().cpus
        self._scratch = target.scratch()

    def spec(self, trial: Trial, identity: str, passes: int, check: str = "") -> TrialSpec:
        """Return a trial as its subject runs it, with the checksum that its work must have; an empty text if that is unknown."""
        key = (trial.suite, trial.workload)
        return TrialSpec(
            identity=identity,
            variant=self._prepared.variants[trial.variant],
            program=self._prepared.programs[*key, trial.variant].in_block(trial.block),
            scratch=self._scratch,
            cpus=self._cpus,
            passes=passes,
            check=check,
            load=self._prepared.load(trial.load),
        )

    def of_blocks(
        self, experiment: Experiment, blocks: int, passes: Mapping[tuple[str, str], int]
    ) -> Iterator[tuple[Trial, TrialSpec]]:
        """Yield the trials of the first blocks, each with its specification, without those of variants that could not be built.

        Args:
            experiment: that they are of.
            blocks: how many.
            passes: of each workload.
        """
        groups = tuple(group for group in plan.groups(experiment) if self._prepared.runs(*group[:2]))
        first = first_block(experiment)
        for index in range(first, first + blocks):
            for trial in plan.block(experiment, index, groups):
                key = (trial.suite, trial.workload)
                if (*key, trial.variant) not in self._prepared.refused:
                    yield trial, self.spec(trial, trial.identity, passes[key])

    def calibrate(
        self,
        passes: Mapping[tuple[str, str], int],
        checks: Mapping[tuple[str, str], str],
        progress: Callable[[int, int, str], None],
    ) -> tuple[dict[tuple[str, str], int], dict[tuple[str, str], str]]:
        """Measure on the baseline how many passes a trial makes, and the checksum of its work; both hold for every variant.

        Args:
            passes: that are known.
            checks: that are known.
            progress: called with how many workloads are done, of how many, and the next one's name.

        Returns:
            The passes of all workloads, and the checksums that were measured.
        """
        keys = [key for key in self._prepared.subjects if self._prepared.runs(*key)]
        once = {key for key in keys if not self._prepared.subjects[key].max_passes}
        found = {**passes, **dict.fromkeys(once, 1)}
        measured: dict[tuple[str, str], str] = {}
        if len(once) == len(keys):
            return found, measured
        unknown = [
            (number, key) for number, key in enumerate(keys) if not (key in found and (key in checks or key in once))
        ]
        with TrialsAhead(self._calibrated, self._target) as ahead:
            results = ahead.results(unknown)
            for done, (_, key) in enumerate(unknown, start=len(keys) - len(unknown)):
                progress(done, len(keys), key[1])
                number, measured[key] = next(results)
                found.setdefault(key, number)
        progress(len(keys), len(keys), "")
        return found, measured

    def _calibrated(self, numbered: tuple[int, tuple[str, str]]) -> tuple[int, str]:
        """Measure one pass, then as many as should take a quarter of the time, and scale from those.

        Several threads may call this at once, so it changes nothing.

        Returns:
            The number of passes, and the checksum of the work; an empty text if there is none.
        """
        number, key = numbered
        most = self._prepared.subjects[key].max_passes
        baseline = next(iter(self._prepared.variants))
        passes, check = 1, ""
        for attempt in range(3):
            trial = Trial(suite=key[0], workload=key[1], load=IDLE.name, variant=baseline, block=0, position=0)
            spec = self.spec(trial, f"calibrate-{number}-{attempt}", passes)
            outcome = self._prepared.subjects[key].run(spec, self._target)
            if outcome.judgement.status is not Status.OK or outcome.answer is None:
                return 1, check  # its trials will fail the same way, and the report will state why
            check = check or outcome.judgement.measured.check
            took_ns = max(1, dict(outcome.answer.facts).get("wall_ns", WORK_NS))
            better = max(1, min(most, round(passes * (WORK_NS // 4) / took_ns)))
            if attempt == 2 or better <= passes:
                return max(1, min(most, round(passes * WORK_NS / took_ns))), check
            passes = better
        return passes, check


Job = TypeVar("Job")
Result = TypeVar("Result")

AHEAD = 2
"""So many trials of later blocks for each processor run, or wait to run: while the longest of a block runs, the others have work."""


class TrialsAhead(Generic[Job, Result]):
    """Runs trials block by block, as a context manager; those of later blocks begin early.

    Args:
        make: runs one trial; called by several threads if the target runs several trials at once.
        target: stopped at the end if a trial runs then, which counts no more.
        key: returns what distinguishes a trial from others.
    """

    def __init__(
        self,
        make: Callable[[Job], Result],
        target: Target,
        key: Callable[[Job], Hashable] = lambda job: job,
    ) -> None:
        self._make = make
        self._key = key
        self._target = target
        self._started: dict[Hashable, Future[Result]] = {}
        self._discarded: list[Future[Result]] = []
        self._pool = ThreadPoolExecutor(target.at_once, thread_name_prefix="trial") if target.at_once > 1 else None

    def results(self, trials: Sequence[Job], later: Iterable[Job] = ()) -> Iterator[Result]:
        """Return the results of trials, in their order.

        Args:
            trials: of the block that is due.
            later: trials that probably follow, in order; at most `AHEAD` for each processor begin before this block has ended. Those that
                began in an earlier call and are in neither are discarded.

        Returns:
            The results. If the target runs one trial at a time, each trial runs when its result is requested.
        """
        if self._pool is None:
            return map(self._make, trials)
        wanted = {
            self._key(trial): trial for trial in (*trials, *itertools.islice(later, AHEAD * self._target.at_once))
        }
        gone = [self._started.pop(key) for key in list(self._started) if key not in wanted]
        self._discarded = [each for each in (*self._discarded, *gone) if not (each.cancel() or each.done())]
        for key, trial in wanted.items():
            if key not in self._started:
                self._started[key] = self._pool.submit(self._make, trial)
        due = [self._started.pop(self._key(trial)) for trial in trials]
        return (each.result() for each in due)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is None:
            return
        self._pool.shutdown(wait=False, cancel_futures=True)
        if kind is not None or any(each.running() for each in (*self._started.values(), *self._discarded)):
            self._target.stop()
        self._pool.shutdown(wait=True)
