# SPDX-License-Identifier: MIT OR Apache-2.0
"""A file with the columns of a record's runs, derived from `runs.jsonl` and made again where it is missing, damaged or out of date.

It lies in the cache folder. Deleting it loses nothing. Its content is an HMAC-SHA256 (RFC 2104) by the user's key
(`swapstone.core.record.origin`), so a file of another user, a damaged or an edited one is ignored. Layout:

    8 bytes      `MAGIC`
    8 bytes      length of the header, little-endian
    header       JSON: what the file was made from, texts, and where each column is
    columns      64-bit numbers in this machine's byte order, each from a multiple of 64 bytes on; none of a column with one value
    32 bytes     HMAC of all before
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import math
import mmap
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from swapstone.core.comparison.run_table import STATUSES, Output, Place
from swapstone.core.model import FrozenStruct
from swapstone.core.model.bounds import MOST_BLOCKS, Name, NonNegative, Text
from swapstone.core.record import Damage
from swapstone.core.record.origin import KeyUnavailableError, own_key

MAGIC = b"swapcol1"
MOST_HEADER_BYTES = 64 << 20
MOST_ROWS = 100_000_000
MOST_BYTES = 64 << 30

FOLDER_BYTES = 4 << 30
"""When a file is written, the oldest ones are removed until the others have at most this size."""

Column: TypeAlias = "NDArray[Any]"
"""Of 64-bit integers or floating-point numbers."""
_TYPES = {"i": np.dtype(np.int64), "f": np.dtype(np.float64)}
_ALIGNMENT, _MAC_BYTES, _PART = 64, 32, 1 << 20
_DOMAIN = b"swapstone columns\n"


class ColumnPlace(FrozenStruct, frozen=True, kw_only=True):
    """Where a column is.

    Attributes:
        name: of the column.
        type: ``i`` for integers, ``f`` for floating-point numbers.
        offset: in the file, in bytes; 0 if all rows have the value `constant`.
        constant: that value; None for NaN, and for other columns.
    """

    name: Name
    type: str
    offset: NonNegative
    constant: float | None = None


class Header(FrozenStruct, frozen=True, kw_only=True):
    """What a file holds besides its columns.

    Attributes:
        state: of the record and of the code that read it: a file of another state is not used.
        rows: length of each column.
        chain, whole, damages: of `swapstone.core.record.run_lines.RunLines`, which was complete.
        places, reasons, outputs, left: of `swapstone.core.comparison.run_table.RunTable`.
        columns: the columns.
    """

    state: str
    rows: NonNegative
    chain: Name
    whole: NonNegative
    damages: tuple[Damage, ...]
    places: tuple[Place, ...]
    reasons: tuple[Text, ...]
    outputs: tuple[Output, ...]
    left: tuple[tuple[Text, ...], ...]
    columns: tuple[ColumnPlace, ...] = ()


def write(path: Path, header: Header, columns: dict[str, Column]) -> None:
    """Write a file, if that is possible: without space, a key or a folder nothing is kept.

    Args:
        path: of the file.
        header: without `columns`.
        columns: each of shape (rows,).
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        key = own_key()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_oldest(path.parent)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                _write(file, key, header, columns)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except (OSError, KeyUnavailableError):
        return


