# SPDX-License-Identifier: MIT OR Apache-2.0
"""Open the files of an untrusted record: regular files of bounded size, inside the record's folder.

Every file of a record is opened by `RecordFolder`. Each part of its name is opened relative to the folder before it, and no part may be
a symbolic link (openat(2), O_NOFOLLOW). A device, a FIFO or a socket is never opened, and no open waits (O_NONBLOCK).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from swapstone.core.model.closing import Closing
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.record import record_format

MIB = 1 << 20

LONGEST_LINE_BYTES = 15 * MIB
"""Of `runs.jsonl`: a run with 1000 passes has about 100 KiB, one with a histogram of 100 000 bins 1 MiB. DuckDB reads up to 16 MiB."""

RAW_BYTES = 128 * MIB
"""The agent limits each of the four outputs of a trial to 16 MiB (docs/wire.md)."""

_LIMITS = {
    record_format.META: 16 * MIB,
    record_format.EXPERIMENT: 16 * MIB,
    record_format.MANIFEST: 128 * MIB,
    record_format.SEAL: MIB,
    record_format.RUNS: 16 << 30,
    "origin.json": MIB,
    "seal.json.sig": MIB,
    "study.json": 16 * MIB,
    "trusted.json": MIB,
}
_FOLDER_LIMITS = {record_format.RAW: RAW_BYTES, record_format.BUILDS: RAW_BYTES, "explain": 256 * MIB}
"""By the first folder of the name."""

MOST_ENTRIES = 10_000
"""A folder of a record with more entries is not listed; `raw` is never listed."""

_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_ENTER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC  # macOS has no O_PATH
_OPEN_FOLDER = _ENTER | os.O_NOFOLLOW
_NOT_OF_THE_RECORD = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)
"""Errors of the process or of the device: what follows from the rest of the record would be wrong without a word."""


class FileProblemError(Exception):
    """A file of a record is not read; the text is a clause about the file without its name, e.g. ``it is a FIFO, not a regular file``."""


def limit_of(name: str) -> int:
    """Return the largest size of a file of a record, in bytes.

    Args:
        name: path relative to the record's folder.

    Raises:
        KeyError: a record has no such file.
    """
    first, _, rest = name.partition("/")
    return _FOLDER_LIMITS[first] if rest else _LIMITS[first]


@contextlib.contextmanager
def _as_problem() -> Iterator[None]:
    """Raise errors of the system as `FileProblemError`, but that there is no such file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a null character
        raise FileProblemError(reason_of(error)) from error


