# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a run with a given memory shows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from swapstone.core.model import IDLE, MemorySeries, PhaseMemory, Status, UserError
from swapstone.core.run.prepare import Prepared
from swapstone.core.run.subject import Judgement, Outcome
from swapstone.core.targets import MachineConfigError, Target, TargetError
from swapstone.core.wire import AgentAnswer, ProcessOutcome
from swapstone.parts.vm.run.memory_fit import MemoryRun, memory_trials, run_of_outcome

OK = Judgement(Status.OK)
KILLED = Judgement(Status.FAILED, "it was killed by SIGKILL (signal 9); its last line: 'x'")
CGROUP = (("cgroup_oom_kills", "0"), ("cgroup_peak_bytes", "4096"))


def outcome(judgement: Judgement = OK, **fields: object) -> Outcome:
    """Return an outcome with an answer."""
    made = {"id": "a", "outcome": ProcessOutcome.EXITED, "code": 0, "machine": CGROUP, **fields}
    return Outcome(judgement, AgentAnswer(**made), b"")  # type: ignore[arg-type]


def vmstat(before: int | None, after: int) -> tuple[tuple[str, str], ...]:
    """Return what a virtual machine reports around a trial."""
    first = () if before is None else (("before /proc/vmstat", f"pgfault 1\noom_kill {before}\n"),)
    return (*first, ("after /proc/vmstat", f"nr_free 3\noom_kill {after}\n"))


def test_a_run_that_ended_well_has_its_figures() -> None:
    run = run_of_outcome(outcome(facts=(("maxrss_bytes", 7), ("wall_ns", 9)), code=3))
    assert run == MemoryRun(code=3, rss_bytes=7, peak_bytes=4096, wall_ns=9)


def test_a_run_that_failed_for_another_reason_names_no_oom_kill() -> None:
    assert run_of_outcome(outcome(KILLED)).failure == KILLED.reason


def test_an_oom_kill_is_named_also_if_the_program_ended_well() -> None:
    killed = (("cgroup_oom_kills", "2"),)
    assert run_of_outcome(outcome(KILLED, machine=killed)).failure == "OOM kill: it was killed by SIGKILL (signal 9)"
    run = run_of_outcome(outcome(machine=killed))
    assert (run.failure, run.oom_kills, run.peak_bytes) == ("OOM kill of 2 of its processes", 2, 0)


@pytest.mark.parametrize(("before", "after", "kills"), [(0, 0, 0), (3, 3, 0), (3, 5, 2), (None, 1, 1), (5, 3, 0)])
def test_the_kills_in_a_virtual_machine_are_those_during_the_run(before: int | None, after: int, kills: int) -> None:
    run = run_of_outcome(outcome(machine=vmstat(before, after)))
    assert run.oom_kills == kills
    assert bool(run.failure) == bool(kills)


def test_the_number_of_a_signal_is_no_exit_status() -> None:
    assert run_of_outcome(outcome(outcome=ProcessOutcome.SIGNALED, code=9)).code == -1


def test_the_phase_in_which_it_failed_is_named() -> None:
    marked = MemorySeries(phases=(PhaseMemory(name="load"), PhaseMemory(name="spike")))
    assert run_of_outcome(outcome(KILLED, memory=marked)).failure.endswith(", in the phase spike")
    assert run_of_outcome(outcome(memory=marked)).failure == ""
    unmarked = MemorySeries(phases=(PhaseMemory(name="start"),))
    assert run_of_outcome(outcome(KILLED, memory=unmarked)).failure == KILLED.reason


def test_a_run_without_an_answer_has_the_reason_of_its_judgement() -> None:
    assert (
        run_of_outcome(Outcome(Judgement(Status.REFUSED, "its file changed"), None, b"")).failure == "its file changed"
    )


class Machine:
    """A target that raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def run(self, *_: object) -> Outcome:
        """Raise."""
        raise self.error

    def describe(self) -> object:
        """Return a machine with one processor."""
        return SimpleNamespace(cpus=(0,))

    def scratch(self) -> str:
        """Return a folder."""
        return "/"


def run_with(error: Exception) -> MemoryRun:
    """Run a program on a target that raises."""
    key = ("own", "prog", "a")
    machine = Machine(error)
    prepared = SimpleNamespace(variants={"a": None}, programs={key: None}, subjects={key[:2]: machine})
    return memory_trials(cast("Prepared", prepared), cast("Target", machine))(key, 1 << 20, 0)


@pytest.mark.parametrize("kind", [TargetError, MachineConfigError])
def test_a_machine_that_does_not_run_is_no_failure_of_the_program(kind: type[UserError]) -> None:
    run = run_with(kind("The machine ended.", "x\n[ 1.0] Kernel panic - not syncing: Out of memory\n"))
    assert not run.ended
    assert run.failure == "The machine ended: [ 1.0] Kernel panic - not syncing: Out of memory"


@pytest.mark.parametrize(
    ("message", "hint", "failure"),
    [
        ("It ended.", "", "It ended"),
        ("It ended.", "first panic\nnothing\n  last   panic  \n", "It ended: last panic"),
        ("It ended.", "PANIC at last", "It ended: PANIC at last"),
        ("It ended.", "out of memory", "It ended"),
        ("It\n  ended", "x", "It ended"),
        ("x" * 301, "", "x" * 300),
        ("x" * 300, "", "x" * 300),
    ],
)
def test_a_machine_that_does_not_run_has_a_reason_of_one_line(message: str, hint: str, failure: str) -> None:
    assert run_with(TargetError(message, hint)).failure == failure


@pytest.mark.parametrize(("reason", "failure"), [("", "refused"), ("its file changed", "its file changed")])
def test_a_run_without_a_reason_has_its_status(reason: str, failure: str) -> None:
    assert run_of_outcome(outcome(Judgement(Status.REFUSED, reason))).failure == failure
    assert run_of_outcome(Outcome(Judgement(Status.REFUSED, ""), None, b"")).failure == "it did not run"


def test_each_run_has_its_own_number_and_all_that_is_asked_of_it() -> None:
    asked: list[Any] = []
    key = ("own", "prog", "a")

    def run(spec: object, target: object) -> Outcome:
        asked.append((spec, target))
        return outcome()

    subjects = {key[:2]: SimpleNamespace(run=run)}
    prepared: Any = SimpleNamespace(variants={"a": "variant"}, programs={key: "program"}, subjects=subjects)
    machine: Any = Machine(ValueError())
    run_once = memory_trials(prepared, machine)
    for memory, timeout in ((1 << 20, 0), (2 << 20, 500)):
        assert run_once(key, memory, timeout).peak_bytes == 4096
    assert [spec.identity for spec, _ in asked] == ["memory-1", "memory-2"]
    (spec, target) = asked[1]
    assert (spec.variant, spec.program, spec.scratch, spec.cpus) == ("variant", "program", "/", (0,))
    assert (spec.load, spec.memory_bytes, spec.timeout_ms, target) == (IDLE, 2 << 20, 500, machine)


def test_an_error_of_the_session_ends_it() -> None:
    with pytest.raises(UserError, match="No agent"):
        run_with(UserError("No agent."))
