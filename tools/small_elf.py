# SPDX-License-Identifier: MIT OR Apache-2.0
"""ELF files of some hundred bytes: what a dynamic loader reads of them, and nothing else."""

from __future__ import annotations

import struct
from collections.abc import Sequence

NEEDED, STRTAB, SONAME, RPATH, RUNPATH = 1, 5, 14, 15, 29
X86_64, AARCH64 = 62, 183

_BASE = 0x1000


def small_elf(
    *,
    loader: str = "",
    needed: Sequence[str] = (),
    soname: str = "",
    rpath: str = "",
    runpath: str = "",
    machine: int = X86_64,
    entries: Sequence[tuple[int, int]] = (),
    texts: bytes | None = None,
) -> bytes:
    """Return a 64-bit little-endian file without sections.

    Args:
        loader: its PT_INTERP; none if empty.
        needed: its DT_NEEDED.
        soname: its DT_SONAME; none if empty, like the next two.
        rpath: its DT_RPATH.
        runpath: its DT_RUNPATH.
        machine: ``e_machine``.
        entries: further pairs (tag, value) of its dynamic entries.
        texts: the table of texts; None for that of the entries.
    """
    table, pairs = b"\0", []
    for tag, words in ((NEEDED, needed), (SONAME, [soname]), (RPATH, [rpath]), (RUNPATH, [runpath])):
        for word in filter(None, words):
            pairs.append((tag, len(table)))
            table += word.encode() + b"\0"
    table = table if texts is None else texts
    interp = loader.encode() + b"\0" if loader else b""
    at = 64 + 3 * 56
    pairs = [*pairs, *entries, (STRTAB, _BASE + at + len(interp))]
    dynamic = b"".join(struct.pack("<qQ", *pair) for pair in pairs) + bytes(16)
    size = at + len(interp) + len(table) + len(dynamic)
    headers = [_header(1, 0, size), _header(2, at + len(interp) + len(table), len(dynamic))]
    headers += [_header(3, at, len(interp))] if loader else []
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, 0, 64, 56, len(headers), 64, 0, 0)
    return head + b"".join(headers).ljust(3 * 56, b"\0") + interp + table + dynamic


def _header(kind: int, offset: int, size: int) -> bytes:
    return struct.pack("<IIQQQQQQ", kind, 4, offset, _BASE + offset, _BASE + offset, size, size, 8)
