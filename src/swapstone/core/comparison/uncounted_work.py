# SPDX-License-Identifier: MIT OR Apache-2.0
"""Were all processes of a run counted? What wait4(2) reports lacks those that were not waited for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from swapstone.core.comparison.cells import LOST_SHARE, LOST_US, OF_ALL, Cell, collect, is_server, lost_us, several
from swapstone.core.comparison.rows import Findings, Place
from swapstone.core.comparison.run_table import ABSENT, RunTable
from swapstone.core.model import (
    DIRECTION_RULES,
    Caveat,
    CaveatKind,
    Experiment,
    Variant,
    Verdict,
    WorkSpec,
    named_first,
)
from swapstone.core.model.observation import LATER_RUN, NO_CGROUP, UNCOUNTED

_OF_CPU = ("cpu", "user", "system", "cpu_per_request", "user_per_request", "system_per_request", "requests_per_cpu_s")
"""Metrics that lack the CPU time of processes that were not waited for."""

_UNKNOWN = ("were not counted together", "")
_WHY = {
    NO_CGROUP: (
        "could not be counted together, because no cgroup could be made for them",
        "What is missing: swapstone doctor",
    ),
    LATER_RUN: (
        "were not counted together, because no child was noticed in the first two runs: only those, and runs after one with a child, "
        "have cgroups of their own",
        "Measure longer: the runs that follow have cgroups.",
    ),
}
"""By the fact `UNCOUNTED`: why the processes of a run were not counted, and what to do."""

_LACKS = {
    False: "Peak memory is that of the largest process, not of all together",
    True: "Peak memory is the sum of the peaks of each, in which shared pages count more than once",
}
"""By whether it is a server."""


def check(
    experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, WorkSpec], table: RunTable
) -> Findings:
    """Exclude CPU time that lacks that of processes that were not waited for; warn where other processes are not counted at all."""
    if experiment.rules < DIRECTION_RULES or experiment.virtual:
        return Findings()
    excluded: dict[Place, tuple[Verdict, str]] = {}
    uncounted: dict[tuple[str, str, str], dict[str, None]] = {}
    lost: dict[str, str] = {}
    for group, cells in collect(table).items():
        counted = {*OF_ALL.values()} & {metric.name for metric in workloads[group[1]].metrics}
        for label, cell in cells.items():
            if not (found := several(table, cell.rows)).any():
                continue
            first = cell.rows[found][:1]
            reasons = dict(_lost(table, cell, label, "tree_cpu" in counted))
            if "cpu" in reasons and counted == {"tree_memory"}:
                lost.setdefault(group[1], reasons["cpu"])
            if (table.fact("tree_cpu_us")[cell.rows] == ABSENT).all():
                why, hint = _WHY.get(int(table.fact(UNCOUNTED)[first][0]), _UNKNOWN)
                if counted:
                    uncounted.setdefault((why, _LACKS[bool(is_server(table, first)[0])], hint), {})[group[1]] = None
                reasons = dict.fromkeys(counted, f"the processes of {label} {why}")
            others = [each.label for each in variants] if label == variants[0].label else [label]
            excluded |= {
                (group, each, metric): (Verdict.UNAVAILABLE, reason)
                for metric, reason in reasons.items()
                for each in others
            }
    caveats = [_caveat(*each) for each in uncounted.items()]
    if lost:
        message = f"{named_first([*lost])}: CPU time of a request is unavailable, because {next(iter(lost.values()))}."
        caveats.append(Caveat(kind=CaveatKind.NOT_MEASURED, message=message))
    return Findings(excluded=excluded, caveats=tuple(caveats))


def _lost(table: RunTable, cell: Cell, label: str, tree_cpu: bool) -> Iterator[tuple[str, str]]:
    """Yield each metric that lacks CPU time of processes that were not waited for, with the reason; and memory that has no peak."""
    lost = lost_us(table, cell.rows)
    share = float(np.median(lost / np.maximum(table.fact("tree_cpu_us")[cell.rows], 1)))
    if share > LOST_SHARE and float(np.median(lost)) > LOST_US:
        least = "at least " if is_server(table, cell.rows).any() else ""
        reason = f"{least}{100 * share:.0f} % of the CPU time of {label} is that of processes that were not waited for"
        yield from ((metric, reason + (": see tree_cpu" if tree_cpu else "")) for metric in _OF_CPU)
    if not cell.series("tree_memory")[1].size:
        yield "tree_memory", f"{label}: its cgroup has no peak of memory (memory.peak came with Linux 5.19)"


def _caveat(uncounted: tuple[str, str, str], names: Mapping[str, None]) -> Caveat:
    why, lacks, hint = uncounted
    return Caveat(
        kind=CaveatKind.NOT_MEASURED,
        message=f"{named_first([*names])}: runs have several processes, which {why}. {lacks}, and CPU time lacks that of processes that "
        "were not waited for.",
        hint=hint,
    )
