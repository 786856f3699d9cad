# SPDX-License-Identifier: MIT OR Apache-2.0
"""What blocks cost, and which trials follow, on a clock that stands: to the last nanosecond."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from swapstone.core import plan
from swapstone.core.model import Run
from swapstone.core.plan.stopping import MadeRuns, StopDecision
from swapstone.core.run import engine
from swapstone.core.run.engine import Engine
from tests.unit import builders

LOSSES: frozenset[plan.Place] = frozenset()


def made(at_once: int = 1, *, blocks: int = 3, **changes: object) -> Any:
    """Return an engine with the runs of a warm-up and two blocks; each takes 10 ns times its block's number, and 1 ns more."""
    found: Any = object.__new__(Engine)
    found._experiment = builders.experiment(blocks=blocks, **changes)
    runs = [
        msgspec.structs.replace(run, elapsed_ns=1 + 10 * run.trial.block) for run in builders.runs(found._experiment, 2)
    ]
    found._made = MadeRuns(runs)
    found._target = SimpleNamespace(at_once=at_once)
    found._prepared = SimpleNamespace(refused={})
    found._earlier = ((0, 100), (2, 5))
    found._began_ns, found._between_ns = 5000, 7
    return found


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "time", SimpleNamespace(monotonic_ns=lambda: 5030))


def test_as_many_trials_run_at_once_as_there_are() -> None:
    assert [made(4)._width(trials) for trials in (0, 1, 3, 4, 9)] == [1, 1, 3, 4, 4]


def test_used_time_is_that_since_the_beginning_or_that_of_the_runs_if_it_is_longer() -> None:
    """The blocks have four runs each: of 1, 11 and 21 ns. Of an earlier session's runs, those of later blocks don't count yet."""
    one = made()
    assert [one._used_ns(block) for block in (0, 1, 2)] == [130, 130, 135]
    one = made()
    one._earlier = ((0, 10),)
    assert [one._used_ns(block) for block in (0, 1, 2)] == [40, 48, 132]
    assert [made(3)._used_ns(block) for block in (0, 2)] == [130, 135]  # on the wall clock trials do not overlap
    virtual: dict[str, Any] = {"clock": "virtual", "target": "vm"}
    assert [made(**virtual)._used_ns(block) for block in (0, 1, 2)] == [4, 48, 132]
    assert [made(3, **virtual)._used_ns(block) for block in (0, 1, 2)] == [1, 16, 44]


@pytest.mark.parametrize(
    ("clock_name", "at_once", "cost_ns"), [("wall", 1, 49), ("virtual", 1, 42), ("virtual", 3, 14)]
)
def test_the_next_block_costs_as_much_as_this_one_without_the_groups_that_closed(
    clock_name: str, at_once: int, cost_ns: int
) -> None:
    one = made(at_once, clock=clock_name)
    first, _ = plan.groups(one._experiment)
    asked: list[tuple[list[Run], tuple[object, ...]]] = []

    def rule(runs: Sequence[Run], *arguments: object) -> StopDecision:
        asked.append((list(runs), arguments))
        return StopDecision((), "enough", 0, None)

    one._stopping_rule = rule
    one._decide(1, (first,))
    assert one._decide(2, (first,)).stop == "enough"
    (early, _), (runs, arguments) = asked
    assert len(early) == 8 and {run.trial.block for run in early} == {0, 1}
    assert len(runs) == 12 and arguments == ((first,), 2, one._used_ns(2), cost_ns)


def test_trials_that_probably_follow_are_those_of_later_blocks_up_to_the_requested_one() -> None:
    one = made(blocks=4)
    groups = plan.groups(one._experiment)

    def later(block: int, **kept: Any) -> list[int]:
        found = one._probably_later(block, kept.get("groups", groups), {}, LOSSES)
        return [trial.block for trial in itertools.islice(found, 12)]

    assert later(2) == [3] * 4 + [4] * 4
    assert later(4) == [] and later(3) == [4] * 4
    assert later(0) == [3] * 4 + [4] * 4  # those of blocks 1 and 2 were made
    assert later(2, groups=groups[:1]) == [3] * 2 + [4] * 2
    assert later(2, groups=()) == []
    endless = made(blocks=0)._probably_later(2, groups, {}, LOSSES)
    assert [trial.block for trial in itertools.islice(endless, 12)] == [3] * 4 + [4] * 4 + [5] * 4
