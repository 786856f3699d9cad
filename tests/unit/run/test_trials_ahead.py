# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trials of several blocks at once."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from swapstone.core.model import Trial
from swapstone.core.run.trials_ahead import AHEAD, TrialsAhead


class _Place:
    """A target that only counts."""

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self.over = threading.Event()

    def stop(self) -> None:
        self.over.set()


def _trial(block: int, position: int) -> Trial:
    return Trial(suite="s", workload=f"w{position}", load="idle", variant="v", block=block, position=position)


def _block(number: int, size: int = 1) -> list[Trial]:
    return [_trial(number, position) for position in range(size)]


def test_one_at_a_time_nothing_runs_before_its_result_is_requested() -> None:
    made: list[str] = []
    with TrialsAhead[Trial, None](lambda trial: made.append(trial.key), _Place(1)) as ahead:  # type: ignore[arg-type] # what it uses of a target
        results = ahead.results(_block(1, 2), _block(2))
        next(results)
        assert made == [_trial(1, 0).key]


def test_trials_of_two_blocks_run_at_once() -> None:
    both = threading.Barrier(2, timeout=300)

    def make(trial: Trial) -> str:
        both.wait()  # passes only while two trials run; each block has one
        return trial.key

    with TrialsAhead(make, _Place(2)) as ahead:  # type: ignore[arg-type] # as above
        found = []
        for number in range(1, 5):
            later = _block(number + 1) if number < 4 else []
            found += list(ahead.results(_block(number), later))
    assert found == [_trial(number, 0).key for number in range(1, 5)]


def test_few_trials_run_ahead_and_those_not_needed_are_never_returned() -> None:
    begun: list[str] = []

    def make(trial: Trial) -> str:
        begun.append(trial.key)
        return trial.key

    with TrialsAhead(make, _Place(2)) as ahead:  # type: ignore[arg-type] # as above
        first = list(
            ahead.results(_block(1, 2), itertools.chain.from_iterable(_block(n, 2) for n in itertools.count(2)))
        )
        second = list(ahead.results([_trial(2, 1)], []))
    assert (first, second) == ([each.key for each in _block(1, 2)], [_trial(2, 1).key])
    assert len(begun) == len(set(begun)) <= 2 + AHEAD * 2


@pytest.mark.parametrize("failing", [False, True])
def test_a_discarded_trial_that_still_runs_is_ended(failing: bool) -> None:
    started, place = threading.Event(), _Place(2)

    def make(trial: Trial) -> str:
        if trial.block == 1:
            assert started.wait(10)
            return trial.key
        started.set()
        assert place.over.wait(10)  # as a machine that runs until it is stopped
        return "stopped"

    def session() -> None:
        with TrialsAhead(make, place) as ahead:  # type: ignore[arg-type] # as above
            assert list(ahead.results(_block(1), _block(2))) == [_trial(1, 0).key]
            if failing:
                raise KeyboardInterrupt

    if failing:
        with pytest.raises(KeyboardInterrupt):
            session()
    else:
        session()
    assert place.over.is_set()


def test_a_trial_that_has_not_begun_when_it_is_discarded_never_begins() -> None:
    begun: list[str] = []
    busy, free = threading.Barrier(3, timeout=300), threading.Event()

    def make(trial: Trial) -> str:
        begun.append(trial.key)
        if trial.block == 2:
            busy.wait()
            assert free.wait(10)
        return trial.key

    with TrialsAhead(make, _Place(2)) as ahead:  # type: ignore[arg-type] # as above
        assert len(list(ahead.results(_block(1, 2), [*_block(2, 2), *_block(3, 2)]))) == 2
        busy.wait()  # both processors have a trial of block 2, and those of block 3 wait
        results = ahead.results(_block(2, 2), [])
        free.set()
        assert len(list(results)) == 2
        assert list(ahead.results(_block(4), [])) == [_trial(4, 0).key]
    assert not [key for key in begun if key in {each.key for each in _block(3, 2)}]


def test_trials_of_later_blocks_begin_for_each_processor() -> None:
    """All `AHEAD` trials for each of two processors are begun, or wait, before the block that is due has ended."""

    class Pool:
        """Keeps what is submitted, and runs it when the results are requested."""

        def __init__(self, pool: ThreadPoolExecutor) -> None:
            self.submitted: list[str] = []
            self._pool = pool

        def submit(self, made: Callable[[Trial], str], trial: Trial) -> Future[str]:
            self.submitted.append(trial.key)
            return self._pool.submit(made, trial)

        def shutdown(self, **options: bool) -> None:
            self._pool.shutdown(**options)

    with TrialsAhead[Trial, str](lambda trial: trial.key, _Place(2)) as ahead:  # type: ignore[arg-type] # as above
        assert ahead._pool is not None
        pool = Pool(ahead._pool)
        ahead._pool = pool  # type: ignore[assignment] # what it uses of a pool
        later = itertools.chain.from_iterable(_block(number) for number in itertools.count(2))
        list(ahead.results(_block(1), later))
    assert pool.submitted == [_trial(number, 0).key for number in range(1, 2 + AHEAD * 2)]


def test_an_error_stops_what_runs_and_what_is_only_about_to_run() -> None:
    place = _Place(2)
    with pytest.raises(KeyboardInterrupt):  # noqa: SIM117 - the error is raised inside
        with TrialsAhead[Trial, str](lambda trial: trial.key, place) as ahead:  # type: ignore[arg-type] # as above
            list(ahead.results(_block(1), []))
            raise KeyboardInterrupt
    assert place.over.is_set()


def test_nothing_is_stopped_if_nothing_runs() -> None:
    place = _Place(2)
    with TrialsAhead[Trial, str](lambda trial: trial.key, place) as ahead:  # type: ignore[arg-type] # as above
        assert len(list(ahead.results(_block(1, 3), []))) == 3
    assert not place.over.is_set()
