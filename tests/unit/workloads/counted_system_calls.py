# SPDX-License-Identifier: MIT OR Apache-2.0
"""Count the system calls of a workload's pass, and the bytes that they move, with strace."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from swapstone.core.model import Workload
from swapstone.parts.build.artifacts.workload_build import build_workload
from tests.programs import require
from tests.shared import Shared
from tests.unit.workloads.programs import ENVIRONMENT, REPORT, recipe_for

_SAME = {
    "newfstatat": "stat",
    "openat": "open",
    "creat": "open",
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

_LINE = re.compile(r"^(\d+) +([a-z_0-9]+)\((.*)")
_UNWANTED = re.compile(r"resumed>|^\d+ \+\+\+|^\d+ ---")
_RESTARTED = re.compile(r"^\d+ +(?:([a-z_0-9]+)\(|<\.\.\. ([a-z_0-9]+) resumed>).*= \? ERESTARTNOINTR")
"""A call that a signal interrupts before it does anything, e.g. fork() beside SIGCHLD. The kernel makes it again, in a further line."""
_MEMORY = '"/proc/self/smaps"'
_OWN_FILES = '"/proc/self/'
_MOVED = re.compile(r"^(\d+) +(?:<\.\.\. )?(read|write|recvfrom|sendto)(?:\(| resumed>).* = (\d+)$")
_RANDOM = "getrandom"
"""glibc's mkstemp() calls it again, in one of 22 calls, if the first number would make some names likelier than others."""


@functools.cache
def require_strace() -> str:
    """Return the path of strace; skip the test where it is missing or the kernel forbids it."""
    require("strace")
    found = str(shutil.which("strace"))
    tried = subprocess.run([found, "-o", "/dev/null", "true"], capture_output=True, text=True, timeout=30, check=False)
    if tried.returncode != 0:
        pytest.skip(f"strace can't trace here: {tried.stderr.strip()[:100]}")
    return found


def system_calls_of_a_pass(workload: Workload, level: str, shared: Shared) -> dict[str, int]:
    """Return how often one pass calls each service of the kernel, in all its processes: two passes less one.

    The harness reads the memory of the last pass in pieces, whose number varies with the addresses: these calls don't count.
    """
    return _of_a_pass(workload, level, shared, "calls")


def bytes_of_a_pass(workload: Workload, level: str, shared: Shared) -> dict[str, int]:
    """Return how many bytes one pass reads and writes, in all its processes, but for files of /proc: two passes less one."""
    return _of_a_pass(workload, level, shared, "bytes")


def _of_a_pass(workload: Workload, level: str, shared: Shared, what: str) -> dict[str, int]:
    """Trace a workload with one pass and with two, once for all tests: what they count differs, the runs do not."""
    require_strace()
    name = hashlib.sha256(repr((workload.name, workload.arguments, workload.origin)).encode()).hexdigest()[:16]

    def fill(folder: Path) -> None:
        for passes in (1, 2):
            (folder / f"{passes}.json").write_text(json.dumps(_counts(workload, level, passes, folder)))

    folder = shared.folder(f"traced-{level}-{name}", fill)
    one, two = (Counter(json.loads((folder / f"{passes}.json").read_text())[what]) for passes in (1, 2))
    return {name: number for name, number in sorted((two - one).items()) if number}


def _counts(workload: Workload, level: str, passes: int, folder: Path) -> dict[str, Counter[str]]:
    program = build_workload(workload, recipe_for(level)).path
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
    counts = {}
    for what, count in (("calls", counted), ("bytes", moved_bytes)):
        with trace.open(errors="replace") as lines:
            counts[what] = count(lines)
    trace.unlink()
    return counts


def counted(lines: Iterable[str]) -> Counter[str]:
    """Count the calls in strace's lines; not those from the opening to the closing of smaps, and no getrandom."""
    counts: Counter[str] = Counter()
    reads_memory = set()
    for line in lines:
        if again := _RESTARTED.match(line):
            if again[2]:  # its first part has been counted
                counts[_SAME.get(again[2], again[2])] -= 1
            continue
        if _UNWANTED.search(line) or not (found := _LINE.match(line)):
            continue
        process, call, arguments = found.groups()
        if _MEMORY in arguments:
            reads_memory.add(process)
        elif process in reads_memory:
            reads_memory -= {process} if call == "close" else set()
        elif call != _RANDOM:
            counts[_SAME.get(call, call)] += 1
    return counts


def moved_bytes(lines: Iterable[str]) -> Counter[str]:
    """Count the bytes that read() and write(), and their like of sockets, moved: not of files of /proc/self, nor of the report.

    The first process writes its report to standard output.
    """
    counts: Counter[str] = Counter()
    reads_itself = set()
    first = ""
    for line in lines:
        process = line.partition(" ")[0]
        first = first or process
        if process == first and " write(1, " in line:
            continue
        if _OWN_FILES in line and "open" in line:
            reads_itself.add(process)
        elif process in reads_itself:
            reads_itself -= {process} if " close(" in line else set()
        elif found := _MOVED.match(line.rstrip()):
            counts[{"recvfrom": "read", "sendto": "write"}.get(found[2], found[2])] += int(found[3])
    return counts
