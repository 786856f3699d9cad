# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trials by a script, on a clock that only waiting moves: what the agent does at each event, and exactly when."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from swapstone.core.wire import AgentAnswer, ProcessOutcome, decode_answers
from tests.unit.agent.harness import Printed

EXITED, SIGNALED, EXIT_STOP, GROUP_STOP, TRACE_STOP, SIGNAL_STOP = range(1, 7)  # enum port_change
ENDS = f"at 200 event 100 {EXIT_STOP} 0\nat 200 event 100 {EXITED} 4\n"
PROC = (
    "set delay_ns 400\nfile /proc/100/schedstat 123 456 78\\\nfile /proc/100/comm true\\\nfile /proc/100/exe none\\\n"
    "file /proc/100/maps 1-2 r-xp 0 0:0 1   /bin/true\\\n"
)

Run = Callable[..., tuple[AgentAnswer, list[str]]]


@pytest.fixture
def run(printed: Printed) -> Run:
    """Return a function that runs a script; it returns the answer and the calls."""

    def run(*parts: str) -> tuple[AgentAnswer, list[str]]:
        output, calls = printed(*parts)
        (answer,) = decode_answers(output)
        return answer, calls

    return run


def seen(answer: AgentAnswer) -> tuple[ProcessOutcome, int, tuple[str, ...]]:
    return answer.outcome, answer.code, answer.notes


def signals(calls: list[str]) -> list[str]:
    return [call for call in calls if call.split()[1] in {"kill", "killpg"}]


def test_a_process_is_observed_once_and_its_usage_is_kept_field_by_field(run: Run) -> None:
    answer, calls = run(PROC, "set cpu_ns 7000", ENDS)
    assert seen(answer) == (ProcessOutcome.EXITED, 4, ())
    facts = dict(answer.facts)
    names = ("user_us", "system_us", "maxrss_bytes", "minflt", "majflt", "nvcsw", "nivcsw", "read_bytes", "write_bytes")
    assert [facts[name] for name in names] == list(range(1, 10))
    assert (facts["wall_ns"], facts["launch_ns"], facts["pid"]) == (200_000_000, 7, 100)
    assert (facts["run_delay_ns"], facts["nice"], facts["cpus_allowed"]) == (56, 3, 2)
    assert facts["trial_cpu_us"] == 3 + 7
    assert (facts["stops"], facts["late_ns"], facts["suspended_ns"]) == (0, 0, 0)
    assert answer.objects == ("/bin/true",)
    assert calls == [
        "0 start 100",
        "200 rewind /proc/100/comm",
        "200 rewind /proc/100/schedstat",
        "200 count_cpus 100",
        "200 continue 100 0",
        "200 rewind /proc/100/comm",
        "200 root_drop",
        "200 state 0",
    ]


def test_a_process_that_was_not_traced_is_observed_at_its_end(run: Run) -> None:
    answer, calls = run(PROC, "set trace_failed 1", f"at 200 event 100 {EXITED} 4")
    assert seen(answer)[2] == ("loader, objects and observations are unknown: tracing is forbidden here, errno 1",)
    assert dict(answer.facts)["run_delay_ns"] == 56
    assert calls.count("200 count_cpus 100") == 1


@pytest.mark.parametrize(("early_ms", "noted"), [(100, False), (101, True), (3500, True)])
def test_a_main_thread_that_ends_more_than_100_ms_early_is_noted(run: Run, early_ms: int, *, noted: bool) -> None:
    answer, _ = run(PROC, _stat(2), f"at 200 event 100 {EXIT_STOP} 0", f"at {200 + early_ms} event 100 {EXITED} 0")
    note = f"its main thread ended {early_ms} ms before it: loader, objects and observations are as they were then"
    assert answer.notes == ((note,) if noted else ())
    assert dict(answer.facts)["wall_ns"] == (200 + early_ms) * 1_000_000


def _stat(threads: int) -> str:
    """Return the file with the number of threads, field 20, of a process whose name looks like the end of a name."""
    return f"file /proc/100/stat 100 (a) Z 2) Z {' '.join(['-1'] * 16)} {threads} 0\\\n"


@pytest.mark.parametrize("stat", [_stat(1), _stat(0), "file /proc/100/stat 100 (a) Z 1\\\n", ""])
def test_a_process_of_one_thread_that_takes_long_to_end_has_no_note(run: Run, stat: str) -> None:
    """On a busy machine it waits for a processor, after the stop at its exit."""
    answer, _ = run(PROC, stat, f"at 200 event 100 {EXIT_STOP} 0", f"at 3700 event 100 {EXITED} 0")
    assert answer.notes == ()
    assert dict(answer.facts)["wall_ns"] == 3_700_000_000


