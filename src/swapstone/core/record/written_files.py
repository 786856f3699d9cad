# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files of a record that is being written: whether they still have their names and their content.

A cleaner of temporary files, ``git clean`` or a script may remove, rename, replace or truncate them while an experiment runs. The writer
appends to an open file, so the kernel reports no error then: unlink(2) leaves the file until it is closed.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from swapstone.core.record import origin, record_format
from swapstone.core.record.files import FileProblemError, kind_of, limit_of, read_regular
from swapstone.core.record.replace_file import open_folder

_SMALL = (record_format.META, record_format.EXPERIMENT, record_format.MANIFEST, origin.ORIGIN)


class WrittenFiles:
    """What a writer has written into a record's folder.

    Args:
        path: of the folder.
        runs: a descriptor of its open `runs.jsonl`.
        lock: a descriptor of its lock.
    """

    def __init__(self, path: Path, runs: int, lock: int) -> None:
        self._path = path
        self._folder, self._runs = open_folder(path), runs
        self._states = {
            record_format.RUNS: _state(record_format.RUNS, os.fstat(runs)),
            record_format.LOCK: _state(record_format.LOCK, os.fstat(lock)),
            record_format.RAW: (stat.S_IFDIR,),
        }
        self.contents: dict[str, bytes] = {}
        """Of the small files, by name."""
        self.raw: set[str] = set()
        """Names of the files in `raw` that this session wrote."""
        for name in _SMALL:
            self.note(name)
        self.size_bytes = os.fstat(runs).st_size
        """Of `runs.jsonl`, as this writer left it."""

    def close(self) -> None:
        """Close the folder. Calling it twice is allowed."""
        if self._folder >= 0:
            os.close(self._folder)
        self._folder = -1

    def note(self, name: str) -> None:
        """Remember the content of a small file, which has just been written; nothing if there is none."""
        with contextlib.suppress(FileNotFoundError, FileProblemError):
            self.contents[name] = read_regular(self._path / name, limit_of(name))
            self._states[name] = _state(name, (self._path / name).lstat())

    def grown(self) -> int:
        """Return by how many bytes something else has made `runs.jsonl` longer, or shorter if negative."""
        return os.fstat(self._runs).st_size - self.size_bytes

    def losses(self) -> tuple[str, ...]:
        """Return a clause for everything that is no longer as this writer left it, such as ``runs.jsonl was removed``."""
        found = []
        if (where := self.place()) != self._path:
            found.append(f"its folder was renamed to {where}" if where else "its folder was removed")
        if where:
            found += [f"{name} {what}" for name, what in self.changed_in(where).items()]
        if grown := self.grown():
            change = f"truncated from {self.size_bytes} to" if grown < 0 else "written by something else: it has"
            found.append(f"{record_format.RUNS} was {change} {self.size_bytes + grown} bytes")
        return tuple(found)

    def place(self) -> Path | None:
        """Return the path of the folder: another one if it was renamed, None if it was removed."""
        own = os.fstat(self._folder)
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(self._path), own):  # noqa: PTH116 - after each run, in a fifth of the time of pathlib
                return self._path
        with contextlib.suppress(OSError):
            moved = Path(f"/proc/self/fd/{self._folder}").readlink()
            if os.path.samestat(moved.stat(), own):
                return moved
        return None

    def changed_in(self, folder: Path) -> dict[str, str]:
        """Return what happened to the files that should be in a folder, by name, as ``was removed``."""
        return {name: problem for name in self._states if (problem := self._problem(folder, name))}

    def _problem(self, folder: Path, name: str) -> str:
        try:
            now = os.lstat(f"{folder}/{name}")
        except FileNotFoundError:
            return "was removed"
        if _state(name, now) == self._states[name] or self._is_unchanged(folder, name, now):
            return ""
        kind = kind_of(now)
        return f"was replaced by {'another file' if kind == 'a file' else kind}"

    def _is_unchanged(self, folder: Path, name: str, now: os.stat_result) -> bool:
        """Return whether a small file with another state, as after a copy of the folder, has the same content."""
        with contextlib.suppress(FileNotFoundError, FileProblemError):
            if name in self.contents and read_regular(folder / name, limit_of(name)) == self.contents[name]:
                self._states[name] = _state(name, now)
                return True
        return False

    def lost_raw(self) -> int:
        """Return how many of the files in `raw` that this session wrote are missing."""
        return sum(not (self._path / record_format.RAW / name).is_file() for name in self.raw)


def _state(name: str, found: os.stat_result) -> tuple[int, ...]:
    """Return what stays the same of a file: of `runs.jsonl` and the lock, which file it is; of `raw`, that it is a folder."""
    content = (found.st_size, found.st_mtime_ns) if name in _SMALL else ()
    return (stat.S_IFMT(found.st_mode),) if name == record_format.RAW else (found.st_dev, found.st_ino, *content)
