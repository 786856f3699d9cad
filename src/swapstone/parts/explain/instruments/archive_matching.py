# SPDX-License-Identifier: MIT OR Apache-2.0
"""Find the functions of a stripped shared library by the code in its static archive.

A distribution strips the shared library, but not the archive, whose objects still have symbols of static functions. If both
were compiled with the same options (as Debian's musl is), an object's code occurs in the library, except for relocated bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from swapstone.core.factors.elf_file import DamagedElfError, ElfSymbol, content_of, open_elf, symbols_of
from swapstone.core.model import UserError

_MAGIC = b"!<arch>\n"
_HEADER = 60
_EXECUTABLE = 4  # SHF_EXECINSTR
_FILLED = 4  # bytes that a relocation of code changes; the maximum on the supported processors
_FUNCTION = 2  # STT_FUNC
_SHORTEST = 8  # consecutive unrelocated bytes that a match needs


def digest_of(*paths: Path) -> str:
    """Return a digest of the files' contents and of the version of this method."""
    digest = hashlib.sha256(b"swapstone-archive 1")
    for path in paths:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]


def members(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each member of an archive (ar's common format, GNU's long names).

    Raises:
        UserError: a member's header is damaged.
    """
    if not data.startswith(_MAGIC):
        return
    at, names = len(_MAGIC), b""
    while at + _HEADER <= len(data):
        name, size = data[at : at + 16].strip(), _number(data[at + 48 : at + 58])
        content = data[at + _HEADER : at + _HEADER + size]
        at += _HEADER + size + (size & 1)
        if name == b"//":
            names = content
        elif name not in {b"/", b"/SYM64/"}:
            if name.startswith(b"/"):
                name, slash, _ = names[_number(name[1:]) :].partition(b"/")
                if not slash:
                    raise UserError("An archive is damaged: it lacks the name of a member.")
            yield name.decode(errors="replace").rstrip("/"), content


def _number(field: bytes) -> int:
    """Return a decimal number of a member's header, which is padded with blanks."""
    digits = field.strip()
    if not digits.isdigit():
        raise UserError(f"An archive is damaged: {field[:20]!r} is no number.")
    return int(digits)


def matches(library: Path, companion: Path) -> list[tuple[int, int, str]]:
    """Find the functions of an archive's objects in a library.

    Returns:
        Triples (address, size, name). A section that occurs more than once, or not at all, is left out.

    Raises:
        UserError: the archive is damaged.
        DamagedElfError: the library is damaged.
        OSError: a file can't be read.
    """
    with open_elf(library) as elf:
        text = elf.get_section_by_name(".text")
        if text is None:
            return []
        code, base = content_of(text), int(text["sh_addr"])
    found: list[tuple[int, int, str]] = []
    for _, content in members(companion.read_bytes()):
        with contextlib.suppress(DamagedElfError), open_elf(content) as elf:
            found += _of_object(elf, code, base)
    return sorted(set(found))


def _of_object(elf: ELFFile, code: bytes, base: int) -> list[tuple[int, int, str]]:
    table = elf.get_section_by_name(".symtab")
    if table is None:
        return []
    functions: dict[int, list[ElfSymbol]] = {}
    for one in symbols_of(elf, table, (_FUNCTION,)):
        functions.setdefault(one.section, []).append(one)
    sections = list(elf.iter_sections())
    relocated: dict[int, list[RelocationSection]] = {}
    for section in sections:
        if isinstance(section, RelocationSection):
            relocated.setdefault(section["sh_info"], []).append(section)
    found: list[tuple[int, int, str]] = []
    for number, section in enumerate(sections):
        if section["sh_type"] != "SHT_PROGBITS" or not section["sh_flags"] & _EXECUTABLE:
            continue
        own = content_of(section)
        at = _only_place(own, _filled(relocated.get(number, ()), len(own)), code)
        if at is not None:
            found += [(base + at + one.address, one.size, one.name) for one in functions.get(number, ())]
    return found


def _filled(relocations: Iterable[RelocationSection], length: int) -> list[tuple[int, int]]:
    """Return the ranges of a section that the linker leaves unchanged, by its relocations."""
    holes = sorted(entry["r_offset"] for section in relocations for entry in section.iter_relocations())
    begins = [0, *(hole + _FILLED for hole in holes)]
    return [
        (begin, min(end, length))
        for begin, end in zip(begins, [*holes, length], strict=True)
        if begin < min(end, length)
    ]


def _only_place(own: bytes, kept: list[tuple[int, int]], code: bytes) -> int | None:
    """Return the offset of a section in the library; None unless it occurs exactly once."""
    begin, end = max(kept, key=lambda piece: piece[1] - piece[0], default=(0, 0))
    if end - begin < _SHORTEST:
        return None
    places: list[int] = []
    at = code.find(own[begin:end])
    while at >= 0 and len(places) < 2:
        start = at - begin
        if start >= 0 and all(code[start + one : start + other] == own[one:other] for one, other in kept):
            places.append(start)
        at = code.find(own[begin:end], at + 1)
    return places[0] if len(places) == 1 else None