def test_the_time_in_which_the_agent_reads_is_not_the_trial_s(run: Run) -> None:
    answer, _ = run(PROC, "file /slow abc", "observe file /slow", ENDS)
    assert dict(answer.facts)["wall_ns"] == 200_000_000
    assert answer.notes == ()
    assert [value for _, value in answer.observed] == ["abc"]


def test_each_stop_has_its_own_continuation(run: Run) -> None:
    _, calls = run(
        f"at 10 event 100 {SIGNAL_STOP} 12",
        f"at 20 event 100 {TRACE_STOP} 5",
        f"at 30 event 100 {GROUP_STOP} 19",
        f"at 40 event 300 {SIGNAL_STOP} 12",
        ENDS,
    )
    assert [call for call in calls if "continue" in call or "listen" in call] == [
        "10 continue 100 12",
        "20 continue 100 0",
        "30 listen 100",
        "200 continue 100 0",
    ]


def test_stops_of_the_process_and_of_the_agent_are_counted_together(run: Run) -> None:
    stops = (
        f"at 10 event 100 {GROUP_STOP} 19",
        "at 20 signal 18",
        f"at 30 event 100 {GROUP_STOP} 19",
        "at 40 signal 17",
    )
    answer, _ = run(*stops, ENDS)
    assert dict(answer.facts)["stops"] == 3
    assert answer.outcome is ProcessOutcome.EXITED


@pytest.mark.parametrize("number", [1, 2, 15])
def test_a_signal_for_the_agent_ends_the_trial(run: Run, number: int) -> None:
    answer, calls = run(f"at 30 signal {number}")
    assert signals(calls) == ["30 killpg 100 9", "30 kill 100 9"]
    assert answer.outcome is ProcessOutcome.TIMEOUT
    assert calls[-1] == "30 state 1"


def test_a_closed_standard_output_ends_the_trial(run: Run) -> None:
    _, calls = run("at 30 closed")
    assert calls[-1] == "30 state 2"
    assert "30 kill 100 9" in calls


def test_the_time_out_is_exact(run: Run) -> None:
    answer, calls = run("set timeout_ms 2345")
    assert seen(answer) == (ProcessOutcome.TIMEOUT, 0, ())
    assert signals(calls) == ["2345 killpg 100 9", "2345 kill 100 9"]


@pytest.mark.parametrize(("late_ns", "facts"), [(0, 0), (7, 7)])
def test_the_longest_time_that_a_timer_was_late_is_a_fact(run: Run, late_ns: int, facts: int) -> None:
    answer, _ = run(f"set late_ns {late_ns}", f"at 2500 event 100 {EXITED} 0")
    assert dict(answer.facts)["late_ns"] == facts


def test_a_suspension_of_the_machine_is_a_fact(run: Run) -> None:
    assert dict(run("set suspended 55", ENDS)[0].facts)["suspended_ns"] == 55


@pytest.mark.parametrize(
    ("step", "doubt", "stated"),
    [
        (0, 0, 0),
        (3_600_000_000_000, 0, 3_600_000_000_000),
        (-3_600_000_000_000, 0, -3_600_000_000_000),
        (1_795_000_000_000_000_000, 2000, 1_794_999_999_999_998_000),
        (-5000, 2000, -3000),
        (1999, 2000, 0),
        (-1999, 2000, 0),
    ],
)
def test_a_clock_that_is_set_during_the_trial_is_a_fact(run: Run, step: int, doubt: int, stated: int) -> None:
    answer, _ = run(f"set clock_step {step}", f"set clock_doubt {doubt}", ENDS)
    assert dict(answer.facts)["clock_step_ns"] == stated


def test_a_process_that_does_not_end_when_killed_is_given_up_and_noted(run: Run) -> None:
    answer, calls = run("set timeout_ms 100", "set immortal 100")
    assert answer.outcome is ProcessOutcome.TIMEOUT
    assert answer.notes == ("1 processes could not be killed and are still there",)
    assert "wall_ns" not in dict(answer.facts)
    assert calls[-1] == "20100 state 0"  # 10 s for the process, 10 s for everything that is left
    kills = [int(call.split()[0]) for call in calls if "kill 100 9" in call]
    assert kills[:3] == [100, 10100, 10150]


