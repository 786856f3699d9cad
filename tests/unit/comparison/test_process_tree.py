# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rows and caveats of runs with several processes."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from swapstone.core.model import CURRENT_RULES, CaveatKind, Direction, Metric, Quantity, Verdict
from swapstone.core.model.observation import LATER_RUN, NO_CGROUP

BASE, CANDIDATE = "libc=glibc", "libc=musl"
TREE = tuple(
    Metric(name=name, unit=unit, quantity=quantity, better=Direction.LOWER, meaning=name)
    for name, unit, quantity in (("tree_cpu", "ns", Quantity.TIME), ("tree_memory", "B", Quantity.MEMORY))
)


def fill(
    bench: Any,
    *,
    children: int,
    counted: bool,
    lost: float = 0.0,
    declared: bool = True,
    more: dict[str, int] | None = None,
) -> dict[str, Any]:
    """Lay out runs; the candidate has children, loses a share of its CPU time, and has further facts. Return its rows by metric."""
    random = np.random.default_rng(5)
    bench.rules = CURRENT_RULES
    bench.workload("w", "wall", "cpu", "res")
    work = bench.workloads["w"]
    bench.workloads["w"] = msgspec.structs.replace(work, metrics=(*work.metrics, *(TREE if declared else ())))
    for block in range(21):
        for variant in (BASE, CANDIDATE):
            several = children and variant == CANDIDATE
            tree = 1e8 * float(np.exp(random.normal(0, 0.01)))
            cpu = tree * (1 - lost) if several else tree
            bench.run("w", variant, block, wall=tree, cpu=cpu, res=1000.0, **({"tree_cpu": tree} if counted else {}))
            facts = {"user_us": int(cpu / 1000), "system_us": 0, "children": int(bool(several))}
            facts |= {"tree_cpu_us": int(tree / 1000)} if counted else {}
            facts |= (more or {}) if several else {}
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


@pytest.mark.parametrize(
    ("why", "reason", "hint"),
    [
        ({}, "which were not counted together. Peak", ""),
        ({"uncounted": 99}, "which were not counted together. Peak", ""),
        ({"uncounted": NO_CGROUP}, "because no cgroup could be made for them. Peak", "swapstone doctor"),
        ({"uncounted": LATER_RUN}, "because no child was noticed in the first two runs", "Measure longer"),
    ],
)
def test_several_processes_that_are_not_counted_are_a_caveat_with_the_reason(
    bench: Any, why: dict[str, int], reason: str, hint: str
) -> None:
    rows = fill(bench, children=1, counted=False, more=why)
    (caveat,) = (each for each in bench.analysis().caveats if each.kind is CaveatKind.NOT_MEASURED)
    assert caveat.message.startswith("w: runs have several processes, which ") and reason in caveat.message
    assert "that of the largest process" in caveat.message
    assert hint in caveat.hint and "root" not in caveat.hint
    for name in ("tree_cpu", "tree_memory"):
        assert rows[name].verdict is Verdict.UNAVAILABLE
        assert rows[name].reason.startswith(f"the processes of {CANDIDATE} ")


def test_programs_of_suites_have_children_of_their_own(bench: Any) -> None:
    fill(bench, children=1, counted=False, declared=False)
    assert messages(bench) == []


def test_a_cgroup_without_a_peak_is_named(bench: Any) -> None:
    rows = fill(bench, children=1, counted=True)
    assert "memory.peak came with Linux 5.19" in rows["tree_memory"].reason
    assert rows["tree_cpu"].verdict is not Verdict.UNAVAILABLE


@pytest.mark.parametrize(("reaped_us", "lost"), [(20_000, True), (110_000, False)])
def test_a_server_loses_what_nobody_waited_for(bench: Any, reaped_us: int, lost: bool) -> None:
    """Its processes that the agent waited for are counted, and the load generator's CPU time is not the server's."""
    server = {"server_processes": 1, "trial_cpu_us": reaped_us, "driver_user_us": 9_000, "driver_system_us": 1_000}
    rows = fill(bench, children=1, counted=True, lost=0.9, more=server)
    assert (rows["cpu"].verdict is Verdict.UNAVAILABLE) == lost
    assert rows["cpu"].reason.startswith("at least 90 % of the CPU time") == lost
    assert messages(bench) == []
    work = bench.workloads["w"]
    bench.workloads["w"] = msgspec.structs.replace(work, metrics=(*work.metrics[:-2], TREE[1]))  # as servers have it
    assert [
        each.startswith("w: CPU time of a request is unavailable, because at least 90 %") for each in messages(bench)
    ] == ([True] * lost)
    bench.runs.clear()
    fill(bench, children=1, counted=False, more=server)
    (message,) = messages(bench)
    assert "the sum of the peaks of each" in message
