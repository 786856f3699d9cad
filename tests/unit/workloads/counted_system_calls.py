# SPDX-License-Identifier: MIT OR Apache-2.0
"""Count the system calls of a workload's pass, with strace."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from swapstone.artifacts import build_workload
from swapstone.model import Workload
from tests.unit.builders import source_of
from tests.unit.workloads.programs import ENVIRONMENT, REPORT, recipe_for

_SAME = {
    "newfstatat": "stat",
    "openat": "open",
    "pselect6": "select",
    "clone": "fork",
    "clone3": "fork",
    "vfork": "fork",
    "wait4": "wait",
    "sendto": "write",
    "recvfrom": "read",
    "_newselect": "select",
}
"""Names of one service, by the name of the system call that a C library uses for it."""

_LINE = re.compile(r"^(?:\d+ +)?([a-z_0-9]+)\(")
_UNWANTED = re.compile(r"resumed>|^\d+ \+\+\+|^\d+ ---")


def require_strace() -> str:
    """Return the path of strace; skip the test where it is missing or the kernel forbids it."""
    found = shutil.which("strace")
    if found is None:
        pytest.skip("strace is not installed")
    tried = subprocess.run([found, "-o", "/dev/null", "true"], capture_output=True, text=True, timeout=30, check=False)
    if tried.returncode != 0:
        pytest.skip(f"strace can't trace here: {tried.stderr.strip()[:100]}")
    return found


def system_calls_of_a_pass(workload: Workload, level: str, folder: Path) -> dict[str, int]:
    """Return how often one pass calls each service of the kernel, in all its processes: two passes less one."""
    one, two = (_calls(workload, level, passes, folder) for passes in (1, 2))
    return {name: count for name, count in sorted((two - one).items()) if count}


def _calls(workload: Workload, level: str, passes: int, folder: Path) -> Counter[str]:
    program = build_workload(source_of(workload), recipe_for(level)).path
    trace = folder / "trace"
    command = [require_strace(), "-f", "-qq", "-e", "signal=none", "-o", str(trace), str(program), str(passes)]
    result = subprocess.run(
        [*command, *workload.arguments],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert REPORT.fullmatch(result.stdout), result.stdout + result.stderr
    counts: Counter[str] = Counter()
    with trace.open(errors="replace") as lines:
        for line in lines:
            if not _UNWANTED.search(line) and (found := _LINE.match(line)):
                counts[_SAME.get(found[1], found[1])] += 1
    trace.unlink()
    return counts
