# SPDX-License-Identifier: MIT OR Apache-2.0
"""Folders that are no records: where a kill ended the start of one, and others."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from swapstone.core.model import RecordError
from swapstone.core.record import origin, record_format

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
