# SPDX-License-Identifier: MIT OR Apache-2.0
"""What was derived from a record, kept in the cache folder, and made again where it is missing, damaged or out of date.

Deleting it loses nothing. Its content is an HMAC-SHA256 (RFC 2104) by the user's key (`swapstone.core.record.origin`), so a file of
another user, a damaged or an edited one is ignored. Layout:

    32 bytes     HMAC of all that follows
    8 bytes      length of the header, little-endian
    header       MessagePack: what the value was derived from, the length and type of each column, the value
    columns      64-bit numbers in this machine's byte order, each after the other, the first from a multiple of 8 bytes on
"""

from __future__ import annotations

import errno
import functools
import hashlib
import hmac
import mmap
import os
import stat
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias, TypeVar

import msgspec

from swapstone.core.model import UserError
from swapstone.core.model.directories import cache_dir, write_whole
from swapstone.core.record.files import MOST_ENTRIES
from swapstone.core.record.origin import KeyUnavailableError, own_key
from swapstone.core.record.record_format import RAW

FOLDER_BYTES = 4 << 30
"""When a process writes its first file, the oldest ones are removed until the others have at most this size."""

DOCUMENT = "document"
"""Kind of the document that `swapstone show` prints without options."""

Columns: TypeAlias = Mapping[str, memoryview]
"""By name: 64-bit integers (format ``l``) or floating-point numbers (``d``), of one dimension."""

_Header: TypeAlias = tuple[str, dict[str, tuple[Literal["l", "d"], int]], msgspec.Raw]
"""The state, format and length of each column, and the value."""
_NO_COLUMNS: Columns = MappingProxyType({})
_MAC_BYTES, _HEAD_BYTES, _ALIGNMENT = 32, 40, 8
_Value = TypeVar("_Value")


def keep(record: Path, kind: str, state: str, value: object, columns: Columns = _NO_COLUMNS) -> None:
    """Keep a value, if that is possible: without space, a key or a folder nothing is kept.

    Args:
        record: the folder of the record from which it was derived.
        kind: what the value is, e.g. ``columns``.
        state: of all that it was derived from: `find` returns it for the same state alone, and nothing is kept of an empty one.
        value: of types that msgspec encodes.
        columns: that belong to it.
    """
    if not state:
        return
    shapes = {name: (column.format, len(column)) for name, column in columns.items()}
    header = msgspec.msgpack.encode((state, shapes, value))
    padding = bytes(-(_HEAD_BYTES + len(header)) % _ALIGNMENT)
    content = b"".join((len(header).to_bytes(8, "little"), header, padding, *columns.values()))
    try:
        place = _place(record, kind)
        mac = hmac.digest(own_key(), content, "sha256")
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_oldest(place.parent)
        write_whole(place, mac + content)
    except (OSError, RuntimeError, KeyUnavailableError, UserError):
        return


def find(record: Path, kind: str, state: str, type_: type[_Value]) -> tuple[_Value, Columns] | None:
    """Return a value that was kept, and its columns, which are mapped into memory, read-only.

    Args:
        record: as of `keep`.
        kind: as of `keep`.
        state: as of `keep`.
        type_: of the value.

    Returns:
        None if there is none of that state, or its file is damaged or not this user's.
    """
    try:
        handle = os.open(_place(record, kind), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            mine = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
            if not mine or found.st_size > FOLDER_BYTES:
                return None
            key, mac = own_key(), file.read(_MAC_BYTES)
            made = hashlib.file_digest(file, lambda: hmac.new(key, digestmod="sha256"))
            if not hmac.compare_digest(mac, made.digest()):
                return None
            data = memoryview(mmap.mmap(handle, 0, access=mmap.ACCESS_READ))
        end = _HEAD_BYTES + int.from_bytes(data[_MAC_BYTES:_HEAD_BYTES], "little")
        made_of, shapes, value = msgspec.msgpack.decode(data[_HEAD_BYTES:end], type=_Header)
        if made_of != state:
            return None
        kept = msgspec.msgpack.decode(value, type=type_)
    except (OSError, ValueError, RuntimeError, KeyUnavailableError, msgspec.DecodeError):
        return None
    columns, start = {}, end + -end % _ALIGNMENT
    for name, (number, length) in shapes.items():
        columns[name] = data[start : start + 8 * length].cast(number)
        start += 8 * length
    return kept, columns


def state_of(record: Path) -> str:
    """Return a text that changes if a file of a record is replaced or written, the record's path is typed otherwise, or the code changes.

    A file of `raw` counts by its name alone, the digest of its content: one that was edited is not read. There is no state, an empty text,
    of a folder that can't be listed or has more than `MOST_ENTRIES` entries: nothing is kept or found.
    """
    try:
        return _digest([state_of_code(), str(record), *_entries(record)])
    except OSError:
        return ""


@functools.cache
def state_of_code() -> str:
    """Return a digest of the names, sizes and times of Swapstone's files, on which every verdict depends, and of the installed packages."""
    packages = Path(msgspec.__file__).parents[1].stat()
    return _digest([sys.version, file_state(packages), *_entries(Path(__file__).parents[2])])


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256(os.fsencode("\n".join(lines))).hexdigest()


def file_state(found: os.stat_result) -> str:
    """Return a text that changes if a file is replaced or written."""
    return f"{found.st_mode} {found.st_dev} {found.st_ino} {found.st_size} {found.st_ctime_ns}"


def _entries(top: Path) -> list[str]:
    """Return a line on each file and folder below a folder, without what Python compiled.

    Raises:
        OSError: a folder can't be listed, or there are too many entries.
    """
    found, folders = [], [os.fspath(top)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name == "__pycache__":
                    continue
                found.append(f"{entry.path!r} {file_state(entry.stat(follow_symlinks=False))}")
                if entry.name != RAW and entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                if len(found) > MOST_ENTRIES:
                    raise OSError(errno.EFBIG, "too many entries")
    return sorted(found)


def _place(record: Path, kind: str) -> Path:
    """Return the path of a file.

    Raises:
        RuntimeError: the user has no home folder, and so no cache folder.
    """
    return cache_dir() / "derived" / f"{hashlib.sha256(os.fsencode(record.absolute())).hexdigest()[:32]}.{kind}"


@functools.cache
def remove_oldest(folder: Path) -> None:
    """Remove the oldest files of a folder beyond `FOLDER_BYTES`, and what a crash left."""
    with os.scandir(folder) as entries:
        found = [
            (status.st_mtime_ns, status.st_size, entry.path)
            for entry in entries
            if (status := entry.stat(follow_symlinks=False))
        ]
    total = 0
    for _, size, path in sorted(found, reverse=True):
        total += size
        if total > FOLDER_BYTES:
            Path(path).unlink(missing_ok=True)
