# SPDX-License-Identifier: MIT OR Apache-2.0
"""ELF files with many symbols, as large programs have them."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np

FIRST = 0x1000
"""Address of the first function."""

SIZE = 16
"""Bytes of code that each function has."""

_ENTRY = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("at", "<u8"), ("size", "<u8")]
)
_FUNCTION = 0x12  # STB_GLOBAL, STT_FUNC
_SECTIONS = ("", ".text", ".symtab", ".strtab", ".shstrtab")


def name_of(number: int) -> str:
    """Return the name of a function: 40 characters, as of a mangled name."""
    return f"_ZN5large9generated10function{number:010d}E"


def elf_with_functions(count: int) -> bytes:
    """Return an x86-64 file with functions of `SIZE` bytes from `FIRST` on, the last one first in its symbol table."""
    names = b"\0" + b"".join(name_of(number).encode() + b"\0" for number in range(count))
    long = len(name_of(0)) + 1
    return elf_with_names(names, (1 + long * number for number in reversed(range(count))), count)


def elf_with_names(names: bytes, places: Iterable[int], count: int) -> bytes:
    """Return a file with functions in descending order of addresses.

    Args:
        names: the table of their names.
        places: offset of each name in this table.
        count: number of functions.
    """
    symbols = np.zeros(count + 1, dtype=_ENTRY)
    symbols["name"][1:] = np.fromiter(places, dtype=np.uint32, count=count)
    symbols["info"][1:], symbols["section"][1:], symbols["size"][1:] = _FUNCTION, 1, SIZE
    symbols["at"][1:] = FIRST + SIZE * np.arange(count)[::-1]
    headings, titles = b"", []
    for section in _SECTIONS:
        titles.append(len(headings))
        headings += section.encode() + b"\0"
    contents = (b"", b"\xc3" * SIZE, symbols.tobytes(), names, headings)
    described = ((0, 0, 0, 0), (1, 6, 0, 0), (2, 0, 3, _ENTRY.itemsize), (3, 0, 0, 0), (3, 0, 0, 0))
    headers, at = b"", 64
    for title, content, (kind, flags, link, entry) in zip(titles, contents, described, strict=True):
        where = (FIRST if kind == 1 else 0, at) if kind else (0, 0)
        headers += struct.pack("<IIQQQQIIQQ", title, kind, flags, *where, len(content), link, 0, 1, entry)
        at += len(content)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, at, 0, 64, 0, 0, 64, len(_SECTIONS), len(_SECTIONS) - 1)
    return head + b"".join(contents) + headers
