# SPDX-License-Identifier: MIT OR Apache-2.0
"""lat_select needs 401 open files: it raises its own limit, and names the limit that it can't raise."""

from __future__ import annotations

import functools
import resource
import subprocess
from pathlib import Path

import pytest

from tests.unit.workloads.programs import ENVIRONMENT, LEVELS, SOURCES, Programs


def _limited(program: Path, argument: str, cwd: Path, limits: tuple[int, int]) -> str:
    set_limits = functools.partial(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
    done = subprocess.run(
        [str(program), "1", argument],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=set_limits,
    )
    return done.stdout.replace("%20", " ")


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_the_soft_limit_is_raised_and_the_hard_one_is_named(level: str, programs: Programs, tmp_path: Path) -> None:
    program = programs.build_text(level, (SOURCES / "lat_select.c").read_text())
    for kind in ("file:100", "tcp:100"):
        assert "error" not in _limited(program, kind, tmp_path, (64, 401))
        refused = _limited(program, kind, tmp_path, (64, 400))
        assert "error it needs 401 open files, and the limit is 400: raise it with 'ulimit -n 401'" in refused
