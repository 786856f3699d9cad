# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each workload of the suite `os` makes the system calls that its row of docs/workloads-system.md promises, with both C libraries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

import pytest

from swapstone.core.model.directories import share_dir
from swapstone.core.workloads import find_suite, find_workload
from swapstone.parts.published.data import measured_rows
from tests.shared import Shared
from tests.unit.builders import source_of
from tests.unit.workloads.counted_system_calls import counted, system_calls_of_a_pass
from tests.unit.workloads.programs import LEVELS, sampled

WORKLOADS = find_suite("os").workloads
_ROW = re.compile(r"^\| `([^`]+)` \| [^|]+ \| (\d+) \| ([^|]+) \| 1 \| (?:cpu|wall) \|$", re.MULTILINE)
_CALL = re.compile(r"`([a-z_]+)` ([0-9./]+)")

HARNESS = {"open": 2, "read": 2, "close": 2, "getrusage": 4, "clock_gettime": 2}
"""What the harness calls around a pass: it reads /proc/self/schedstat twice. The C library's fcntl() belongs to its open()."""

SLACK = 3
"""Calls of a pass beyond those of its operations: one that starts or ends it, or a partner's read that its end cuts."""

NOT_MEASURED = {
    "lat_fs(create,0)": {"unlink": 200},
    "lat_fs(create,10240)": {"unlink": 200},
    "lat_fs(delete,0)": {"open": 200, "close": 200},
    "lat_fs(delete,10240)": {"open": 200, "write": 200, "close": 200},
}
"""Calls of prepare() and finish(), which run for each pass of a workload that is fresh."""

STREAMS = {"bw_pipe", "bw_unix", "bw_tcp"}
"""How much a read() finds depends on how the two processes meet."""

OF_THE_LIBRARY = {"lat_proc(fork)", "lat_proc(exec)", "lat_proc(shell)"}
"""Workloads in which the C library makes calls of its own: signal masks around fork(), and the loader's work."""

SAME_SERVICE = {("lat_syscall(fstat)", "glibc"): {"stat": 8000}}
"""glibc's fstat() is newfstatat() with an empty path, which the kernel handles in another function."""

SHORT = {"lat_pipe", "bw_file_rd"}


def documented() -> dict[str, tuple[int, dict[str, Fraction]]]:
    """Return the operations of a pass and the calls of one operation, by workload, as the documentation states them."""
    text = (share_dir() / "docs" / "workloads-system.md").read_text()
    text = text[text.index("## Suite `os`") : text.index("## Suite `unix`")]
    return {
        name: (int(operations), {call: Fraction(number) for call, number in _CALL.findall(calls)})
        for name, operations, calls in _ROW.findall(text)
    }


def _differences(found: Mapping[str, int], expected: Mapping[str, int], slack: int, *, others: bool) -> dict[str, int]:
    names = set(expected) | (set(found) if others else set())
    rest = {name: found.get(name, 0) - expected.get(name, 0) for name in names if name != "fcntl"}
    return {name: number for name, number in rest.items() if abs(number) > slack}


def test_the_documentation_states_the_calls_of_every_workload() -> None:
    assert list(documented()) == [workload.name for workload in WORKLOADS]


def test_calls_that_read_the_memory_and_random_numbers_do_not_count() -> None:
    lines = """\
7 read(3, "1", 127) = 1
7 openat(AT_FDCWD, "/proc/self/smaps", O_RDONLY) = 4
7 read(4, "2", 1024) = 1024
8 read(3, "3", 127) = 1
8 close(3) = 0
7 read(4, "", 1024) = 0
7 close(4) = 0
7 getrandom("4", 8, GRND_NONBLOCK) = 8
7 <... read resumed>"5", 127) = 1
7 wait4(-1, <unfinished ...>
""".splitlines()
    assert counted(lines) == {"read": 2, "close": 1, "wait": 1}


def test_a_call_that_the_kernel_makes_again_counts_once() -> None:
    lines = """\
7 vfork( <unfinished ...>
8 clone(child_stack=NULL, flags=SIGCHLD) = ? ERESTARTNOINTR (To be restarted)
8 clone(child_stack=NULL, flags=SIGCHLD) = 9
7 <... vfork resumed>) = ? ERESTARTNOINTR (To be restarted)
7 vfork() = 10
""".splitlines()
    assert counted(lines) == {"fork": 2}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "name", sampled([work.name for work in WORKLOADS], lambda name: source_of(find_workload("os", name)).file, SHORT)
)
def test_a_pass_makes_the_documented_system_calls(name: str, level: str, shared: Shared) -> None:
    operations, calls = documented()[name]
    expected = {call: int(number * operations) for call, number in calls.items()}
    expected = SAME_SERVICE.get((name, level), expected)
    for more in (HARNESS, NOT_MEASURED.get(name, {})):
        expected = {call: expected.get(call, 0) + more.get(call, 0) for call in {*expected, *more}}
    found = system_calls_of_a_pass(find_workload("os", name), level, shared)
    if name in OF_THE_LIBRARY:
        # The loader opens, reads and closes files; of the process itself the calls are exact.
        expected = {call: number for call, number in expected.items() if call not in HARNESS}
        assert _differences(found, expected, 0, others=False) == {}
        return
    if name in STREAMS:  # a read may find a part of a write, in the run of one pass too, which is subtracted
        found.pop("read", 0), expected.pop("read")
    fresh = name in NOT_MEASURED
    assert _differences(found, expected, SLACK if operations >= 100 else 0, others=not fresh) == {}
    if fresh:  # the child's own start and end; none of them once for each file
        assert {call: number for call, number in found.items() if call not in expected and number > 8} == {}


def test_every_lmbench_row_of_the_page_has_a_workload() -> None:
    names = {(suite, workload.name) for suite in ("os", "unix", "core") for workload in find_suite(suite).workloads}
    assert {(row.own_suite, row.workload) for row in measured_rows()} <= names
    assert {(row.own_suite, row.less) for row in measured_rows() if row.less} <= names