def read(path: Path, state: str) -> tuple[Header, dict[str, Column]] | None:
    """Return the content of a file; its columns are mapped into memory, read-only.

    Returns:
        None if there is no file, it is not of that state, or it is damaged or not this user's.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            mine = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
            if not mine or not len(MAGIC) + 8 + _MAC_BYTES <= found.st_size <= MOST_BYTES:
                return None
            if not _is_whole(file, found.st_size):
                return None
            file.seek(0)
            header = _header(file, found.st_size)
            if header is None or header.state != state:
                return None
            columns = _columns(file, found.st_size, header)
            return None if columns is None or not _in_bounds(header, columns) else (header, columns)
    except (OSError, ValueError, OverflowError):
        return None


def _write(file: BinaryIO, key: bytes, header: Header, columns: dict[str, Column]) -> None:
    places, stored = _placed(columns, 0)
    size = len(MAGIC) + 8 + len(msgspec.json.encode(msgspec.structs.replace(header, columns=places)))
    # The offsets become longer by the start of the columns, and the header with them.
    start = -(-(size + 24 * len(columns)) // _ALIGNMENT) * _ALIGNMENT
    places, _ = _placed(columns, start)
    encoded = msgspec.json.encode(msgspec.structs.replace(header, columns=places))
    if len(encoded) > MOST_HEADER_BYTES:
        raise OSError("the texts are too long to be kept")
    mac = hmac.new(key, _DOMAIN, hashlib.sha256)

    def put(data: bytes) -> None:
        file.write(data)
        mac.update(data)

    head = MAGIC + len(encoded).to_bytes(8, "little") + encoded
    put(head + bytes(start - len(head)))
    for name in stored:
        data = columns[name].tobytes()
        put(data + bytes(-len(data) % _ALIGNMENT))
    file.write(mac.digest())


def _placed(columns: dict[str, Column], start: int) -> tuple[tuple[ColumnPlace, ...], list[str]]:
    """Return where each column is, and the names of those that are stored."""
    places, stored, offset = [], [], start
    for name, column in columns.items():
        kind = "i" if column.dtype == np.int64 else "f"
        constant = _constant(column)
        if constant is not None:
            known = None if math.isnan(constant) else constant
            places.append(ColumnPlace(name=name, type=kind, offset=0, constant=known))
            continue
        places.append(ColumnPlace(name=name, type=kind, offset=offset))
        stored.append(name)
        offset += -(-column.nbytes // _ALIGNMENT) * _ALIGNMENT
    return tuple(places), stored


def _constant(column: Column) -> float | None:
    """Return the only value of a column, if a header holds it exactly; else None."""
    if not column.size:
        return None
    first = float(column[0])
    if column.dtype == np.float64:
        same = np.isnan(column).all() if math.isnan(first) else (column == first).all()
        return first if same and not (first == 0 and np.signbit(column).any()) else None
    return first if (column == column[0]).all() and int(first) == int(column[0]) else None


def _header(file: BinaryIO, size: int) -> Header | None:
    if file.read(len(MAGIC)) != MAGIC:
        return None
    length = int.from_bytes(file.read(8), "little")
    if length > min(MOST_HEADER_BYTES, size):
        return None
    try:
        header = msgspec.json.decode(file.read(length), type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return header if header.rows <= MOST_ROWS else None


def _is_whole(file: BinaryIO, size: int) -> bool:
    """Return whether the file ends with the HMAC of what precedes it, by the user's key."""
    try:
        mac = hmac.new(own_key(), _DOMAIN, hashlib.sha256)
    except KeyUnavailableError:
        return False
    left = size - _MAC_BYTES
    while left > 0:
        part = file.read(min(left, _PART))
        if not part:
            return False
        mac.update(part)
        left -= len(part)
    return hmac.compare_digest(mac.digest(), file.read(_MAC_BYTES + 1))


def _columns(file: BinaryIO, size: int, header: Header) -> dict[str, Column] | None:
    mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    columns: dict[str, Column] = {}
    for place in header.columns:
        if place.type not in _TYPES:
            return None
        kind = _TYPES[place.type]
        if not header.rows:
            columns[place.name] = np.empty(0, dtype=kind)
        elif place.offset:
            if place.offset % _ALIGNMENT or place.offset + 8 * header.rows > size - _MAC_BYTES:
                return None
            columns[place.name] = np.frombuffer(mapped, dtype=kind, count=header.rows, offset=place.offset)
        else:
            value = math.nan if place.constant is None else place.constant
            if place.type == "i" and not -(2**63) <= value < 2**63:
                return None
            columns[place.name] = np.broadcast_to(np.array(value, dtype=kind), (header.rows,))
    return columns


def _in_bounds(header: Header, columns: dict[str, Column]) -> bool:
    """Return whether every number that is an index, a size or a place has a meaning."""
    limits = {
        "place": len(header.places),
        "status": len(STATUSES),
        "reason": len(header.reasons),
        "output": len(header.outputs),
        "found": len(header.left),
        "block": MOST_BLOCKS + 1,
        "prime": MOST_BLOCKS + 1,
        "start": 2**63 - 1,
        "length": 2**31,
    }
    for name, limit in limits.items():
        column = columns.get(name)
        if column is None or column.dtype != np.int64:
            return False
        if column.size and not (int(column.min()) >= 0 and int(column.max()) < limit):
            return False
    return True


def _remove_oldest(folder: Path) -> None:
    """Remove the oldest files of a folder beyond `FOLDER_BYTES`, and what a crash left."""
    files = sorted(_files(folder), reverse=True)
    total = 0
    for _, size, path in files:
        total += size
        if total > FOLDER_BYTES:
            with contextlib.suppress(OSError):
                path.unlink()


def _files(folder: Path) -> Iterator[tuple[int, int, Path]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                yield found.st_mtime_ns, found.st_size, folder / entry.name


BYTE_ORDER = "little" if np.little_endian else "big"
"""Part of the state of a file."""
