# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rows and caveats of runs with several processes."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from swapstone.core.model import CURRENT_RULES, CaveatKind, Direction, Metric, Quantity, Verdict

BASE, CANDIDATE = "libc=glibc", "libc=musl"
TREE = tuple(
    Metric(name=name, unit=unit, quantity=quantity, better=Direction.LOWER, meaning=name)
    for name, unit, quantity in (("tree_cpu", "ns", Quantity.TIME), ("tree_memory", "B", Quantity.MEMORY))
)


def fill(bench: Any, *, children: int, counted: bool, lost: float = 0.0) -> dict[str, Any]:
    """Lay out runs; the candidate has children and loses a share of its CPU time. Return its rows by metric."""
    random = np.random.default_rng(5)
    bench.rules = CURRENT_RULES
    bench.workload("w", "wall", "cpu", "res")
    declared = bench.workloads["w"]
    bench.workloads["w"] = msgspec.structs.replace(declared, metrics=(*declared.metrics, *TREE))
    for block in range(21):
        for variant in (BASE, CANDIDATE):
            several = children and variant == CANDIDATE
            tree = 1e8 * float(np.exp(random.normal(0, 0.01)))
            cpu = tree * (1 - lost) if several else tree
            bench.run("w", variant, block, wall=tree, cpu=cpu, res=1000.0, **({"tree_cpu": tree} if counted else {}))
            facts = {"user_us": int(cpu / 1000), "system_us": 0, "children": int(bool(several))}
            facts |= {"tree_cpu_us": int(tree / 1000)} if counted else {}
            bench.runs[-1] = msgspec.structs.replace(bench.runs[-1], facts=tuple(facts.items()))
    return {row.metric.name: row for row in bench.analysis().comparisons}


def messages(bench: Any) -> list[str]:
    return [each.message for each in bench.analysis().caveats if each.kind is CaveatKind.NOT_MEASURED]


def test_cpu_time_without_that_of_other_processes_is_no_result(bench: Any) -> None:
    rows = fill(bench, children=1, counted=True, lost=0.9)
    assert rows["cpu"].verdict is Verdict.UNAVAILABLE
    assert "90 % of the CPU time" in rows["cpu"].reason
    assert rows["tree_cpu"].verdict is not Verdict.UNAVAILABLE
    assert messages(bench) == []


def test_cpu_time_of_children_that_were_waited_for_stays(bench: Any) -> None:
    rows = fill(bench, children=1, counted=True)
    assert rows["cpu"].verdict is rows["tree_cpu"].verdict
    assert rows["cpu"].verdict is not Verdict.UNAVAILABLE


@pytest.mark.parametrize("counted", [True, False])
def test_single_processes_have_no_rows_of_all_processes(bench: Any, counted: bool) -> None:
    assert not {"tree_cpu", "tree_memory"} & fill(bench, children=0, counted=counted).keys()
    assert messages(bench) == []


def test_several_processes_that_are_not_counted_are_a_caveat(bench: Any) -> None:
    rows = fill(bench, children=1, counted=False)
    (message,) = messages(bench)
    assert message.startswith("w: runs have several processes, and had no cgroup of their own.")
    assert rows["tree_memory"].verdict is Verdict.UNAVAILABLE
