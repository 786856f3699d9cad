# SPDX-License-Identifier: MIT OR Apache-2.0
"""docs/os-suite.md has each workload of `os`, `unix` and `core` in one row, with its work and the original's description."""

from __future__ import annotations

import re

import pytest

from swapstone.model.directories import share_dir
from swapstone.workloads import find_workloads

SUITES = ("os", "unix", "core")


def _rows() -> list[list[str]]:
    text = (share_dir() / "docs" / "os-suite.md").read_text()
    section = text[text.index("### Every workload") :]
    table = section[section.index("|---") :].partition("\n\n")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines()[1:]]


def _names(row: list[str]) -> list[str]:
    return re.findall(r"`([^`]+)`", row[0])


def test_each_workload_is_in_one_row() -> None:
    named = [name for row in _rows() for name in _names(row)]
    assert sorted(named) == sorted(workload.name for _, workload in find_workloads(SUITES))


@pytest.mark.parametrize("suite", SUITES)
def test_each_row_has_the_work_of_the_registry_and_what_the_original_does(suite: str) -> None:
    found = {name: row for row in _rows() for name in _names(row)}
    for _, workload in find_workloads((suite,)):
        _, original, work = found[workload.name]
        assert work == re.split(": a (?:process|thread) for each", workload.description)[0]
        assert len(original) > 10
