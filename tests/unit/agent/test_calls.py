# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every call of the agent when it forks, mounts and waits, in its order, and what follows from an error of each."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.unit.agent.harness import Calls

PIPES = ["pipe 0", "pipe 0", "pipe 0", "pipe 1"]  # 10 to 17: output, error, session, release; the read end is the first
EXITED, SIGNALED, SIGNAL_STOP = 1, 2, 6  # enum port_change


# The child

SESSION = [
    *("umask 22", "set_parent_death_signal 9", "setsid"),
    *("open_null 18", "dup2 18 0", "close 18", "dup2 11 1", "dup2 13 2"),
    *("set_dumpable 1", "open_read /proc/self/schedstat 19", "write 15 1"),
]
PREPARED = [
    *("write_file /proc/self/oom_score_adj 500", "disable_core_dumps"),
    *("close 17", "unblock_signals", "read 16", "limit_file_size 1000"),
]
EXECUTED = ["chdir /work", "lseek 19 0", "read 19", "exec /bin/p /bin/p A=b", "exit 127"]
RELEASED = "launch: step 14 failed -2 released 1000000000 delay 222"


def child(calls: Calls, *settings: str) -> tuple[list[str], str]:
    """Return the calls after the fork, and what the child left for the agent."""
    found = calls("start", "fork=0", *settings)
    return found[found.index("fork") + 1 : -2], found[-2]


def test_a_child_prepares_itself_and_executes_the_program(calls: Calls) -> None:
    made, left = child(calls)
    assert made == [*SESSION, *PREPARED, *EXECUTED]
    assert left == RELEASED


def test_a_child_is_pinned_has_its_nice_value_and_its_files(calls: Calls) -> None:
    made, left = child(calls, "+pinned", "+nice", "+in", "+out")
    assert made == [
        *(*SESSION, *PREPARED, "set_affinity 0 15", "set_nice -3"),
        *("open_read /in 20", "dup2 20 0", "close 20", "open_write /out 21", "dup2 21 1", "close 21", *EXECUTED),
    ]
    assert left == RELEASED


@pytest.mark.parametrize("fd", [0, 1, 2, 3])
def test_a_descriptor_that_a_file_shall_have_is_not_closed(calls: Calls, fd: int) -> None:
    assert (f"close {fd}" in child(calls, f"open_null={fd}")[0]) == (fd == 3)
    made, left = child(calls, "+out", f"open_write={fd}")
    assert (f"close {fd}" in made) == (fd == 3)
    assert f"dup2 {fd} 1" in made and left == RELEASED


ERRORS = [
    ("set_parent_death_signal=-1", 0, -1),
    ("setsid=-1", 0, -11),
    ("open_null=-24", 0, -24),
    ("dup2@1=-9", 0, -9),
    ("dup2@2=-9", 0, -9),
    ("dup2@3=-9", 0, -9),
    ("disable_core_dumps=-1", 1, -1),
    ("read=0", 2, -4),  # the agent has ended
    ("limit_file_size=-1", 4, -1),
    ("set_affinity=-22", 5, -22),
    ("set_nice=-13", 6, -13),
    ("open_read@2=-2", 7, -2),
    ("dup2@4=-9", 7, -9),
    ("open_write=-13", 7, -13),
    ("dup2@5=-9", 7, -9),
    ("chdir=-2", 13, -2),
]


@pytest.mark.parametrize(("setting", "step", "error"), ERRORS)
def test_an_error_before_exec_ends_the_child_and_is_left_with_its_step(
    calls: Calls, setting: str, step: int, error: int
) -> None:
    made, left = child(calls, setting, "+pinned", "+nice", "+in", "+out")
    assert left == f"launch: step {step} failed {error} released 0 delay 0"
    assert made[-1] == "exit 127"
    whole = [*child(calls, "+pinned", "+nice", "+in", "+out")[0]]
    if step > 0:
        assert made[:-2] == whole[: len(made) - 2]
        assert made[-2].split()[0] == re.split("[@=]", setting)[0] or made[-2].startswith("close")
    else:
        assert made[-2] == "write 15 1"  # the agent need not wait
        assert "disable_core_dumps" not in made


