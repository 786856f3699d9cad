# SPDX-License-Identifier: MIT OR Apache-2.0
"""Read large records once: their runs are kept as columns, and a run itself is decoded from its line when it is needed.

The first reading decodes and checks every line of `runs.jsonl`, one at a time, and never holds all runs. It leaves a file of columns
(`swapstone.session.columns_file`), which later readings use as long as `runs.jsonl` is the same file, unchanged. `swapstone verify`
and everything that runs a record's commands read all lines again.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import overload

import msgspec
import numpy as np

from swapstone.comparison.run_columns import FACTS, RunColumns, metric_names
from swapstone.comparison.run_table import Ints, RunTable
from swapstone.model import Experiment, RecordError, Run, UserError
from swapstone.model.directories import cache_dir
from swapstone.record import FileProblemError, RecordFolder, RecordView, load, record_format
from swapstone.record.reader import RunCollector, RunLines, decode_line
from swapstone.session import columns_file
from swapstone.session.record_index import state_of_code
from swapstone.workloads import workloads_of

SMALLEST_BYTES = 16 << 20
"""Smaller `runs.jsonl` files are read in half a second, and stay in memory as runs."""

RECENT_NS = 2_000_000_000
"""A file that changed this shortly before it was read is not kept: it could change again without another time of change."""

MOST_TEXTS = 100_000
"""Columns are not kept of records with more different reasons, outputs or lists of files."""

_HEAD = ("place", "status", "reason", "output", "found", "block", "position", "prime", "started", "elapsed", "extras")
_METRIC, _FACT = "metric:", "fact:"


def load_columns(path: Path) -> RecordView:
    """Read a record as `swapstone.record.load` does, a large one as columns.

    Raises:
        RecordError: as `swapstone.record.load`; also later, if a run is read and the file has changed meanwhile.
    """
    return load(path, ColumnStore())


class StoredRuns(Sequence[Run]):
    """The runs of a record. A run is decoded from its line each time it is read.

    Args:
        path: of the record's folder.
        state: of its `runs.jsonl`, by `_file_state`.
        start, length: of the line of each run, in bytes, each of shape (runs,).

    Attributes:
        table: the runs as columns.
    """

    table: RunTable

    def __init__(self, path: Path, state: str, start: Ints, length: Ints) -> None:
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
        try:
            with RecordFolder(self._path) as folder:
                handle = folder.open(record_format.RUNS)
                if handle is None:
                    raise self._changed()
                try:
                    if _file_state(os.fstat(handle)) != self._state:
                        raise self._changed()
                    for number in numbers:
                        text = os.pread(handle, int(self._length[number]), int(self._start[number]))
                        _, run, problem = decode_line(text)
                        if run is None or problem:
                            raise self._changed()
                        yield run
                finally:
                    os.close(handle)
        except FileProblemError as error:
            raise self._changed() from error

    def _changed(self) -> RecordError:
        return RecordError(f"{self._path / record_format.RUNS} changed while it was read.", "Repeat the command.")


class _ColumnCollector:
    """Receives the runs of a record, and keeps columns and the places of their lines."""

    def __init__(self, path: Path, state: str, wanted: frozenset[str]) -> None:
        self.columns = RunColumns(wanted)
        self._path, self._state = path, state
        self._lines: list[tuple[int, int]] = []
        self._chunks: list[Ints] = []
        self.start = self.length = np.empty(0, dtype=np.int64)

    def add(self, run: Run, start: int, length: int) -> None:
        self.columns.add(run)
        self._lines.append((start, length))
        if len(self._lines) == 1 << 16:
            self._flush()

    def _flush(self) -> None:
        self._chunks.append(np.array(self._lines, dtype=np.int64).reshape(-1, 2))
        self._lines = []

    def runs(self) -> StoredRuns:
        self._flush()
        self.start, self.length = np.concatenate(self._chunks).T.copy()
        found = StoredRuns(self._path, self._state, self.start, self.length)
        found.table = self.columns.table(found)
        return found


class ColumnStore:
    """Keeps the runs of large records as columns; a `swapstone.record.reader.RunStore`.

    Args:
        folder: of the files; by default one in the cache folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def lines(
        self, path: Path, folder: RecordFolder, experiment: bytes, read: Callable[[RunCollector | None], RunLines]
    ) -> RunLines:
        """Return what the lines of a record hold."""
        try:
            status = folder.status(record_format.RUNS)
            wanted = _wanted(experiment)
        except (FileProblemError, UserError):
            return read(None)
        if status is None or status.st_size < SMALLEST_BYTES:
            return read(None)
        of_file = _file_state(status)
        state = _digest(of_file, experiment)
        place = self._place(path)
        known = None if place is None else columns_file.read(place, state)
        if known is not None and (found := _from_file(path, of_file, status.st_size, *known)) is not None:
            return found
        collector = _ColumnCollector(path, of_file, wanted)
        started_ns = time.time_ns()
        made = read(collector)
        try:
            after = folder.status(record_format.RUNS)
        except FileProblemError:
            after = None
        same = after is not None and _file_state(after) == of_file
        old = started_ns - status.st_ctime_ns > RECENT_NS
        if place is not None and made.complete and same and old and collector.columns.variety <= MOST_TEXTS:
            assert isinstance(made.runs, StoredRuns)
            header, columns = _to_file(state, made, collector)
            columns_file.write(place, header, columns)
        return made

    def _place(self, path: Path) -> Path | None:
        """Return the path of a record's file; None without a cache folder, as a user without a home folder has none."""
        try:
            folder = self._folder or cache_dir() / "columns"
            return folder / f"{hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:32]}.columns"
        except (RuntimeError, OSError):
            return None


