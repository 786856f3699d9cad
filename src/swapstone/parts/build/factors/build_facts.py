# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the file of a program or shared object shows of how it was built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from swapstone.core.factors.elf_file import ElfSymbol, content_of, limited, symbols_of
from swapstone.core.factors.factor import PartFacts, ProgramFacts
from swapstone.core.factors.facts import dynamic_texts
from swapstone.parts.build.factors.arm_facts import FloatFacts, float_facts

ALLOCATOR_SYMBOLS = {
    "mimalloc": "mi_malloc",
    "jemalloc": "mallctlbymib",
    "tcmalloc": "tc_malloc",
    "snmalloc": "__malloc_end_pointer",
}
"""A symbol that this allocator defines and no other. File names prove nothing."""

RELEVANT_SYMBOLS: frozenset[str] = frozenset(
    {
        *("malloc", "__libc_setup_tls", "__init_libc", "__libc_start_main", "_rtld_global"),
        *("_int_malloc", "default_malloc"),
        *ALLOCATOR_SYMBOLS.values(),
    }
)
"""Symbols that identify the parts of a program. A factor that needs others adds them here.

``malloc``: the file contains an allocator. ``__libc_setup_tls``: glibc is linked statically. ``__init_libc``: musl is linked statically.
``__libc_start_main``: it is a C library. ``_rtld_global``: it is glibc's loader. ``_int_malloc``: it contains glibc's allocator.
``default_malloc``: an alias of ``malloc`` in musl.
"""

RECORDED = ".GCC.command.line"
"""The section into which gcc and clang record their command lines under ``-frecord-gcc-switches``."""

RECORD = "-frecord-gcc-switches"
"""Makes gcc and clang write their command line to ``.GCC.command.line``. The section is not loaded, so it changes no measurement."""

MARK = ".swapstone.libc"
"""Section of the marked start-up objects. It is not loaded. It shows in a static program which folder's objects were linked."""

ENTRY_BYTES = 32
"""Number of bytes of code at the entry point that are kept."""


class BuildFacts(PartFacts, frozen=True, kw_only=True):
    """What shows how a program or shared object was built.

    Attributes:
        entry: the first bytes of code at its entry, hexadecimal.
        soname: its DT_SONAME; empty if it has none.
        kind: its type, such as ``ET_DYN``.
        bits: its word size, 32 or 64; 0 if unknown.
        versions: the versions of symbols that it needs, such as ``GLIBC_2.34``.
        sections: names of its sections.
        comments: names of compilers in ``.comment``.
        switches: command lines of compilers in ``.GCC.command.line`` (``-frecord-gcc-switches``).
        symbols: the `RELEVANT_SYMBOLS` that it defines, from all its symbol tables.
        exports: those of them that are dynamic symbols, so that other objects can bind to them.
        aliases: those of them with the address of its ``malloc``.
        marks: the texts in the section `MARK`.
        float_abi: of a program for 32-bit ARM, how it does floating-point arithmetic; None for another one.
    """

    entry: str = ""
    soname: str = ""
    kind: str = ""
    bits: int = 0
    versions: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    float_abi: FloatFacts | None = None

    @classmethod
    def read(cls, elf: ELFFile) -> BuildFacts:
        """Read them in an ELF file; see `PartFacts.read`."""
        defined = list(_relevant_ones(elf, "SHT_SYMTAB", "SHT_DYNSYM"))
        return cls(
            entry=_entry(elf),
            soname=next(dynamic_texts(elf, "DT_SONAME", "soname"), ""),
            kind=str(elf["e_type"]),
            bits=elf.elfclass,
            versions=tuple(sorted(set(_versions(elf)))),
            sections=tuple(section.name for section in elf.iter_sections() if section.name),
            comments=_strings(elf, ".comment"),
            switches=_strings(elf, RECORDED),
            symbols=_names(defined),
            exports=_names(one for one in _relevant_ones(elf, "SHT_DYNSYM") if one.is_offered),
            aliases=_aliases(defined),
            marks=_strings(elf, MARK),
            float_abi=float_facts(elf),
        )

    @classmethod
    def pretended(cls, levels: Mapping[str, str], offered: tuple[str, ...]) -> BuildFacts:
        """Return those of a file that the target `fake` pretends; see `PartFacts.pretended`."""
        if offered:
            return cls(symbols=offered, exports=offered)
        libc, compiler = levels.get("libc", "glibc"), levels.get("compiler", "gcc")
        switch = f" -{levels['optimization']} prog.c" if "optimization" in levels else " prog.c"
        allocator = levels.get("allocator", "default")
        served = _PRETENDED_MALLOC[libc] if allocator == "default" else ("malloc", ALLOCATOR_SYMBOLS[allocator])
        return cls(
            comments=("GCC: (fake) 12", "fake clang version 14") if compiler == "clang" else ("GCC: (fake) 12",),
            switches=({"gcc": "GNU C17 12", "clang": "/usr/bin/clang"}[compiler] + switch,),
            symbols=(*_PRETENDED_LIBC[libc], *served) if levels.get("linking") == "static" else (),
            float_abi=_PRETENDED_FLOAT.get(levels.get("float", "")),
        )


