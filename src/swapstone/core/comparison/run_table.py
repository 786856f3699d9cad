# SPDX-License-Identifier: MIT OR Apache-2.0
"""The runs of a record as columns: one array for each field that an analysis reads, and texts by number.

An analysis of a million `Run` objects takes 6 GB. As columns they take 0.4 KB a run, and each check is a few operations on arrays.
Ints are exact: where a product or a sum could exceed 64 bits, Python's integers are used.
"""

from __future__ import annotations

import array
import functools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from swapstone.core.model import Run, Status, Trial, WorkSpec
from swapstone.core.model.observation import INHERITED, UNCOUNTED
from swapstone.core.stats import Floats, Ints, Mask, run_value

Group = tuple[str, str, str]
"""(suite, workload, load): the variants of a group are compared with each other."""

Place = tuple[str, str, str, str]
"""(suite, workload, load, label of the variant)"""

Output = tuple[tuple[tuple[str, str], ...], float]
"""(digests, exit status) of a run of an own program."""

STATUSES = tuple(Status)
OK, FAILED, REFUSED, UNAVAILABLE = (
    STATUSES.index(each) for each in (Status.OK, Status.FAILED, Status.REFUSED, Status.UNAVAILABLE)
)

ABSENT = -(2**63)
"""In the column of a fact: the run does not have it. No fact has this value (`swapstone.core.model.frozen_struct.LARGEST_INTEGER`)."""

HISTOGRAM, SERIES = 1, 2
"""Bits of the column `extras`: what the run has besides its columns."""

EXACT = 2**53
"""Ints up to this magnitude are exact as double-precision numbers."""

BLOCK_BITS = 21
"""A block's number is at most `swapstone.core.model.frozen_struct.MOST_BLOCKS`, below 2 ** 21."""


HEAD = (
    "place",
    "status",
    "reason",
    "output",
    "found",
    "block",
    "position",
    "prime",
    "extra",
    "started",
    "elapsed",
    "extras",
)
"""Names of the columns of whole numbers that each run has."""


