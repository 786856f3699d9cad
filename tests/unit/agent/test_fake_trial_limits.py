# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trials by a script: limits of times, outputs and counters to their last unit, and what ends beside the process of a trial."""

from __future__ import annotations

import pytest

from swapstone.core.wire import AgentAnswer, ProcessOutcome, decode_answers
from tests.unit.agent.harness import Printed
from tests.unit.agent.test_fake_trial import ENDS, EXIT_STOP, EXITED, GROUP_STOP, PROC, SERVER, SIGNALED


def run(printed: Printed, *parts: str) -> tuple[AgentAnswer, list[str]]:
    output, calls = printed(*parts)
    (answer,) = decode_answers(output)
    return answer, calls


def kills(calls: list[str], pid: int) -> list[str]:
    """Return the times, in milliseconds, at which a process was sent SIGKILL."""
    return [call.split()[0] for call in calls if call.endswith(f" kill {pid} 9")]


# Times


@pytest.mark.parametrize("other", ["", f"at 5000 event 300 {EXITED} 0"])
def test_a_process_that_is_killed_has_10_s_from_then_on_to_end(printed: Printed, other: str) -> None:
    """Also after a trial that took longer than a second, and if another process ends in the meantime."""
    _, calls = run(printed, "set timeout_ms 2345", "set immortal 100", other)
    assert kills(calls, 100)[:3] == ["2345", "12345", "12395"]
    assert calls[-1] == "22345 state 0"


def test_a_load_generator_is_killed_with_a_server_that_does_not_end(printed: Printed) -> None:
    _, calls = run(printed, SERVER, "set warm_ms 0", "set timeout_ms 500", "set immortal 100", "at 0 accept")
    assert kills(calls, 200) == ["500"]


@pytest.mark.parametrize(("ended", "noted"), [("300", False), ("300.000001", True), ("299.999999", False)])
def test_100_ms_after_its_main_thread_a_process_has_outlived_it(printed: Printed, ended: str, *, noted: bool) -> None:
    stat = f"file /proc/100/stat 100 (a) Z {' '.join(['-1'] * 16)} 2 0\\"
    answer, _ = run(printed, PROC, stat, f"at 200 event 100 {EXIT_STOP} 0", f"at {ended} event 100 {EXITED} 0")
    assert bool(answer.notes) == noted


def test_the_time_in_which_the_agent_reads_is_not_in_the_note_on_an_early_end(printed: Printed) -> None:
    stat = f"file /proc/100/stat 100 (a) Z {' '.join(['-1'] * 16)} 2 0\\"
    slow = ("file /slow abc", "observe file /slow")  # two reads of 500 ms
    answer, _ = run(printed, PROC, stat, *slow, f"at 200 event 100 {EXIT_STOP} 0", f"at 1500 event 100 {EXITED} 0")
    note = "its main thread ended 300 ms before it: loader, objects and observations are as they were then"
    assert answer.notes == (note,)
    assert dict(answer.facts)["wall_ns"] == 500_000_000


def test_a_pause_of_a_trial_is_not_subtracted_from_the_next(printed: Printed) -> None:
    output, _ = printed(
        *(PROC, "set trials 2", "file /slow abc", "observe file /slow", ENDS, f"next 200 event 100 {EXITED} 4")
    )
    first, second = decode_answers(output)
    assert dict(first.facts)["wall_ns"] == dict(second.facts)["wall_ns"] == 200_000_000


def test_a_phase_without_a_length_ends_at_once(printed: Printed) -> None:
    script = (PROC, SERVER, "set drain_ms 0", "at 9 accept", f"at 500 event 201 {EXITED} 0")
    answer, calls = run(printed, *script)
    assert answer.outcome is ProcessOutcome.DRIVEN
    assert [call for call in calls if " start " in call or call.endswith(" 15")] == [
        *("0 start 100", "9 start 200", "309 start 201", "500 kill 100 15")
    ]


# Outputs


@pytest.mark.parametrize("output", [2, 3])
def test_output_of_a_load_generator_up_to_the_limit_is_kept_whole(printed: Printed, output: int) -> None:
    script = (PROC, SERVER, "set warm_ms 0", "at 0 accept", f"at 30 out {output} 1000", f"at 50 event 200 {EXITED} 0")
    answer, _ = run(printed, *script)
    assert answer.outcome is ProcessOutcome.DRIVEN
    assert len(answer.driver_stdout + answer.driver_stderr) == 1000