def test_processes_that_are_left_are_killed_and_counted(run: Run) -> None:
    answer, calls = run(ENDS, "child 300 10", "child 301 10", "child 302 99")
    assert seen(answer)[:2] == (ProcessOutcome.ORPHANS, 2)
    assert signals(calls)[:4] == ["200 killpg 300 9", "200 kill 300 9", "200 killpg 301 9", "200 kill 301 9"]


@pytest.mark.parametrize(
    ("end", "note"),
    [
        (f"at 200 event 100 {EXITED} 4", "exit status 4"),
        (f"at 200 event 100 {SIGNALED} 6", "signal 6"),
        ("set timeout_ms 200", "by the agent"),
    ],
)
def test_the_note_on_what_is_left_states_the_own_end(run: Run, end: str, note: str) -> None:
    answer, _ = run(end, "child 300 10")
    assert answer.notes == (f"left 1 process running, killed by the agent; its own end was {note}",)


@pytest.mark.parametrize(("free", "ended"), [(4000, None), (3999, "1000"), (-1, None)])
def test_free_space_is_compared_each_second(run: Run, free: int, ended: str | None) -> None:
    answer, calls = run(
        f"at 300 free {free}", "at 1500 free 0" if free == 3999 else "", f"at 1999 event 100 {EXITED} 0"
    )
    assert answer.outcome is (ProcessOutcome.DISK if ended else ProcessOutcome.EXITED)
    assert [call.split()[0] for call in signals(calls)] == ([ended] * 2 if ended else [])


def test_free_space_is_compared_again_after_another_second(run: Run) -> None:
    answer, calls = run("at 1100 free 0", f"at 2999 event 100 {EXITED} 0")
    assert (answer.outcome, signals(calls)[0]) == (ProcessOutcome.DISK, "2000 killpg 100 9")


def test_sigxfsz_means_the_disk_limit(run: Run) -> None:
    assert seen(run(f"at 200 event 100 {SIGNALED} 25")[0])[:2] == (ProcessOutcome.DISK, 0)
    assert seen(run(f"at 200 event 100 {EXITED} 25")[0])[:2] == (ProcessOutcome.EXITED, 25)


@pytest.mark.parametrize("output", [0, 1])
def test_one_byte_more_than_the_limit_of_output_ends_the_trial_at_once(run: Run, output: int) -> None:
    answer, calls = run(f"at 30 out {output} 1000", ENDS)
    assert (answer.outcome, len(answer.stdout + answer.stderr)) == (ProcessOutcome.EXITED, 1000)
    answer, calls = run(f"at 30 out {output} 1000", f"at 40 out {output} 1", ENDS)
    assert (answer.outcome, answer.code, len(answer.stdout + answer.stderr)) == (ProcessOutcome.OVERFLOW, 0, 1000)
    assert signals(calls) == ["40 killpg 100 9", "40 kill 100 9"]


def test_output_beyond_the_limit_at_the_end_is_an_overflow(run: Run) -> None:
    answer, calls = run("at 200 out 0 5000", ENDS)
    assert (answer.outcome, answer.code, signals(calls)) == (ProcessOutcome.OVERFLOW, 0, [])


@pytest.mark.parametrize(("failed", "released", "code"), [(2, 1, 2), (2, 0, 2), (0, 0, 4)])
def test_a_program_that_was_not_executed_has_no_facts_of_its_own(
    run: Run, failed: int, released: int, code: int
) -> None:
    answer, _ = run(PROC, f"set failed {failed}", f"set released {released}", "set step 3", ENDS)
    assert seen(answer) == (ProcessOutcome.UNSTARTED, code, ("could not do the step",))
    assert {name for name, _ in answer.facts} == {
        *(
            "stops",
            "suspended_ns",
            "clock_step_ns",
            "late_ns",
            "agent_cpus",
            "agent_cpu_bits",
            "agent_nice",
            "agent_policy",
        ),
        *("agent_limits_crc", "changed_conditions"),
    }


def test_a_fork_that_fails_is_an_answer(run: Run) -> None:
    answer, _ = run("set start_error 11")
    assert seen(answer) == (ProcessOutcome.UNSTARTED, 11, ("the agent could not fork or map memory",))


