# SPDX-License-Identifier: MIT OR Apache-2.0
"""Work in other processes of a run than the first: which runs had some, and how much of it wait4(2) does not report."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from swapstone.core.comparison.cells import Cell
from swapstone.core.comparison.run_table import ABSENT, RunTable
from swapstone.core.model import Metric, WorkSpec
from swapstone.core.stats import Ints, Mask

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
