# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files of an own program's working folder: those that a run wrote, and those that earlier runs left there."""

from __future__ import annotations

import dataclasses
import os
import stat
import threading
import time

MOST_ENTRIES = 10_000
"""A folder with more entries is not examined."""

MOST_SECONDS = 2.0
"""Nor one that takes longer: it may be on a network."""

EXAMINED_RUNS = 9
"""How many runs of a folder are examined: what runs leave shows in the first ones."""

NAMED = 3
"""How many files are named."""

_RECORD = frozenset({"record.json", "experiment.json", "runs.jsonl"})
"""A folder with one of these is a record, which the session itself writes."""

Listing = dict[str, int]
"""Size in bytes, by path inside the folder. A file that a run writes anew with the same size is no new state for the next run."""


@dataclasses.dataclass(frozen=True)
class FileState:
    """What changes when a file is written: a run that wrote it leaves another state."""

    inode: int
    size_bytes: int
    modified_ns: int
    changed_ns: int


def file_state(path: str) -> FileState | None:
    """Return the state of a file without following a link; None if there is none."""
    try:
        status = os.stat(path, follow_symlinks=False)  # noqa: PTH116 # a text from the user, which pathlib would normalise
    except (OSError, ValueError):
        return None
    return FileState(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def listing(folder: str, most_entries: int = MOST_ENTRIES, most_seconds: float = MOST_SECONDS) -> Listing | None:
    """List the regular files below a folder, without following links and without records.

    Returns:
        None if there are too many, or if it took too long; a part of the files could not be compared with another part.
    """
    found: Listing = {}
    folders, entries, until_s = [folder], 0, time.monotonic() + most_seconds
    while folders:
        here = folders.pop()
        try:
            with os.scandir(here) as scanned:
                children = []
                for entry in scanned:
                    entries += 1
                    if entries > most_entries or time.monotonic() > until_s:
                        return None
                    children.append(entry)
        except OSError:
            continue  # not readable, or gone: it is left out of every listing
        if here != folder and any(child.name in _RECORD for child in children):
            continue
        for child in children:
            try:
                status = child.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode):
                folders.append(child.path)
            elif stat.S_ISREG(status.st_mode):
                found[os.path.relpath(child.path, folder)] = status.st_size
    return found


class FolderWatch:
    """Finds the files that earlier runs left in a folder, by listing it before each of the first runs. One for each session."""

    def __init__(self) -> None:
        self._first: dict[str, Listing | None] = {}
        self._runs: dict[str, int] = {}
        self._lock = threading.Lock()

    def before_run(self, folder: str, declared: frozenset[str]) -> tuple[str, ...]:
        """List the folder, and compare it with its state before the first run.

        Args:
            folder: the working folder.
            declared: paths of files that the user named as outputs.

        Returns:
            Up to `NAMED` files that are new or have another size, as text without bytes that are not UTF-8, and ``...`` if there are
            more; empty for the first run and after `EXAMINED_RUNS`.
        """
        with self._lock:
            number = self._runs[folder] = self._runs.get(folder, 0) + 1
            if number > EXAMINED_RUNS or (number > 1 and self._first[folder] is None):
                return ()
            now = listing(folder)
            if number == 1:
                self._first[folder] = now
            first = self._first[folder]
        if number == 1 or now is None or first is None:
            return ()
        new = sorted(
            path
            for path, size in now.items()
            if first.get(path) != size and os.path.join(folder, path) not in declared  # noqa: PTH118
        )
        names = [os.fsencode(path).decode(errors="backslashreplace") for path in new[:NAMED]]
        return (*names, *(("...",) if len(new) > NAMED else ()))
