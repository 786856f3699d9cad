# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the agent does between the stop at a process's exit and its end: where it takes no processor from the process, it stays awake."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from swapstone.core.model.observation import changed_conditions
from swapstone.core.targets.host import HostTarget
from swapstone.core.wire import ProcessOutcome
from tests.unit.agent.harness import Printed, request
from tests.unit.agent.test_conditions import IMPORTS
from tests.unit.agent.test_fake_trial import EXIT_STOP, EXITED, PROC, SERVER

PINNED = "set pinned 1\nset poll_ns 100000\n"
LATE_END = f"at 200 event 100 {EXIT_STOP} 0\nat 201 event 100 {EXITED} 4\n"
CPUS = sorted(os.sched_getaffinity(0))


def polls(printed: Printed, *script: str) -> list[str]:
    """Return the times of the polls of a trial that ends 1 ms after its exit stop, and how long each may wait, in ns."""
    calls = printed(PROC, *script, LATE_END, "set shows_polls 1")[1]
    return [call.replace(" poll", "") for call in calls if " poll " in call]


def test_beside_a_pinned_trial_the_agent_does_not_sleep_for_0_3_ms_after_the_exit_stop(printed: Printed) -> None:
    assert polls(printed, PINNED) == [
        *("0 1000000000", "200 0", "200.100000 0", "200.200000 0"),
        "200.300000 99700000",
    ]


@pytest.mark.parametrize("script", ["", f"{PINNED}set cpu 1", f"{PINNED}set cpu -38"])
def test_elsewhere_the_agent_sleeps_after_the_exit_stop(printed: Printed, script: str) -> None:
    """It would take the processor from the process that ends: on that processor, on all of them, or on one that it does not know."""
    assert polls(printed, script) == ["0 1000000000", "200 100000000"]


def test_the_agent_is_not_awake_beyond_the_time_limit(printed: Printed) -> None:
    found = polls(printed, PINNED, "set timeout_ms 200")
    assert found[:2] == ["0 200000000", "200 0"]
    assert not [call for call in found if call.endswith(" 99700000")]
    script = (PINNED, "set timeout_ms 201", "set poll_ns 600000")
    assert polls(printed, *script)[:3] == ["0 201000000", "200 0", "200.600000 400000"]


def test_a_server_s_agent_sleeps(printed: Printed) -> None:
    calls = printed(PROC, PINNED, SERVER, LATE_END, "set shows_polls 1")[1]
    assert not [call for call in calls if call.endswith(" poll 0")]


@pytest.mark.skipif(len(CPUS) < 2, reason="this machine has one processor")
@pytest.mark.parametrize("cpu", {CPUS[0], CPUS[-1]})
def test_a_pinned_program_that_changes_its_parent_is_found(agent: Path, tmp_path: Path, cpu: int) -> None:
    statement = "os.sched_setscheduler(parent, os.SCHED_BATCH, os.sched_param(0))"
    with HostTarget(agent) as target:
        for _ in range(3):
            assert changed_conditions(dict(target.run(request(tmp_path, "/bin/true", cpus=(cpu,))).facts)) == ()
            changing = target.run(request(tmp_path, sys.executable, "-c", IMPORTS + statement, cpus=(cpu,)))
            assert (changing.outcome, changing.code) == (ProcessOutcome.EXITED, 0), changing
            assert changed_conditions(dict(changing.facts)) == ("agent_policy",)
