# SPDX-License-Identifier: MIT OR Apache-2.0
"""The benchmark of a quiet and a loaded period: which rows of two records agree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benchmarks.quiet_and_loaded import Row, busy, compared, relation, rows_of

DISTURBED = Row("disturbed", None, None, None)


@pytest.mark.parametrize(
    ("quiet", "loaded", "expected"),
    [
        (Row("worse", 5.45, 4.92, 6.09), Row("worse", 2.256, 2.129, 2.302), "disjoint"),
        (Row("worse", 1.12, 1.05, 1.2), Row("better", 0.9, 0.85, 0.95), "wrong"),
        (Row("worse tail", 1.0, 0.9, 1.1), Row("better", 0.9, 0.85, 0.95), "wrong"),
        (Row("worse", 1.12, 1.05, 1.2), Row("worse", 1.15, 1.1, 1.25), "overlap"),
        (Row("worse", 1.12, 1.05, 1.2), DISTURBED, "agree"),
        (DISTURBED, DISTURBED, "agree"),
        (Row("worse", 1.01, 1.001, 1.03), Row("equivalent", 1.0, 0.99, 1.01), "overlap"),
        (Row("worse", 1.12, 1.05, 1.2), Row("inconclusive", 1.0, None, None), "agree"),
    ],
)
def test_relations_of_two_rows(quiet: Row, loaded: Row, expected: str) -> None:
    assert relation(quiet, loaded) == relation(loaded, quiet) == expected


def test_the_table_has_the_rows_of_both_records() -> None:
    quiet = {("a", "wall"): Row("worse", 1.12, 1.05, 1.2), ("b", "wall"): Row("better", 0.5, 0.4, 0.6)}
    lines, found = compared(quiet, {("a", "wall"): DISTURBED, ("b", "wall"): Row("worse", 1.5, 1.4, 1.6)})
    assert lines == [
        "workload  time  quiet                       loaded",
        "a         wall  worse 1.120 (1.050-1.200)   disturbed                  agree",
        "b         wall  better 0.500 (0.400-0.600)  worse 1.500 (1.400-1.600)  wrong",
        "",
        "2 rows: 1 wrong, 0 disjoint, 0 overlap, 1 without two intervals; disturbed: 0 quiet, 1 loaded",
    ]
    assert found == {"agree": 1, "overlap": 0, "disjoint": 0, "wrong": 1}


def test_only_rows_of_times_are_compared() -> None:
    def row(metric: str, quantity: str) -> dict[str, object]:
        numbers = {"verdict": "worse", "effect": 2.0, "low": 1.5, "high": 2.5}
        return {"workload": "a", "metric": {"name": metric, "quantity": quantity}, **numbers}

    exported = {"analysis": {"comparisons": [row("wall", "time"), row("res", "memory"), row("cpu", "time")]}}
    assert rows_of(exported) == {
        ("a", "wall"): Row("worse", 2.0, 1.5, 2.5),
        ("a", "cpu"): Row("worse", 2.0, 1.5, 2.5),
    }


def test_busy_processes_end_with_the_context() -> None:
    def children() -> set[str]:
        return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())

    before = children()
    with busy(2):
        during = children() - before
        assert len(during) == 2
    assert not children() & during