def test_no_descriptor_is_made_of_a_file_that_can_not_be_opened(calls: Calls) -> None:
    assert not [call for call in child(calls, "open_null=-24")[0] if call.startswith("dup2")]
    assert child(calls, "+in", "open_read@2=-2")[0][-2:] == ["open_read /in -2", "exit 127"]
    assert child(calls, "+in", "+out", "dup2@4=-9")[0][-4:] == ["open_read /in 20", "dup2 20 0", "close 20", "exit 127"]


def test_the_kernel_may_refuse_to_choose_the_trial_first_when_memory_is_short(calls: Calls) -> None:
    assert child(calls, "write_file=-13")[1] == RELEASED


def test_an_unknown_delay_is_left_as_unknown(calls: Calls) -> None:
    assert child(calls, "open_read=-2")[1] == RELEASED.replace("222", "-1")


# Its root

MOUNTED = [
    *("mkdir /root/dev 755", "mount_tmpfs /root/dev mode=755"),
    *(
        call
        for number, name in enumerate(("null", "zero", "full", "random", "urandom"), start=20)
        for call in (
            f"open_write /root/dev/{name} {number}",
            f"close {number}",
            f"bind /dev/{name} /root/dev/{name} 0",
        )
    ),
    *("symlink /proc/self/fd /root/dev/fd", "symlink /proc/self/fd/0 /root/dev/stdin"),
    *("symlink /proc/self/fd/1 /root/dev/stdout", "symlink /proc/self/fd/2 /root/dev/stderr"),
    *("umask 0", "mkdir /root/dev/shm 1777", "mkdir /root/tmp 1777", "umask 22"),
    *("mkdir /root/proc 755", "bind /proc /root/proc 1", "mkdir /root/sys 755", "bind /sys /root/sys 1"),
]
FILES = ["mkdir /root/swapstone 755", "bind /files /root/swapstone 0", "make_read_only /root/swapstone"]
LAYER = [
    *("mount_tmpfs /layer mode=755", "mkdir /layer/root 755", "mkdir /layer/upper 755", "mkdir /layer/work 755"),
    "mount_overlay /layer/root lowerdir=/root,upperdir=/layer/upper,workdir=/layer/work",
]


def mounts(calls: Calls, *settings: str) -> tuple[list[str], str]:
    """Return the calls between the limit of the size of files and the folder or the end, and what the child left."""
    made, left = child(calls, "+root", *settings)
    start = made.index("limit_file_size 1000") + 1
    return made[start : next(at for at, call in enumerate(made) if call in {"chdir /work", "exit 127"})], left


def test_a_root_has_devices_and_the_files_of_the_kernel(calls: Calls) -> None:
    made, left = mounts(calls)
    assert made == ["unshare_mounts", "bind /root /root 0", *MOUNTED, "enter_root /root"]
    assert left == RELEASED


def test_a_root_with_a_layer_and_files(calls: Calls) -> None:
    made, left = mounts(calls, "+layer", "+files")
    inside = [call.replace("/root", "/layer/root") for call in [*MOUNTED, *FILES]]
    assert made == ["unshare_mounts", *LAYER, *inside, "enter_root /layer/root"]
    assert left == RELEASED


STEPS = {"unshare_mounts": 8, "enter_root": 12}


@pytest.mark.parametrize("layer", [True, False])
def test_an_error_of_each_call_for_a_root_ends_the_start(calls: Calls, *, layer: bool) -> None:
    settings = ("+files", *(["+layer"] if layer else []))
    whole, _ = mounts(calls, *settings)
    root = "/layer/root" if layer else "/root"
    devices, files = whole.index(f"mkdir {root}/dev 755"), whole.index(f"mkdir {root}/swapstone 755")
    seen: Counter[str] = Counter()
    for at, call in enumerate(whole):
        name = call.split()[0]
        seen[name] += 1
        if name in {"umask", "close"}:
            continue
        made, left = mounts(calls, *settings, f"{name}@{seen[name]}=-5")
        step = STEPS.get(name, 9 if at < devices else 10 if at < files else 11)
        assert left == f"launch: step {step} failed -5 released 0 delay 0", call
        assert [each for each in made[at + 1 :] if not each.startswith("umask")] == [], call
        assert made[:at] == whole[:at]


