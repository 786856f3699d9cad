# SPDX-License-Identifier: MIT OR Apache-2.0
"""An index of what queries need of each record: derived from the records' files, and made again where it is missing or out of date.

It lies in the cache folder, not beside the records, which may be another person's or read-only. Deleting it loses nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

from swapstone.core.model.directories import cache_dir
from swapstone.core.model.safe_text import utf8_path
from swapstone.core.record import record_format
from swapstone.core.record.files import is_record

Rows = list[dict[str, Any]]
"""Rows of one table, by the names of their columns; without the record's name and path, which depend on the root."""

_FILES = (
    record_format.META,
    record_format.EXPERIMENT,
    record_format.MANIFEST,
    record_format.RUNS,
    record_format.SEAL,
)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    path TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL, rows BLOB NOT NULL, PRIMARY KEY (path, kind)
) WITHOUT ROWID
"""

_TABLE = "table "
_EVERY = "*"
"""Kind and path of the entries of whole tables."""

WAIT_S = 2.0
"""Another process that writes the index is waited for this long. After that, the answer is computed without it."""


class NamedRecord(NamedTuple):
    """A record, and the name that the column ``record`` has."""

    name: str
    path: Path


class RecordIndex:
    """The index. A context manager; leaving it closes the file.

    An entry is used only if the record's files have the same inode, size and time of change (ctime) as when it was made, by the same code
    of Swapstone. If the file can't be opened, read or written, everything is computed, and nothing is kept.

    Args:
        path: of the index file; by default one in the cache folder.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or cache_dir() / "query" / "index.sqlite3"
        self._code = state_of_code()
        self._connection = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.close()

    def rows(
        self,
        records: Sequence[NamedRecord],
        kind: str,
        tables: Collection[str],
        compute: Callable[[NamedRecord], Mapping[str, Rows]],
    ) -> Iterator[tuple[NamedRecord, Mapping[str, Rows]]]:
        """Yield what queries need of each record, in their order.

        Args:
            records: of which.
            kind: what the rows are, e.g. ``analysis``.
            tables: names of the tables of that kind.
            compute: returns the rows of a record by the table's name, if the index has none of its present state.
        """
        known = self._known(kind)
        made: list[tuple[str, str, str, bytes]] = []
        for record in records:
            path = utf8_path(record.path.absolute())
            state = self._state(record.path)
            found = _decoded(known[path][1], tables) if path in known and known[path][0] == state else None
            if found is None:
                found = compute(record)
                made.append((path, kind, state, msgspec.json.encode(found)))
            yield record, found
        self._keep(made, [path for path in known if not is_record(Path(path))] if made else [])

    def state(self, records: Sequence[NamedRecord]) -> str:
        """Return a digest that changes if a file of one of the records changes, or their names, their order or the code."""
        digest = hashlib.sha256()
        for record in records:
            digest.update(
                f"{record.name}\0{record.path.absolute()}\0{self._state(record.path)}\n".encode(
                    errors="surrogateescape"
                )
            )
        return digest.hexdigest()

    def digest(self, table: str, state: str) -> str:
        """Return the digest of the file that a table of these records is kept in; empty if none is.

        Args:
            table: its name.
            state: of `state`.
        """
        kept, data = self._known(f"{_TABLE}{table}").get(_EVERY, ("", b""))
        return data.decode(errors="replace") if kept == state else ""

    def keep_digest(self, table: str, state: str, digest: str) -> None:
        """Keep the digest of the file of a table; arguments as `digest`."""
        self._keep([(_EVERY, f"{_TABLE}{table}", state, digest.encode())], [])

    def _open(self) -> sqlite3.Connection | None:
        for _ in range(2):
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                connection = sqlite3.connect(self._path, timeout=WAIT_S, isolation_level=None)
                connection.execute(_SCHEMA)
                if connection.execute("SELECT type, name FROM sqlite_master").fetchall() != [("table", "entries")]:
                    connection.close()
                    raise sqlite3.DatabaseError("it has another form")
            except sqlite3.OperationalError:  # locked, or the folder can't be written
                return None
            except sqlite3.DatabaseError:  # damaged: it can be made again
                with contextlib.suppress(OSError):
                    self._path.unlink()
            except OSError:
                return None
            else:
                return connection
        return None

    def _known(self, kind: str) -> dict[str, tuple[str, bytes]]:
        if self._connection is None:
            return {}
        try:
            rows = self._connection.execute("SELECT path, state, rows FROM entries WHERE kind = ?", (kind,))
            return {path: (state, data) for path, state, data in rows if isinstance(data, bytes)}
        except sqlite3.Error:
            return {}

    def _keep(self, made: Sequence[tuple[str, str, str, bytes]], gone: Sequence[str]) -> None:
        """Store new entries, and remove those of records that don't exist any more."""
        if self._connection is None or not (made or gone):
            return
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("DELETE FROM entries WHERE path = ?", [(path,) for path in gone])
            self._connection.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", made)
            self._connection.execute("COMMIT")

    def _state(self, path: Path) -> str:
        """Return a text that changes if a file of the record or the code changes."""
        parts = [self._code]
        for name in _FILES:
            try:
                found = os.lstat(f"{path}/{name}")
            except OSError:
                parts.append(f"{name} missing")
            else:
                parts.append(
                    f"{name} {found.st_mode} {found.st_dev} {found.st_ino} {found.st_size} {found.st_ctime_ns}"
                )
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _decoded(data: bytes, tables: Collection[str]) -> Mapping[str, Rows] | None:
    try:
        found = msgspec.json.decode(data, type=dict[str, Rows])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if found.keys() == set(tables) else None


def state_of_code() -> str:
    """Return a digest of the names, sizes and times of Swapstone's modules, on which every verdict depends."""
    top = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for path in sorted(top.rglob("*.py")):
        found = path.stat()
        digest.update(f"{path} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()
