# SPDX-License-Identifier: MIT OR Apache-2.0
"""The environment that a trial starts with, and the facts that the agent observes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from swapstone.core.wire import FACTS, ProcessOutcome, decode_answers, encode_plan_header, encode_request
from tests.contract.programs import build
from tests.programs import needs
from tests.unit.agent.harness import alive, one, request, run

needs_musl = needs("musl-gcc")


def test_arguments_and_environment_arrive_byte_for_byte(agent: Path, tmp_path: Path, programs: Path) -> None:
    odd = bytes(range(1, 256)).decode("utf-8", "surrogateescape")
    words = ("a b", "line\nline", "", "%20", "é→", odd, " ")
    variables = (("A", "x y\n"), ("EMPTY", ""), ("Ü", "=é="), ("ODD", odd))
    answer = one(agent, request(tmp_path, build(programs, "shows"), *words, environment=variables))
    first, _, rest = answer.stdout.partition(b"\n")
    assert first.split()[:2] == [b"8", b"4"]
    expected = [*words, *(f"{name}={value}" for name, value in variables)]
    assert [os.fsdecode(word) for word in rest.split(b"\0")[:-1]] == expected


def test_a_program_inherits_no_descriptors_signal_masks_or_limits(agent: Path, tmp_path: Path) -> None:
    script = "pwd; umask; ulimit -c; ls /proc/self/fd; readlink /proc/self/fd/0; cat /proc/self/status"
    answer = one(agent, request(tmp_path, "/bin/sh", "-c", script, environment=()))
    lines = answer.stdout.decode().splitlines()
    assert lines[:3] == [str(tmp_path), "0022", "0"]
    assert lines[3:7] == ["0", "1", "2", "3"]  # 3 is the folder that ls itself reads
    assert lines[7] == "/dev/null"
    status = dict(line.split(":\t", 1) for line in lines[8:] if ":\t" in line)
    assert {name: int(status[name], 16) for name in ("SigBlk", "SigIgn", "ShdPnd")} == {
        "SigBlk": 0,
        "SigIgn": 0,
        "ShdPnd": 0,
    }


def test_equal_requests_give_equal_stack_layouts(agent: Path, tmp_path: Path, programs: Path) -> None:
    asked = [request(tmp_path, build(programs, "shows"), "20", id=str(number)) for number in range(5)]
    shown = {answer.stdout for answer in run(agent, *asked)}
    shown.add(one(agent, asked[0]).stdout)  # another agent process
    assert len(shown) == 1


@pytest.mark.parametrize("cpu", sorted(os.sched_getaffinity(0))[:2])
def test_a_program_runs_on_the_requested_processor_with_the_requested_nice_value(
    agent: Path, tmp_path: Path, cpu: int
) -> None:
    script = "grep Cpus_allowed_list /proc/self/status; nice"
    answer = one(agent, request(tmp_path, "/bin/sh", "-c", script, cpus=(cpu,), nice=7))
    assert answer.stdout.split() == [b"Cpus_allowed_list:", str(cpu).encode(), b"7"]
    facts = dict(answer.facts)
    assert (facts["cpus_allowed"], facts["nice"]) == (1, 7)


def test_affinity_and_nice_value_are_unchanged_by_default(agent: Path, tmp_path: Path) -> None:
    facts = dict(one(agent, request(tmp_path, "/bin/true")).facts)
    assert facts["cpus_allowed"] == len(os.sched_getaffinity(0))
    assert facts["nice"] == os.nice(0)


@pytest.mark.slow
def test_facts_are_those_of_the_process(agent: Path, tmp_path: Path) -> None:
    work = "x = bytearray(50_000_000); t = __import__('time'); e = t.process_time() + 0.2\nwhile t.process_time() < e: pass"
    python = shutil.which("python3", path="/usr/bin") or shutil.which("python3")
    assert python is not None
    facts = dict(one(agent, request(tmp_path, python, "-c", work)).facts)
    of_servers = {name for name in FACTS if name.startswith(("ready", "driven", "server_", "driver_"))}
    may_lack = {"psi_cpu_us", "psi_memory_us", "psi_io_us", "steal_ticks", "idle_ticks", "run_delay_ns"}
    may_lack |= {"cpu_quota_milli", "quota_throttled", "governor_crc", "main_cpu_ns", "created_tasks"}
    assert facts.keys() >= FACTS.keys() - of_servers - may_lack
    assert not facts.keys() & of_servers
    cpu_us = facts["user_us"] + facts["system_us"]
    assert 200_000 <= cpu_us < 2_000_000
    assert facts["wall_ns"] >= 200_000_000
    assert 50_000_000 <= facts["maxrss_bytes"] < 500_000_000
    assert facts["minflt"] > 10_000
    assert 0 < facts["launch_ns"] < 5_000_000_000


def test_sleeping_counts_as_wall_time_and_not_as_cpu_time(agent: Path, tmp_path: Path) -> None:
    facts = dict(one(agent, request(tmp_path, "/bin/sleep", "0.2")).facts)
    assert 200_000_000 <= facts["wall_ns"] < 5_000_000_000
    assert facts["user_us"] + facts["system_us"] < 100_000


@pytest.mark.parametrize(("script", "least"), [(":", 0), ("(exit 0); (exit 0); (exit 0); :", 3)])
def test_created_tasks_include_all_children(agent: Path, tmp_path: Path, script: str, least: int) -> None:
    """Others may create some meanwhile, and the numbers may begin again."""
    found = [dict(one(agent, request(tmp_path, "/bin/sh", "-c", script)).facts).get("created_tasks") for _ in range(3)]
    counts = [count for count in found if count is not None]
    assert counts and min(counts) >= least


def test_bytes_written_to_storage_are_counted_with_those_of_children(agent: Path, tmp_path: Path) -> None:
    write = (
        "dd if=/dev/zero of=own bs=64k count=16 2>/dev/null; (dd if=/dev/zero of=child bs=64k count=16 2>/dev/null; :)"
    )
    silent = dict(one(agent, request(tmp_path, "/bin/sh", "-c", ":")).facts)
    facts = dict(one(agent, request(tmp_path, "/bin/sh", "-c", write)).facts)
    if facts["write_bytes"] == 0:
        pytest.skip(f"{tmp_path} is on a file system without storage")
    assert (tmp_path / "child").stat().st_size == 1 << 20
    assert 2 << 20 <= facts["write_bytes"] < 3 << 20
    assert silent["write_bytes"] < 1 << 20


@pytest.mark.slow
def test_the_trial_s_processor_time_includes_children_that_the_program_did_not_wait_for(
    agent: Path, tmp_path: Path
) -> None:
    burn = "\nwhile time.process_time() < 0.2: pass\n"
    left = f"import os, time\npid = os.fork()\nif not pid:{burn.replace(chr(10), chr(10) + ' ')}os._exit(0)\n"
    left += "os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)\n"
    python = shutil.which("python3", path="/usr/bin") or shutil.which("python3")
    assert python is not None
    facts = dict(one(agent, request(tmp_path, python, "-c", left)).facts)
    cpu_us = facts["user_us"] + facts["system_us"]
    assert facts["trial_cpu_us"] >= cpu_us + 200_000
    alone = dict(one(agent, request(tmp_path, python, "-c", f"import time{burn}")).facts)
    assert 0 <= alone["trial_cpu_us"] - alone["user_us"] - alone["system_us"] < 150_000


def test_idle_time_is_a_part_of_all_time(agent: Path, tmp_path: Path) -> None:
    facts = dict(one(agent, request(tmp_path, "/bin/sleep", "0.2")).facts)
    assert 0 <= facts.get("idle_ticks", 0) <= facts["cpu_ticks"]


@pytest.mark.slow
def test_the_memory_of_the_agent_is_not_counted(agent: Path, tmp_path: Path, programs: Path) -> None:
    loud = request(tmp_path, "/bin/sh", "-c", "head -c 2000000 /dev/zero", output_bytes=4 << 20, id="loud")
    quiet = request(tmp_path, build(programs, "empty", "-static"), id="quiet")
    alone, after = run(agent, quiet, loud, quiet)[0::2]
    assert dict(alone.facts)["maxrss_bytes"] == pytest.approx(dict(after.facts)["maxrss_bytes"], abs=300_000)
    assert dict(after.facts)["maxrss_bytes"] < 2_000_000


def test_loader_and_objects_of_glibc_are_observed(agent: Path, tmp_path: Path, programs: Path) -> None:
    answer = one(agent, request(tmp_path, build(programs, "empty")))
    assert answer.interp is not None
    assert Path(answer.interp).name.startswith(("ld-linux", "ld64"))
    assert answer.objects[0] == str(build(programs, "empty"))
    assert any(Path(path).name.startswith("libc.so.6") for path in answer.objects)


@needs_musl
def test_loader_and_objects_of_musl_are_observed(agent: Path, tmp_path: Path, programs: Path) -> None:
    program = build(programs, "empty", compiler="musl-gcc")
    answer = one(agent, request(tmp_path, program))
    assert answer.interp is not None
    assert Path(answer.interp).name.startswith("ld-musl-")
    assert answer.objects[0] == str(program)
    assert not any("libc.so.6" in path for path in answer.objects)


def test_a_static_program_has_no_loader(agent: Path, tmp_path: Path, programs: Path) -> None:
    program = build(programs, "empty", "-static")
    answer = one(agent, request(tmp_path, program))
    assert answer.interp is None
    assert answer.objects == (str(program),)


def test_the_last_executed_program_is_observed(agent: Path, tmp_path: Path, programs: Path) -> None:
    program = build(programs, "empty", "-static")
    answer = one(agent, request(tmp_path, "/bin/sh", "-c", f"exec {program}"))
    assert (answer.interp, answer.objects) == (None, (str(program),))


def test_a_process_that_a_thread_ends_is_observed(agent: Path, tmp_path: Path, programs: Path) -> None:
    answer = one(agent, request(tmp_path, build(programs, "threads")))
    assert (answer.outcome, answer.code) == (ProcessOutcome.EXITED, 7)
    assert answer.interp is not None
    assert answer.objects


def test_a_main_thread_that_ends_early_is_noted(agent: Path, tmp_path: Path, programs: Path) -> None:
    answer = one(agent, request(tmp_path, build(programs, "early")))
    assert (answer.outcome, answer.code) == (ProcessOutcome.EXITED, 0)
    assert dict(answer.facts)["wall_ns"] > 290_000_000
    assert len(answer.notes) == 1
    assert "its main thread ended" in answer.notes[0]


def test_a_program_executed_by_another_thread_has_unknown_objects(agent: Path, tmp_path: Path, programs: Path) -> None:
    """The thread that executes replaces the first thread and is not traced. The answer must not have objects of the old program."""
    answer = one(agent, request(tmp_path, build(programs, "swaps"), build(programs, "empty", "-static")))
    assert (answer.outcome, answer.code) == (ProcessOutcome.EXITED, 0)
    assert (answer.interp, answer.objects) == (None, ())
    assert answer.notes == ("loader, objects and observations are unknown: a thread executed another program",)


def test_a_process_killed_by_sigkill_is_observed(agent: Path, tmp_path: Path) -> None:
    answer = one(agent, request(tmp_path, "/bin/sh", "-c", "kill -KILL $$"))
    assert (answer.outcome, answer.code) == (ProcessOutcome.SIGNALED, 9)
    assert answer.interp is not None
    assert dict(answer.facts)["cpus_allowed"] > 0


def test_a_note_states_that_tracing_is_forbidden(agent: Path, tmp_path: Path, programs: Path) -> None:
    asked = request(tmp_path, "/bin/sh", "-c", "sleep 60 & sleep 0.1; exit 3", nice=4)
    command = [str(build(programs, "untraced")), str(agent), "-"]
    plan = encode_plan_header() + encode_request(asked)
    result = subprocess.run(command, process_group=0, input=plan, stdout=subprocess.PIPE, check=False, timeout=30)
    if result.returncode == 99:
        pytest.skip("this kernel has no seccomp filters")
    (answer,) = decode_answers(result.stdout)
    assert (answer.outcome, answer.code) == (ProcessOutcome.ORPHANS, 1)
    assert (answer.interp, answer.objects) == (None, ())
    assert "loader, objects and observations are unknown: tracing is forbidden here, errno 1" in answer.notes
    facts = dict(answer.facts)
    assert facts["wall_ns"] > 90_000_000
    assert facts["nice"] == 4  # facts that need no tracing are observed
    assert facts["cpus_allowed"] > 0
    assert not alive(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which setpriv takes away")
def test_the_agent_works_without_privileges(agent: Path, tmp_path: Path) -> None:
    """Root may trace and read all processes; another user may trace and read processes of the same user."""
    copy = Path("/tmp") / f"swapstone-agent-test-{os.getpid()}"
    shutil.copy(agent, copy)
    copy.chmod(0o755)
    tmp_path.chmod(0o777)
    try:
        asked = request(Path("/tmp"), "/bin/sh", "-c", "sleep 60 & exit 0")
        plan = encode_plan_header() + encode_request(asked)
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(copy), "-"]
        result = subprocess.run(command, process_group=0, input=plan, capture_output=True, check=True, timeout=30)
        answer = decode_answers(result.stdout)[0]
        assert (answer.outcome, answer.code) == (ProcessOutcome.ORPHANS, 1)
        assert answer.interp is not None
        assert dict(answer.facts)["cpus_allowed"] > 0
    finally:
        copy.unlink()
    assert not alive(Path("/tmp"))


def test_standard_input_is_the_file_of_the_plan_or_empty(agent: Path, tmp_path: Path) -> None:
    given = tmp_path / "in put"
    given.write_bytes(b"first\nsecond\n")
    with_it, without = run(
        agent,
        request(tmp_path, "/bin/cat", stdin=str(given)),
        request(tmp_path, "/bin/cat"),
    )
    assert (with_it.outcome, with_it.code, with_it.stdout) == (ProcessOutcome.EXITED, 0, b"first\nsecond\n")
    assert (without.outcome, without.code, without.stdout) == (ProcessOutcome.EXITED, 0, b"")


def test_standard_output_goes_to_the_file_of_the_plan(agent: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"earlier content, longer than the output")
    script = "echo output; echo error >&2; ls /proc/self/fd | tr '\\n' ' ' >&2"
    answer = one(agent, request(tmp_path, "/bin/sh", "-c", script, stdout=str(out)))
    assert (answer.outcome, answer.stdout) == (ProcessOutcome.EXITED, b"")
    assert answer.stderr == b"error\n0 1 2 3 "  # 3 is the folder that ls reads
    assert out.read_bytes() == b"output\n"
    # Longer than output_bytes, but to a file: the output limit does not apply.
    flood = request(tmp_path, "/bin/sh", "-c", "yes | head -c 3000000", stdout="/dev/null", output_bytes=1000)
    assert one(agent, flood).outcome is ProcessOutcome.EXITED


@pytest.mark.parametrize("changed", [{"stdin": "/nowhere/in"}, {"stdout": "/nowhere/out"}])
def test_a_program_whose_files_cannot_be_opened_is_unstarted(
    agent: Path, tmp_path: Path, changed: dict[str, object]
) -> None:
    answer = one(agent, request(tmp_path, "/bin/true", **changed))
    assert (answer.outcome, answer.code) == (ProcessOutcome.UNSTARTED, 2)
    assert answer.notes == ("could not open its files",)