@pytest.mark.parametrize(("root", "layer", "fits"), [(16332, 6, True), (16333, 6, False), (5, 8185, False)])
def test_options_of_an_overlay_that_are_too_long_are_an_error(
    calls: Calls, root: int, layer: int, *, fits: bool
) -> None:
    made, left = mounts(calls, f"+root:{root}", f"+layer:{layer}")
    assert any(call.startswith("mount_overlay ") for call in made) == fits
    assert (left == RELEASED) == fits
    assert fits or left == "launch: step 9 failed -12 released 0 delay 0"


@pytest.mark.parametrize(("layer", "fits"), [(5400, True), (8186, False), (8187, False)])
def test_a_layer_whose_path_is_too_long_is_an_error(calls: Calls, layer: int, *, fits: bool) -> None:
    made, left = mounts(calls, "+root:5", f"+layer:{layer}")
    assert (left == RELEASED) == fits
    assert any(call.startswith("mount_overlay ") for call in made) == fits


def test_the_mounts_of_one_process_are_kept_until_they_are_dropped(calls: Calls) -> None:
    assert calls("keep") == [
        *("open_read /proc/7/ns/mnt 10", "close 10"),
        *("open_read /proc/9/ns/mnt 11", "close 11", "open:"),
    ]


# The agent

FORKED = [
    *("mmap 1", *PIPES, "fork", "close 15", "poll 14 1 10000000000", "close 14", "trace_exit 100"),
    *("open_read /proc/100/comm 18", "open_read /proc/100/schedstat 19", "close 16", "close 11", "close 13"),
]
STARTED = "returned 0: pid 100 trace_failed 0 out 10 err 12 release -1 files 18 19 launch 1"


def test_the_agent_keeps_the_reading_ends_and_the_files_of_the_process(calls: Calls) -> None:
    assert calls("start") == [
        *(*FORKED, "write 17 1", "close 17", STARTED),
        *("close 18", "close 19", "open: 10 12"),
    ]


def test_a_process_is_moved_before_it_is_released(calls: Calls) -> None:
    assert calls("start", "+pinned", "set_affinity=-22")[len(FORKED) :][:4] == [
        *("set_affinity 100 15", "write 17 1", "close 17", STARTED)
    ]


def test_a_load_generator_is_not_traced(calls: Calls) -> None:
    made = [call for call in FORKED if not call.startswith(("trace_exit", "open_read"))]
    assert calls("untraced") == [
        *(*made, "write 17 1", "close 17"),
        *("returned 0: pid 100 trace_failed 0 out 10 err 12 release -1 files -1 -1 launch 1", "open: 10 12"),
    ]


@pytest.mark.parametrize(("pipe", "opened"), [(1, 0), (2, 1), (3, 2), (4, 3)])
def test_a_pipe_that_fails_closes_the_others(calls: Calls, pipe: int, opened: int) -> None:
    found = calls("start", f"pipe@{pipe}=-24")
    ends = [f"close {10 + 2 * number + end}" for end in (0, 1) for number in range(opened)]
    assert found[1 + pipe : -2] == ends
    assert found[-2].startswith("returned -24: pid -1 ") and found[-1] == "open:"


@pytest.mark.parametrize("mode", ["start", "untraced"])
def test_a_fork_that_fails_closes_all_pipes(calls: Calls, mode: str) -> None:
    found = calls(mode, "fork=-11")
    assert found[: len(PIPES) + 2] == ["mmap 1", *PIPES, "fork"]
    ends = [f"close {fd}" for fd in (10, 12, 14, 16, 11, 13, 15, 17)]
    returned = "returned -11: pid -1 trace_failed 0 out -1 err -1 release -1 files -1 -1 launch 0"
    assert found[len(PIPES) + 2 :][:9] == [*ends, returned]
    assert found[-1] == "open:"


