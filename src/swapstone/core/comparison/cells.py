# SPDX-License-Identifier: MIT OR Apache-2.0
"""Group runs into cells: the values of each variant of a workload under a load, by block.

Of runs with other processes than the first a cell also shows how much of their work wait4(2) does not report.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from swapstone.core.comparison.run_table import ABSENT, OK, STATUSES, Group, RunTable, last_end
from swapstone.core.model import CONSOLE, Caveat, CaveatKind, Experiment, Metric, Status, Variant, Verdict, WorkSpec
from swapstone.core.stats import Floats, Ints, Mask

__all__ = ["TROUBLES", "Cell", "Cells", "Group", "collect"]


Cells = Mapping[Group, Mapping[str, "Cell"]]
"""By group, then by the label of the variant."""

TROUBLES = (Status.REFUSED, Status.UNAVAILABLE, Status.FAILED)
"""Statuses without values, the most severe first."""


def _none() -> Ints:
    return np.empty(0, dtype=np.int64)


class Cell(msgspec.Struct):
    """The runs of one variant of one workload under one load.

    Attributes:
        blocks: of the successful runs that count, ascending, shape (runs,).
        rows: of the same runs in the table, shape (runs,).
        discarded: rows of the successful discarded runs of the same blocks that are of the measured quantity (`RunTable.after_itself`),
            shape (discarded runs,).
        table: of all runs.
        counts: number of runs by status, with the warm-up and the discarded runs.
        reasons: the first reason of each status.
    """

    blocks: Ints = msgspec.field(default_factory=_none)
    rows: Ints = msgspec.field(default_factory=_none)
    discarded: Ints = msgspec.field(default_factory=_none)
    table: RunTable | None = None
    counts: collections.Counter[Status] = msgspec.field(default_factory=collections.Counter)
    reasons: dict[Status, str] = msgspec.field(default_factory=dict)

    def series(self, metric: str) -> tuple[Ints, Floats]:
        """Return the blocks that have a value of a metric, ascending, and these values."""
        if self.table is None or metric not in self.table.metrics:
            return _none(), np.empty(0)
        values = self.table.metrics[metric][self.rows]
        known = ~np.isnan(values)
        return (self.blocks, values) if known.all() else (self.blocks[known], values[known])

    def discarded_series(self, metric: str, blocks: Ints) -> tuple[Ints, Floats]:
        """Return the values of a metric of `discarded` in some blocks, and the place of each value's block in `blocks`, which ascend."""
        if self.table is None or metric not in self.table.metrics or not blocks.size:
            return _none(), np.empty(0)
        block, values = self.table.block[self.discarded], self.table.metrics[metric][self.discarded]
        places = np.minimum(np.searchsorted(blocks, block), blocks.size - 1)
        known = (blocks[places] == block) & ~np.isnan(values)
        return places[known], values[known]

    def span_ns(self, blocks: Ints) -> tuple[int, int] | None:
        """Return the first start and the last end of its runs in some blocks, as Unix times; None if it has no such run.

        Args:
            blocks: some of `blocks`, each once, shape (n,).
        """
        rows = self.rows if blocks.size == self.blocks.size else self.rows[np.isin(self.blocks, blocks)]
        if self.table is None or not rows.size:
            return None
        started, elapsed = self.table.started[rows], self.table.elapsed[rows]
        return int(started.min()), last_end(started, elapsed)

    def exclusion(self, side: str) -> tuple[Verdict, str] | None:
        """Return why this cell can't enter a comparison; None if it can.

        Args:
            side: ``baseline`` or ``candidate``, for the text of the reason.
        """
        runs = self.counts.total()
        if refused := self.counts[Status.REFUSED]:
            return Verdict.INVALID, f"{side} refused in {refused} of {runs} runs: {self.reasons[Status.REFUSED]}"
        if self.counts[Status.UNAVAILABLE] and not self.counts[Status.OK]:
            return Verdict.UNAVAILABLE, f"{side}: {self.reasons[Status.UNAVAILABLE]}"
        failed = self.counts[Status.FAILED]
        if 2 * failed > runs:
            return Verdict.INVALID, f"{side} fails: {self.reasons[Status.FAILED]} ({failed} of {runs} runs)"
        return None


def collect(table: RunTable) -> Cells:
    """Group runs into cells.

    Args:
        table: of runs in any order, at most one per trial. Those that are discarded are counted and give no values (`RunTable.counted`).
    """
    cells: dict[Group, dict[str, Cell]] = {}
    if not len(table):
        return cells
    kept = np.flatnonzero((table.status == OK) & (table.after_itself >= 0) & table.counted)
    kept = kept[~_across_boots(table, kept)]
    kept = kept[np.lexsort((table.block[kept], table.place[kept]))]
    kept, discarded = kept[table.prime[kept] == 0], kept[table.prime[kept] > 0]
    borders, others = (
        np.searchsorted(table.place[each], np.arange(len(table.places) + 1)) for each in (kept, discarded)
    )
    counts = np.bincount(table.place * len(STATUSES) + table.status, minlength=len(table.places) * len(STATUSES))
    firsts = _first_reasons(table)
    for number, (suite, workload, load, variant) in enumerate(table.places):
        rows = kept[borders[number] : borders[number + 1]]
        of_place = counts[number * len(STATUSES) : (number + 1) * len(STATUSES)].tolist()
        if not sum(of_place):
            continue
        cells.setdefault((suite, workload, load), {})[variant] = Cell(
            blocks=table.block[rows],
            rows=rows,
            discarded=discarded[others[number] : others[number + 1]],
            table=table,
            counts=collections.Counter(
                {status: count for status, count in zip(STATUSES, of_place, strict=True) if count}
            ),
            reasons=firsts.get(number, {}),
        )
    return cells


