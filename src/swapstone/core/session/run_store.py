# SPDX-License-Identifier: MIT OR Apache-2.0
"""Read large records once: their runs are kept as columns, and a run itself is decoded from its line when it is needed.

The first reading decodes and checks every line of `runs.jsonl`, one at a time, and never holds all runs. It leaves columns in the cache
(`swapstone.core.session.record_cache`), which later readings use as long as `runs.jsonl` is the same file, unchanged. `swapstone verify`
and everything that runs a record's commands read all lines again.
"""

from __future__ import annotations

import array
import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from swapstone.core.comparison.run_table import (
    HEAD,
    Output,
    Place,
    RunColumns,
    RunTable,
    TabledRuns,
    metric_names,
    shortened,
)
from swapstone.core.model import FrozenStruct, RecordError, Run, UserError
from swapstone.core.record import Damage, FileProblemError, RecordFolder, RecordView, load, record_format
from swapstone.core.record.reader import OpenedRecord
from swapstone.core.record.run_lines import RunLines, decode_line
from swapstone.core.session import record_cache
from swapstone.core.session.report_context import description_of

SMALLEST_BYTES = 16 << 20
"""Smaller `runs.jsonl` files are read in half a second, and stay in memory as runs."""

RECENT_NS = 2_000_000_000
"""A file that changed this shortly before it was read is not kept: it could change again without another time of change.

A complete record is read only when its last change is older: the report at the end of an experiment leaves the columns.
"""

_LONGEST_WAIT_NS = 2 * RECENT_NS
_KIND, _METRIC, _FACT = "columns", "metric:", "fact:"


class _Kept(FrozenStruct, frozen=True, kw_only=True):
    """What is kept beside the columns; see `RunLines` and `RunTable`."""

    rows: int
    chain: str
    whole: int
    damages: tuple[Damage, ...]
    places: tuple[Place, ...]
    reasons: tuple[str, ...]
    outputs: tuple[Output, ...]
    left: tuple[tuple[str, ...], ...]


def load_columns(path: Path) -> RecordView:
    """Read a record as `swapstone.core.record.load` does, a large one as columns.

    Raises:
        RecordError: as `swapstone.core.record.load`; also later, if a run is read and the file has changed meanwhile.
    """
    return load(path, _lines)


class StoredRuns(Sequence[Run]):
    """The runs of a record. A run is decoded from its line each time it is read.

    Args:
        path: of the record's folder.
        state: of its `runs.jsonl`, by `record_cache.file_state`.
        start, length: of the line of each run, in bytes, each of shape (runs,).

    Attributes:
        table: the runs as columns.
    """

    table: RunTable

    def __init__(self, path: Path, state: str, start: NDArray[np.int64], length: NDArray[np.int64]) -> None:
        self._path, self._state = path, state
        self._start, self._length = start, length

    def __len__(self) -> int:
        return self._start.size

    @overload
    def __getitem__(self, number: int) -> Run: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[Run]: ...

    def __getitem__(self, number: int | slice) -> Run | Sequence[Run]:
        if isinstance(number, slice):
            return list(self._read(range(len(self))[number]))
        return next(self._read([range(len(self))[number]]))

    def __iter__(self) -> Iterator[Run]:
        return self._read(range(len(self)))

    def _read(self, numbers: Sequence[int]) -> Iterator[Run]:
        changed = RecordError(f"{self._path / record_format.RUNS} changed while it was read.", "Repeat the command.")
        try:
            with RecordFolder(self._path) as folder:
                handle = folder.open(record_format.RUNS)
                if handle is None:
                    raise changed
                with os.fdopen(handle, "rb", 0):
                    if record_cache.file_state(os.fstat(handle)) != self._state:
                        raise changed
                    for number in numbers:
                        text = os.pread(handle, int(self._length[number]), int(self._start[number]))
                        _, run, problem = decode_line(text)
                        if run is None or problem:
                            raise changed
                        yield run
        except FileProblemError as error:
            raise changed from error


