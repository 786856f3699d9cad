# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every call of the agent's main function, from its start to its exit status."""

from __future__ import annotations

import pytest

from tests.unit.agent.harness import Calls

KEPT = [
    *("open_read /proc/self/maps 12", "read 12", "keep_from_children 1000 8192"),
    *("keep_from_children room-8192 8192", "keep_from_children room+65536 12288"),
    *("keep_from_children fedc00000000 40960", "read 12", "close 12"),
]
"""The memory that children have not: all that can be written, except their own and the stack."""
BEGUN = [
    *("set_dumpable 0", "open_null 10", "close_from 3", "become_subreaper", "block_signals 11", "fork", "close 11"),
    *("set_parent_death_signal 15", "become_subreaper", *KEPT, "begin_conditions", "begin_trials", "block_signals 12"),
    *("mmap 1", "plan_open 0"),
]
NEXT = ["poll 0 1 -1", "plan_next"]
TRIAL = [*NEXT, "run_trial 12"]


def main(calls: Calls, *settings: str) -> list[str]:
    """Return the calls after the plan was opened, up to what the function returns."""
    found = calls("main", "fork=0", "block_signals@2=12", *settings)
    assert found[: len(BEGUN)] == BEGUN
    assert found[-1] == "open: 10 12"
    return found[len(BEGUN) : -1]


def test_the_agent_answers_each_trial_of_its_plan(calls: Calls) -> None:
    assert main(calls, "plan_next@1=0", "plan_next@2=0") == [
        *("write_header", *TRIAL, "write_answer"),
        *("poll 0 1 0", *TRIAL, "write_answer"),
        *("poll 0 1 0", *NEXT, "returned 0"),
    ]


def test_the_next_process_is_forked_once_while_no_request_waits(calls: Calls) -> None:
    found = main(calls, "plan_next@1=0", "poll@2=0", "ready@2=0")
    assert found == [
        *("write_header", *TRIAL, "write_answer"),
        *("poll 0 1 0", "prepare_trial 1", "poll 0 1 -1", *NEXT, "returned 0"),
    ]


def test_the_agent_stays_awake_for_a_short_time_after_an_answer(calls: Calls) -> None:
    """It has a processor for itself, and it sleeps without a limit when the next request is late."""
    late = [f"poll@{number}=0" for number in (2, 3, 4, 5)]
    found = main(calls, "plan_next@1=0", "cpus=2", "poll_takes=100000", *late)
    awake = ["poll 0 1 0", "relax"] * 3
    assert found == [
        *("write_header", *TRIAL, "write_answer", "poll 0 1 0", "prepare_trial 1"),
        *(*awake, *NEXT, "returned 0"),
    ]


@pytest.mark.parametrize(("takes", "polls"), [(299_999, 2), (300_000, 1)])
def test_the_agent_is_awake_for_300_us(calls: Calls, takes: int, polls: int) -> None:
    late = [f"poll@{number}=0" for number in range(2, 3 + polls)]
    found = main(calls, "plan_next@1=0", "cpus=2", f"poll_takes={takes}", *late)
    assert found[found.index("prepare_trial 1") + 1 :] == [*["poll 0 1 0", "relax"] * polls, *NEXT, "returned 0"]


def test_a_request_that_comes_while_the_agent_is_awake_is_read(calls: Calls) -> None:
    found = main(calls, "plan_next@1=0", "cpus=2", "poll@2=0", "poll@3=0")
    assert found == [
        *("write_header", *TRIAL, "write_answer", "poll 0 1 0", "prepare_trial 1"),
        *("poll 0 1 0", "relax", "poll 0 1 0", "plan_next", "returned 0"),
    ]


@pytest.mark.parametrize(("cpus", "wait"), [(1, -1), (2, 0)])
def test_the_agent_stays_awake_only_beside_another_processor(calls: Calls, cpus: int, wait: int) -> None:
    """Else the program that reads its answer would wait for it. Signals end it in both cases."""
    found = main(calls, "plan_next@1=0", f"cpus={cpus}", "poll@2=0", "ready@2=2", "read_signal@1=15")
    assert found == [
        *("write_header", *TRIAL, "write_answer", "poll 0 1 0", "prepare_trial 1"),
        *(f"poll 0 1 {wait}", "returned 4"),
    ]


def test_a_poll_that_fails_is_repeated(calls: Calls) -> None:
    """What it says of the descriptors is then nothing."""
    found = main(calls, "poll@1=-4", "ready@1=3", "read_signal=15")
    assert found == ["write_header", "poll 0 1 -1", "poll 0 1 -1", "plan_next", "returned 0"]


@pytest.mark.parametrize(("signal", "ends"), [(1, True), (2, True), (15, True), (17, False), (18, False)])
def test_signals_end_the_wait_for_a_plan(calls: Calls, signal: int, *, ends: bool) -> None:
    found = main(calls, "ready@1=2", f"read_signal@1={signal}")
    again = ["poll 0 1 -1", "plan_next", "returned 0"]
    assert found == ["write_header", "poll 0 1 -1", *(["returned 4"] if ends else again)]


@pytest.mark.parametrize(
    ("settings", "end"),
    [
        (("plan_open=1",), ["returned 0"]),
        (("plan_open=2",), ["returned 4"]),
        (("plan_open=3",), ["write_plan_error 0 (null)", "returned 2"]),
        (("write_header=0",), ["write_header", "returned 3"]),
        (("plan_next=3",), ["write_header", *NEXT, "write_plan_error 7 why", "returned 2"]),
        (("plan_next@1=0", "run_trial=1"), ["write_header", *TRIAL, "returned 4"]),
        (("plan_next@1=0", "run_trial=2"), ["write_header", *TRIAL, "returned 3"]),
        (("plan_next@1=0", "write_answer=0"), ["write_header", *TRIAL, "write_answer", "returned 3"]),
    ],
)
def test_each_end_has_its_exit_status(calls: Calls, settings: tuple[str, ...], end: list[str]) -> None:
    assert main(calls, *settings) == end


@pytest.mark.parametrize(
    ("setting", "last"),
    [
        ("fork=-11", "fork"),
        ("become_subreaper@2=-22", "become_subreaper"),
        ("block_signals@2=-24", "block_signals -24"),
        ("open_null=-2", "close_from 3"),
        ("mmap=0", "open_read /plan 14"),
        ("open_read=-2", "open_read /plan -2"),
    ],
)
def test_an_agent_that_can_not_begin_has_the_status_1(calls: Calls, setting: str, last: str) -> None:
    found = calls("main", "+path", setting, *(() if setting.startswith("fork") else ("fork=0",)))
    assert found[-2] == "returned 1"
    assert [call for call in found if not call.startswith(("returned", "open:"))][-1] == last


def test_an_agent_without_an_argument_does_nothing(calls: Calls) -> None:
    assert calls("main", "+none") == ["returned 1", "open:"]


def test_a_plan_in_a_file_is_read_from_it(calls: Calls) -> None:
    assert "plan_open 14" in calls("main", "+path", "fork=0")


def test_the_first_three_descriptors_are_never_those_of_other_files(calls: Calls) -> None:
    found = calls("main", "fork=0", "open_null@1=0", "open_null@2=1", "open_null@3=2", "open_null@4=3")
    assert found[:6] == ["set_dumpable 0", *(f"open_null {fd}" for fd in range(4)), "close_from 3"]


def test_signals_may_have_the_descriptor_0(calls: Calls) -> None:
    assert "plan_open 0" in calls("main", "fork=0", "block_signals@2=0")
