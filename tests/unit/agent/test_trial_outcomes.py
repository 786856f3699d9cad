# SPDX-License-Identifier: MIT OR Apache-2.0
"""The outcomes of trials: each has its answer, and no process is left."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from swapstone.core.wire import ProcessOutcome
from tests.contract.programs import build
from tests.unit.agent.harness import alive, one, request, run

MIB = 1 << 20


@pytest.mark.parametrize(
    ("script", "how", "code"),
    [
        ("exit 0", ProcessOutcome.EXITED, 0),
        ("exit 200", ProcessOutcome.EXITED, 200),
        ("kill -SEGV $$", ProcessOutcome.SIGNALED, 11),
        ("kill -KILL $$", ProcessOutcome.SIGNALED, 9),
        ("kill -TERM $$", ProcessOutcome.SIGNALED, 15),
        ("sleep 60 & exit 0", ProcessOutcome.ORPHANS, 1),
        ("sleep 60 & kill -ABRT $$", ProcessOutcome.SIGNALED, 6),
        ("setsid sleep 60 & sleep 0.1; exit 4", ProcessOutcome.ORPHANS, 1),
        ("sleep 60 & sleep 60 & exit 0", ProcessOutcome.ORPHANS, 2),
    ],
)
def test_the_answer_reports_how_the_program_ended(
    agent: Path, tmp_path: Path, script: str, how: ProcessOutcome, code: int
) -> None:
    answer = one(agent, request(tmp_path, "/bin/sh", "-c", script))
    assert (answer.outcome, answer.code) == (how, code)
    assert not alive(tmp_path)


def test_a_note_on_orphans_states_the_exit_status(agent: Path, tmp_path: Path) -> None:
    answer = one(agent, request(tmp_path, "/bin/sh", "-c", "sleep 60 & exit 4"))
    assert answer.notes == ("left 1 process running, killed by the agent; its own end was exit status 4",)


@pytest.mark.parametrize(("name", "killed"), [("leaves", [3]), ("daemon", [1, 2]), ("chain", range(1, 99))])
def test_processes_that_outlive_the_program_are_killed(
    agent: Path, tmp_path: Path, programs: Path, name: str, killed: Sequence[int]
) -> None:
    # Of a daemon the process in between may still be there.
    answer = one(agent, request(tmp_path, build(programs, name)))
    assert answer.outcome is ProcessOutcome.ORPHANS
    assert answer.code in killed
    assert not alive(tmp_path)


@pytest.mark.parametrize(
    "script",
    [
        "sleep 60",
        "while :; do :; done",
        "trap '' TERM INT HUP; sleep 60",
        "setsid sleep 60 & sleep 60",
        "sleep 60 | cat",
    ],
)
def test_a_program_that_hangs_is_stopped_at_the_time_out(agent: Path, tmp_path: Path, script: str) -> None:
    answer = one(agent, request(tmp_path, "/bin/sh", "-c", script, timeout_ms=300))
    assert (answer.outcome, answer.code) == (ProcessOutcome.TIMEOUT, 0)
    assert dict(answer.facts)["wall_ns"] >= 290_000_000
    assert not alive(tmp_path)


def test_a_process_that_stops_itself_ends_at_the_time_out(agent: Path, tmp_path: Path, programs: Path) -> None:
    answer = one(agent, request(tmp_path, build(programs, "stops"), timeout_ms=300))
    assert answer.outcome is ProcessOutcome.TIMEOUT
    assert not alive(tmp_path)


def test_a_stopped_process_continues_after_sigcont(agent: Path, tmp_path: Path) -> None:
    stopped = "until grep -q '^State:.*[Tt] ' /proc/$$/status; do sleep 0.02; done"
    script = f"({stopped}; sleep 0.3; kill -CONT $$) & kill -STOP $$; wait; exit 5"
    answer = one(agent, request(tmp_path, "/bin/sh", "-c", script))
    assert (answer.outcome, answer.code) == (ProcessOutcome.EXITED, 5)
    assert dict(answer.facts)["wall_ns"] > 250_000_000
    assert dict(answer.facts)["stops"] == 1


def test_signals_reach_a_traced_process(agent: Path, tmp_path: Path, programs: Path) -> None:
    answer = one(agent, request(tmp_path, build(programs, "signals")))
    assert (answer.outcome, answer.code) == (ProcessOutcome.EXITED, 6)


@pytest.mark.parametrize("script", ["yes", "yes >&2", "head -c 1001 /dev/zero"])
def test_output_beyond_the_limit_ends_the_trial_and_its_start_is_kept(agent: Path, tmp_path: Path, script: str) -> None:
    answer = one(agent, request(tmp_path, "/bin/sh", "-c", script, output_bytes=1000))
    assert (answer.outcome, answer.code) == (ProcessOutcome.OVERFLOW, 0)
    assert len(answer.stdout + answer.stderr) == 1000
    assert not alive(tmp_path)


def test_output_up_to_the_limit_is_kept_whole(agent: Path, tmp_path: Path) -> None:
    script = "head -c 200000 /dev/urandom | tee copy; head -c 100000 copy >&2"
    answer = one(agent, request(tmp_path, "/bin/sh", "-c", script, output_bytes=200_000))
    assert answer.outcome is ProcessOutcome.EXITED
    assert answer.stdout == (tmp_path / "copy").read_bytes()
    assert answer.stderr == answer.stdout[:100_000]


def test_the_agent_waits_without_polling_for_a_program_that_closes_its_output(agent: Path, tmp_path: Path) -> None:
    before = _cpu_s_of_children()
    answer = one(agent, request(tmp_path, "/bin/sh", "-c", "exec >&- 2>&-; sleep 2; exit 6"))
    assert (answer.outcome, answer.code) == (ProcessOutcome.EXITED, 6)
    assert dict(answer.facts)["wall_ns"] > 1_950_000_000
    assert _cpu_s_of_children() - before < 0.5  # an agent that polls the closed pipes uses about 2 s


def _cpu_s_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_one_file_beyond_the_disk_limit_ends_the_trial(agent: Path, tmp_path: Path) -> None:
    asked = request(tmp_path, "/bin/sh", "-c", "exec dd if=/dev/zero of=big bs=1M count=64 2>&1", disk_bytes=4 * MIB)
    assert one(agent, asked).outcome is ProcessOutcome.DISK
    assert (tmp_path / "big").stat().st_size <= 4 * MIB


def test_many_files_beyond_the_disk_limit_end_the_trial(agent: Path, tmp_path: Path) -> None:
    if shutil.disk_usage(tmp_path).free < 600 * MIB:
        pytest.skip("not enough room to fill")
    script = "i=0; while :; do head -c 4000000 /dev/zero > f$i; i=$((i+1)); [ $i -gt 60 ] && sleep 60; done"
    answer = one(agent, request(tmp_path, "/bin/sh", "-c", script, disk_bytes=64 * MIB))
    assert (answer.outcome, answer.code) == (ProcessOutcome.DISK, 0)
    assert not alive(tmp_path)


def test_a_note_states_why_a_program_cannot_be_started(agent: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    (tmp_path / "odd").write_bytes(b"\x7fELF, but no program")
    (tmp_path / "odd").chmod(0o755)
    answers = run(
        agent,
        request(tmp_path, tmp_path / "absent", id="noent"),
        request(tmp_path, tmp_path / "text", id="acces"),
        request(tmp_path, tmp_path / "odd", id="noexec"),
        request(tmp_path, "/bin/true", id="folder", cwd=str(tmp_path / "absent")),
        request(tmp_path, "/bin/true", id="cpus", cpus=(4095,)),
        request(tmp_path, "/bin/true", id="fine"),
    )
    seen = [(a.id, a.outcome, a.code, a.notes) for a in answers]
    assert seen == [
        ("noent", ProcessOutcome.UNSTARTED, 2, ("could not execute it",)),
        ("acces", ProcessOutcome.UNSTARTED, 13, ("could not execute it",)),
        ("noexec", ProcessOutcome.UNSTARTED, 8, ("could not execute it",)),
        ("folder", ProcessOutcome.UNSTARTED, 2, ("could not enter its folder",)),
        ("cpus", ProcessOutcome.UNSTARTED, 22, ("could not pin it to its processors",)),
        ("fine", ProcessOutcome.EXITED, 0, ()),
    ]
    assert not {"wall_ns", "pid", "maxrss_bytes"} & dict(answers[0].facts).keys()


def test_output_and_processes_of_a_trial_do_not_reach_the_next(agent: Path, tmp_path: Path) -> None:
    answers = run(
        agent,
        request(tmp_path, "/bin/sh", "-c", "sleep 60 & echo one; echo two >&2; exit 1", id="a"),
        request(tmp_path, "/bin/sh", "-c", "exit 0", id="b"),
    )
    first = answers[0]
    assert (first.outcome, first.code, first.stdout, first.stderr) == (ProcessOutcome.ORPHANS, 1, b"one\n", b"two\n")
    assert (answers[1].outcome, answers[1].code, answers[1].stdout, answers[1].stderr, answers[1].notes) == (
        ProcessOutcome.EXITED,
        0,
        b"",
        b"",
        (),
    )
    assert not alive(tmp_path)
