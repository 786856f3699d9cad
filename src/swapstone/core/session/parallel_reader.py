# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decode and check the lines of a large `runs.jsonl` in several processes, one for each part of the file.

Each process leaves a file of columns (`swapstone.core.session.columns_file`). The parts are joined only if each line of each part is
undamaged, the parts follow one another, and no trial occurs in two of them. Otherwise nothing is returned, and the caller reads the file
in one process, which names the damage. So both ways give the same columns.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from swapstone.core.comparison.run_columns import RunColumns
from swapstone.core.comparison.run_table import ABSENT, Ints, Place
from swapstone.core.model import Experiment, Run
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.core.record.files import LONGEST_LINE_BYTES
from swapstone.core.record.run_lines import RunLines, decode_line, read_lines
from swapstone.core.session import columns_file
from swapstone.core.session.columns_file import Column, Header

PART_BYTES = 32 << 20
"""Smallest part for which a process is started: to read it takes half a second."""

MOST_PROCESSES = 16

HEAD = ("place", "status", "reason", "output", "found", "block", "position", "prime", "started", "elapsed", "extras")
"""The columns that each run has, besides the place of its line: `start` and `length`, in bytes."""

METRIC, FACT = "metric:", "fact:"
"""Begin the names of the other columns."""

_TEXTS = {"place": "places", "reason": "reasons", "output": "outputs", "found": "left"}
_BLOCKS = 1 << 21  # above `swapstone.core.model.bounds.MOST_BLOCKS`
_LINES = 1024
_Value = TypeVar("_Value")


class LineCollector:
    """Receives the runs of consecutive lines, and keeps columns and the places of the lines.

    Args:
        wanted: names of the metrics to keep.
    """

    def __init__(self, wanted: frozenset[str]) -> None:
        self.columns = RunColumns(wanted)
        self._lines: list[tuple[int, int]] = []
        self._chunks: list[Ints] = []

    def add(self, run: Run, start: int, length: int) -> None:
        """Receive a run, as `swapstone.core.record.run_lines.RunCollector.add`."""
        self.columns.add(run)
        self._lines.append((start, length))
        if len(self._lines) == 1 << 16:
            self._flush()

    def runs(self) -> Sequence[Run]:
        """Return nothing: see `content`."""
        return ()

    def content(self, state: str, lines: RunLines) -> tuple[Header, dict[str, Column]]:
        """Return what was received, once.

        Args:
            state: for the header.
            lines: what was read.
        """
        self._flush()
        table = self.columns.table(())
        header = Header(
            state=state,
            rows=len(table),
            chain=lines.chain,
            whole=lines.whole,
            damages=lines.damages,
            places=table.places,
            reasons=table.reasons,
            outputs=table.outputs,
            left=table.left,
        )
        columns: dict[str, Column] = {name: getattr(table, name) for name in HEAD}
        columns["start"], columns["length"] = np.concatenate(self._chunks).T.copy()
        columns |= {METRIC + name: column for name, column in table.metrics.items()}
        columns |= {FACT + name: column for name, column in table.facts.items()}
        return header, columns

    def _flush(self) -> None:
        self._chunks.append(np.array(self._lines, dtype=np.int64).reshape(-1, 2))
        self._lines = []


@dataclasses.dataclass(frozen=True)
class RunsFile:
    """A `runs.jsonl` to read.

    Attributes:
        descriptor: of the open file.
        size: in bytes.
        state: for the header.
        experiment: of the runs.
        wanted: names of the metrics to keep.
    """

    descriptor: int
    size: int
    state: str
    experiment: Experiment
    wanted: frozenset[str]


@dataclasses.dataclass(frozen=True)
class _Part:
    """Consecutive lines of a file.

    Attributes:
        start, end: in bytes; lines begin at both.
        first: number of the first line.
        previous: chain value before it, as it says itself.
    """

    start: int
    end: int
    first: int
    previous: str


