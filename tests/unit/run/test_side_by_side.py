# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trials side by side."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from swapstone.model import Trial
from swapstone.run.side_by_side import side_by_side


class _Place:
    """A target that only counts."""

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


def _trials(count: int) -> list[Trial]:
    return [
        Trial(suite="s", workload="w", load="idle", variant="v", block=1, position=position)
        for position in range(count)
    ]


def test_one_at_a_time_each_is_made_when_it_is_asked_for() -> None:
    made: list[int] = []

    def make(trial: Trial) -> int:
        made.append(trial.position)
        return trial.position

    with side_by_side(make, _trials(3), _Place(1)) as results:  # type: ignore[arg-type] # what it uses of a target
        assert next(results) == 0
        assert made == [0]


def test_several_at_once_come_in_the_plan_s_order() -> None:
    both = threading.Barrier(2, timeout=300)

    def make(trial: Trial) -> int:
        both.wait()  # passes only while two are being made
        return trial.position

    place = _Place(2)
    with side_by_side(make, _trials(4), place) as results:  # type: ignore[arg-type] # what it uses of a target
        assert list(results) == [0, 1, 2, 3]
    assert not place.stopped


def test_who_goes_early_stops_the_rest() -> None:
    started, place = threading.Event(), _Place(2)
    over = threading.Event()

    def stop() -> None:
        over.set()

    place.stop = stop  # type: ignore[method-assign] # as a target ends its machines

    def make(_: Trial) -> int:
        started.set()
        assert over.wait(10)
        return 0

    def interrupted() -> Iterator[int]:
        with side_by_side(make, _trials(50), place) as results:  # type: ignore[arg-type] # what it uses of a target
            assert started.wait(10)
            raise KeyboardInterrupt
        yield from results

    with pytest.raises(KeyboardInterrupt):
        next(interrupted())
    assert over.is_set()
