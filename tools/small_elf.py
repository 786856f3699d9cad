# SPDX-License-Identifier: MIT OR Apache-2.0
"""ELF files of some hundred bytes: what a dynamic loader reads of them, and nothing else.

Those for 32-bit ARM have code, symbols and build attributes, and nothing else.
"""

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


TEXT = 0x10000
CODE, FILE, FUNCTION = 0, 4, 2  # STT_NOTYPE, STT_FILE, STT_FUNC

VADD, VMOV_TO_CORE, BX_LR, NOP = 0xEE777A27, 0xEE173A90, 0xE12FFF1E, 0xE1A00000
"""``vadd.f32 s15, s14, s15``, ``vmov r3, s15``, ``bx lr``, ``nop``."""


def call(place: int, target: int) -> int:
    """Return ``bl`` at the word `place` of the code to the word `target`."""
    return 0xEB000000 | (target - place - 2) & 0xFFFFFF


def attributes(numbers: Sequence[tuple[int, int]], *, vendor: bytes = b"aeabi") -> bytes:
    """Return the section ``.ARM.attributes`` with a processor's name and some pairs (tag, number below 128)."""
    content = b"\x057-A\0" + b"".join(bytes(pair) for pair in numbers)
    scope = b"\x01" + struct.pack("<I", 5 + len(content)) + content
    return b"A" + struct.pack("<I", 4 + len(vendor) + 1 + len(scope)) + vendor + b"\0" + scope


def arm_elf(
    words: Sequence[int] = (),
    numbers: Sequence[tuple[int, int]] = (),
    symbols: Sequence[tuple[str, int, int]] = (),
    *,
    section: bytes | None = None,
) -> bytes:
    """Return a program.

    Args:
        words: its code, at the address `TEXT`.
        numbers: its build attributes.
        symbols: triples (name, kind, word of the code); the place of a file's symbol is ignored.
        section: the build attributes as bytes, in place of `numbers`.
    """
    texts, table = b"\0", bytes(16)
    for name, kind, place in symbols:
        number = 0xFFF1 if kind == FILE else 1
        address = 0 if kind == FILE else TEXT + 4 * place
        table += struct.pack("<IIIBBH", len(texts), address, 0, kind, 0, number)
        texts += name.encode() + b"\0"
    names = b"\0.text\0.ARM.attributes\0.symtab\0.strtab\0.shstrtab\0"
    code = struct.pack(f"<{len(words)}I", *words)
    parts = [code, attributes(numbers) if section is None else section, table, texts, names]
    kinds = [(1, 6, TEXT, 0, 0), (0x70000003, 0, 0, 0, 0), (2, 0, 0, 4, 16), (3, 0, 0, 0, 0), (3, 0, 0, 0, 0)]
    labels = [b".text", b".ARM.attributes", b".symtab", b".strtab", b".shstrtab"]
    at, headers = 52, [bytes(40)]
    for part, (kind, flags, address, link, entry), label in zip(parts, kinds, labels, strict=True):
        place = names.index(b"\0" + label + b"\0") + 1
        headers.append(struct.pack("<10I", place, kind, flags, address, at, len(part), link, 1, 4, entry))
        at += len(part)
    head = b"\x7fELF\x01\x01\x01" + bytes(9)
    head += struct.pack(
        "<HHIIIIIHHHHHH", 2, 40, 1, TEXT, 0, at, 0x5000400, 52, 32, 0, 40, len(headers), len(headers) - 1
    )
    return head + b"".join(parts) + b"".join(headers)


def float_elf(level: str, words: Sequence[int], *helpers: str) -> bytes:
    """Return a program of a level of the factor ``float``.

    Args:
        level: ``soft``, ``softfp`` or ``hard``.
        words: the code of its own source file; words after ``bx lr`` are libgcc's.
        helpers: names of libgcc's functions that begin there.
    """
    numbers = {"soft": (), "softfp": ((10, 4),), "hard": ((10, 4), (28, 1))}[level]
    end = list(words).index(BX_LR) + 1
    symbols = [
        ("prog.c", FILE, 0),
        ("$a", CODE, 0),
        ("main", FUNCTION, 0),
        ("_arm_addsubsf3.o", FILE, 0),
        ("$a", CODE, end),
    ]
    return arm_elf(words, numbers, [*symbols, *((name, FUNCTION, end) for name in helpers)])