def _lines(opened: OpenedRecord) -> RunLines:
    """Return what the lines of a record hold: of a large one as columns, which are kept."""
    try:
        status = opened.folder.status(record_format.RUNS)
        works = description_of(opened.meta, opened.experiment).specs().values()
    except (FileProblemError, UserError):
        return opened.read()
    wanted = metric_names({work.name: work for work in works})
    if status is None or status.st_size < SMALLEST_BYTES:
        small = opened.read()
        small.runs = runs = TabledRuns(small.runs)
        runs.wanted = wanted
        return small
    of_file = record_cache.file_state(status)
    depends_on = (of_file, hashlib.sha256(opened.header).hexdigest(), record_cache.state_of_code())
    state = hashlib.sha256("\n".join(depends_on).encode()).hexdigest()
    if (known := record_cache.find(opened.path, _KIND, state, _Kept)) is not None:
        kept, columns = known
        read = {name: np.frombuffer(column, dtype=column.format) for name, column in columns.items()}
        return _as_lines(opened.path, of_file, kept, read)
    missing_ns = status.st_ctime_ns + RECENT_NS - time.time_ns()
    # Not if the last change is in the future, by another clock.
    if opened.folder.status(record_format.SEAL) is not None and 0 <= missing_ns <= _LONGEST_WAIT_NS:
        time.sleep((missing_ns + 1_000_000) / 1e9)
    old = time.time_ns() - status.st_ctime_ns > RECENT_NS
    lines, kept, made = _read(opened, wanted)
    try:
        after = opened.folder.status(record_format.RUNS)
    except FileProblemError:
        after = None
    if lines.complete and old and after is not None and record_cache.file_state(after) == of_file:
        record_cache.keep(opened.path, _KIND, state, kept, {name: shortened(each).data for name, each in made.items()})
    lines.runs = _as_lines(opened.path, of_file, kept, made).runs
    return lines


def _read(opened: OpenedRecord, wanted: frozenset[str]) -> tuple[RunLines, _Kept, dict[str, NDArray[Any]]]:
    """Read all lines of a record; return what they hold, but the runs as columns."""
    collected, places = RunColumns(wanted), array.array("q")

    def add(run: Run, start: int, length: int) -> None:
        collected.add(run)
        places.extend((start, length))

    lines = opened.read_each(add)
    table = collected.table(())
    columns: dict[str, NDArray[Any]] = {name: getattr(table, name) for name in HEAD}
    columns["start"], columns["length"] = np.array(places, dtype=np.int64).reshape(-1, 2).T.copy()
    columns |= {_METRIC + name: column for name, column in table.metrics.items()}
    columns |= {_FACT + name: column for name, column in table.facts.items()}
    kept = _Kept(
        rows=len(table),
        chain=lines.chain,
        whole=lines.whole,
        damages=tuple(lines.damages),
        places=table.places,
        reasons=table.reasons,
        outputs=table.outputs,
        left=table.left,
    )
    return lines, kept, columns


def _as_lines(path: Path, of_file: str, kept: _Kept, columns: dict[str, NDArray[Any]]) -> RunLines:
    every = {name: np.broadcast_to(column, kept.rows) for name, column in columns.items()}
    runs = StoredRuns(path, of_file, every["start"], every["length"])
    runs.table = RunTable(
        source=runs,
        numbers=np.arange(kept.rows, dtype=np.int64),
        places=kept.places,
        reasons=kept.reasons,
        outputs=kept.outputs,
        left=kept.left,
        metrics={name.removeprefix(_METRIC): each for name, each in every.items() if name.startswith(_METRIC)},
        facts={name.removeprefix(_FACT): each for name, each in every.items() if name.startswith(_FACT)},
        **{name: every[name] for name in HEAD},
    )
    return RunLines(runs, list(kept.damages), kept.chain, kept.whole)
