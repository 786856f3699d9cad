# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files that a machine receives after it was saved, so that one saved machine serves every program (native/guest/pool.c).

Before it is saved, the machine has made the files of its pool. QEMU writes contents into their pages, and the first process moves all of
them to their paths, also those that stay empty. Pages behind the end of a file are freed, and as many are allocated. So neither which
files arrive nor how large they are changes how much the kernel has allocated.
"""

from __future__ import annotations

import stat
import struct
from collections.abc import Mapping
from typing import NamedTuple

from swapstone.core.model.cpio import Entry, file, folder, with_parents

FOLDER = "swapstone/pool"
_KIB, _MIB = 1 << 10, 1 << 20


class Pool(NamedTuple):
    """The files that a machine makes before it is saved.

    Attributes:
        sizes: in bytes, ascending; whole MiB together.
        entries: how many files, folders and links it receives in all; a multiple of 8.
        most_ns: how long that may take, in the guest's time: for the largest files, and a page in place of each freed one (3 us).
    """

    sizes: tuple[int, ...]
    entries: int
    most_ns: int


POOLS = tuple(
    Pool(tuple(size for count, size in counted for _ in range(count)), entries, most_ms * 1_000_000)
    for counted, entries, most_ms in (
        (((4, 64 * _KIB), (7, 256 * _KIB), (2, _MIB), (2, 2 * _MIB), (1, 4 * _MIB), (1, 8 * _MIB)), 64, 60),
        (
            (
                *((1280, 16 * _KIB), (512, 64 * _KIB), (112, 256 * _KIB), (16, _MIB)),
                *((8, 4 * _MIB), (5, 16 * _MIB), (1, 32 * _MIB), (1, 160 * _MIB)),
            ),
            *(3072, 700),
        ),
    )
)
"""Of 20 and 400 MiB. A machine has the smallest that has room for each program of its experiment."""

_PAGE_BYTES = 4096
_HEADER = struct.Struct("<16sq")
_TEXT_BYTES = 496
_ENTRY = struct.Struct(f"<qII{_TEXT_BYTES}s")
_MAGIC = b"swapstone-pool 2"
_EMPTY = file(b"")


def pool_files(pool: Pool, memory_bytes: int) -> dict[str, Entry]:
    """Return the entries of an image that make its machine have a pool.

    Args:
        pool: its files.
        memory_bytes: of the machine without it; the file system may have half of that beside the pool.
    """
    numbers = (pool.entries, sum(pool.sizes) + memory_bytes // 2, *pool.sizes)
    return {FOLDER: folder(), f"{FOLDER}/sizes": file(b"".join(b"%d\n" % number for number in numbers))}


def encode_pool(pool: Pool, entries: Mapping[str, Entry]) -> bytes | None:
    """Return what a machine receives, always as many entries; None if its pool has no room for the files.

    Args:
        pool: its files.
        entries: files, folders and links by path, relative to the root.
    """
    every = with_parents(entries)
    files = sorted((-len(every[name].content), name) for name in every if stat.S_ISREG(every[name].mode))
    listed = [(name, every[name]) for name in sorted(every) if not stat.S_ISREG(every[name].mode)]
    unused = pool.entries - len(pool.sizes) - len(listed)
    listed += [(f"{FOLDER}/folder-{number}", folder()) for number in range(unused)]
    places = [(f"{FOLDER}/empty-{at}", _EMPTY) for at in range(len(pool.sizes))]
    free: dict[int, list[int]] = {}
    for at, size in enumerate(pool.sizes):
        free.setdefault(size, []).append(at)
    for negative, name in files:
        room = next((room for room, left in free.items() if left and room >= -negative), None)
        if room is None:
            return None
        places[free[room].pop()] = name, every[name]
    table, contents = [], []
    for name, entry in (*listed, *places):
        kind = stat.S_IFMT(entry.mode)
        text = f"/{name}\0".encode() + (entry.content + b"\0" if kind == stat.S_IFLNK else b"")
        if unused < 0 or len(text) > _TEXT_BYTES or kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
            return None
        content = entry.content if kind == stat.S_IFREG else b""
        table.append(_ENTRY.pack(len(content), entry.mode, entry is _EMPTY, text))
        contents += [content, bytes(-len(content) % _PAGE_BYTES)]
    return b"".join((_HEADER.pack(_MAGIC, pool.most_ns).ljust(_PAGE_BYTES, b"\0"), *table, *contents))
