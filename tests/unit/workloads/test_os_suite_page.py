# SPDX-License-Identifier: MIT OR Apache-2.0
"""docs/os-suite-work.md has each workload of `os`, `unix` and `core` in one row, with its work and the original's, in the same calls."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from swapstone.core.model.directories import share_dir
from swapstone.core.session.request import find_workloads
from swapstone.core.workloads import find_suite
from tests.unit.workloads.test_moved_bytes import unix_passes
from tests.unit.workloads.test_system_calls import documented

SUITES = ("os", "unix", "core")
_CALL = re.compile(r"`([a-z_]+)` ([0-9.]+)")

ONCE_A_MAPPING = {"lat_pagefault", "lat_pagefault(mmap)"}
"""Their calls belong to a whole file, whose size differs: the original's row states no number."""

WITH_AN_ORDER = {"bw_tcp"}
"""A write() that starts the sender; the original's sends without a pause."""

OPERATIONS = {
    "fstime": 1,
    "fsbuffer": 2,
    "fsdisk": 1,
    "context1": 2000,
    "execl": 25,
    "spawn": 100,
    "pipe": 4000,
    "syscall": 4000,
}
"""How often a pass does what the original's row counts, by test of `unix`."""

AROUND = {"context1": {"fork", "exit_group", "wait"}, "execl": {"fork", "exit_group", "wait"}}
"""Calls that start and end the processes of a pass; the original's live as long as the whole test."""


def _rows() -> list[list[str]]:
    text = (share_dir() / "docs" / "os-suite-work.md").read_text()
    section = text[text.index("## Every workload") :]
    table = section[section.index("|---") :].partition("\n\n")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines()[1:]]


def _names(row: list[str]) -> list[str]:
    return re.findall(r"`([^`]+)`", row[0])


def test_each_workload_is_in_one_row() -> None:
    named = [name for row in _rows() for name in _names(row)]
    assert sorted(named) == sorted(workload.name for _, workload in find_workloads(SUITES))


def _original_calls(name: str) -> dict[str, Fraction]:
    (row,) = (row for row in _rows() if name in _names(row))
    return {call: Fraction(number) for call, number in _CALL.findall(row[1])}


@pytest.mark.parametrize("name", [work.name for work in find_suite("os").workloads])
def test_an_operation_makes_the_calls_of_the_original(name: str) -> None:
    """Other tests count ours."""
    _, ours = documented()[name]
    if name in ONCE_A_MAPPING | WITH_AN_ORDER:
        assert _original_calls(name) == {}
        assert ours
        return
    assert _original_calls(name) == ours


@pytest.mark.parametrize("test", OPERATIONS)
def test_an_operation_of_unix_makes_the_calls_of_the_original(test: str) -> None:
    _, calls, _ = unix_passes()[f"{test} (1 copy)"]
    ours = {call: Fraction(n, OPERATIONS[test]) for call, n in calls.items() if call not in AROUND.get(test, set())}
    assert _original_calls(f"{test} (1 copy)") == ours


@pytest.mark.parametrize("suite", SUITES)
def test_each_row_has_the_work_of_the_registry_and_what_the_original_does(suite: str) -> None:
    found = {name: row for row in _rows() for name in _names(row)}
    for _, workload in find_workloads((suite,)):
        _, original, work = found[workload.name]
        assert work == re.split(": a (?:process|thread) for each", workload.description)[0]
        assert len(original) > 10