_PRETENDED_LIBC = {
    "glibc": ("__libc_setup_tls", "__libc_start_main"),
    "musl": ("__init_libc", "__libc_start_main"),
}
_PRETENDED_MALLOC = {"glibc": ("_int_malloc", "malloc"), "musl": ("default_malloc", "malloc")}
_PRETENDED_FLOAT = {
    "soft": FloatFacts(registers=0, instructions=0),
    "softfp": FloatFacts(registers=0, instructions=4),
    "hard": FloatFacts(registers=1, instructions=4),
}


def _entry(elf: ELFFile) -> str:
    """Return the code at the entry point, hexadecimal; empty if no segment contains it."""
    at = elf["e_entry"]
    for segment in elf.iter_segments("PT_LOAD"):
        offset = at - segment["p_vaddr"]
        if at and 0 <= offset < segment["p_filesz"]:
            elf.stream.seek(segment["p_offset"] + offset)
            return elf.stream.read(min(ENTRY_BYTES, segment["p_filesz"] - offset)).hex()
    return ""


def _strings(elf: ELFFile, section: str) -> tuple[str, ...]:
    """Return the zero-ended texts of a section."""
    texts = content_of(elf.get_section_by_name(section)).split(b"\0")
    return tuple(text.decode(errors="backslashreplace") for text in texts if text)


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


def _names(symbols: Iterable[ElfSymbol]) -> tuple[str, ...]:
    return tuple(sorted({symbol.name for symbol in symbols}))


def _aliases(defined: Sequence[ElfSymbol]) -> tuple[str, ...]:
    """Return the relevant symbols with the same address as ``malloc``."""
    places = {(one.section, one.address) for one in defined if one.name == "malloc"}
    return _names(one for one in defined if (one.section, one.address) in places and one.name != "malloc")


def with_recording(cflags: tuple[str, ...]) -> tuple[str, ...]:
    """Return compiler flags with `RECORD`."""
    return cflags if RECORD in cflags else (*cflags, RECORD)


def recorded(program: ProgramFacts) -> tuple[tuple[str, str], ...]:
    """Return the pairs (compiler, command line) that a program records, without duplicates.

    gcc before version 11 records each word as a line of its own; those are ignored.
    """
    found = ((_compiler_of(line), line) for line in program.of(BuildFacts).switches)
    return tuple((name, line) for name, line in found if name)


def _compiler_of(line: str) -> str:
    """Return the compiler that records such a command line; empty for another line."""
    if line.startswith("GNU "):
        return "gcc"
    first, blank, _ = line.partition(" ")
    return "clang" if blank and "clang" in first and not any(map(str.isspace, first)) else ""
