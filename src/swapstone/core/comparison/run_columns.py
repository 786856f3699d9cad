# SPDX-License-Identifier: MIT OR Apache-2.0
"""Make a `RunTable` from runs, one by one."""

from __future__ import annotations

import array
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swapstone.core.comparison.run_table import (
    ABSENT,
    HISTOGRAM,
    SERIES,
    STATUSES,
    Output,
    Place,
    Runs,
    RunSource,
    RunTable,
)
from swapstone.core.model import Run, WorkSpec
from swapstone.core.model.trial_conditions import INHERITED
from swapstone.core.stats import run_value

EXIT_STATUS = "exit_status"
"""The metric whose first value is the exit status of an own program."""

FACTS = frozenset(
    (
        *INHERITED,
        *("cpus_allowed", "driver_system_us", "late_ns", "load1_milli", "nice", "psi_cpu_us", "read_bytes"),
        *("run_delay_ns", "system_us", "ticks_ns", "trial_cpu_us", "user_us", "wall_ns", "write_bytes"),
        *("cpu_ticks", "idle_ticks", "steal_ticks"),
        *("reconnects", "board_boots", "board_emulated", "board_throttled_before", "board_throttled_after"),
        *("board_frequency_before", "board_frequency_after", "board_temperature_before", "board_temperature_after"),
        *("board_throttle_bits_before", "board_throttle_bits_after", "clock_step_ns"),
    )
)
"""The facts that the analysis reads. The others have no column: a record from elsewhere may have any number of names."""

_STATUS = {status: number for number, status in enumerate(STATUSES)}
_HEAD = ("place", "status", "reason", "output", "found", "block", "position", "prime", "started", "elapsed", "extras")


class _Columns:
    """Columns by name, of rows which have some of them each.

    Args:
        absent: what the rows have that lack a name; its type is that of the columns.
    """

    def __init__(self, absent: float) -> None:
        self._type = np.int64 if isinstance(absent, int) else np.float64
        self._absent = array.array("q" if isinstance(absent, int) else "d", [absent])
        self._of: dict[str, array.array[Any]] = {}

    def add(self, row: int, values: Iterable[tuple[str, float]]) -> None:
        """Add the values of a row, which has no smaller number than those before; of several of one name the last one counts."""
        for name, value in values:
            column = self._of.get(name)
            if column is None:
                column = self._of[name] = self._absent * row
            if len(column) == row:
                column.append(value)
            else:
                column.extend(self._absent * (row + 1 - len(column)))
                column[row] = value

    def table(self, rows: int, *, keep: bool) -> dict[str, NDArray[Any]]:
        """Return all columns, of shape (rows,): copies if more rows will be added."""
        for column in self._of.values():
            column.extend(self._absent * (rows - len(column)))
        take = np.array if keep else np.frombuffer
        return {name: take(column, dtype=self._type) for name, column in self._of.items()}


class RunColumns:
    """Collects runs, one by one.

    Args:
        wanted: names of the metrics to reduce to one value per run; None for all.
    """

    def __init__(self, wanted: Collection[str] | None = None) -> None:
        self._wanted = wanted
        self._rows = 0
        self._places: dict[Place, int] = {}
        self._reasons: dict[str, int] = {}
        self._outputs: dict[Output, int] = {}
        self._left: dict[tuple[str, ...], int] = {}
        self._head, self._metrics, self._facts = _Columns(0), _Columns(math.nan), _Columns(ABSENT)

    def add(self, run: Run) -> None:
        """Add a run.

        Raises:
            ValueError: a value is not finite.
        """
        trial, row, wanted = run.trial, self._rows, self._wanted
        status = next((each.values[0] for each in run.samples if each.metric == EXIT_STATUS and each.values), 0.0)
        place = trial.suite, trial.workload, trial.load, trial.variant
        numbers = (
            self._places.setdefault(place, len(self._places)),
            _STATUS[run.status],
            self._reasons.setdefault(run.reason, len(self._reasons)),
            self._outputs.setdefault((run.digests, status), len(self._outputs)),
            self._left.setdefault(run.found_files, len(self._left)),
            trial.block,
            trial.position,
            trial.prime,
            run.started_unix_ns,
            run.elapsed_ns,
            (HISTOGRAM if run.histogram else 0) | (SERIES if run.series else 0),
        )
        self._head.add(row, zip(_HEAD, numbers, strict=True))
        self._facts.add(row, [fact for fact in run.facts if fact[0] in FACTS])
        kept = [each for each in run.samples if each.values and (wanted is None or each.metric in wanted)]
        values = [each.values[0] if len(each.values) == 1 else run_value(each.values) for each in kept]
        if not all(map(math.isfinite, values)):
            raise ValueError("a run's values must be finite")
        self._metrics.add(row, ((each.metric, value) for each, value in zip(kept, values, strict=True)))
        self._rows += 1

    def table(self, source: RunSource, *, keep: bool = False) -> RunTable:
        """Return the table of the runs so far.

        Args:
            source: the same runs, by their number.
            keep: whether there will be a table of these and more runs, which takes memory for both.
        """
        return RunTable(
            source=source,
            numbers=np.arange(self._rows, dtype=np.int64),
            places=tuple(self._places),
            reasons=tuple(self._reasons),
            outputs=tuple(self._outputs),
            left=tuple(self._left),
            metrics=self._metrics.table(self._rows, keep=keep),
            facts=self._facts.table(self._rows, keep=keep),
            **{name: np.empty(0, dtype=np.int64) for name in _HEAD} | self._head.table(self._rows, keep=keep),
        )


def metric_names(workloads: Mapping[str, WorkSpec]) -> frozenset[str]:
    """Return the names of all metrics of some workloads."""
    return frozenset(metric.name for workload in workloads.values() for metric in workload.metrics)


class TabledRuns(tuple[Run, ...]):
    """Runs in memory whose table is made once, when it is first needed.

    Attributes:
        wanted: as `RunColumns`.
    """

    wanted: Collection[str] | None = None

    @cached_property
    def table(self) -> RunTable:
        """Return the runs as a table."""
        return _tabled(self, self.wanted)


def as_table(runs: Runs, wanted: Collection[str] | None = None) -> RunTable:
    """Return runs as a table.

    Args:
        runs: a table is returned unchanged; a sequence that keeps its table returns that.
        wanted: as `RunColumns`, where the table must be made.
    """
    if isinstance(runs, RunTable):
        return runs
    table = getattr(runs, "table", None)
    return table if isinstance(table, RunTable) else _tabled(runs, wanted)


def _tabled(runs: Sequence[Run], wanted: Collection[str] | None) -> RunTable:
    columns = RunColumns(wanted)
    for run in runs:
        columns.add(run)
    return columns.table(runs)