def read_in_parts(file: RunsFile) -> tuple[Header, dict[str, Column]] | None:
    """Read a whole `runs.jsonl` in several processes.

    Returns:
        A header, and columns of shape (runs,); None if the file is small or damaged, or there is one processor only, or another thread:
        a fork would take its locks along.
    """
    count = min(len(os.sched_getaffinity(0)), MOST_PROCESSES, file.size // PART_BYTES)
    if count < 2 or threading.active_count() > 1:
        return None
    try:
        parts = _parts(file.descriptor, file.size, count)
        if parts is None:
            return None
        with TemporaryFolder("parts") as folder:
            paths = [folder / f"{number}.columns" for number in range(len(parts))]
            if not _read_all(file, parts, paths):
                return None
            found = [columns_file.read(path, file.state) for path in paths]
    except OSError:
        return None
    whole = [each for each in found if each is not None]
    return _joined(parts, whole) if len(whole) == len(parts) else None


def _parts(descriptor: int, size: int, count: int) -> list[_Part] | None:
    """Return parts of about the same size; None if a line is too long, or the first of a part is damaged."""
    starts = [0]
    for number in range(1, count):
        start = _after_newline(descriptor, size * number // count)
        if start is None:
            return None
        if starts[-1] < start < size:
            starts.append(start)
    parts = []
    for start, end in zip(starts, [*starts[1:], size], strict=True):
        after = _after_newline(descriptor, start)
        line = None if after is None else decode_line(os.pread(descriptor, after - start, start))[0]
        if line is None:
            return None
        parts.append(_Part(start, end, line.number, line.previous))
    return parts


def _after_newline(descriptor: int, offset: int) -> int | None:
    """Return the place behind the next newline; None if there is none within the longest line."""
    limit = offset + LONGEST_LINE_BYTES
    while offset < limit and (data := os.pread(descriptor, 1 << 16, offset)):
        found = data.find(b"\n")
        if found >= 0:
            return offset + found + 1
        offset += len(data)
    return None


def _read_all(file: RunsFile, parts: Sequence[_Part], paths: Sequence[Path]) -> bool:
    """Read each part in a process of its own; return whether all are undamaged."""
    processes: set[int] = set()
    parent = os.getpid()
    try:
        for part, path in zip(parts, paths, strict=True):
            process = os.fork()
            if not process:
                _read_part(parent, file, part, path)
            processes.add(process)
        while processes:
            process = next(iter(processes))
            _, status = os.waitpid(process, 0)
            processes.discard(process)
            if status:
                return False
        return True
    finally:
        for process in processes:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)


def _read_part(parent: int, file: RunsFile, part: _Part, path: Path) -> None:
    """In the process of a part: leave its file, and end. The exit status is 0 if every line is undamaged."""
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        collector = LineCollector(file.wanted)
        texts = _texts(parent, file.descriptor, part)
        found = read_lines(texts, file.experiment, collector, part.first, part.start)
        if found.complete and not found.damages:
            columns_file.write(path, *collector.content(file.state, found))
            status = 0
    finally:
        os._exit(status)  # nothing of the parent is closed, flushed or removed here


def _texts(parent: int, descriptor: int, part: _Part) -> Iterator[bytes]:
    """Yield the lines of a part. A part whose parent process is gone ends early.

    Raises:
        OSError: the file can't be read, or the parent is gone.
    """
    with open(f"/proc/self/fd/{descriptor}", "rb", 1 << 20) as file:  # noqa: PTH123 - a descriptor with a place of its own
        place, count = file.seek(part.start), 0
        while place < part.end and (line := file.readline(LONGEST_LINE_BYTES + 1)):
            place, count = place + len(line), count + 1
            if count % _LINES == 0 and os.getppid() != parent:
                raise ProcessLookupError
            yield line


def _joined(
    parts: Sequence[_Part], found: Sequence[tuple[Header, dict[str, Column]]]
) -> tuple[Header, dict[str, Column]] | None:
    """Return the parts as one; None if they do not follow one another, or a trial occurs twice."""
    whole, chain = 0, ""
    for part, (header, columns) in zip(parts, found, strict=True):
        if part.first != whole + 1 or part.previous != chain or header.rows != header.whole:
            return None
        if {*HEAD, "start", "length"} - columns.keys():
            return None
        whole, chain = whole + header.whole, header.chain
    headers = [header for header, _ in found]
    columns, texts = _joined_columns(found)
    places: tuple[Place, ...] = tuple(texts["place"])
    if not _once(places, columns["place"], columns["block"], columns["prime"]):
        return None
    return Header(
        state=headers[0].state,
        rows=whole,
        chain=chain,
        whole=whole,
        damages=(),
        places=places,
        reasons=tuple(texts["reason"]),
        outputs=tuple(texts["output"]),
        left=tuple(texts["found"]),
    ), columns


def _joined_columns(
    found: Sequence[tuple[Header, dict[str, Column]]],
) -> tuple[dict[str, Column], Mapping[str, Mapping[Any, int]]]:
    """Return each column of all parts, and the numbers of the texts by the column's name."""
    texts: dict[str, dict[Any, int]] = {name: {} for name in _TEXTS}
    joined: dict[str, Column] = {}
    rows = sum(header.rows for header, _ in found)
    names = dict.fromkeys(name for _, columns in found for name in columns)
    for name in names:
        values = [columns.pop(name, None) for _, columns in found]
        kind = next(each.dtype for each in values if each is not None)
        column = np.full(rows, ABSENT if kind == np.int64 else np.nan, dtype=kind)
        start = 0
        for (header, _), value in zip(found, values, strict=True):
            if value is not None:
                known = texts.get(name)
                column[start : start + header.rows] = (
                    value if known is None else _numbered(known, getattr(header, _TEXTS[name]))[value]
                )
            start += header.rows
        joined[name] = column
    return joined, texts


def _numbered(known: dict[_Value, int], values: Sequence[_Value]) -> NDArray[np.int64]:
    """Return the number of each value, in the order of first use."""
    return np.array([known.setdefault(value, len(known)) for value in values], dtype=np.int64)


def _once(places: Sequence[Place], place: Ints, block: Ints, prime: Ints) -> bool:
    """Return whether no `swapstone.core.model.Trial.key` occurs twice; False also where that would need the keys themselves."""
    texts = {"/".join(each) for each in places}
    if len(texts) < len(places) or len(places) > _BLOCKS or any("/prime-" in each for each in texts):
        return False
    keys = (place * _BLOCKS + block) * _BLOCKS + prime
    keys.sort()
    return not (keys[1:] == keys[:-1]).any()
