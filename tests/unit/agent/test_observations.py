# SPDX-License-Identifier: MIT OR Apache-2.0
"""Observations of a plan are read from the process that ran, with limits, and with arbitrary content."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from swapstone.core.model import cgroup_file, environment_variable, process_file, system_file
from swapstone.core.wire import ProcessOutcome, encode_plan_header, encode_request
from tests.unit.agent.harness import one, request

TRUE = "/usr/bin/true"
LIMIT = 16 << 10


def test_the_environment_of_the_process_is_observed(agent: Path, tmp_path: Path) -> None:
    variables = (("A", "1"), ("AB", "2"), ("BA", "3"), ("EMPTY", ""), ("LAST", "a=b %\n\t\x01é"))
    names = ("A", "AB", "B", "BA", "EMPTY", "LAST", "LAS", "LAST ")
    asked = tuple(map(environment_variable, names))
    answer = one(agent, request(tmp_path, TRUE, environment=variables, observe=asked))
    assert answer.outcome is ProcessOutcome.EXITED and answer.notes == ()
    assert {what.name: value for what, value in answer.observed} == dict(variables)
    assert [what.name for what in answer.absent] == ["B", "LAS", "LAST "]


def test_the_first_of_two_variables_of_one_name_is_observed(agent: Path, tmp_path: Path) -> None:
    variables = (("A", "first"), ("A", "second"))
    answer = one(agent, request(tmp_path, TRUE, environment=variables, observe=(environment_variable("A"),)))
    assert answer.observed == ((environment_variable("A"), "first"),)


def test_the_environment_of_the_last_executed_program_is_observed(agent: Path, tmp_path: Path) -> None:
    """The agent reads the environment of the last executed program, not the environment that it passed."""
    command = f"exec env -i A=changed {TRUE}"
    asked = (environment_variable("A"), environment_variable("PATH"))
    answer = one(agent, request(tmp_path, "/bin/sh", "-c", command, environment=(("A", "asked"),), observe=asked))
    assert answer.observed == ((asked[0], "changed"),)
    assert answer.absent == (asked[1],)


def test_a_large_environment_is_searched_to_its_end(agent: Path, tmp_path: Path) -> None:
    variables = (*((f"V{number}", "x" * 4000) for number in range(100)), ("A", "y" * LIMIT))
    answer = one(agent, request(tmp_path, TRUE, environment=variables, observe=(environment_variable("A"),)))
    assert answer.observed == ((environment_variable("A"), "y" * LIMIT),)


def test_a_value_that_is_too_long_is_left_out_with_a_note(agent: Path, tmp_path: Path) -> None:
    asked = (environment_variable("A"), environment_variable("B"))
    variables = (("A", "x" * (LIMIT + 1)), ("B", "short"))
    answer = one(agent, request(tmp_path, TRUE, environment=variables, observe=asked))
    assert answer.observed == ((asked[1], "short"),)
    assert answer.absent == ()
    assert answer.notes == ("observe env A: the value is longer than the agent reads",)


def test_the_total_length_of_values_is_bounded(agent: Path, tmp_path: Path) -> None:
    names = [f"V{number}" for number in range(20)]
    variables = tuple((name, "x" * LIMIT) for name in names)
    asked = tuple(map(environment_variable, names))
    answer = one(agent, request(tmp_path, TRUE, environment=variables, observe=asked))
    assert [what.name for what, _ in answer.observed] == names[:16]
    assert len(answer.notes) == 4


def test_files_of_the_process_and_of_the_system_are_observed(agent: Path, tmp_path: Path) -> None:
    own = tmp_path / "f"
    own.write_bytes(b"\0\xff a%b\n")
    asked = (
        *(process_file(name) for name in ("limits", "cgroup", "mountinfo", "comm")),
        *(system_file(path) for path in ("/proc/sys/kernel/ostype", str(own), "/no/such", str(tmp_path), "/dev/zero")),
    )
    answer = one(agent, request(tmp_path, TRUE, observe=asked))
    found = {what.name: value for what, value in answer.observed}
    assert "Max open files" in found["limits"]
    assert found["cgroup"].rstrip("\n") == Path("/proc/self/cgroup").read_text().rstrip("\n")
    assert " /proc " in found["mountinfo"]
    assert (found["comm"], found["/proc/sys/kernel/ostype"]) == ("true\n", "Linux\n")
    assert found[str(own)] == "\0\\xff a%b\n"
    assert answer.absent == (system_file("/no/such"),)
    assert answer.notes == (
        f"observe file {tmp_path}: errno 21",
        "observe file /dev/zero: the value is longer than the agent reads",
    )


def test_a_limit_that_the_program_changed_is_observed(agent: Path, tmp_path: Path) -> None:
    command = f"ulimit -n 33; exec {TRUE}"
    answer = one(agent, request(tmp_path, "/bin/sh", "-c", command, observe=(process_file("limits"),)))
    ((_, limits),) = answer.observed
    (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert line.split()[3:5] == ["33", "33"]


def test_a_file_of_the_cgroup_is_observed(agent: Path, tmp_path: Path) -> None:
    """Without cgroup v2, the value is unknown, not absent."""
    asked = (cgroup_file("cgroup.procs"), cgroup_file("no.such"))
    answer = one(agent, request(tmp_path, TRUE, observe=asked))
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        assert [what for what, _ in answer.observed] == [asked[0]]
        assert answer.absent == (asked[1],)
    else:
        assert (answer.observed, answer.absent) == ((), ())
        assert answer.notes == tuple(f"observe {what}: errno 95" for what in asked)


def test_a_program_that_did_not_start_has_no_observations(agent: Path, tmp_path: Path) -> None:
    answer = one(agent, request(tmp_path, "/no/such", observe=(environment_variable("PATH"),)))
    assert answer.outcome is ProcessOutcome.UNSTARTED
    assert (answer.observed, answer.absent) == ((), ())


def test_a_killed_program_is_observed(agent: Path, tmp_path: Path) -> None:
    kill = "import os; os.kill(os.getpid(), 9)"
    answer = one(agent, request(tmp_path, sys.executable, "-c", kill, observe=(environment_variable("PATH"),)))
    assert answer.outcome is ProcessOutcome.SIGNALED
    assert answer.observed == ((environment_variable("PATH"), "/usr/bin:/bin"),)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("observe", "the line begins with no known word"),
        ("observe env", "the kind is not known"),
        ("observe shell ls", "the kind is not known"),
        ("observe env %", "an empty name"),
        ("observe env A=B", "a character that it may not have"),
        ("observe env a b", "not percent-encoded"),
        ("observe proc fd/1", "a character that it may not have"),
        ("observe proc ..", "a folder"),
        ("observe cgroup ../x", "a character that it may not have"),
        ("observe file etc", "the path is not absolute"),
        ("observe env A\nobserve env A", "has this observation already"),
        ("\n".join(f"observe env A{number}" for number in range(65)), "more than 64 observations"),
    ],
)
def test_a_malformed_observation_is_refused(agent: Path, tmp_path: Path, line: str, error: str) -> None:
    text = encode_request(request(tmp_path, TRUE)).decode().replace("run\n", f"{line}\nrun\n")
    plan = encode_plan_header() + text.encode()
    result = subprocess.run([agent, "-"], process_group=0, input=plan, capture_output=True, check=False, timeout=60)
    assert result.returncode == 2
    assert error in result.stdout.decode().replace("%20", " ")
    assert list(tmp_path.iterdir()) == []