class RecordFolder(Closing):
    """The folder of a record. A context manager; leaving it closes the folder.

    Args:
        path: of the folder. It may be a symbolic link: the user named it.

    Raises:
        FileProblemError: there is no such folder, or it can't be entered.
    """

    def __init__(self, path: Path) -> None:
        self._folders: dict[str, int] = {}
        try:
            self._folders[""] = os.open(path, _ENTER)
        except (OSError, ValueError) as error:  # ValueError: a null character
            raise FileProblemError(reason_of(error)) from error

    def close(self) -> None:
        """Close all descriptors. Calling it twice is allowed."""
        while self._folders:
            os.close(self._folders.popitem()[1])

    def read(self, name: str, most_bytes: int | None = None) -> bytes | None:
        """Return the content of a file; None if there is none.

        Args:
            name: path relative to the record's folder, e.g. ``raw/SHA256.txt``.
            most_bytes: a larger file is a problem; None for the limit of its kind.

        Raises:
            FileProblemError: it is no regular file, too large, or can't be read.
        """
        descriptor = self.open(name, most_bytes)
        return None if descriptor is None else _content(descriptor)

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the lines of a file, each with its newline; none if there is no such file.

        A line of more than `LONGEST_LINE_BYTES` is yielded in part, without newline, and ends the iteration.

        Raises:
            FileProblemError: as `read`.
        """
        descriptor = self.open(name)
        if descriptor is None:
            return
        with _as_problem(), os.fdopen(descriptor, "rb", MIB) as file:
            while line := file.readline(LONGEST_LINE_BYTES + 1):
                yield line
                if len(line) > LONGEST_LINE_BYTES:
                    return

    def status(self, name: str, most_bytes: int | None = None) -> os.stat_result | None:
        """Return the status of a regular file, as stat(2); None if there is none.

        Args:
            name: as of `read`.
            most_bytes: as of `read`.

        Raises:
            FileProblemError: as `read`.
        """
        folder, _, last = name.rpartition("/")
        if last in {"", ".", ".."} or "\0" in name:
            raise FileProblemError("its name is no name of a file")
        try:
            with _as_problem():
                status = os.stat(last, dir_fd=self._folder(folder), follow_symlinks=False)
        except FileNotFoundError:
            return None
        _check(status, limit_of(name) if most_bytes is None else most_bytes)
        return status

    def open(self, name: str, most_bytes: int | None = None) -> int | None:
        """Open a file for reading; return its descriptor, which the caller closes, or None if there is none.

        Args:
            name: as of `read`.
            most_bytes: as of `read`.

        Raises:
            FileProblemError: as `read`.
        """
        if self.status(name, most_bytes) is None:
            return None
        folder, _, last = name.rpartition("/")
        try:
            with _as_problem():
                descriptor = os.open(last, _OPEN, dir_fd=self._folder(folder))
        except FileNotFoundError:
            return None
        return _checked(descriptor, limit_of(name) if most_bytes is None else most_bytes)

    def subfolders(self, name: str) -> tuple[str, ...]:
        """Return the names of the folders in a folder of the record, sorted, without symbolic links; none if there is no such folder.

        Raises:
            FileProblemError: it is no folder, has more than `MOST_ENTRIES` entries, or can't be read.
        """
        try:
            with _as_problem():
                descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._folder(name))
        except FileNotFoundError:
            return ()
        found = []
        try:
            with _as_problem(), os.scandir(descriptor) as entries:
                for number, entry in enumerate(entries):
                    if number >= MOST_ENTRIES:
                        raise FileProblemError(f"it has more than {MOST_ENTRIES} entries")
                    if entry.is_dir(follow_symlinks=False):
                        found.append(entry.name)
        finally:
            os.close(descriptor)
        return tuple(sorted(found))

    def is_regular(self, name: str) -> bool:
        """Return whether a file of the record exists and is a regular one of a size that is read."""
        try:
            return self.status(name) is not None
        except FileProblemError:
            return False

    def irregular(self) -> tuple[record_format.Damage, ...]:
        """Return a damage for each file that is no regular file, and each folder that is none: writing could change another file."""
        damages = []
        for name in (*_LIMITS, record_format.LOCK, f"{record_format.RUNS}.torn"):
            try:
                status = self.status(name, _LIMITS[record_format.RUNS])
                if name == record_format.RUNS and status is not None and status.st_nlink > 1:
                    raise FileProblemError(
                        f"it has {status.st_nlink} names (hard links): writing would change all of them"
                    )
            except FileProblemError as error:
                damages.append(record_format.Damage(file=name, line=0, problem=str(error)))
        for name in _FOLDER_LIMITS:
            with contextlib.suppress(FileNotFoundError):
                try:
                    self._folder(name)
                except FileProblemError as error:
                    damages.append(record_format.Damage(file=name, line=0, problem=str(error)))
        return tuple(damages)

    def _folder(self, name: str) -> int:
        """Return the descriptor of a folder inside the record.

        Raises:
            FileNotFoundError: there is none.
            FileProblemError: it is no folder, or a symbolic link.
        """
        if name in self._folders:
            return self._folders[name]
        parent, _, last = name.rpartition("/")
        if last in {"", ".", ".."}:
            raise FileProblemError("its name is no name of a file")
        above = self._folder(parent)
        try:
            self._folders[name] = os.open(last, _OPEN_FOLDER, dir_fd=above)
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno in {errno.ENOTDIR, errno.ELOOP}:
                kind = kind_of(os.stat(last, dir_fd=above, follow_symlinks=False))
                raise FileProblemError(f"{safe_excerpt(name)} is {kind}, not a folder") from error
            raise FileProblemError(reason_of(error)) from error
        return self._folders[name]


def is_record(path: Path) -> bool:
    """Return whether a folder has a file `record.json`, of whatever kind: `load` names what is wrong with it."""
    with contextlib.suppress(OSError, ValueError):
        (path / record_format.META).lstat()
        return True
    return False


def open_runs(path: Path) -> int | None:
    """Open a record's runs for a database, which reads whole lines.

    Returns:
        A descriptor, which the caller closes; None if there are no runs, if they can't be read, or if a line may be longer than
        `LONGEST_LINE_BYTES`: then some half of that many bytes has no newline.
    """
    with contextlib.suppress(FileProblemError), RecordFolder(path) as folder:
        descriptor = folder.open(record_format.RUNS)
        fits = False
        try:
            with _as_problem():
                fits = descriptor is not None and os.fstat(descriptor).st_size > 0 and _has_short_lines(descriptor)
                return descriptor if fits else None
        finally:
            if descriptor is not None and not fits:
                os.close(descriptor)
    return None


def read_regular(path: Path, most_bytes: int) -> bytes:
    """Return the content of a regular file that is no link. A FIFO or a device is never opened.

    Args:
        path: its folder may be reached through links.
        most_bytes: a larger file is a problem.

    Raises:
        FileNotFoundError: there is none.
        FileProblemError: it is a link or something else than a regular file, too large, or can't be read.
    """
    with _as_problem():
        _check(path.lstat(), most_bytes)
        descriptor = os.open(path, _OPEN)
    return _content(_checked(descriptor, most_bytes))


def _content(descriptor: int) -> bytes:
    """Return the content of an opened file, and close it."""
    with _as_problem(), os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        data = file.read(size + 1)
    if len(data) > size:
        raise FileProblemError("it grew while it was read")
    return data


def _has_short_lines(descriptor: int) -> bool:
    """Return whether no line of an opened file can be longer than `LONGEST_LINE_BYTES`: it is smaller, or each half of it has a newline."""
    if os.fstat(descriptor).st_size <= LONGEST_LINE_BYTES:
        return True
    part = LONGEST_LINE_BYTES // 2
    with os.fdopen(descriptor, "rb", 0, closefd=False) as file:
        while len(data := file.read(part)) == part:
            if b"\n" not in data:
                return False
    return True


def _checked(descriptor: int, limit: int) -> int:
    """Return the descriptor of a file that has just been opened: another file may have taken the place of the one that was checked."""
    try:
        _check(os.fstat(descriptor), limit)
    except FileProblemError:
        os.close(descriptor)
        raise
    return descriptor


def _check(status: os.stat_result, limit: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise FileProblemError(f"it is {kind_of(status)}, not a regular file")
    if status.st_size > limit:
        raise FileProblemError(f"it has {status.st_size} bytes, more than the {limit} that are read")


def kind_of(status: os.stat_result) -> str:
    """Return what a file is, with its article."""
    return next((name for test, name in _KINDS if test(status.st_mode)), "a file")


def reason_of(error: Exception) -> str:
    """Return why a file of a record can't be read, as a clause.

    Raises:
        OSError: the error, if it is one of the process or of the device: the file is not damaged.
    """
    if isinstance(error, OSError) and error.errno in _NOT_OF_THE_RECORD:
        raise error
    return str(error.strerror) if isinstance(error, OSError) else "its name is no name of a file"