class RunTable(msgspec.Struct, frozen=True, dict=True):
    """The runs in the order of the record, column by column; each array has shape (runs,).

    Attributes:
        source: the runs themselves, for what is in no column.
        numbers: of the rows in `source`.
        places: each place once, in the order of its first run; `place` holds their numbers.
        reasons, outputs, left: each reason, output of an own program and list of files that a run found, once.
        place, status, reason, output, found: numbers in `places`, `STATUSES`, `reasons`, `outputs` and `left`.
        block, position, prime, extra, started, elapsed: of the trial and of the run; times in nanoseconds.
        extras: `HISTOGRAM` and `SERIES`.
        metrics: the run's value (`swapstone.core.stats.run_value`) by the metric's name; NaN for none.
        facts: by name, of those that the analysis reads (`swapstone.core.comparison.run_table.FACTS`); `ABSENT` for none.
    """

    source: Sequence[Run]
    numbers: Ints
    places: tuple[Place, ...]
    reasons: tuple[str, ...]
    outputs: tuple[Output, ...]
    left: tuple[tuple[str, ...], ...]
    place: Ints
    status: Ints
    reason: Ints
    output: Ints
    found: Ints
    block: Ints
    position: Ints
    prime: Ints
    extra: Ints
    started: Ints
    elapsed: Ints
    extras: Ints
    metrics: Mapping[str, Floats]
    facts: Mapping[str, Ints]

    def __len__(self) -> int:
        return self.numbers.size

    def run(self, row: int) -> Run:
        """Return the run of a row."""
        return self.source[int(self.numbers[row])]

    def trial(self, row: int) -> Trial:
        """Return the trial of a row."""
        suite, workload, load, variant = self.places[int(self.place[row])]
        return Trial(
            suite=suite,
            workload=workload,
            load=load,
            variant=variant,
            block=int(self.block[row]),
            position=int(self.position[row]),
            prime=int(self.prime[row]),
            extra=int(self.extra[row]),
        )

    def fact(self, name: str) -> Ints:
        """Return the column of a fact; all `ABSENT` if no run has it."""
        column = self.facts.get(name)
        return np.full(len(self), ABSENT, dtype=np.int64) if column is None else column

    def rows(self, mask: Mask | Ints) -> RunTable:
        """Return a table of some rows, in their order."""
        arrays = {name: getattr(self, name)[mask] for name in ("numbers", *HEAD)}
        return msgspec.structs.replace(
            self,
            **arrays,
            metrics={name: column[mask] for name, column in self.metrics.items()},
            facts={name: column[mask] for name, column in self.facts.items()},
        )

    @functools.cached_property
    def groups(self) -> tuple[Group, ...]:
        """Return the groups of the places, each once."""
        return tuple(dict.fromkeys(place[:3] for place in self.places))

    @functools.cached_property
    def group(self) -> Ints:
        """Return the number of each row's group in `groups`."""
        numbers = {group: number for number, group in enumerate(self.groups)}
        of_place = np.array([numbers[place[:3]] for place in self.places], dtype=np.int64)
        return of_place[self.place] if self.places else self.place

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of the places' variants, each once, sorted."""
        return tuple(sorted({place[3] for place in self.places}))

    @functools.cached_property
    def label(self) -> Ints:
        """Return the number of each row's label in `labels`."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        of_place = np.array([numbers[place[3]] for place in self.places], dtype=np.int64)
        return of_place[self.place] if self.places else self.place

    @functools.cached_property
    def turns(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Return the blocks of each group, ascending, and how many runs of a variant were discarded before its measured run in them.

        Returns:
            Number of the group, of the block, and that of discarded runs, each of shape (turns,); and the turn of each row.
        """
        keys, turn = np.unique((self.group << BLOCK_BITS) + self.block, return_inverse=True)
        level = np.zeros(keys.size, dtype=np.int64)
        np.maximum.at(level, turn, self.prime)
        return keys >> BLOCK_BITS, keys & ((1 << BLOCK_BITS) - 1), level, turn.reshape(-1)

    @functools.cached_property
    def after_itself(self) -> Ints:
        """Return how many runs of its variant and workload precede each row in its block, less those that are discarded in each block.

        A row of at least 0 is of the quantity that is measured: a measured run, or one of those before it where more than the
        experiment's number are discarded (`Trial.extra`).
        """
        most = np.zeros((self.turns[0].size, len(self.labels)), dtype=np.int64)
        np.maximum.at(most, (self.turns[3], self.label), self.extra)
        found: Ints = most[self.turns[3], self.label] - self.extra - self.prime
        return found

    @functools.cached_property
    def counted(self) -> Mask:
        """Return which rows are of blocks that count: those with the group's largest number of discarded runs, without block 0.

        That number only grows while an experiment runs. The measured runs of earlier blocks are no sample of the same quantity.
        """
        group, block, level, turn = self.turns
        most = np.full(len(self.groups), -1, dtype=np.int64)
        after_warm_up = block > 0
        np.maximum.at(most, group[after_warm_up], level[after_warm_up])
        counts: Mask = (after_warm_up & (level == most[group]))[turn]
        return counts


Runs: TypeAlias = "Sequence[Run] | RunTable"
"""What the functions of an analysis accept: runs in any order, or a table of them."""


def exact_sum(values: Ints) -> int:
    """Return the sum of integers, which may exceed 64 bits."""
    if values.size and largest(values) >= 2**63 // values.size:
        return sum(values.tolist())
    return int(values.sum())


def largest(values: Ints) -> int:
    """Return the largest magnitude; 0 of no values."""
    return max(-int(values.min()), int(values.max()), 0) if values.size else 0


def quotients(numerators: Ints, denominators: Ints | int, factor: int = 1) -> Floats:
    """Return factor * numerator / denominator as Python computes it: rounded once.

    Args:
        numerators: shape (n,).
        denominators: shape (n,), or one number; none is 0.
        factor: positive.
    """
    below = np.broadcast_to(np.asarray(denominators, dtype=np.int64), numerators.shape)
    if max(largest(numerators) * factor, largest(below)) < EXACT:
        return numerators * factor / below
    pairs = zip(numerators.tolist(), below.tolist(), strict=True)
    return np.array([factor * one / other for one, other in pairs], dtype=np.float64)