@pytest.mark.parametrize(("number", "port"), [(1, 0), (2, 0), (3, 80), (4, 80)])
def test_without_memory_for_an_output_the_process_is_killed(run: Run, number: int, port: int) -> None:
    answer, calls = run(f"set mmap_fails {number}", f"set port {port}")
    assert seen(answer) == (ProcessOutcome.UNSTARTED, 12, ("the agent could not fork or map memory",))
    assert signals(calls) == ["0 killpg 100 9", "0 kill 100 9"]
    assert "0 root_drop" in calls


def test_without_memory_for_an_output_the_agent_waits_for_the_end_of_the_process(run: Run) -> None:
    _, calls = run("set mmap_fails 1", "set immortal 100")
    assert calls[-1] == "10000 state 0"


def test_no_note_counts_processes_that_are_not_listed(run: Run) -> None:
    answer, calls = run(PROC, ENDS, f"at 60000 event 300 {EXITED} 0")  # a child that /proc does not show
    assert seen(answer) == (ProcessOutcome.EXITED, 4, ())
    assert calls[-1] == "10200 state 0"


def test_counters_of_the_machine_are_their_growth_in_the_trial(run: Run) -> None:
    facts = dict(run("file /proc/pressure/cpu some total=100\\", "file /proc/loadavg 1.25 \\", ENDS)[0].facts)
    assert (facts["psi_cpu_us"], facts["load1_milli"]) == (0, 1250)
    assert "psi_io_us" not in facts


def test_unknown_processor_time_of_the_agent_is_no_fact(run: Run) -> None:
    assert "trial_cpu_us" not in dict(run("set cpu_ns -1", ENDS)[0].facts)


def test_the_namespace_of_a_root_is_kept_from_the_exit_on(run: Run) -> None:
    calls = run("set root 1", ENDS)[1]
    assert calls.index("200 root_keep 100") < calls.index("200 continue 100 0") < calls.index("200 root_drop")
    assert not any("root_keep" in call for call in run(ENDS)[1])


def test_an_observation_that_fails_in_the_middle_has_its_error(run: Run) -> None:
    files = "file /a abcdef\nfile /proc/100/environ A=1|BC=234|\nobserve file /a\nobserve env BC\nset chunk 1"
    answer, _ = run(PROC, files, ENDS)
    assert ([value for _, value in answer.observed], answer.absent, answer.notes) == (["abcdef", "234"], (), ())
    answer, _ = run(PROC, files, "fail /a 3 5", "fail /proc/100/environ 8 6", ENDS)
    assert (answer.observed, answer.absent) == ((), ())
    assert answer.notes == ("observe file /a: errno 5", "observe env BC: errno 6")


CONTROLLERS, CGROUP = "file /sys/fs/cgroup/cgroup.controllers cpu", "file /proc/100/cgroup 3:cpu:/old\\0::/x\\"


@pytest.mark.parametrize(
    ("files", "value", "error"),
    [
        ((CONTROLLERS, CGROUP, "file /sys/fs/cgroup/x/name 12"), "12", None),
        ((CGROUP, "file /sys/fs/cgroup/x/name 12"), None, 95),
        ((CONTROLLERS, "file /proc/100/cgroup 3:cpu:/x\\"), None, 95),
        ((CONTROLLERS,), None, None),
        ((CONTROLLERS, CGROUP, "file /sys/fs/cgroup/old/name 12"), None, None),
    ],
)
def test_a_file_of_a_cgroup_is_that_of_version_2_and_no_descriptor_stays_open(
    run: Run, files: tuple[str, ...], value: str | None, error: int | None
) -> None:
    answer, calls = run(PROC, *files, "observe cgroup name", ENDS)
    assert [found for _, found in answer.observed] == ([value] if value else [])
    assert answer.notes == ((f"observe cgroup name: errno {error}",) if error else ())
    assert len(answer.absent) == (not value and not error)
    assert not [call for call in calls if " open " in call]


SERVER = "set port 80\nset warm_ms 300\nset drain_ms 70\nset stop_ms 500\nset ready_ms 100\n"


def server_calls(calls: list[str]) -> list[str]:
    return [call for call in calls if call.split()[1] in {"start", "kill", "killpg", "state"}]


