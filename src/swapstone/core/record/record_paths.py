# SPDX-License-Identifier: MIT OR Apache-2.0
"""Paths of records, and the names that users give them.

Some folders are no records: where a kill ended the start of one, and others.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import shlex
from pathlib import Path

from swapstone.core.model import RecordError, unknown
from swapstone.core.model.safe_text import safe, utf8_path
from swapstone.core.record import origin, record_format
from swapstone.core.record.files import is_record

_BEGUN = re.compile(r"\.(experiment|record|origin)\.json\.(\d+|[0-9a-f]{16})")
"""A temporary file of `RecordWriter.create`, or of that of an earlier version."""


def is_begun(path: Path) -> bool:
    """Return whether a folder is one in which a kill ended `RecordWriter.create`: it holds a part of what that writes, and nothing else."""
    try:
        return is_begun_folder(path)
    except (OSError, ValueError):  # ValueError: a null character
        return False


def is_begun_folder(path: Path) -> bool:
    """Return what `is_begun` returns.

    Raises:
        OSError: the folder can't be read.
    """
    with os.scandir(path) as found:
        entries = {entry.name: entry for entry in found}
    return record_format.LOCK in entries and all(_is_of_creation(entry) for entry in entries.values())


def _is_of_creation(entry: os.DirEntry[str]) -> bool:
    if entry.name == record_format.RAW:
        return entry.is_dir(follow_symlinks=False) and not os.listdir(entry)  # noqa: PTH208 - an entry, not a path
    if not entry.is_file(follow_symlinks=False):
        return False
    if entry.name in {record_format.LOCK, record_format.RUNS}:
        return entry.stat(follow_symlinks=False).st_size == 0
    return entry.name in {record_format.EXPERIMENT, origin.ORIGIN} or bool(_BEGUN.fullmatch(entry.name))


def not_a_record(path: Path) -> RecordError:
    """Return the error for a folder or file without `record.json`; where a kill ended the start, it states how to start again."""
    if is_begun(path):
        return RecordError(
            f"{path} is not a record: a signal or a fault ended it before anything was measured.",
            f"Give the command that began it again, with --out {shlex.quote(str(path))}",
        )
    try:
        (path / record_format.META).lstat()
    except PermissionError as error:
        return RecordError(
            f"{path} can't be read: {error.strerror}.",
            f"Its owner can allow it: chmod -R u+rwX {shlex.quote(str(path))}",
        )
    except (OSError, ValueError):
        pass
    return RecordError(
        f"{path} is not a record: it has no {record_format.META}.",
        "`swapstone list records` lists the existing records.",
    )


ROOT_VARIABLE = "SWAPSTONE_RECORDS"


def default_root() -> Path:
    """Return the folder of records: ``$SWAPSTONE_RECORDS``, or ``records`` in the current folder."""
    return Path(os.environ.get(ROOT_VARIABLE) or "records")


def list_records(root: Path | None = None) -> tuple[Path, ...]:
    """Return the record folders under the root, oldest first; records of a study are one level deeper.

    Damaged records are among them. Folders that can't be listed are left out.
    """
    folder = root or default_root()
    found = [path for place in _folders_in(folder) for path in _records_at(place)]
    return tuple(sorted(found, key=lambda path: (_written_ns(path), record_name(path, folder))))


def _folders_in(folder: Path) -> list[Path]:
    """Return the folders in a folder; none if it can't be listed."""
    found = []
    with contextlib.suppress(OSError, ValueError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # a link to itself
                if entry.is_dir():
                    found.append(folder / entry.name)
    return found


def _written_ns(path: Path) -> int:
    """Return when a record's identity was written; 0 if that can't be read."""
    try:
        return (path / record_format.META).lstat().st_mtime_ns
    except OSError:
        return 0


def record_name(path: Path, root: Path | None = None) -> str:
    """Return the name of a record under the root: its folder, preceded by that of its study. As `utf8_path`."""
    return utf8_path(path.relative_to(root or default_root()))


def _records_at(place: Path) -> list[Path]:
    """Return a folder that is a record, or the records in it."""
    if is_record(place):
        return [place]
    return [path for path in _folders_in(place) if is_record(path)]


def find_record(text: str) -> Path:
    """Return the folder of a record that a user named.

    Args:
        text: a path, the name of a folder under the root (of a study's: STUDY/PART), or ``last``.

    Raises:
        RecordError: there is no such record, and similar names are suggested; or its path has a line break, or is empty.
    """
    if not text:
        raise RecordError("The name of a record is empty.", "Name one: swapstone list records")
    path = _find(text)
    if "\n" in str(path):  # messages would have lines that the name forges
        raise RecordError(f"The name of this record has a line break: {safe(str(path))}", "Rename its folder.")
    return path


def find_records(text: str) -> tuple[Path, ...]:
    """Return the folder of a record that a user named, or those of the records of a study that the user named.

    Args:
        text: as in `find_record`, or the path or the name of a study's folder.

    Raises:
        RecordError: as `find_record`.
    """
    for candidate in (Path(text), default_root() / text) if text else ():
        if not is_record(candidate) and (parts := sorted(_records_at(candidate))):
            return tuple(find_record(str(part)) for part in parts)
    return (find_record(text),)


def _find(text: str) -> Path:
    if text == "last":
        records = list_records()
        if not records:
            raise RecordError(
                f"There are no records in {default_root()}.", "Make one: swapstone compare libc=glibc,musl"
            )
        return records[-1]
    for candidate in (Path(text), default_root() / text):
        if is_record(candidate):
            return candidate
    for candidate in (Path(text), default_root() / text):
        if parts := _records_at(candidate):
            names = ", ".join(sorted(path.name for path in parts))
            raise RecordError(
                safe(f"{text} is not a single record: it contains {names}."),
                safe(f"Name one of them: {candidate / sorted(parts)[0].name}"),
            )
    begun = next((candidate for candidate in (Path(text), default_root() / text) if is_begun(candidate)), None)
    if begun or os.path.lexists(text):
        raise not_a_record(begun or Path(text))
    error = unknown("record", text, [record_name(path) for path in list_records()])
    raise RecordError(error.message, error.hint)


def new_record_path(name: str) -> Path:
    """Return a new folder under the root, named by the time and the experiment. It does not exist yet."""
    slug = re.sub(r"[^A-Za-z0-9=.,_-]+", "-", name).strip("-")[:60] or "experiment"
    stem = f"{datetime.datetime.now().astimezone():%Y%m%d-%H%M%S}-{slug}"
    candidates = (stem if attempt == 1 else f"{stem}-{attempt}" for attempt in range(1, 1000))
    return next(path for path in (default_root() / name for name in candidates) if not path.exists())
