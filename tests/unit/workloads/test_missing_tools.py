# SPDX-License-Identifier: MIT OR Apache-2.0
"""shell_scripts starts the machine's own tools: a machine that lacks one gets an error, and not a time of less work."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.workloads.programs import ENVIRONMENT, SOURCES, Programs

TOOLS = ("sort", "grep", "tee", "wc", "rm")


def _run(program: Path, cwd: Path, tools: tuple[str, ...]) -> str:
    folder = cwd / "-".join(tools)
    folder.mkdir()
    for tool in tools:
        found = shutil.which(tool)
        assert found
        (folder / tool).symlink_to(found)
    environment = {**ENVIRONMENT, "PATH": str(folder)}
    command = [str(program), "1", "1:1"]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.replace("%20", " ")


@pytest.mark.slow
def test_each_tool_is_needed(programs: Programs, tmp_path: Path) -> None:
    program = programs.build_text("glibc", (SOURCES / "shell_scripts.c").read_text())
    assert "\ncheck " in _run(program, tmp_path, TOOLS)
    for missing in ("grep", "tee"):
        printed = _run(program, tmp_path, tuple(tool for tool in TOOLS if tool != missing))
        assert "error a script counted 0 lines instead of " in printed, missing
        assert "this machine must have sort, grep, tee and wc" in printed
    for missing in ("sort", "wc"):
        assert "\nerror " in _run(program, tmp_path, tuple(tool for tool in TOOLS if tool != missing)), missing
