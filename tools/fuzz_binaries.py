# SPDX-License-Identifier: MIT OR Apache-2.0
"""Valid binary inputs that have no encoder in the program: ELF files and boot images of kernels."""

from __future__ import annotations

import gzip
import lzma
import struct
from typing import NamedTuple


class _Section(NamedTuple):
    name: str
    kind: int
    content: bytes
    flags: int = 0
    link: str = ""
    info: int = 0
    entry: int = 0
    size: int = 0


def _strings(*texts: str) -> tuple[bytes, dict[str, int]]:
    data, places = b"\0", {"": 0}
    for text in texts:
        places[text] = len(data)
        data += text.encode() + b"\0"
    return data, places


def _note(order: str, name: bytes, kind: int, content: bytes) -> bytes:
    return struct.pack(order + "III", len(name), len(content), kind) + name + content + bytes(-len(content) % 4)


def _symbol(order: str, wide: bool, name: int, kind: int, address: int) -> bytes:
    section, size = 7, 16
    if wide:
        return struct.pack(order + "IBBHQQ", name, 16 + kind, 0, section, address, size)
    return struct.pack(order + "IIIBBH", name, address, size, 16 + kind, 0, section)


def elf(*, machine: int = 62, wide: bool = True, little: bool = True) -> bytes:
    """Return a small shared object with every part that the program reads.

    Args:
        machine: ``e_machine``; 62 is x86-64.
        wide: whether it is a 64-bit file.
        little: whether it is little-endian.
    """
    order, word = "<" if little else ">", "Q" if wide else "I"
    dynamic_names, at = _strings("libc.so.6", "libx.so.1", "GLIBC_2.34", "malloc", "__libc_start_main")
    names, place = _strings("main", "malloc", "mi_malloc", "memcpy", "memset.part.0")
    symbols = b"".join(
        _symbol(order, wide, place[name], kind, 0x100 + 16 * number)
        for number, (name, kind) in enumerate(
            (("main", 2), ("malloc", 2), ("mi_malloc", 2), ("memcpy", 10), ("memset.part.0", 2))
        )
    )
    empty = bytes(24 if wide else 16)
    dynamic = ((1, at["libc.so.6"]), (14, at["libx.so.1"]), (0, 0))
    build_id = _note(order, b"GNU\0", 3, bytes(range(20)))
    feature = struct.pack(order + "III", 0xC0000002, 4, 3) + bytes(4 if wide else 0)
    sections = (
        _Section("", 0, b""),
        _Section(".interp", 1, b"/lib64/ld-linux-x86-64.so.2\0", 2),
        _Section(".note.gnu.build-id", 7, build_id, 2),
        _Section(".note.gnu.property", 7, _note(order, b"GNU\0", 5, feature), 2),
        _Section(".dynsym", 11, empty + _symbol(order, wide, at["malloc"], 2, 0x110), 2, ".dynstr", 1, len(empty)),
        _Section(".dynstr", 3, dynamic_names, 2),
        _Section(
            ".gnu.version_r",
            0x6FFFFFFE,
            struct.pack(order + "HHIII", 1, 1, at["libc.so.6"], 16, 0)
            + struct.pack(order + "IHHII", 1, 0, 2, at["GLIBC_2.34"], 0),
            2,
            ".dynstr",
            1,
        ),
        _Section(".text", 1, b"\xf3\x0f\x1e\xfa" + bytes(range(60)), 6),
        _Section(
            ".dynamic",
            6,
            b"".join(struct.pack(order + 2 * word, *pair) for pair in dynamic),
            3,
            ".dynstr",
            0,
            2 * struct.calcsize("=" + word),
        ),
        _Section(".bss", 8, b"", 3, size=64),
        _Section(".comment", 1, b"GCC: (Debian 12.2.0-14) 12.2.0\0clang version 14.0.6\0"),
        _Section(".GCC.command.line", 1, b"GNU C17 -O2\0/usr/bin/clang -O3 \0"),
        _Section(".modinfo", 1, b"name=one\0depends=two,three\0softdep=pre: four\0vermagic=6.1.0 SMP\0"),
        _Section(".symtab", 2, empty + symbols, 0, ".strtab", 1, len(empty)),
        _Section(".strtab", 3, names),
    )
    return _assembled(order, wide, machine, sections)


def _assembled(order: str, wide: bool, machine: int, listed: tuple[_Section, ...]) -> bytes:
    """Put headers, segments and sections together; addresses are offsets in the file."""
    word = "Q" if wide else "I"
    head, program, header = (64, 56, 64) if wide else (52, 32, 40)
    table, places = _strings(*(one.name for one in listed), ".shstrtab")
    sections = (*listed, _Section(".shstrtab", 3, table))
    number = {one.name: index for index, one in enumerate(sections)}
    body, starts = b"", []
    for one in sections:
        body += bytes(-(head + 4 * program + len(body)) % 8)
        starts.append(head + 4 * program + len(body))
        body += one.content
    body += bytes(-len(body) % 8)
    table_at = head + 4 * program + len(body)
    headers = b"".join(
        struct.pack(
            f"{order}II{4 * word}II{2 * word}",
            places[one.name],
            one.kind,
            one.flags,
            start,
            start,
            one.size or len(one.content),
            number[one.link] if one.link else 0,
            one.info,
            8,
            one.entry,
        )
        for one, start in zip(sections, starts, strict=True)
    )
    xen = number[".note.gnu.build-id"]
    segments = (
        (1, 0, table_at),
        (3, *_extent(sections, starts, number[".interp"])),
        (2, *_extent(sections, starts, number[".dynamic"])),
        (4, *_extent(sections, starts, xen)),
    )
    found = b"".join(
        struct.pack(order + "IIQQQQQQ", kind, 5, at, at, at, size, size, 8)
        if wide
        else struct.pack(order + "IIIIIIII", kind, at, at, at, size, size, 5, 8)
        for kind, at, size in segments
    )
    ident = b"\x7fELF" + bytes((2 if wide else 1, 1 if order == "<" else 2, 1)) + bytes(9)
    fields = (3, machine, 1, starts[number[".text"]], head, table_at, 0, head, program, 4, header)
    return (
        ident
        + struct.pack(f"{order}HHI{3 * word}IHHHHHH", *fields, len(sections), len(sections) - 1)
        + found
        + body
        + headers
    )


def _extent(sections: tuple[_Section, ...], starts: list[int], number: int) -> tuple[int, int]:
    return starts[number], len(sections[number].content)


_BANNER = b"Linux version 6.1.0-test (user@host) #1 SMP\n\0"


def kernels() -> tuple[bytes, ...]:
    """Return boot images of several forms: x86-64 as bzImage and as ELF file, arm64 plain and gzipped."""
    note = _note("<", b"Xen\0", 18, bytes(8))
    plain = (
        b"\x7fELF\2\1\1"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
        + struct.pack("<IIQQQQQQ", 4, 4, 120, 0, 0, len(note), len(note), 4)
        + note
        + _BANNER
    )
    payload = lzma.compress(plain)
    setup = bytearray(2 * 512)
    setup[0x1F1] = 1
    setup[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", setup, 0x20E, 0x100)
    setup[0x300:0x310] = b"6.1.0-test #1 \0\0"
    struct.pack_into("<II", setup, 0x248, 0, len(payload))
    arm = bytes(0x38) + b"ARM\x64" + bytes(100) + _BANNER
    return bytes(setup) + payload, plain, arm, gzip.compress(arm)
