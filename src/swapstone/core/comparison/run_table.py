# SPDX-License-Identifier: MIT OR Apache-2.0
"""The runs of a record as columns: one array for each field that an analysis reads, and texts by number.

An analysis of a million `Run` objects takes 6 GB. As columns they take 0.4 KB a run, and each check is a few operations on arrays.
Integers are exact: where a product or a sum could exceed 64 bits, Python's integers are used.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from swapstone.core.model import Run, Status, Trial

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

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
"""In the column of a fact: the run does not have it. No fact has this value (`swapstone.core.model.bounds.LARGEST_INTEGER`)."""

HISTOGRAM, SERIES = 1, 2
"""Bits of the column `extras`: what the run has besides its columns."""

EXACT = 2**53
"""Integers up to this magnitude are exact as double-precision numbers."""

BLOCK_BITS = 21
"""A block's number is at most `swapstone.core.model.bounds.MOST_BLOCKS`, below 2 ** 21."""


class RunSource(Protocol):
    """Runs by their number."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Run: ...


@dataclasses.dataclass(frozen=True)
class RunTable:
    """The runs in the order of the record, column by column; each array has shape (runs,).

    Attributes:
        source: the runs themselves, for what is in no column.
        numbers: of the rows in `source`.
        places: each place once, in the order of its first run; `place` holds their numbers.
        reasons, outputs, left: each reason, output of an own program and list of files that a run found, once.
        place, status, reason, output, found: numbers in `places`, `STATUSES`, `reasons`, `outputs` and `left`.
        block, position, prime, started, elapsed: of the trial and of the run; times in nanoseconds.
        extras: `HISTOGRAM` and `SERIES`.
        metrics: the run's value (`swapstone.core.stats.run_value`) by the metric's name; NaN for none.
        facts: by name, of those that the analysis reads (`swapstone.core.comparison.run_columns.FACTS`); `ABSENT` for none.
    """

    source: RunSource
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
        )

    def facts_of(self, row: int) -> dict[str, int]:
        """Return the facts of a row that have columns."""
        return {name: int(column[row]) for name, column in self.facts.items() if column[row] != ABSENT}

    def fact(self, name: str) -> Ints:
        """Return the column of a fact; all `ABSENT` if no run has it."""
        column = self.facts.get(name)
        return np.full(len(self), ABSENT, dtype=np.int64) if column is None else column

    def rows(self, mask: Mask | Ints) -> RunTable:
        """Return a table of some rows, in their order."""
        arrays = {name: getattr(self, name)[mask] for name in _COLUMNS}
        return dataclasses.replace(
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
    def counted(self) -> Mask:
        """Return which rows are of blocks that count: `swapstone.core.model.counted_blocks`."""
        group, block, level, turn = self.turns
        most = np.full(len(self.groups), -1, dtype=np.int64)
        after_warm_up = block > 0
        np.maximum.at(most, group[after_warm_up], level[after_warm_up])
        counts: Mask = (after_warm_up & (level == most[group]))[turn]
        return counts


_COLUMNS = (
    "numbers",
    "place",
    "status",
    "reason",
    "output",
    "found",
    "block",
    "position",
    "prime",
    "started",
    "elapsed",
    "extras",
)

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
