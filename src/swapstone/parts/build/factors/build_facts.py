# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the file of a program or shared object shows of how it was built.

How a program for 32-bit ARM does floating-point arithmetic is shown by its build attributes and by the code of its own source files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from swapstone.core.factors.arm_code import (
    ARITHMETIC,
    FLOAT_HELPERS,
    branch_target,
    helper_addresses,
    kind_of,
    words_of,
)
from swapstone.core.factors.elf_file import ElfSymbol, content_of, dynamic_texts, limited, symbols_of
from swapstone.core.factors.factor import PartFacts, ProgramFacts
from swapstone.core.model import FrozenStruct
from swapstone.parts.build.factors import arm_attributes

MOST_CODE_BYTES = 1 << 20
"""Own code is searched if it is shorter; the workloads have some kilobytes."""

_FILE = 4  # STT_FILE
_FIRST_RESERVED = 0xFF00  # SHN_LORESERVE
_CODE = {"$a": False, "$t": True}
_DATA = "$d"
_NOT_OWN = frozenset({"", "crtstuff.c"})


class FloatFacts(FrozenStruct, frozen=True, kw_only=True):
    """How a program for 32-bit ARM does floating-point arithmetic.

    Attributes:
        registers: Tag_ABI_VFP_args of its build attributes: 1 if functions receive floating-point numbers in the registers of the
            floating-point unit.
        instructions: Tag_FP_arch: which floating-point instructions its code may contain; 0 for none.
        arithmetic: number of floating-point sums, products and the like in the code of its own source files; None if that code is unknown,
            as in a stripped file.
        helpers: number of calls there of libgcc's functions that replace them.
    """

    registers: int
    instructions: int
    arithmetic: int | None = None
    helpers: int | None = None


def float_facts(elf: ELFFile) -> FloatFacts | None:
    """Read an ELF file.

    Returns:
        The facts; None of a file for another processor.

    Raises:
        ValueError, ELFError: the file is damaged.
    """
    if elf["e_machine"] != "EM_ARM":
        return None
    data = content_of(elf.get_section_by_name(arm_attributes.SECTION))
    found = arm_attributes.decode_arm_attributes(data, little=elf.little_endian)
    counts = _counts(elf)
    return FloatFacts(
        registers=found.get(arm_attributes.ABI_VFP_ARGS, 0),
        instructions=found.get(arm_attributes.FP_ARCH, 0),
        arithmetic=counts[0] if counts else None,
        helpers=counts[1] if counts else None,
    )


def _counts(elf: ELFFile) -> tuple[int, int] | None:
    """Return the numbers of arithmetic instructions and of calls of helpers in the program's own code; None if it is unknown."""
    symbols = [
        symbol
        for section in elf.iter_sections()
        if section["sh_type"] == "SHT_SYMTAB"
        for symbol in symbols_of(elf, section)
        if symbol.kind == _FILE or symbol.name.startswith("$") or symbol.name in FLOAT_HELPERS
    ]
    ranges = list(_own_ranges(elf, symbols))
    if not ranges or sum(end - start for _, start, end, _ in ranges) > MOST_CODE_BYTES:
        return None
    helpers = helper_addresses(symbols)
    arithmetic = calls = 0
    for number, start, end, thumb in ranges:
        section = elf.get_section(number)
        code = content_of(section)[start - section["sh_addr"] : end - section["sh_addr"]]
        for offset, word in words_of(code, thumb=thumb, little=elf.little_endian):
            arithmetic += kind_of(word, thumb=thumb).split(".")[0] in ARITHMETIC
            calls += branch_target(word, start + offset, thumb=thumb) in helpers
    return arithmetic, calls


def _own_ranges(elf: ELFFile, symbols: Iterable[ElfSymbol]) -> Iterator[tuple[int, int, int, bool]]:
    """Yield the code of the program's own source files: section, start and end in the address space, and whether it is Thumb code.

    Mapping symbols (``$a``, ``$t``, ``$d``) mark where code and data begin. They follow the symbol of their source file. The assembler
    names an object after its source (``prog.c``); the objects in glibc's and libgcc's archives are named ``NAME.o``.
    Source: "ELF for the Arm Architecture", mapping symbols.
    """
    marks: dict[int, dict[int, tuple[str, bool]]] = {}
    own = False
    for symbol in symbols:
        kind = symbol.name.partition(".")[0]
        if symbol.kind == _FILE:
            own = symbol.name not in _NOT_OWN and not symbol.name.endswith(".o")
        elif (kind in _CODE or kind == _DATA) and 0 < symbol.section < _FIRST_RESERVED:
            marks.setdefault(symbol.section, {})[symbol.address] = (kind, own)
    for number, found in marks.items():
        if not any(is_own and kind in _CODE for kind, is_own in found.values()):
            continue
        section = elf.get_section(number)
        first, last = section["sh_addr"], section["sh_addr"] + section["sh_size"]
        places = sorted(address for address in found if first <= address < last)
        for start, end in zip(places, [*places[1:], last], strict=True):
            kind, is_own = found[start]
            if is_own and kind in _CODE:
                yield number, start, end, _CODE[kind]


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
