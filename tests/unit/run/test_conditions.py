# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs under other conditions than the first one of their session are refused; interrupted ones fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from swapstone.core.model import Run, Status
from swapstone.core.plan import Group
from swapstone.core.plan.stopping import StopDecision
from swapstone.core.record import RecordWriter, load
from swapstone.core.run.engine import Engine
from swapstone.core.run.prepare import prepare
from swapstone.core.run.subject import Judgement, Outcome
from swapstone.core.session.progress import LineProgress
from swapstone.core.session.sample_check import derive
from swapstone.core.targets import MachineConfig
from swapstone.core.targets.fake import FakeTarget
from swapstone.core.targets.target import DEFAULT_MACHINE
from swapstone.core.wire import AgentAnswer, ProcessOutcome, TrialRequest
from tests.unit.builders import experiment

FIRST = {
    "stops": 0,
    "suspended_ns": 0,
    "agent_cpus": 2,
    "agent_cpu_bits": 3,
    "agent_nice": 0,
    "agent_policy": 0,
    "agent_limits_crc": 77,
    "changed_conditions": 0,
}


class Changing(FakeTarget):
    """A fake target whose facts about the agent differ in some trials."""

    def __init__(self, path: Path, changes: Mapping[str, Mapping[str, int | None]]) -> None:
        super().__init__(path)
        self._changes = changes

    def run(self, request: TrialRequest, config: MachineConfig = DEFAULT_MACHINE) -> AgentAnswer:
        answer = super().run(request, config)
        facts = {**dict(answer.facts), **FIRST, **self._changes.get(request.id, {})}
        known = tuple((name, value) for name, value in facts.items() if value is not None)
        return msgspec.structs.replace(answer, facts=known)


def two_blocks(
    runs: Sequence[Run], still_open: tuple[Group, ...], block: int, used_ns: int, next_block_ns: int
) -> StopDecision:
    del runs, used_ns, next_block_ns
    return StopDecision(still_open, "enough" if block == 2 else "", None, None)


def made(folder: Path, changes: Mapping[str, Mapping[str, int | None]], *, boots: bool = False) -> Path:
    (folder / "fake.toml").write_text("[[behaviour]]\nwall_ns = 3_000_000\n")
    subject = experiment(target=f"fake:{folder / 'fake.toml'}")
    target = Changing(folder / "fake.toml", changes)
    target.offers |= {"boots"} if boots else set()
    shown = LineProgress(print)
    shown.experiment_started(subject, "")
    path = folder / "record"
    with RecordWriter.create(path, subject) as writer:
        prepared = prepare(subject, target, shown.building, shown.note, keep_log=writer.keep_log)
        Engine(subject, prepared, target, writer, stopping_rule=two_blocks, progress=shown).run()
    return path


def run_of(path: Path, trial: str) -> Run:
    (found,) = [run for run in load(path).runs if f"{run.trial.block}-{run.trial.position}" == trial]
    return found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"agent_cpus": 1, "agent_cpu_bits": 1}, "the number of processors (1, first 2)"),
        ({"agent_cpu_bits": 5}, "the set of processors"),
        ({"agent_nice": 5}, "the nice value (5, first 0)"),
        ({"agent_policy": 3}, "the scheduling policy (3, first 0)"),
        ({"agent_limits_crc": 1}, "the resource limits"),
        ({"cpu_quota_milli": 500}, "the CPU quota of the cgroup (0.5 processors, first none)"),
        ({"governor_crc": 9}, "the frequency governor"),
        ({"agent_nice": None}, "the nice value (none, first 0)"),
    ],
)
def test_a_run_under_other_conditions_than_the_first_is_refused(
    tmp_path: Path, change: dict[str, int | None], words: str
) -> None:
    path = made(tmp_path, {"1-2": change})
    run = run_of(path, "1-2")
    assert (run.status, run.samples) == (Status.REFUSED, ())
    assert run.reason == f"its conditions are not those of the first run of this session: {words}"
    assert {each.status for each in load(path).runs if each.trial.key != run.trial.key} == {Status.OK}
    assert derive(load(path)).problems == ()


def test_a_run_that_changes_what_later_trials_inherit_is_refused(tmp_path: Path) -> None:
    run = run_of(made(tmp_path, {"0-0": {"agent_cpus": 1, "agent_cpu_bits": 1, "changed_conditions": 3}}), "0-0")
    assert run.status is Status.REFUSED
    assert run.reason == "what later trials inherit changed while it ran: the number of processors (now 1)"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"stops": 1}, "the program or the agent was stopped by a signal (SIGSTOP or SIGTSTP) once"),
        ({"stops": 3}, "the program or the agent was stopped by a signal (SIGSTOP or SIGTSTP) 3 times"),
        ({"suspended_ns": 20_475_000_000}, "the machine was suspended for 20.5 s"),
    ],
)
def test_an_interrupted_run_fails_and_its_failure_is_derived_from_its_answer(
    tmp_path: Path, change: dict[str, int | None], words: str
) -> None:
    path = made(tmp_path, {"2-1": change})
    run = run_of(path, "2-1")
    assert (run.status, run.samples) == (Status.FAILED, ())
    assert run.reason == f"the measurement was interrupted: {words}"
    found = derive(load(path))
    assert (found.problems, found.failures, found.failures_shown) == ((), 1, 1)


@pytest.mark.parametrize("change", [{"stops": 1}, {"suspended_ns": 1}, {"changed_conditions": 1}])
def test_an_interrupted_run_that_is_marked_ok_is_a_contradiction(tmp_path: Path, change: dict[str, int]) -> None:
    path = made(tmp_path, {"2-1": change})
    view = load(path)
    good = next(run for run in view.runs if run.status is Status.OK)
    forged = tuple(
        msgspec.structs.replace(run, status=Status.OK, reason="", samples=good.samples) if run.reason else run
        for run in view.runs
    )
    problems = derive(
        msgspec.structs.replace(view, runs=forged)
    ).problems  # another one is that its work has no checksum
    assert len([problem for problem in problems if "is marked ok, and its raw output shows" in problem]) == 1


def test_conditions_of_a_machine_that_is_booted_for_each_trial_are_not_compared(tmp_path: Path) -> None:
    path = made(tmp_path, {"1-2": {"agent_limits_crc": 1}}, boots=True)
    assert {run.status for run in load(path).runs} == {Status.OK}


@pytest.mark.parametrize("status", [Status.OK, Status.FAILED, Status.REFUSED])
def test_a_run_that_failed_under_other_conditions_failed(status: Status) -> None:
    answer = AgentAnswer(id="a", outcome=ProcessOutcome.EXITED, code=0, facts=tuple({**FIRST, "agent_nice": 5}.items()))
    outcome = Outcome(Judgement(status, "why", observed=(("libc", "musl"),)), answer, b"")
    engine: Any = SimpleNamespace(_target=SimpleNamespace(offers=frozenset()), _conditions={"": FIRST})
    found = Engine._under_equal_conditions(engine, outcome, "")
    if status is not Status.OK:
        assert found is outcome
        return
    assert found.judgement.status is Status.REFUSED
    assert found.judgement.reason.startswith("its conditions are not those of the first run of this session: ")
    assert found.judgement.observed == (("libc", "musl"),)
    assert Engine._under_equal_conditions(engine, outcome, "b") is outcome
    assert dict(engine._conditions["b"])["agent_nice"] == 5, "the first run of a kernel sets its conditions"
    assert engine._conditions[""] == FIRST