def by_number(numbers: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each number with the rows that have it, in the order of its first row; rows ascend."""
    if not numbers.size:
        return
    order = np.argsort(numbers, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)
    for part in sorted(parts, key=lambda rows: int(rows[0])):
        yield int(numbers[part[0]]), part


def span_ns(table: RunTable) -> tuple[int, int]:
    """Return the first start and the last end of the runs whose start is known, as Unix times; 0 without any."""
    known = table.started > 0
    if not known.any():
        return 0, 0
    started, elapsed = table.started[known], table.elapsed[known]
    return int(started.min()), last_end(started, elapsed)


def last_end(started: Ints, elapsed: Ints) -> int:
    """Return the last sum of a start and a duration, at least one, each from 0 to 2 ** 63 - 1."""
    return int((started.astype(np.uint64) + elapsed.astype(np.uint64)).max())


EXIT_STATUS = "exit_status"
"""The metric whose first value is the exit status of an own program."""

FACTS = frozenset(
    (
        *INHERITED,
        *("cpus_allowed", "driver_system_us", "late_ns", "load1_milli", "nice", "psi_cpu_us", "read_bytes"),
        *("run_delay_ns", "system_us", "ticks_ns", "trial_cpu_us", "user_us", "wall_ns", "write_bytes"),
        *("cpu_ticks", "idle_ticks", "steal_ticks", "children", "tree_cpu_us", "main_cpu_ns", "created_tasks"),
        *("quota_throttled", UNCOUNTED, "server_processes", "driver_user_us"),
        *("reconnects", "board_boots", "board_emulated", "board_throttled_before", "board_throttled_after"),
        *("board_frequency_before", "board_frequency_after", "board_temperature_before", "board_temperature_after"),
        *("board_throttle_bits_before", "board_throttle_bits_after", "clock_step_ns"),
    )
)
"""The facts that the analysis reads. The others have no column: a record from elsewhere may have any number of names."""


class _Columns:
    """Columns by name, of rows which have some of them each. Rows that have the same names are kept together.

    Args:
        absent: what the rows have that lack a name; its type is that of the columns.
    """

    def __init__(self, absent: float) -> None:
        self._absent = absent
        self._of: dict[tuple[str, ...], tuple[array.array[int], array.array[Any]]] = {}
        """By their names: numbers of rows, and the values of each row after those of the one before."""

    def add(self, row: int, names: tuple[str, ...], values: Iterable[float]) -> None:
        """Add the values of a row, each time of another one; of several of one name the last one counts."""
        found = self._of.get(names)
        if found is None:
            code = "q" if isinstance(self._absent, int) else "d"
            found = self._of[names] = array.array("q"), array.array(code)
        found[0].append(row)
        found[1].extend(values)

    def table(self, rows: int) -> dict[str, NDArray[Any]]:
        """Return all columns, of shape (rows,), read-only."""
        columns: dict[str, NDArray[Any]] = {}
        for names, (numbers, values) in self._of.items():
            table = np.array(values).reshape(len(numbers), len(names))
            for name, column in zip(names, table.T, strict=True):
                columns.setdefault(name, np.full(rows, self._absent))[np.array(numbers)] = column
        return {name: np.broadcast_to(shortened(column), rows) for name, column in columns.items()}


def shortened(column: NDArray[Any]) -> NDArray[Any]:
    """Return the first value alone of a column of 64-bit numbers that has one value."""
    bits = column.view(np.int64)
    return column[:1].copy() if column.size and (bits == bits[0]).all() else column


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
        statuses = [each.values[0] for each in run.samples if each.metric == EXIT_STATUS and each.values]
        place = (*trial.group, trial.variant)
        numbers = (
            self._places.setdefault(place, len(self._places)),
            STATUSES.index(run.status),
            self._reasons.setdefault(run.reason, len(self._reasons)),
            self._outputs.setdefault((run.digests, statuses[0] if statuses else 0.0), len(self._outputs)),
            self._left.setdefault(run.found_files, len(self._left)),
            trial.block,
            trial.position,
            trial.prime,
            trial.extra,
            run.started_unix_ns,
            run.elapsed_ns,
            (HISTOGRAM if run.histogram else 0) | (SERIES if run.series else 0),
        )
        self._head.add(row, HEAD, numbers)
        facts = [fact for fact in run.facts if fact[0] in FACTS]
        self._facts.add(row, tuple([name for name, _ in facts]), [value for _, value in facts])
        kept = [each for each in run.samples if each.values and (wanted is None or each.metric in wanted)]
        values = [each.values[0] if len(each.values) == 1 else run_value(each.values) for each in kept]
        if not all(map(math.isfinite, values)):
            raise ValueError("a run's values must be finite")
        self._metrics.add(row, tuple([each.metric for each in kept]), values)
        self._rows += 1

    def table(self, source: Sequence[Run]) -> RunTable:
        """Return the table of the runs so far.

        Args:
            source: the same runs, by their number.
        """
        return RunTable(
            source=source,
            numbers=np.arange(self._rows, dtype=np.int64),
            places=tuple(self._places),
            reasons=tuple(self._reasons),
            outputs=tuple(self._outputs),
            left=tuple(self._left),
            metrics=self._metrics.table(self._rows),
            facts=self._facts.table(self._rows),
            **{name: np.empty(0, dtype=np.int64) for name in HEAD} | self._head.table(self._rows),
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