def test_without_memory_there_is_no_process(calls: Calls) -> None:
    returned = "returned -12: pid -1 trace_failed 0 out -1 err -1 release -1 files -1 -1 launch 0"
    assert calls("start", "mmap=0") == ["mmap 1", returned, "open:"]


def test_tracing_that_fails_is_no_error_of_the_start(calls: Calls) -> None:
    assert STARTED.replace("trace_failed 0", "trace_failed -1") in calls("start", "trace_exit=-1")


def test_a_child_without_a_session_after_10_s_is_killed(calls: Calls) -> None:
    found = calls("start", "poll=0")
    assert [call for call in found if call.startswith(("poll", "kill"))] == ["poll 14 1 10000000000", "kill 100 9"]
    interrupted = calls("start", "poll@1=-4")
    assert [call for call in interrupted if call.startswith(("poll", "kill"))] == ["poll 14 1 10000000000"] * 2


# A process that waits

WAITED = [*FORKED, "start"]


def early(calls: Calls, *settings: str) -> list[str]:
    """Return the calls after the one that starts the waiting process, which is forked once."""
    found = calls("early", *settings)
    assert found[: len(WAITED)] == WAITED
    return found[len(WAITED) :]


def test_a_start_uses_the_waiting_process_once(calls: Calls) -> None:
    found = early(calls)
    assert found[:4] == ["wait 0", "write 17 1", "close 17", STARTED]
    again = [call for call in found[4:] if call.split()[0] in {"mmap", "fork", "wait", "trace_exit", "returned"}]
    assert again[:2] == ["fork", "trace_exit 101"]  # in the same memory
    assert again[2].startswith("returned 0: pid 101 ") and len(again) == 3


def test_the_end_of_another_process_does_not_end_the_waiting_one(calls: Calls) -> None:
    other = f"wait@1=200{EXITED}"
    assert early(calls, other)[:5] == ["wait 0", "wait 0", "write 17 1", "close 17", STARTED]


CLOSED = ["close 10", "close 12", "close 17", "close 18", "close 19"]
REPLACED = [*PIPES, "fork"]


@pytest.mark.parametrize("end", [f"wait@1=100{EXITED}", f"wait@1=100{SIGNALED}", "wait@1=-10"])
def test_a_waiting_process_that_ended_is_replaced(calls: Calls, end: str) -> None:
    found = early(calls, end)
    assert found[: 1 + len(CLOSED) + len(REPLACED)] == ["wait 0", *CLOSED, *REPLACED]
    assert [call for call in found if call.startswith("returned 0: pid 101 ")]


def test_a_waiting_process_that_was_stopped_is_killed_and_replaced(calls: Calls) -> None:
    found = early(calls, f"wait@1=100{SIGNAL_STOP}", f"wait@3=100{SIGNALED}")
    kill = ["kill 100 9", "trace_continue 100 0"]
    assert found[: 10 + len(CLOSED) - 2] == [
        *("wait 0", *kill, "wait 0", "poll -1 0 1000000", *kill, "wait 0", *CLOSED)
    ]


def test_a_waiting_process_that_does_not_end_is_given_up_after_10_s(calls: Calls) -> None:
    found = early(calls, f"wait@1=100{SIGNAL_STOP}")
    assert found.count("poll -1 0 1000000") == 10_000
    assert found[found.index("close 10") :][:5] == CLOSED


# The keeper

KEPT = ["become_subreaper", "block_signals 10", "fork"]
NULL = ["open_null 11", "set_parent_death_signal 18", "dup2 11 0", "dup2 11 2"]


def test_a_keeper_ends_with_the_status_of_the_worker(calls: Calls) -> None:
    found = calls("keeper", "wait=-10", "wait@1=0", f"wait@2=100{EXITED}", "value=3")
    assert found == [
        *KEPT,
        *NULL,
        "wait 0",
        "poll 10 1 -1",
        "wait 0",
        "wait 0",
        "dup2 11 1",
        "wait 0",
        "exit 3",
        "open: 10 11",
    ]


