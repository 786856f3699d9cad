# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads the facts in the ELF file of a program or shared object that show how it was built."""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import NoteSection
from elftools.elf.segments import InterpSegment

from swapstone.core.factors.arm_facts import float_facts
from swapstone.core.factors.elf_file import DamagedElfError, ElfSymbol, content_of, limited, open_elf, symbols_of
from swapstone.core.factors.factor import ProgramFacts

RELEVANT_SYMBOLS: frozenset[str] = frozenset(
    {
        *("malloc", "__libc_setup_tls", "__init_libc", "__libc_start_main", "_rtld_global"),
        *("_int_malloc", "default_malloc"),
        *("mi_malloc", "mallctlbymib", "tc_malloc", "__malloc_end_pointer"),
    }
)
"""Symbols that identify the parts of a program. A factor that needs others adds them here.

``malloc``: the file contains an allocator. ``__libc_setup_tls``: glibc is linked statically. ``__init_libc``: musl is linked statically.
``__libc_start_main``: it is a C library. ``_rtld_global``: it is glibc's loader. ``_int_malloc``: it contains glibc's allocator.
``default_malloc``: an alias of ``malloc`` in musl. The others are each defined by one of mimalloc, jemalloc, tcmalloc and snmalloc only.
"""

RECORDED = ".GCC.command.line"
"""The section into which gcc and clang record their command lines under ``-frecord-gcc-switches``."""

ENTRY_BYTES = 32
"""Number of bytes of code at the entry point that are kept."""

_LOCAL = 0  # STB_LOCAL
_EXPORTED = (0, 3)  # STV_DEFAULT, STV_PROTECTED


def read_facts(path: Path | str) -> ProgramFacts | None:
    """Read a program's file.

    Args:
        path: of any file.

    Returns:
        Its facts, or None if it does not exist, is no ELF file, or is a damaged one.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - of each object in each trial, in a fifth of the time of pathlib
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return _read(str(path), status.st_mtime_ns, status.st_size)


@functools.cache
def _read(path: str, _mtime_ns: int, _size: int) -> ProgramFacts | None:
    return _facts_in(Path(path), path)


@functools.cache
def facts_of(content: bytes, path: str) -> ProgramFacts | None:
    """Read the content of a program's file; as `read_facts`.

    Args:
        content: of any file.
        path: for the facts.
    """
    return _facts_in(content, path)


def _facts_in(file: Path | bytes, path: str) -> ProgramFacts | None:
    with contextlib.suppress(OSError, DamagedElfError), open_elf(file) as elf:
        defined = list(_relevant_ones(elf, "SHT_SYMTAB", "SHT_DYNSYM"))
        return ProgramFacts(
            path=path,
            machine=str(elf["e_machine"]),
            entry=_entry(elf),
            interp=next(
                (segment.get_interp_name() for segment in elf.iter_segments() if isinstance(segment, InterpSegment)),
                None,
            ),
            needed=tuple(_dynamic(elf, "DT_NEEDED", "needed")),
            soname=next(_dynamic(elf, "DT_SONAME", "soname"), ""),
            kind=str(elf["e_type"]),
            bits=elf.elfclass,
            versions=tuple(sorted(set(_versions(elf)))),
            sections=tuple(section.name for section in elf.iter_sections() if section.name),
            comments=_strings(elf, ".comment"),
            switches=_strings(elf, RECORDED),
            symbols=_names(defined),
            exports=_names(one for one in _relevant_ones(elf, "SHT_DYNSYM") if _is_offered(one)),
            aliases=_aliases(defined),
            build_id=next((str(build_id) for build_id in _notes(elf, "NT_GNU_BUILD_ID")), ""),
            properties=tuple(_properties(elf)),
            marks=_strings(elf, ".swapstone.libc"),
            float_abi=float_facts(elf),
        )
    return None


def _entry(elf: ELFFile) -> str:
    """Return the code at the entry point, hexadecimal; empty if no segment contains it."""
    at = elf["e_entry"]
    for segment in elf.iter_segments("PT_LOAD"):
        offset = at - segment["p_vaddr"]
        if at and 0 <= offset < segment["p_filesz"]:
            elf.stream.seek(segment["p_offset"] + offset)
            return elf.stream.read(min(ENTRY_BYTES, segment["p_filesz"] - offset)).hex()
    return ""


def _notes(elf: ELFFile, kind: str) -> list[Any]:
    """Return the descriptors of a file's notes of one kind; none if the notes are malformed.

    Source: ELF specification, note section; ``.note.gnu.*`` of the Linux Standard Base and the x86-64 psABI.
    """
    with contextlib.suppress(ELFError, ValueError, KeyError, TypeError, AttributeError, ConstructError):
        sections = [section for section in elf.iter_sections() if isinstance(section, NoteSection)]
        return [note["n_desc"] for section in sections for note in section.iter_notes() if note["n_type"] == kind]
    return []


def _properties(elf: ELFFile) -> Iterator[str]:
    """Yield each property as ``TYPE=VALUE``, e.g. ``GNU_PROPERTY_X86_FEATURE_1_AND=3`` for IBT and SHSTK."""
    for properties in _notes(elf, "NT_GNU_PROPERTY_TYPE_0"):
        if isinstance(properties, list):
            yield from (f"{each.get('pr_type')}={each.get('pr_data')}" for each in properties)


def _strings(elf: ELFFile, section: str) -> tuple[str, ...]:
    """Return the zero-ended texts of a section."""
    texts = content_of(elf.get_section_by_name(section)).split(b"\0")
    return tuple(text.decode(errors="backslashreplace") for text in texts if text)


def _dynamic(elf: ELFFile, tag: str, attribute: str) -> Iterator[str]:
    """Yield the texts of one kind of a file's dynamic entries."""
    for section in elf.iter_sections():
        if isinstance(section, DynamicSection):
            yield from (str(getattr(entry, attribute)) for entry in limited(section.iter_tags(tag)))


def _versions(elf: ELFFile) -> Iterator[str]:
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            needed = (auxiliary for _, needs in limited(section.iter_versions()) for auxiliary in limited(needs))
            yield from (str(auxiliary.name) for auxiliary in limited(needed))


def _relevant_ones(elf: ELFFile, *kinds: str) -> Iterator[ElfSymbol]:
    """Yield the relevant symbols that a file defines, of the symbol tables of some types."""
    for section in elf.iter_sections():
        if section["sh_type"] in kinds:
            yield from (one for one in symbols_of(elf, section) if one.section and one.name in RELEVANT_SYMBOLS)


def _is_offered(symbol: ElfSymbol) -> bool:
    return symbol.binding != _LOCAL and symbol.visibility in _EXPORTED


def _names(symbols: Iterable[ElfSymbol]) -> tuple[str, ...]:
    return tuple(sorted({symbol.name for symbol in symbols}))


def _aliases(defined: Sequence[ElfSymbol]) -> tuple[str, ...]:
    """Return the relevant symbols with the same address as ``malloc``."""
    places = {(one.section, one.address) for one in defined if one.name == "malloc"}
    return _names(one for one in defined if (one.section, one.address) in places and one.name != "malloc")