def test_the_phases_of_a_server_begin_exactly_when_they_are_due(run: Run) -> None:
    ends = f"at 1000 event 201 {EXITED} 0"
    answer, calls = run(PROC, SERVER, "at 9 accept", ends)
    assert seen(answer) == (ProcessOutcome.DRIVEN, 0, ())
    assert [call for call in calls if "connect" in call] == [f"{ms} connect 80 50000000" for ms in (2, 4, 6, 8, 9)]
    assert server_calls(calls) == [
        "0 start 100",
        "9 start 200",
        *("309 killpg 200 9", "309 kill 200 9", "309 killpg 200 9"),  # the end of the warm-up; what a shell left
        "379 start 201",
        "1000 killpg 201 9",
        "1070 kill 100 15",
        "1070 state 0",
    ]
    facts = dict(answer.facts)
    assert (facts["ready_ns"], facts["driven_ns"]) == (9_000_000, 621_000_000)
    assert (facts["driver_user_us"], facts["driver_system_us"]) == (1, 2)
    assert answer.objects == ("/bin/true",)


def test_a_server_that_is_killed_without_a_stop_at_its_exit_did_not_end_early(run: Run) -> None:
    """The kernel may skip the stop after SIGKILL (ptrace(2), BUGS)."""
    answer, _ = run(PROC, SERVER, "set warm_ms 0", "at 0 accept", f"at 50 event 200 {EXITED} 0", "set stop_ms 900")
    assert answer.notes == ()


def test_a_server_without_a_warm_up_is_measured_at_once(run: Run) -> None:
    answer, calls = run(PROC, SERVER, "set warm_ms 0", "at 0 accept", f"at 50 event 200 {EXITED} 0")
    assert answer.outcome is ProcessOutcome.DRIVEN
    assert server_calls(calls)[:4] == ["0 start 100", "0 start 200", "50 killpg 200 9", "120 kill 100 15"]


def test_a_server_that_does_not_accept_is_unready_at_its_time(run: Run) -> None:
    answer, calls = run(SERVER)
    note = "the server accepted no connection on its port in time"
    assert seen(answer) == (ProcessOutcome.UNREADY, 0, (note,))
    assert signals(calls) == ["100 killpg 100 9", "100 kill 100 9"]


def test_a_server_that_ignores_sigterm_is_killed_once_at_its_time(run: Run) -> None:
    ends = f"at 50 event 200 {EXITED} 0"
    answer, calls = run(PROC, SERVER, "set warm_ms 0", "set term_ends 0", "at 0 accept", ends)
    assert answer.outcome is ProcessOutcome.DRIVEN
    assert answer.notes == ("the server did not end after SIGTERM and was killed",)
    assert signals(calls)[1:] == ["120 kill 100 15", "620 killpg 100 9", "620 kill 100 9"]


@pytest.mark.parametrize(
    ("lines", "ms", "code", "note"),
    [
        (f"at 50 event 200 {EXITED} 3", 50, 0, "it ended with status 3"),
        (f"at 50 event 200 {SIGNALED} 11", 50, 0, "it was killed by signal 11"),
        (f"set generator_failed 2\nset step 3\nat 50 event 200 {EXITED} 127", 50, 2, "could not do the step"),
        ("set generator_error 11", 0, 11, "fork failed"),
    ],
)
def test_a_load_generator_that_fails_ends_the_trial(run: Run, lines: str, ms: int, code: int, note: str) -> None:
    answer, calls = run(SERVER, "at 0 accept", lines)
    assert seen(answer) == (ProcessOutcome.UNDRIVEN, code, (f"the load generator: {note}",))
    assert f"{ms} kill 100 9" in calls


@pytest.mark.parametrize(
    ("accept", "note"), [("", "before it accepted connections"), ("at 0 accept", "before SIGTERM")]
)
def test_a_server_that_ends_early_is_noted(run: Run, accept: str, note: str) -> None:
    answer, calls = run(SERVER, accept, f"at 50 event 100 {EXITED} 7")
    assert seen(answer) == (ProcessOutcome.EXITED, 7, (f"the server ended {note}",))
    assert ("50 kill 200 9" in calls) == bool(accept)


@pytest.mark.parametrize("output", [2, 3])
def test_output_of_a_load_generator_has_the_limit_too(run: Run, output: int) -> None:
    answer, calls = run(SERVER, "set warm_ms 0", "at 0 accept", f"at 30 out {output} 1001")
    assert answer.outcome is ProcessOutcome.OVERFLOW
    assert "30 kill 100 9" in calls and "30 kill 200 9" in calls


def test_the_warm_up_has_no_output_in_the_answer(run: Run) -> None:
    outputs = ("at 30 out 2 10", "at 500 out 2 3", "at 500 out 3 4")
    answer, _ = run(SERVER, "at 0 accept", *outputs, f"at 1000 event 201 {EXITED} 0")
    assert (answer.driver_stdout, answer.driver_stderr) == (b"xxx", b"xxxx")