@pytest.mark.parametrize(("change", "status"), [(EXITED, 4), (SIGNALED, 5)])
def test_a_worker_that_was_killed_has_the_status_5(calls: Calls, change: int, status: int) -> None:
    assert f"exit {status}" in calls("keeper", "wait=-10", f"wait@1=100{change}", "value=4")


def test_the_end_of_another_process_is_not_that_of_the_worker(calls: Calls) -> None:
    found = calls("keeper", "wait=-10", f"wait@1=101{EXITED}", "wait@2=0", f"wait@3=100{EXITED}", "value=3")
    assert found.count("poll 10 1 -1") == 1 and "exit 3" in found


@pytest.mark.parametrize(("signal", "sent"), [(1, True), (2, True), (15, True), (17, False), (18, False)])
def test_signals_that_end_the_agent_are_sent_to_the_worker(calls: Calls, signal: int, *, sent: bool) -> None:
    found = calls("keeper", f"read_signal@1={signal}", "wait=-10", "wait@1=0", f"wait@2=100{EXITED}")
    assert [call for call in found if call.startswith("kill")] == (["kill 100 15"] if sent else [])


def test_what_the_worker_leaves_is_killed_until_nothing_is_left(calls: Calls) -> None:
    found = calls("keeper", f"wait@1=100{EXITED}", "wait@4=-10", "read_signal@1=15")
    left = found[found.index("open_read /proc 12") :]
    assert [call for call in left if call.split()[0] in {"kill", "killpg", "poll", "wait", "exit"}] == [
        *("killpg 60 9", "kill 60 9", "poll 10 1 50000000", "wait 0", "exit 0")
    ]
    assert left[-1] == "open: 10 11"


def test_a_keeper_gives_up_after_10_s(calls: Calls) -> None:
    found = calls("keeper", f"wait@1=100{EXITED}", "poll=0")
    assert found.count("kill 60 9") == 200 and "exit 0" in found


def test_a_keeper_without_a_null_device_keeps_its_descriptors(calls: Calls) -> None:
    found = calls("keeper", "open_null=-2", "wait=-10", f"wait@1=100{EXITED}")
    assert not [call for call in found if call.startswith("dup2")]


WORKER = [*KEPT, "close 10", "set_parent_death_signal 15"]


def test_a_worker_ends_with_the_keeper(calls: Calls) -> None:
    assert calls("keeper", "fork=0") == [*WORKER, "returned 0", "open:"]
    assert calls("keeper", "fork=0", "getppid=1") == [*WORKER, "exit 5", "open:"]
    assert calls("keeper", "fork=0", "set_parent_death_signal=-1")[-2] == "returned -1"


def test_an_agent_that_can_not_be_split_does_not_begin(calls: Calls) -> None:
    assert calls("keeper", "become_subreaper=-22") == [*KEPT[:2], "returned -22", "open: 10"]
    assert calls("keeper", "fork=-11") == [*KEPT, "returned -11", "open: 10"]


# Descriptor 0 is one like others


def test_descriptor_0_is_closed_and_used_like_others(calls: Calls) -> None:
    assert "dup2 0 0" in child(calls, "open_null=0")[0]
    assert [call for call in calls("start", "first=0", "pipe@2=-24") if call.startswith("close")] == [
        "close 0",
        "close 1",
    ]
    assert calls("start", "first=0")[-1] == "open: 0 2"
    assert "close 8" in calls("start", "first=0")
    device = child(calls, "+root", "open_write=0")[0]
    assert device.count("close 0") == 5 and "bind /dev/null /root/dev/null 0" in device
    assert calls("keep", "open_read=0")[:2] == ["open_read /proc/7/ns/mnt 0", "close 0"]
    found = calls("keeper", "open_null=0", "wait=-10", f"wait@1=100{EXITED}")
    assert [call for call in found if call.startswith("dup2")] == ["dup2 0 0", "dup2 0 2", "dup2 0 1"]
