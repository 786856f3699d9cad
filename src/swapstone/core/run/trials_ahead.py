# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trials of several blocks at once, where a target can run them.

Results are returned in the order of the plan. Trials of later blocks run ahead as long as processors are idle. Which of them count is
decided later, from the runs of the earlier blocks alone: a trial that the plan turns out not to contain is discarded, with its result.
Where several trials can run at once, a run is a function of its inputs, so running it earlier does not change it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, Self, TypeVar

from swapstone.core.targets import Target

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
