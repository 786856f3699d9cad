# SPDX-License-Identifier: MIT OR Apache-2.0
"""`touch` in a cgroup: the size of its working set follows the limit, which /proc/meminfo does not show."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from swapstone.core.model.directories import share_dir

MIB = 1 << 20


def working_set(program: Path, **environment: str) -> int:
    result = subprocess.run(
        [program, "random", "150", "10"], env=environment, stdout=subprocess.PIPE, check=True, text=True
    )
    return int(next(line.split()[2] for line in result.stdout.splitlines() if line.startswith("figure working_set ")))


@pytest.mark.slow
def test_the_working_set_is_a_multiple_of_the_limit(tmp_path: Path) -> None:
    sources = share_dir() / "native/workloads"
    program = tmp_path / "touch"
    compiler = os.environ.get("CC") or "cc"
    subprocess.run([compiler, "-std=gnu11", "-O1", f"-I{sources}", "-o", program, sources / "touch.c"], check=True)
    assert working_set(program, SWAPSTONE_MEMORY_BYTES=str(40 * MIB)) == 48 * MIB  # 40 MiB, rounded down to 32
    assert working_set(program, SWAPSTONE_MEMORY_BYTES=str(16 * MIB)) == 24 * MIB
