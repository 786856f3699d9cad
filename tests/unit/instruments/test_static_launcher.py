# SPDX-License-Identifier: MIT OR Apache-2.0
"""The static program that sets processors, priority and environment before it executes another one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from swapstone.core.wire import TrialRequest
from swapstone.parts.explain.instruments.traced_run import launched


def _request(*arguments: str, cpus: tuple[int, ...] = (), nice: int = 0) -> TrialRequest:
    return TrialRequest(
        id="x",
        arguments=arguments,
        environment=(("A", "1 2"), ("B", "")),
        cwd="/",
        cpus=cpus,
        nice=nice or None,
        timeout_ms=1000,
    )


def _command(request: TrialRequest, pid_file: Path | None = None) -> tuple[str, ...]:
    command = launched(request, pid_file)
    if command is None:
        pytest.skip("static programs can't be compiled")
    return command


def test_the_program_gets_processor_priority_and_environment(tmp_path: Path) -> None:
    cpu = max(os.sched_getaffinity(0))
    script = 'echo $$; nice; grep Cpus_allowed_list /proc/$$/status; env | grep -v "^\\(PWD\\|SHLVL\\|_\\)="; echo "$0"'
    request = _request("/bin/sh", "-c", script, "x y", cpus=(cpu,), nice=3)
    ended = subprocess.run(_command(request, tmp_path / "pid"), capture_output=True, text=True, check=True)
    pid, nice, allowed, *rest = ended.stdout.splitlines()
    assert (tmp_path / "pid").read_text().strip() == pid
    assert int(nice) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 3)
    assert allowed.split() == ["Cpus_allowed_list:", str(cpu)]
    assert rest == ["A=1 2", "B=", "x y"]


def test_a_program_that_is_absent_is_named() -> None:
    ended = subprocess.run(_command(_request("/no/program")), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (127, "/no/program: No such file or directory\n")


def test_a_program_without_a_path_is_left_to_env() -> None:
    assert launched(_request("true")) is None