def _across_boots(table: RunTable, rows: Ints) -> Mask:
    """Return which runs are of a block during whose runs of the same workload and load a board rebooted: they pair with none.

    Args:
        table: of all runs.
        rows: of the runs that count, shape (runs,).
    """
    boots = table.fact("board_boots")[rows]
    if not (boots > 0).any():
        return np.zeros(rows.size, dtype=np.bool_)
    boots = np.where(boots == ABSENT, 0, boots)
    _, units = np.unique(np.stack([table.group[rows], table.block[rows]]), axis=1, return_inverse=True)
    units = units.reshape(-1)
    least = np.full(units.max() + 1, np.iinfo(np.int64).max)
    most = np.full(units.max() + 1, np.iinfo(np.int64).min)
    np.minimum.at(least, units, boots)
    np.maximum.at(most, units, boots)
    differs: Mask = least[units] != most[units]
    return differs


def _first_reasons(table: RunTable) -> dict[int, dict[Status, str]]:
    """Return the first reason of each status of each place, without console lines, which the list of failed trials has."""
    without = np.flatnonzero(table.status != OK)
    keys, first = np.unique(table.place[without] * len(STATUSES) + table.status[without], return_index=True)
    found: dict[int, dict[Status, str]] = {}
    for key, row in zip(keys.tolist(), without[first].tolist(), strict=True):
        reason = table.reasons[int(table.reason[row])].partition(CONSOLE)[0] or "no reason given"
        found.setdefault(key // len(STATUSES), {})[STATUSES[key % len(STATUSES)]] = reason
    return found


MOST_EMPTY_ROWS = 20_000
"""An analysis with more rows than these leaves out those without any run."""

CandidatesOf = Mapping[Group, Sequence[Variant]]
"""The candidates that have rows, by group, in the experiment's order; a group without any is absent."""


def measured_candidates(
    experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, WorkSpec], table: RunTable
) -> CandidatesOf | None:
    """Return the candidates of which they or the baseline have a run, of an experiment that is too large to show all; None if it is not.

    Args:
        experiment: gives workloads and loads.
        variants: the baseline first.
        workloads: by name.
        table: of all runs.
    """
    baseline, *candidates = variants
    if _rows_of(experiment, variants, workloads) <= MOST_EMPTY_ROWS:
        return None
    labels: dict[Group, set[str]] = {}
    for suite, workload, load, label in table.places:
        labels.setdefault((suite, workload, load), set()).add(label)
    return {
        group: candidates if baseline.label in found else [each for each in candidates if each.label in found]
        for group, found in labels.items()
    }


def _rows_of(experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, WorkSpec]) -> int:
    """Return how many rows of runs an experiment has."""
    metrics = sum(len(workloads[name].metrics) for _, name in experiment.workloads)
    return metrics * len(experiment.loads) * (len(variants) - 1)


def left_out_caveats(
    experiment: Experiment,
    variants: Sequence[Variant],
    workloads: Mapping[str, WorkSpec],
    candidates_of: CandidatesOf | None,
) -> tuple[Caveat, ...]:
    """Return the caveat about rows that are left out; none if no row is. Arguments as `measured_candidates` has them and returns."""
    if candidates_of is None:
        return ()
    kept = sum(len(workloads[name].metrics) * len(found) for (_, name, _), found in candidates_of.items())
    count = _rows_of(experiment, variants, workloads) - kept
    if not count:
        return ()
    message = f"{count} comparisons of which no run was made are left out: no complete pair of runs."
    return (Caveat(kind=CaveatKind.NOT_MEASURED, message=message),)


OF_ALL = {"cpu": "tree_cpu", "maxrss": "tree_memory"}
"""Metrics of the processes that were waited for, with those of all processes of a run."""

LOST_SHARE, LOST_US = 0.02, 10_000
"""CPU time is no result if it lacks more than this share of that of all processes, and more than a tick of 10 ms."""


def metrics_of(workload: WorkSpec, cells: Iterable[Cell]) -> tuple[Metric, ...]:
    """Return the metrics to compare: those of all processes only if a run had more than one, for else they repeat the others.

    Args:
        workload: declares the metrics.
        cells: all variants under one load.
    """
    if any(cell.table is not None and several(cell.table, cell.rows).any() for cell in cells):
        return workload.metrics
    return tuple(metric for metric in workload.metrics if metric.name not in OF_ALL.values())


def several(table: RunTable, rows: Ints) -> Mask:
    """Return of which runs it is known that they had several processes."""
    counted = lost_us(table, rows)
    found: Mask = (table.fact("children")[rows] > 0) | (counted > LOST_US)
    return found


def lost_us(table: RunTable, rows: Ints) -> Ints:
    """Return the CPU time of processes that were not waited for; 0 if unknown. Of servers it is a lower bound.

    What a server's processes used that the agent waited for itself is counted, and what its load generator used before the measured load.
    """
    names = ("tree_cpu_us", "user_us", "system_us", "trial_cpu_us", "driver_user_us", "driver_system_us")
    tree, user, system, reaped, *of_driver = (table.fact(name)[rows] for name in names)
    driver = sum(np.where(each == ABSENT, 0, each) for each in of_driver)
    of_server = is_server(table, rows)
    known = (tree != ABSENT) & (user != ABSENT) & (system != ABSENT) & ~(of_server & (reaped == ABSENT))
    lost: Ints = np.where(known, tree - np.where(of_server, reaped - driver, user + system), 0)
    return lost


def is_server(table: RunTable, rows: Ints) -> Mask:
    """Return which runs are of servers."""
    found: Mask = table.fact("server_processes")[rows] != ABSENT
    return found
