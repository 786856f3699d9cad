# SPDX-License-Identifier: MIT OR Apache-2.0
"""The order of the runs of a group, and their values in that order."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from swapstone.core.comparison.run_table import OK, UNAVAILABLE, Floats, Group, RunTable, by_number
from swapstone.core.model import BALANCED_ORDER, Experiment, cycle_of
from swapstone.core.stats import RunOrder


class GroupRuns(msgspec.Struct, frozen=True):
    """The runs of a group in the blocks that count.

    Attributes:
        labels: of the variants; treatment t of `runs` is the t-th.
        blocks: their numbers, ascending. Blocks in which a variant has no run are left out.
        runs: the order of the measured runs, for the test by predecessors.
        discarded: number of discarded runs before each measured run.
        table: of all runs.
        rows: of the successful runs of the group, ascending by block and label, for each number of runs before the one that directly
            follows `discarded` others of its variant: the numbers of their places in `runs.order`, and their rows. That one is the
            measured run, but where more runs than `discarded` precede it (`swapstone.core.plan.extra_runs`).
    """

    labels: tuple[str, ...]
    blocks: tuple[int, ...]
    runs: RunOrder
    discarded: int
    table: RunTable
    rows: Mapping[int, tuple[NDArray[np.int64], NDArray[np.int64]]]

    def logarithms(self, metric: str, discarded: int) -> Floats:
        """Return the logarithms of the runs so many before those of `rows`' 0, in the order of the runs; NaN for missing ones."""
        found = np.full(self.runs.order.size, math.nan)
        column = self.table.metrics.get(metric)
        if discarded in self.rows and column is not None:
            places, rows = self.rows[discarded]
            positive = column[rows] > 0
            # By the C library, as always: numpy's differ in the last bit between processors.
            found[places[positive]] = list(map(math.log, column[rows[positive]].tolist()))
        return found.reshape(self.runs.order.shape)


def group_runs(experiment: Experiment, table: RunTable) -> dict[Group, GroupRuns]:
    """Return the runs of each group that has several variants."""
    found = {}
    available = np.flatnonzero(table.status != UNAVAILABLE)
    for number, mine in by_number(table.group[available]):
        group = _of_group(experiment, table, available[mine])
        if group is not None:
            found[table.groups[number]] = group
    return found


def _of_group(experiment: Experiment, table: RunTable, rows: NDArray[np.int64]) -> GroupRuns | None:
    """Return the runs of one group, all of whose rows are given."""
    every, turn = np.unique(table.block[rows], return_inverse=True)
    turn = turn.reshape(-1)
    numbers = np.zeros(every.size, dtype=np.int64)
    np.maximum.at(numbers, turn, table.prime[rows])
    level = int(numbers[every > 0].max(initial=0))
    # Measured runs by block and position; equal positions, which no experiment has, by label.
    measured = np.flatnonzero(table.prime[rows] == 0)
    label = table.label[rows[measured]]
    measured = measured[np.lexsort((label, table.position[rows[measured]], table.block[rows[measured]]))]
    if not measured.size:
        return None
    label = table.label[rows[measured]]
    borders = np.flatnonzero(np.diff(turn[measured], prepend=-1))
    sizes = np.diff(np.append(borders, measured.size))
    first = int(np.argmax(sizes))
    chosen = np.sort(label[borders[first] : borders[first] + sizes[first]])
    count = chosen.size
    turns = turn[measured[borders]]
    fits = np.flatnonzero((sizes == count) & (every[turns] > 0) & (numbers[turns] == level))
    orders = label[borders[fits][:, None] + np.arange(count)]
    whole = (np.sort(orders, axis=1) == chosen).all(axis=1)
    fits, orders = fits[whole], orders[whole]
    if count < 2 or not fits.size:
        return None
    treatment = np.full(len(table.labels), -1, dtype=np.int64)
    treatment[chosen[::-1]] = np.arange(count)[::-1]
    order = treatment[orders]
    ends = label[borders + sizes - 1]
    before = np.where(fits > 0, treatment[ends[np.maximum(fits - 1, 0)]], -1)
    blocks = tuple(every[turns[fits]].tolist())
    labels = tuple(table.labels[each] for each in chosen.tolist())
    cycle = (1, 0)
    if experiment.order == BALANCED_ORDER and blocks == tuple(range(blocks[0], blocks[-1] + 1)):
        cycle = (count * (1 + count % 2), cycle_of(blocks[0], count)[1])
    # The place in `order` of each run of a label in a block.
    place_of = np.full((every.size, count), -1, dtype=np.int64)
    place_of[turns[fits][:, None], order] = np.arange(fits.size * count).reshape(order.shape)
    by_prime = {}
    succeeded = np.flatnonzero(table.status[rows] == OK)
    for prime in (0, 1, level):
        chosen_rows = succeeded[table.after_itself[rows[succeeded]] == -prime]
        of_run = treatment[table.label[rows[chosen_rows]]]
        known = np.flatnonzero(of_run >= 0)
        places = place_of[turn[chosen_rows[known]], of_run[known]]
        by_prime[prime] = places[places >= 0], rows[chosen_rows[known]][places >= 0]
    return GroupRuns(
        labels=labels,
        blocks=blocks,
        runs=RunOrder(order, before, *cycle),
        discarded=level,
        table=table,
        rows=by_prime,
    )
