# SPDX-License-Identifier: MIT OR Apache-2.0
"""Were all processes of a run counted? What wait4(2) reports lacks those that were not waited for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from swapstone.core.comparison.cells import collect
from swapstone.core.comparison.findings import Findings, Place, shortened
from swapstone.core.comparison.process_tree import LOST_SHARE, LOST_US, lost_us, several
from swapstone.core.comparison.run_table import ABSENT, Ints, RunTable
from swapstone.core.model import DIRECTION_RULES, Caveat, CaveatKind, Experiment, Variant, Verdict, WorkSpec


def check(
    experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, WorkSpec], table: RunTable
) -> Findings:
    """Exclude CPU time that lacks that of processes that were not waited for; warn where other processes are not counted at all."""
    del workloads
    if experiment.rules < DIRECTION_RULES or experiment.virtual:
        return Findings()
    excluded: dict[Place, tuple[Verdict, str]] = {}
    uncounted: dict[str, None] = {}
    for group, cells in collect(table).items():
        for label, cell in cells.items():
            if not several(table, cell.rows).any():
                continue
            if (table.fact("tree_cpu_us")[cell.rows] == ABSENT).all():
                uncounted[group[1]] = None
            elif share := _lost_share(table, cell.rows):
                reason = f"{100 * share:.0f} % of the CPU time of {label} is that of processes that were not waited for: see tree_cpu"
                others = [each.label for each in variants] if label == variants[0].label else [label]
                excluded |= {
                    (group, each, metric): (Verdict.UNAVAILABLE, reason)
                    for each in others
                    for metric in ("cpu", "user", "system")
                }
    return Findings(excluded=excluded, caveats=tuple(_caveats([*uncounted])))


def _lost_share(table: RunTable, rows: Ints) -> float:
    """Return the median share of CPU time that wait4(2) does not report; 0 if it is small."""
    lost, tree = lost_us(table, rows), np.maximum(table.fact("tree_cpu_us")[rows], 1)
    share = float(np.median(lost / tree))
    return share if share > LOST_SHARE and float(np.median(lost)) > LOST_US else 0.0


def _caveats(names: Sequence[str]) -> Iterable[Caveat]:
    if names:
        yield Caveat(
            kind=CaveatKind.NOT_MEASURED,
            message=f"{shortened(names)}: runs have several processes, and had no cgroup of their own. Peak memory is that of the largest "
            "process, not of all together, and CPU time lacks that of processes that were not waited for.",
            hint="Measure as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes COMMAND.",
        )
