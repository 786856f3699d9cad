# SPDX-License-Identifier: MIT OR Apache-2.0
"""How often a run under an instrument is repeated, and into how many parts a long one is divided."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from swapstone.core.model.profile import OWN_OBJECT, Frame
from swapstone.core.wire import TrialRequest
from swapstone.parts.explain.instruments import perf
from swapstone.parts.explain.instruments.perf import (
    FEW_RUNS,
    RUNS,
    ProfileBuilder,
    RunPlan,
    planned_runs,
    repeat,
)
from swapstone.parts.explain.instruments.traced_run import ReferenceRuns, Region, Tracee

REQUEST = TrialRequest(id="x", arguments=("/bin/true", "3"), cwd="/", timeout_ms=1)


def plan(seconds: float, region: Region = Region.PROGRAM, samples: int = 0, **metrics: float) -> RunPlan:
    reference = ReferenceRuns({"wall": seconds * 1e9, "cpu": seconds * 1e9, **metrics}, (), Path(), seconds)
    return planned_runs(Tracee("v", REQUEST, region), reference, samples=samples, rate_hz=2000.0, switches=not samples)


def test_short_runs_are_repeated_until_there_are_enough_samples() -> None:
    assert plan(1.0, samples=1000) == RunPlan(8, 1)
    assert plan(0.05, samples=1000) == RunPlan(10, 1)
    assert plan(0.001, samples=1000) == RunPlan(59, 1)  # of MOST_RUNS, in the time


def test_long_runs_are_divided_into_parts() -> None:
    assert plan(5.0, samples=1000) == RunPlan(FEW_RUNS, 1), "parts of runs differ by the phases of a program"
    assert plan(7.0, samples=1000) == RunPlan(2, 4)
    assert plan(100.0, samples=1000) == RunPlan(1, RUNS)


def test_reading_many_switches_leaves_time_for_fewer_runs() -> None:
    assert plan(0.1, nvcsw=10.0) == RunPlan(RUNS, 1)
    assert plan(0.1, nvcsw=30_000.0, nivcsw=10_000.0) == RunPlan(2, 4)
    # of three passes, and of a server 0.1 switches in each of 1000 requests
    assert plan(0.1, Region.PASSES, nvcsw=10_000.0) == RunPlan(FEW_RUNS, 1)
    served = ReferenceRuns({"wall": 1e5, "nvcsw": 0.1}, (), Path(), 0.1)
    assert planned_runs(Tracee("v", REQUEST, Region.DRIVEN), served, switches=True) == RunPlan(RUNS, 1)


def test_runs_end_with_the_plan_the_samples_or_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    made.extend(repeat(RunPlan(3, 1)))
    assert len(made) == 3
    for number in repeat(RunPlan(3, 1), lambda: len(made) >= 12):
        made.append(number)
    assert len(made) == 12


@pytest.mark.parametrize(
    ("planned", "run_s", "runs"),
    [
        (RunPlan(8, 1), 1.0, 8),
        (RunPlan(8, 1), 6.5, FEW_RUNS),  # three in half a minute would have no interval
        (RunPlan(8, 1), 25.0, 3),
        (RunPlan(3, 3), 16.0, 2),  # divided into parts
        (RunPlan(4, 2, 8.0), 9.0, 3),  # parts of fewer runs would have no interval
        (RunPlan(1, 8, 8.0), 9.0, 1),
    ],
)
def test_few_runs_get_more_time(monkeypatch: pytest.MonkeyPatch, planned: RunPlan, run_s: float, runs: int) -> None:
    made: list[int] = []
    monkeypatch.setattr(perf, "time", SimpleNamespace(monotonic=lambda: run_s * len(made)))
    for number in repeat(planned):
        made.append(number)
    assert len(made) == runs


def test_a_profile_keeps_its_runs_apart() -> None:
    one, other = (Frame(symbol="a", object=OWN_OBJECT),), (Frame(symbol="b", object=OWN_OBJECT),)
    builder = ProfileBuilder()
    builder.add(one, 2.0)
    builder.add(other, 5.0, 1)
    builder.add(one, 1.0, 1)
    profile = builder.profile("on-cpu", "ns", 2.0, parts=3)
    assert [stack.weight for stack in profile.stacks] == [5.0, 3.0]
    assert [(run.samples, run.weights) for run in profile.runs] == [
        (1, ((1, 2.0),)),
        (2, ((0, 5.0), (1, 1.0))),
        (0, ()),
    ]
    assert profile.samples == 3
    single = ProfileBuilder()
    single.add(one, 1.0)
    assert single.profile("on-cpu", "ns", 1.0).runs == ()
