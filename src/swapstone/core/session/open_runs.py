# SPDX-License-Identifier: MIT OR Apache-2.0
"""The runs of records as files for a database: opened and checked once, and then read by descriptor.

A database that opened ``runs.jsonl`` by its path could read another file than the one that was checked: who can write a record's folder
can exchange it for a link in between.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from swapstone.core.model import UserError
from swapstone.core.record import open_runs
from swapstone.core.session.record_index import NamedRecord

_SPARE = 256
"""Descriptors for everything else: the database, its extensions, threads."""


class OpenRuns:
    """The opened runs of records. A context manager; leaving it closes them, and restores the limit of open files.

    Args:
        records: of which. Those without runs, and those whose runs can't be read, are left out.
        spare: descriptors to leave for everything else.

    Attributes:
        records: those with runs.

    Raises:
        UserError: there are more records with runs than this process may open files.
    """

    def __init__(self, records: Iterable[NamedRecord], *, spare: int = _SPARE) -> None:
        self.records: list[NamedRecord] = []
        self._descriptors: list[int] = []
        self._limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._limits[1], self._limits[1]))
        try:
            self._open(records, spare)
        except BaseException:
            self.close()
            raise

    @property
    def paths(self) -> list[str]:
        """Return the paths of the opened files, in the order of `records`."""
        return [f"/proc/self/fd/{number}" for number in self._descriptors]

    @property
    def size_bytes(self) -> int:
        """Return the size of all opened files."""
        return sum(os.fstat(number).st_size for number in self._descriptors)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the files. May be called twice."""
        while self._descriptors:
            os.close(self._descriptors.pop())
        resource.setrlimit(resource.RLIMIT_NOFILE, self._limits)

    def _open(self, records: Iterable[NamedRecord], spare: int) -> None:
        hard = self._limits[1]
        most = (1 << 20 if hard == resource.RLIM_INFINITY else hard) - spare
        for record in records:
            try:
                descriptor = open_runs(record.path)
            except OSError as error:
                if error.errno != errno.EMFILE:
                    raise
                raise self._too_many() from error
            if descriptor is not None:
                self._descriptors.append(descriptor)
                self.records.append(record)
            if len(self._descriptors) > most:
                raise self._too_many()

    def _too_many(self) -> UserError:
        return UserError(
            f"A query opens the runs of every record, and this process may open {self._limits[1]} files only.",
            "Raise the limit as root (`ulimit -Hn 65536`), or move records to another folder and name one: SWAPSTONE_RECORDS=FOLDER",
        )