@pytest.mark.parametrize(("second", "outcome"), [(4096, "exited"), (4095, "overflow"), (9000, "exited")])
def test_each_trial_has_its_own_limit_of_output(printed: Printed, second: int, outcome: str) -> None:
    """Memory of the size of a page and one byte more, so that a mistake of one byte in its release is a fault."""
    script = ("set trials 2", "set output_bytes 4095", f"set second_output_bytes {second}", "at 30 out 0 4095", ENDS)
    output, calls = printed(*script, "next 30 out 0 4096", f"next 200 event 100 {EXITED} 4")
    first, other = decode_answers(output)
    assert (first.outcome.value, len(first.stdout)) == ("exited", 4095)
    assert (other.outcome.value, len(other.stdout)) == (outcome, min(second, 4096))
    unmapped = [call for call in calls if "munmap" in call]
    assert unmapped == ([] if second == 4095 else ["200 munmap 4096"] * 2)


def test_an_output_without_memory_is_not_read(printed: Printed) -> None:
    answer, _ = run(printed, "set mmap_fails 1", "set immortal 100", "at 20 out 0 10")
    assert answer.outcome is ProcessOutcome.UNSTARTED


def test_output_beyond_the_limit_is_not_written_beyond_its_memory(printed: Printed) -> None:
    answer, _ = run(printed, "set output_bytes 4095", "at 30 out 0 9000", ENDS)
    assert answer.outcome is ProcessOutcome.OVERFLOW
    assert len(answer.stdout) == 4095


# What is counted


def test_the_processor_time_of_a_trial_is_that_of_all_that_ended_in_it(printed: Printed) -> None:
    """Each process has used 3 microseconds, the agent 7 milliseconds. A stop is no end."""
    stops = f"at 10 event 100 {GROUP_STOP} 19\nat 20 event 100 {GROUP_STOP} 19\n"
    one = dict(run(printed, PROC, stops, "set cpu_ns 7000000", ENDS)[0].facts)
    assert one["trial_cpu_us"] == 3 + 7000
    both = dict(run(printed, PROC, f"at 50 event 300 {EXITED} 0", "set cpu_ns 7000000", ENDS)[0].facts)
    assert both["trial_cpu_us"] == 2 * 3 + 7000
    assert dict(run(printed, PROC, "set cpu_ns 0", ENDS)[0].facts)["trial_cpu_us"] == 3


@pytest.mark.parametrize(
    ("event", "left"),
    [
        (f"at 50 event 300 {SIGNALED} 9", 0),  # before the end of the process
        (f"at 200 event 300 {EXITED} 9", 0),
        (f"at 200 event 300 {SIGNALED} 11", 0),
        (f"at 200 event 300 {SIGNALED} 9", 1),
    ],
)
def test_only_processes_that_were_killed_after_the_end_were_left(printed: Printed, event: str, left: int) -> None:
    answer, _ = run(printed, PROC, ENDS, event)
    assert answer.outcome is (ProcessOutcome.ORPHANS if left else ProcessOutcome.EXITED)
    assert len(answer.notes) == left


def test_counters_of_the_machine_are_known_of_a_program_that_was_not_executed(printed: Printed) -> None:
    pressure = "file /proc/pressure/cpu some total=100\\"
    facts = dict(run(printed, PROC, pressure, "set failed 2", ENDS)[0].facts)
    assert facts["psi_cpu_us"] == 0 and facts["late_ns"] == 0
    assert not {"nice", "cpus_allowed", "user_us", "pid", "wall_ns"} & set(facts)


STAT = "file /proc/100/stat 100 (a) S 10 100 0 0 -1 0 1 2 3 4 5 6 7 8 20 0 1\\"


@pytest.mark.parametrize(("voluntary", "other", "unseen"), [(2, 3, 8), (6, 7, 0), (7, 7, None), (0, 0, 13)])
def test_switches_of_a_server_that_no_thread_shows_are_those_of_its_end(
    printed: Printed, voluntary: int, other: int, unseen: int | None
) -> None:
    """The process has 6 and 7 switches when it ends. More of its threads than those are no fact."""
    status = (
        f"file /proc/100/status Name: a\\VmHWM: 9 kB\\VmRSS: 8 kB\\voluntary_ctxt_switches: {voluntary}\\"
        f"nonvoluntary_ctxt_switches: {other}\\"
    )
    script = (PROC, STAT, status, SERVER, "set tasks 1", "set warm_ms 0", "at 0 accept")
    facts = dict(run(printed, *script, f"at 50 event 200 {EXITED} 0")[0].facts)
    assert (facts["server_nvcsw"], facts["server_threads"], facts["server_rss_bytes"]) == (0, 1, 8192)
    assert facts.get("server_unseen_switches") == unseen


