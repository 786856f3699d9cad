# SPDX-License-Identifier: MIT OR Apache-2.0
"""Workloads of the suites `os` and `unix` move the bytes, and those of `unix` make the system calls, that docs/os-suite-work.md states."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

import pytest

from swapstone.core.model.directories import share_dir
from swapstone.core.workloads import find_suite, find_workload
from tests.shared import Shared
from tests.unit.builders import source_of
from tests.unit.workloads.counted_system_calls import bytes_of_a_pass, moved_bytes, system_calls_of_a_pass
from tests.unit.workloads.programs import LEVELS, sampled
from tests.unit.workloads.test_system_calls import HARNESS, NOT_MEASURED

_NAME = re.compile(r"`([^`]+)`")
_CALL = re.compile(r"`([a-z_]+)` (\d+)")
SHORT = {"lat_pipe", "spawn (1 copy)"}
OF_THE_LIBRARY = {"execl (1 copy)", "shell1 (1 copy)", "shell8 (1 copy)"}
"""Workloads whose programs make calls of their own: only the calls that the documentation states are compared."""

SLACK = 1
"""`syscall` calls once for each value that it compares with."""


def _table(heading: str, columns: int) -> Iterator[list[str]]:
    text = (share_dir() / "docs" / "os-suite-work.md").read_text()
    text = text[text.index(heading) :].split("\n##", 1)[0]
    for line in text.splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            assert len(cells) == columns, line
            yield cells


def _bytes_of_os() -> dict[str, dict[str, Fraction]]:
    """Return the bytes that an operation writes and reads, by workload."""
    return {
        name: {"write": Fraction(written), "read": Fraction(read)}
        for names, _, written, read in _table("## Suite `os`: bytes", 4)
        for name in _NAME.findall(names)
    }


def unix_passes() -> dict[str, tuple[int, dict[str, int], dict[str, int]]]:
    """Return (operations, calls, bytes) of a pass by workload; no bytes where the documentation states none."""
    found = {}
    for name, _, operations, calls, written, read in _table("## Suite `unix`: calls and bytes", 6):
        moved = {"write": int(written), "read": int(read)} if written else {}
        found[name.strip("`")] = (int(operations), {call: int(n) for call, n in _CALL.findall(calls)}, moved)
    return found


def _some(suite: str, names: list[str]) -> list[object]:
    return sampled(names, lambda name: source_of(find_workload(suite, name)).file, SHORT)


LEVELS_OF_SHORT = [
    pytest.param(level, marks=[pytest.mark.slow, pytest.mark.exhaustive] * (level != "glibc")) for level in LEVELS
]
"""What the C libraries call equally often is in test_calls.py, for both."""


def test_the_tables_name_workloads() -> None:
    assert set(_bytes_of_os()) <= {work.name for work in find_suite("os").workloads}
    assert list(unix_passes()) == [work.name for work in find_suite("unix").workloads if work.name.endswith("(1 copy)")]


def test_bytes_are_those_that_the_kernel_returned() -> None:
    lines = """\
7 openat(AT_FDCWD, "/proc/self/schedstat", O_RDONLY) = 3
7 read(3, "1 2 3", 127) = 25
8 read(3, "abc", 8) = 3
7 close(3) = 0
7 write(4, "xy", 2) = 2
7 write(1, "report", 6) = 6
8 write(1, "line", 4) = 4
7 read(4, <unfinished ...>
8 write(5, "q", 1) = -1 EPIPE (Broken pipe)
7 <... read resumed>"12345", 5) = 5
8 recvfrom(6, "ab", 2, 0, NULL, NULL) = 2
8 sendto(6, "abc", 3, MSG_NOSIGNAL, NULL, 0) = 3
""".splitlines(keepends=True)
    assert moved_bytes(lines) == {"read": 10, "write": 9}


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS_OF_SHORT)
@pytest.mark.parametrize("name", _some("os", list(_bytes_of_os())))
def test_an_operation_moves_the_documented_bytes(name: str, level: str, shared: Shared) -> None:
    workload = find_workload("os", name)
    operations = _operations_of_os()[name]
    found = bytes_of_a_pass(workload, level, shared)
    for what, number in _bytes_of_os()[name].items():
        # A stream's partner may have written more than is read when it ends.
        least, most = number * operations, number * operations + (65_536 if name.startswith("bw_") else 0)
        assert least <= found.get(what, 0) <= most, (what, found)
    assert set(found) <= {"read", "write"}


def _operations_of_os() -> dict[str, int]:
    text = (share_dir() / "docs" / "workloads-system.md").read_text()
    text = text[text.index("## Suite `os`") : text.index("## Suite `unix`")]
    return {name: int(number) for name, number in re.findall(r"^\| `([^`]+)` \| [^|]+ \| (\d+) \|", text, re.MULTILINE)}


@pytest.mark.parametrize("level", LEVELS_OF_SHORT)
@pytest.mark.parametrize("name", _some("unix", list(unix_passes())))
def test_a_pass_of_unix_makes_the_documented_calls_and_moves_the_documented_bytes(
    name: str, level: str, shared: Shared
) -> None:
    workload = find_workload("unix", name)
    _, calls, moved = unix_passes()[name]
    found = system_calls_of_a_pass(workload, level, shared)
    if name in OF_THE_LIBRARY:
        assert {call: found.get(call, 0) for call in calls} == calls
        return
    rest = {call: found.get(call, 0) - HARNESS.get(call, 0) for call in {*calls, *HARNESS}}
    assert all(0 <= rest[call] - calls.get(call, 0) <= (6 if call == "close" else SLACK) for call in rest), rest
    # What else a pass calls, such as pipe() once or the C library's calls around fork(), is not work of an operation.
    operations = sum(calls.values())
    more = {call: number for call, number in found.items() if call not in {*calls, *HARNESS, "fcntl"}}
    around_fork = {"set_robust_list", "gettid", "rt_sigprocmask"}
    assert all(number <= 2 for call, number in more.items() if call not in around_fork), (operations, more)
    expected = {what: number for what, number in moved.items() if number}
    assert bytes_of_a_pass(workload, level, shared) == expected


def test_files_of_10_kib_are_written_outside_the_measurement_where_they_are_deleted() -> None:
    """The table of bytes leaves out lat_fs(delete,10240), whose files are written before its pass."""
    assert "write" in NOT_MEASURED["lat_fs(delete,10240)"]
    assert "lat_fs(delete,10240)" not in _bytes_of_os()
