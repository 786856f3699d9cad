# SPDX-License-Identifier: MIT OR Apache-2.0
"""glibc's list of shared objects, /etc/ld.so.cache: read that of this machine, and write one for another root.

The format is that of glibc since 2.2, ``glibc-ld.so.cache1.1`` (sysdeps/generic/dl-cache.h of glibc). Entries for certain processors
(``hwcap``) are left out: which of them a loader chooses depends on the processor.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from swapstone.core.model import FrozenStruct

CACHE_PATH = "/etc/ld.so.cache"

_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = struct.Struct("<20sIIB3xI12x")  # magic, entries, bytes of texts, flags, offset of extensions
_ENTRY = struct.Struct("<iIIIQ")  # flags, name, path, version of the system, hwcap
_LITTLE_ENDIAN = 2
_MOST_BYTES = 64 << 20
_MOST_ENTRIES = 1 << 18
_MOST_TEXT_BYTES = 4096


class CachedObject(FrozenStruct, frozen=True, kw_only=True):
    """An entry: a soname, the path of its file, and the kind of object, which a loader compares with its own."""

    name: str
    path: str
    flags: int


def read_cache(path: Path = Path(CACHE_PATH)) -> dict[str, tuple[CachedObject, ...]]:
    """Read a cache.

    Returns:
        The entries by name, in the order of the file; empty if there is no cache, or it is damaged or of another format. A loader ignores
        such a file too.
    """
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return {}
        content = path.read_bytes()
    except OSError:
        return {}
    return decode_cache(content)


def decode_cache(content: bytes) -> dict[str, tuple[CachedObject, ...]]:
    """Decode a cache; see `read_cache`."""
    start = content.find(_MAGIC)  # the format of glibc before 2.2 may come first
    if start < 0 or len(content) < start + _HEADER.size:
        return {}
    content = content[start:]
    _, count, _, _, _ = _HEADER.unpack_from(content)
    if count > _MOST_ENTRIES or _HEADER.size + count * _ENTRY.size > len(content):
        return {}
    found: dict[str, list[CachedObject]] = {}
    for number in range(count):
        flags, name_at, path_at, _, hwcap = _ENTRY.unpack_from(content, _HEADER.size + number * _ENTRY.size)
        name, where = _text(content, name_at), _text(content, path_at)
        if name and where and not hwcap:
            found.setdefault(name, []).append(CachedObject(name=name, path=where, flags=flags))
    return {name: tuple(entries) for name, entries in found.items()}


def encode_cache(entries: Iterable[CachedObject]) -> bytes:
    """Write a cache with these entries. Equal entries give equal bytes."""
    by_key: Mapping[tuple[str, str], CachedObject] = {(each.name, each.path): each for each in entries}
    ordered = sorted(by_key.values(), key=lambda each: (_order(each.name), each.path), reverse=True)
    texts, at = b"", _HEADER.size + len(ordered) * _ENTRY.size
    table = b""
    for each in ordered:
        name, path = (text.encode(errors="surrogateescape") + b"\0" for text in (each.name, each.path))
        table += _ENTRY.pack(each.flags, at + len(texts), at + len(texts) + len(name), 0, 0)
        texts += name + path
    return _HEADER.pack(_MAGIC, len(ordered), len(texts), _LITTLE_ENDIAN, 0) + table + texts


def _text(content: bytes, at: int) -> str:
    end = content.find(b"\0", at, at + _MOST_TEXT_BYTES)
    return content[at:end].decode(errors="surrogateescape") if 0 <= at < end else ""


def _order(name: str) -> list[tuple[bool, int]]:
    """Return the key of a name in the order of _dl_cache_libcmp, by which a loader searches: numbers by value, above other characters."""
    return [(bool(number), int(number or ord(other))) for number, other in re.findall(r"([0-9]+)|([^0-9])", name)]
