# SPDX-License-Identifier: MIT OR Apache-2.0
"""The factor priority: what it sets, and what it reads in the kernel's report of a thread."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from swapstone.core.factors import PRIORITY, PRIORITY_SEEN, PRIORITY_VARIABLE, Evidence, Recipe, level_of_stat
from swapstone.core.model import process_file

STAT = "7 (a) b) S " + " ".join(["1"] * 36)


def evidence(*, seen: tuple[tuple[str, str], ...] = (), stat: str = "") -> Evidence:
    return Evidence(interp=None, objects=(), seen=seen, observed=((process_file("stat"), stat),) if stat else ())


def test_all_levels_make_environments_of_one_size() -> None:
    texts = [PRIORITY.apply(level.name, Recipe()).environment for level in PRIORITY.levels]
    assert {name for ((name, _),) in texts} == {PRIORITY_VARIABLE}
    assert len({len(value) for ((_, value),) in texts}) == 1
    assert len({value for ((_, value),) in texts}) == len(PRIORITY.levels)


@pytest.mark.parametrize(
    ("fields", "level"),
    [
        ("99 1", "fifo99"),
        ("1 1", "fifo01"),
        ("0 0", "other"),
        ("50 2", "rr50"),
        ("0 9", None),
        ("x 1", None),
        ("99", None),
    ],
)
def test_the_level_is_that_of_the_kernels_report(fields: str, level: str | None) -> None:
    assert level_of_stat(f"{STAT} {fields} 0 0") == level if fields != "99" else level_of_stat(f"{STAT} 99") is None
    assert PRIORITY.observe(evidence(stat=f"{STAT} {fields}")) == level


def test_a_programs_report_of_its_threads_comes_first() -> None:
    assert PRIORITY.observe(evidence(seen=((PRIORITY_SEEN, "fifo50"),), stat=f"{STAT} 0 0")) == "fifo50"
    assert PRIORITY.observe(evidence()) is None


def test_the_fields_are_those_of_this_kernel() -> None:
    assert level_of_stat(Path(f"/proc/self/task/{threading.get_native_id()}/stat").read_text()) == "other"
