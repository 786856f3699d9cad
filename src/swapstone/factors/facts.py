"""Reading what the file of a program or of a shared object says of how it was made."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from elftools.elf.segments import InterpSegment

from swapstone.factors.base import ProgramFacts

TELLING_SYMBOLS: frozenset[str] = frozenset({"malloc", "__libc_setup_tls", "__init_libc"})
"""Names of symbols that tell what a program is made of; a factor that needs more adds them here.

``malloc``: it brings an allocator. ``__libc_setup_tls``: glibc is linked into it. ``__init_libc``: musl is.
"""

RECORDED = ".GCC.command.line"
"""The section into which gcc and clang record their command lines under ``-frecord-gcc-switches``."""

ENTRY_BYTES = 32
"""How much of the code at a program's entry is kept."""


def read_facts(path: Path) -> ProgramFacts | None:
    """Read a program's file.

    Args:
        path: of any file.

    Returns:
        What it says, or None when it isn't there or is no ELF file.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return _read(path, status.st_mtime_ns, status.st_size)


@functools.cache
def _read(path: Path, _mtime_ns: int, _size: int) -> ProgramFacts | None:
    with contextlib.suppress(OSError, ELFError, ValueError, KeyError), path.open("rb") as handle:
        elf = ELFFile(handle)
        return ProgramFacts(
            path=str(path),
            machine=str(elf["e_machine"]),
            entry=_entry(elf),
            interp=next(
                (segment.get_interp_name() for segment in elf.iter_segments() if isinstance(segment, InterpSegment)),
                None,
            ),
            needed=tuple(_needed(elf)),
            sections=tuple(section.name for section in elf.iter_sections() if section.name),
            comments=_strings(elf, ".comment"),
            switches=_strings(elf, RECORDED),
            symbols=tuple(sorted(TELLING_SYMBOLS.intersection(_symbols(elf)))),
        )
    return None


def _entry(elf: ELFFile) -> str:
    """Return the code at a program's entry, hexadecimal; empty where nothing lies there."""
    at = elf["e_entry"]
    for segment in elf.iter_segments("PT_LOAD"):
        offset = at - segment["p_vaddr"]
        if at and 0 <= offset < segment["p_filesz"]:
            return bytes(segment.data()[offset : offset + ENTRY_BYTES]).hex()
    return ""


def _strings(elf: ELFFile, section: str) -> tuple[str, ...]:
    """Return the zero-ended texts of a section."""
    found = elf.get_section_by_name(section)
    texts = found.data().split(b"\0") if found is not None else []
    return tuple(text.decode(errors="backslashreplace") for text in texts if text)


def _needed(elf: ELFFile) -> Iterator[str]:
    for section in elf.iter_sections():
        if isinstance(section, DynamicSection):
            yield from (str(tag.needed) for tag in section.iter_tags("DT_NEEDED"))  # type: ignore[attr-defined] # made by the tag's kind


def _symbols(elf: ELFFile) -> Iterator[str]:
    """Yield the names of all symbols that are defined in a file."""
    for section in elf.iter_sections():
        if isinstance(section, SymbolTableSection):
            yield from (symbol.name for symbol in section.iter_symbols() if symbol["st_shndx"] != "SHN_UNDEF")
