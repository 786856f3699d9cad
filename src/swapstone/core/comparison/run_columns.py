# SPDX-License-Identifier: MIT OR Apache-2.0
"""Make a `RunTable` from runs, one by one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Generic, TypeVar

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
from swapstone.core.model import Run, Sample, WorkSpec
from swapstone.core.model.trial_conditions import INHERITED
from swapstone.core.stats import run_value

EXIT_STATUS = "exit_status"
"""The metric whose first value is the exit status of an own program."""

CHUNK = 8192
"""Runs that are kept as Python's numbers before they become arrays."""

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
_Text = TypeVar("_Text")


class _Numbers(Generic[_Text]):
    """Gives each value a number, in the order of first use."""

    def __init__(self) -> None:
        self.known: dict[_Text, int] = {}

    def of(self, value: _Text) -> int:
        return self.known.setdefault(value, len(self.known))


class _Wide:
    """Columns by name, of rows which have some of them each.

    Args:
        absent: what the rows have that lack a name.
    """

    def __init__(self, absent: float) -> None:
        self._absent = absent
        self._type = np.int64 if isinstance(absent, int) else np.float64
        self._waiting: dict[tuple[str, ...], tuple[list[int], list[Sequence[float]]]] = {}
        self.chunks: list[dict[str, NDArray[np.int64 | np.float64]]] = []

    def add(self, row: int, names: tuple[str, ...], values: Sequence[float]) -> None:
        """Add the values of a row of this chunk."""
        rows, waiting = self._waiting.setdefault(names, ([], []))
        rows.append(row)
        waiting.append(values)

    def flush(self, count: int) -> None:
        """End a chunk of `count` rows.

        Raises:
            ValueError: a value is not finite.
        """
        found: dict[str, NDArray[np.int64 | np.float64]] = {}
        for names, (rows, waiting) in self._waiting.items():
            matrix = np.array(waiting, dtype=self._type).reshape(len(rows), len(names))
            if not np.isfinite(matrix).all():
                raise ValueError("a run's values must be finite")
            for place, name in enumerate(names):
                column = found.get(name)
                if column is None:
                    column = found[name] = np.full(count, self._absent, dtype=self._type)
                column[rows] = matrix[:, place]
        self._waiting = {}
        self.chunks.append(found)

    @property
    def names(self) -> list[str]:
        """Return all names, in the order of first use."""
        return list(dict.fromkeys(name for chunk in self.chunks for name in chunk))

    def column(self, name: str, counts: Sequence[int], *, keep: bool) -> NDArray[np.int64 | np.float64]:
        """Return a whole column, and forget its parts unless they are kept."""
        parts = [
            (chunk[name] if keep else chunk.pop(name))
            if name in chunk
            else np.full(count, self._absent, dtype=self._type)
            for chunk, count in zip(self.chunks, counts, strict=True)
        ]
        return np.concatenate(parts) if parts else np.empty(0, dtype=self._type)


class RunColumns:
    """Collects runs, one by one.

    Args:
        wanted: names of the metrics to reduce to one value per run; None for all.
    """

    def __init__(self, wanted: Collection[str] | None = None) -> None:
        self._wanted = wanted
        self._places: _Numbers[Place] = _Numbers()
        self._reasons: _Numbers[str] = _Numbers()
        self._outputs: _Numbers[Output] = _Numbers()
        self._left: _Numbers[tuple[str, ...]] = _Numbers()
        self._head: list[tuple[int, ...]] = []
        self._heads: list[NDArray[np.int64]] = []
        self._metrics, self._facts = _Wide(float("nan")), _Wide(ABSENT)
        self._layouts: dict[tuple[str, ...], tuple[tuple[str, ...], list[int]]] = {}

    def add(self, run: Run) -> None:
        """Add a run."""
        trial, row = run.trial, len(self._head)
        status = next((each.values[0] for each in run.samples if each.metric == EXIT_STATUS and each.values), 0.0)
        self._head.append(
            (
                self._places.of((trial.suite, trial.workload, trial.load, trial.variant)),
                _STATUS[run.status],
                self._reasons.of(run.reason),
                self._outputs.of((run.digests, status)),
                self._left.of(run.found_files),
                trial.block,
                trial.position,
                trial.prime,
                run.started_unix_ns,
                run.elapsed_ns,
                (HISTOGRAM if run.histogram else 0) | (SERIES if run.series else 0),
            )
        )
        if run.facts:
            self._add_facts(row, run.facts)
        if run.samples:
            self._add_samples(row, run.samples)
        if len(self._head) >= CHUNK:
            self._flush()

    def _add_facts(self, row: int, facts: Sequence[tuple[str, int]]) -> None:
        every, values = zip(*facts, strict=True)
        layout = self._layouts.get(every)
        if layout is None:
            places = [place for place, name in enumerate(every) if name in FACTS]
            layout = self._layouts[every] = tuple(every[place] for place in places), places
        names, places = layout
        self._facts.add(row, names, [values[place] for place in places])

    def _add_samples(self, row: int, samples: Iterable[Sample]) -> None:
        wanted = self._wanted
        kept = [each for each in samples if each.values and (wanted is None or each.metric in wanted)]
        names = tuple([each.metric for each in kept])
        self._metrics.add(
            row, names, [each.values[0] if len(each.values) == 1 else run_value(each.values) for each in kept]
        )

    def _flush(self) -> None:
        count = len(self._head)
        self._heads.append(np.array(self._head, dtype=np.int64).reshape(count, len(_HEAD)).T.copy())
        self._head = []
        self._metrics.flush(count)
        self._facts.flush(count)
        self._layouts = {}

    def table(self, source: RunSource, *, keep: bool = False) -> RunTable:
        """Return the table of the runs so far.

        Args:
            source: the same runs, by their number.
            keep: whether there will be a table of these and more runs, which takes memory for both.
        """
        if self._head:
            self._flush()
        counts = [head.shape[1] for head in self._heads]
        head = {
            name: np.concatenate([each[place] for each in self._heads]) if counts else np.empty(0, dtype=np.int64)
            for place, name in enumerate(_HEAD)
        }
        if not keep:
            self._heads = []
        return RunTable(
            source=source,
            numbers=np.arange(sum(counts), dtype=np.int64),
            places=tuple(self._places.known),
            reasons=tuple(self._reasons.known),
            outputs=tuple(self._outputs.known),
            left=tuple(self._left.known),
            metrics={
                name: self._metrics.column(name, counts, keep=keep).astype(np.float64) for name in self._metrics.names
            },
            facts={name: self._facts.column(name, counts, keep=keep).astype(np.int64) for name in self._facts.names},
            **head,
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
