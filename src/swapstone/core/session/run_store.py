# SPDX-License-Identifier: MIT OR Apache-2.0
"""Read large records once: their runs are kept as columns, and a run itself is decoded from its line when it is needed.

The first reading decodes and checks every line of `runs.jsonl`, one at a time, and never holds all runs. It leaves a file of columns
(`swapstone.core.session.columns_file`), which later readings use as long as `runs.jsonl` is the same file, unchanged. `swapstone verify`
and everything that runs a record's commands read all lines again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import overload

import numpy as np

from swapstone.core.comparison.run_columns import FACTS, TabledRuns, metric_names
from swapstone.core.comparison.run_table import Ints, RunTable
from swapstone.core.model import Experiment, RecordError, Run, UserError
from swapstone.core.model.directories import cache_dir
from swapstone.core.record import FileProblemError, Meta, RecordFolder, RecordView, load, record_format
from swapstone.core.record.run_lines import RunCollector, RunLines, decode_line
from swapstone.core.session import columns_file, parallel_reader
from swapstone.core.session.parallel_reader import FACT, METRIC, LineCollector
from swapstone.core.session.record_index import state_of_code
from swapstone.core.session.works import description_of

SMALLEST_BYTES = 16 << 20
"""Smaller `runs.jsonl` files are read in half a second, and stay in memory as runs."""

RECENT_NS = 2_000_000_000
"""A file that changed this shortly before it was read is not kept: it could change again without another time of change.

A complete record is read only when its last change is older: the report at the end of an experiment leaves the columns.
"""

_LONGEST_WAIT_NS = 2 * RECENT_NS

MOST_TEXTS = 100_000
"""Columns are not kept of records with more different reasons, outputs or lists of files."""


def load_columns(path: Path) -> RecordView:
    """Read a record as `swapstone.core.record.load` does, a large one as columns.

    Raises:
        RecordError: as `swapstone.core.record.load`; also later, if a run is read and the file has changed meanwhile.
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


class ColumnStore:
    """Keeps the runs of large records as columns; a `swapstone.core.record.reader.RunStore`.

    Args:
        folder: of the files; by default one in the cache folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def lines(
        self,
        path: Path,
        folder: RecordFolder,
        header: bytes,
        described: tuple[Meta, Experiment],
        read: Callable[[RunCollector | None], RunLines],
    ) -> RunLines:
        """Return what the lines of a record hold."""
        try:
            status = folder.status(record_format.RUNS)
            wanted = metric_names({work.name: work for work in description_of(*described).specs().values()})
        except (FileProblemError, UserError):
            return read(None)
        if status is None or status.st_size < SMALLEST_BYTES:
            small = read(None)
            runs = TabledRuns(small.runs)
            runs.wanted = wanted
            return dataclasses.replace(small, runs=runs)
        of_file = _file_state(status)
        state = _digest(of_file, header)
        place = self._place(path)
        known = None if place is None else columns_file.read(place, state)
        if known is not None and (found := _from_file(path, of_file, status.st_size, *known)) is not None:
            return found
        if folder.status(record_format.SEAL) is not None:
            _wait_until_older(status)
        started_ns = time.time_ns()
        content = self._in_parts(folder, status.st_size, state, described[1], wanted)
        complete = True
        if content is None:
            collector = LineCollector(wanted)
            made = read(collector)
            complete = made.complete
            content = collector.content(state, made)
        try:
            after = folder.status(record_format.RUNS)
        except FileProblemError:
            after = None
        same = after is not None and _file_state(after) == of_file
        old = started_ns - status.st_ctime_ns > RECENT_NS
        if place is not None and complete and same and old and _variety(content[0]) <= MOST_TEXTS:
            columns_file.write(place, *content)
        result = _from_file(path, of_file, None, *content)
        assert result is not None
        return dataclasses.replace(result, complete=complete)

    def _in_parts(
        self, folder: RecordFolder, size: int, state: str, experiment: Experiment, wanted: frozenset[str]
    ) -> tuple[columns_file.Header, dict[str, columns_file.Column]] | None:
        """Read the file in several processes, if that is faster and nothing is damaged."""
        try:
            handle = folder.open(record_format.RUNS)
        except FileProblemError:
            return None
        if handle is None:
            return None
        try:
            return parallel_reader.read_in_parts(parallel_reader.RunsFile(handle, size, state, experiment, wanted))
        finally:
            os.close(handle)

    def _place(self, path: Path) -> Path | None:
        """Return the path of a record's file; None without a cache folder, as a user without a home folder has none."""
        try:
            folder = self._folder or cache_dir() / "columns"
            return folder / f"{hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:32]}.columns"
        except (RuntimeError, OSError):
            return None


def _variety(header: columns_file.Header) -> int:
    """Return the largest number of different reasons, outputs or lists of files."""
    return max(len(header.reasons), len(header.outputs), len(header.left))


def _from_file(
    path: Path, state: str, size: int | None, header: columns_file.Header, columns: Mapping[str, columns_file.Column]
) -> RunLines | None:
    """Return the runs of a file of columns; None if a column is missing or has another type, or a line ends behind `size` bytes."""
    head: dict[str, Ints] = {}
    for name in (*parallel_reader.HEAD, "start", "length"):
        column = columns.get(name)
        if column is None or column.dtype != np.int64:
            return None
        head[name] = column.astype(np.int64, copy=False)
    start, length = head.pop("start"), head.pop("length")
    if size is not None and len(start) and int(start[-1]) + int(length[-1]) > size:
        return None
    metrics = {name.removeprefix(METRIC): each for name, each in columns.items() if name.startswith(METRIC)}
    facts = {name.removeprefix(FACT): each for name, each in columns.items() if name.startswith(FACT)}
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


def _wait_until_older(status: os.stat_result) -> None:
    """Wait until the last change of a file is no longer recent; not if it is in the future, by another clock."""
    missing_ns = status.st_ctime_ns + RECENT_NS - time.time_ns()
    if 0 <= missing_ns <= _LONGEST_WAIT_NS:
        time.sleep((missing_ns + 1_000_000) / 1e9)


def _file_state(status: os.stat_result) -> str:
    """Return a text that changes if a file is replaced or written."""
    return f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def _digest(of_file: str, header: bytes) -> str:
    """Return a digest of all on which the columns depend: the file, header and experiment, the code, the byte order."""
    parts = (of_file, hashlib.sha256(header).hexdigest(), state_of_code(), columns_file.BYTE_ORDER)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