def test_a_process_without_a_server_has_no_counters_of_one(printed: Printed) -> None:
    assert not [name for name, _ in run(printed, PROC, STAT, ENDS)[0].facts if name.startswith("server")]


@pytest.mark.parametrize(("count", "full"), [(64, False), (65, True)])
def test_objects_that_are_not_listed_are_noted(printed: Printed, count: int, full: bool) -> None:
    """Paths of 4095 bytes: with a zero byte each, 64 of them fill the room."""
    maps = "".join(f"1-2 r-xp 0 0:0 1   /{number:04}{'p' * 4090}\\" for number in range(count))
    files = PROC.replace("file /proc/100/maps 1-2 r-xp 0 0:0 1   /bin/true\\\n", f"file /proc/100/maps {maps}\n")
    assert files != PROC
    answer, _ = run(printed, files, ENDS)
    assert [len(path) for path in answer.objects] == [4095] * 64
    assert answer.notes == (("more objects are mapped than are listed",) if full else ())


# Values


@pytest.mark.parametrize("length", [53, 54, 80])
def test_a_long_name_of_a_file_of_the_process(printed: Printed, length: int) -> None:
    """A longer name is not that of its beginning."""
    files = (f"file /proc/100/{'n' * length} x", f"file /proc/100/{'n' * 53}m y")
    answer, _ = run(printed, PROC, *files, f"observe proc {'n' * length}", ENDS)
    assert [value for _, value in answer.observed] == ["x"]


@pytest.mark.parametrize(("length", "error"), [(8188, 12), (8189, 95)])
def test_a_line_of_the_cgroups_that_is_too_long_is_not_read(printed: Printed, length: int, error: int) -> None:
    files = ("file /sys/fs/cgroup/cgroup.controllers cpu", f"file /proc/100/cgroup 0::/{'c' * (length - 1)}\\")
    answer, _ = run(printed, PROC, *files, "observe cgroup name", ENDS)
    assert answer.notes == (f"observe cgroup name: errno {error}",)


# Servers


def test_a_load_generator_that_fails_after_the_warm_up_ends_the_trial(printed: Printed) -> None:
    """That of the warm-up was killed, which is no failure."""
    answer, calls = run(printed, SERVER, "at 9 accept", f"at 500 event 201 {EXITED} 3")
    assert (answer.outcome, answer.code) == (ProcessOutcome.UNDRIVEN, 0)
    assert answer.notes == ("the load generator: it ended with status 3",)
    assert kills(calls, 100) == ["500"]


def test_a_load_generator_that_ends_before_its_exec_was_interrupted(printed: Printed) -> None:
    script = (SERVER, "set generator_waits 1", "set step 3", "at 0 accept", f"at 50 event 200 {EXITED} 1")
    answer, _ = run(printed, *script)
    assert (answer.outcome, answer.code) == (ProcessOutcome.UNDRIVEN, 4)
    assert answer.notes == ("the load generator: could not do the step",)


def test_a_load_generator_that_does_not_end_is_killed_once_for_each_reason(printed: Printed) -> None:
    """At the end of the warm-up, and at the time-out. Then the agent waits 10 s for what is left."""
    _, calls = run(printed, SERVER, "set timeout_ms 5000", "set immortal 200", "at 9 accept")
    assert kills(calls, 200)[:3] == ["309", "5000", "5000"]
    assert kills(calls, 100) == ["5000"]


def test_a_server_that_does_not_end_is_killed_once_for_each_reason(printed: Printed) -> None:
    ends = f"at 50 event 200 {EXITED} 0"
    script = (PROC, SERVER, "set warm_ms 0", "set term_ends 0", "set timeout_ms 5000", "set immortal 100")
    answer, calls = run(printed, *script, "at 0 accept", ends)
    assert kills(calls, 100)[:3] == ["620", "5000", "15000"]
    assert answer.outcome is ProcessOutcome.TIMEOUT
