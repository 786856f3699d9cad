# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whole tables of queries, kept as Parquet files: to make them from the rows of thousands of records takes seconds.

They are derived from the index (`swapstone.core.session.record_index`), lie beside it in the cache folder, and are made again where one is
missing, damaged or out of date. Deleting them loses nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from swapstone.core.model.directories import cache_dir
from swapstone.core.session.record_index import NamedRecord, RecordIndex

if TYPE_CHECKING:
    import duckdb

FEWEST_RECORDS = 100
"""Tables of fewer records are made from the index each time, which is as fast."""

MOST_RUN_BYTES = 2 << 30
"""The runs of more than these bytes of files are read for each query: a table of them may need too much memory."""

_MOST_BYTES = 4 << 30
_PART = 1 << 20


class TableCache:
    """The kept tables of some records.

    Args:
        index: holds the digest of each file.
        records: whose rows the tables have, in their order.
        folder: of the files; by default one in the cache folder.
    """

    def __init__(self, index: RecordIndex, records: Sequence[NamedRecord], folder: Path | None = None) -> None:
        self._index = index
        self._folder = folder or cache_dir() / "query"
        self._state = index.state(records) if len(records) >= FEWEST_RECORDS else ""

    @property
    def enabled(self) -> bool:
        """Return whether there are enough records."""
        return bool(self._state)

    def load(self, connection: duckdb.DuckDBPyConnection, name: str) -> bool:
        """Make a table from its file, if there is one of this state of the records; return whether it was made.

        Args:
            connection: of a database without that table.
            name: of the table.
        """
        path = self._folder / f"{name}.parquet"
        if not self._state or self._index.digest(name, self._state) != (_digest(path) or "missing"):
            return False
        try:
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM read_parquet(?)", [str(path)])  # noqa: S608 - one of ours
        except Exception:
            connection.execute(f"DROP TABLE IF EXISTS {name}")
            return False
        return True

    def keep(self, connection: duckdb.DuckDBPyConnection, name: str) -> None:
        """Keep a table, if there are enough records, and space and rights for it.

        Args:
            connection: of a database with that table.
            name: of the table.
        """
        if not self._state:
            return
        path = self._folder / f"{name}.parquet"
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            quoted = str(temporary).replace("'", "''")
            connection.execute(f"COPY {name} TO '{quoted}' (FORMAT parquet)")
            digest = _digest(temporary)
            if digest is not None:
                temporary.chmod(0o600)
                temporary.replace(path)
                self._index.keep_digest(name, self._state, digest)
        except Exception:
            return
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def keep_runs(connection: duckdb.DuckDBPyConnection, cache: TableCache, size_bytes: int) -> None:
    """Let the view ``runs`` read a kept table, if there are enough records and they are not too large to keep one.

    Args:
        connection: of a database with that view, which reads the files of the runs.
        cache: of the tables.
        size_bytes: of these files.
    """
    if not cache.enabled or size_bytes > MOST_RUN_BYTES:
        return
    if not cache.load(connection, "kept_runs"):
        connection.execute("CREATE TABLE kept_runs AS SELECT * FROM runs")
        cache.keep(connection, "kept_runs")
    connection.execute("CREATE OR REPLACE VIEW runs AS SELECT * FROM kept_runs")


def _digest(path: Path) -> str | None:
    """Return the SHA-256 of a regular file of this user; None of anything else."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_size > _MOST_BYTES:
            return None
        digest = hashlib.sha256()
        while part := os.read(handle, _PART):
            digest.update(part)
    except OSError:
        return None
    finally:
        os.close(handle)
    return digest.hexdigest()