def _to_file(
    state: str, made: RunLines, collector: _ColumnCollector
) -> tuple[columns_file.Header, dict[str, columns_file.Column]]:
    assert isinstance(made.runs, StoredRuns)
    table = made.runs.table
    header = columns_file.Header(
        state=state,
        rows=len(table),
        chain=made.chain,
        whole=made.whole,
        damages=made.damages,
        places=table.places,
        reasons=table.reasons,
        outputs=table.outputs,
        left=table.left,
    )
    columns: dict[str, columns_file.Column] = {name: getattr(table, name) for name in _HEAD}
    columns |= {"start": collector.start, "length": collector.length}
    columns |= {_METRIC + name: column for name, column in table.metrics.items()}
    columns |= {_FACT + name: column for name, column in table.facts.items()}
    return header, columns


def _from_file(
    path: Path, state: str, size: int, header: columns_file.Header, columns: Mapping[str, columns_file.Column]
) -> RunLines | None:
    """Return what a file of columns holds; None if a column is missing or has another type."""
    head: dict[str, Ints] = {}
    for name in (*_HEAD, "start", "length"):
        column = columns.get(name)
        if column is None or column.dtype != np.int64:
            return None
        head[name] = column.astype(np.int64, copy=False)
    start, length = head.pop("start"), head.pop("length")
    if len(start) and int(start[-1]) + int(length[-1]) > size:
        return None
    metrics = {name.removeprefix(_METRIC): each for name, each in columns.items() if name.startswith(_METRIC)}
    facts = {name.removeprefix(_FACT): each for name, each in columns.items() if name.startswith(_FACT)}
    if any(each.dtype != np.int64 for each in facts.values()) or not facts.keys() <= FACTS:
        return None
    if any(each.dtype != np.float64 for each in metrics.values()):
        return None
    runs = StoredRuns(path, state, start, length)
    runs.table = RunTable(
        source=runs,
        numbers=np.arange(header.rows, dtype=np.int64),
        places=header.places,
        reasons=header.reasons,
        outputs=header.outputs,
        left=header.left,
        metrics={name: each.astype(np.float64, copy=False) for name, each in metrics.items()},
        facts={name: each.astype(np.int64, copy=False) for name, each in facts.items()},
        **head,
    )
    return RunLines(runs, header.damages, header.chain, header.whole, complete=True)


def _wanted(experiment: bytes) -> frozenset[str]:
    """Return the names of the metrics of an experiment's workloads.

    Raises:
        UserError: this version of Swapstone has no workload of that name.
    """
    decoded = msgspec.json.decode(experiment, type=Experiment)
    return metric_names({name: workload for (_, name), workload in workloads_of(decoded).items()})


def _file_state(status: os.stat_result) -> str:
    """Return a text that changes if a file is replaced or written."""
    return f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def _digest(of_file: str, experiment: bytes) -> str:
    """Return a digest of all on which the columns depend: the file, the experiment, the code and the machine's byte order."""
    parts = (of_file, hashlib.sha256(experiment).hexdigest(), state_of_code(), columns_file.BYTE_ORDER)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
