# SPDX-License-Identifier: MIT OR Apache-2.0
"""How a program for 32-bit ARM does floating-point arithmetic: its build attributes, and what the code of its own source files contains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from elftools.elf.elffile import ELFFile

from swapstone.core.factors.arm_code import (
    ARITHMETIC,
    FLOAT_HELPERS,
    branch_target,
    helper_addresses,
    kind_of,
    words_of,
)
from swapstone.core.factors.elf_file import ElfSymbol, content_of, symbols_of
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
