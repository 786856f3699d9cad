# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which instructions call, return, enable interrupts, wait or read the clock, by their bytes.

Sources: Intel SDM volume 2; Arm Architecture Reference Manual (A-profile), C6.2; The RISC-V Instruction Set Manual, volumes I and II.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
from collections.abc import Callable, Iterable, Iterator

from elftools.elf.elffile import ELFFile

from swapstone.core.factors.arm_code import (
    KINDS,
    VFP_LOAD,
    branch_target,
    helper_addresses,
    is_wide,
    kind_of,
    words_of,
)
from swapstone.core.factors.elf_file import symbols_of
from swapstone.parts.explain.instruments.plugin_file import Block, CodeFile
from swapstone.parts.explain.instruments.symbol_tables import of_elf
from swapstone.parts.explain.model.explanation import PROGRAM, ArmCounts


class Kind(enum.Enum):
    """What an instruction does to the path of execution."""

    OTHER = "other"
    CALL = "call"
    RETURN = "return"
    LEAVE = "return from an exception"
    DISABLE = "disables interrupts"
    ENABLE = "enables interrupts, or may do so"
    WAIT = "waits for an interrupt"
    CLOCK = "reads the clock"


@dataclasses.dataclass(frozen=True)
class Processor:
    """What is known about an architecture.

    Attributes:
        kind: returns the kind of an instruction.
        entries: beginnings of the names of the kernel's functions where exceptions and interrupts begin, at their first instruction.
        tables: the same for functions that contain the beginnings of several.
        vectors: the lowest address of a page of exception vectors, which has no names.
    """

    kind: Callable[[bytes], Kind]
    entries: tuple[str, ...]
    tables: tuple[str, ...]
    vectors: int = 1 << 64


_X86 = {
    b"\xc3": Kind.RETURN,
    b"\xf3\xc3": Kind.RETURN,
    b"\x48\xcf": Kind.LEAVE,
    b"\xfa": Kind.DISABLE,
    b"\xfb": Kind.ENABLE,
    b"\x9d": Kind.ENABLE,
    b"\xf4": Kind.WAIT,
    b"\x0f\x31": Kind.CLOCK,
    b"\x0f\x01\xf9": Kind.CLOCK,
    b"\x0f\x07": Kind.LEAVE,
    b"\x48\x0f\x07": Kind.LEAVE,
}


def _x86(code: bytes) -> Kind:
    if (known := _X86.get(code)) is not None:
        return known
    if code[0] == 0xE8:
        return Kind.CALL
    bare = code[1:] if 0x40 <= code[0] <= 0x4F or code[0] in {0x2E, 0x3E} else code  # REX, or a prefix without effect
    if len(bare) >= 2 and bare[0] == 0xFF and bare[1] >> 3 & 7 == 2:  # FF /2
        return Kind.CALL
    return Kind.RETURN if code[0] == 0xC2 else Kind.OTHER


Row = tuple[int, int, Kind]
"""A mask, the instructions that have this value under it, and their kind. The first row that fits counts."""

_ALL = 0xFFFFFFFF

_ARM64: tuple[Row, ...] = (
    (0xFC000000, 0x94000000, Kind.CALL),  # BL
    (0xFFFFFC1F, 0xD63F0000, Kind.CALL),  # BLR
    (0xFFFFFC1F, 0xD65F0000, Kind.RETURN),  # RET
    (0xFFFFFBFF, 0xD65F0BFF, Kind.RETURN),  # RETAA, RETAB
    (_ALL, 0xD69F03E0, Kind.LEAVE),  # ERET
    (0xFFFFFBFF, 0xD69F0BFF, Kind.LEAVE),  # ERETAA, ERETAB
    (0xFFFFF2FF, 0xD50342DF, Kind.DISABLE),  # MSR DAIFSet, bit I
    (0xFFFFF2FF, 0xD50342FF, Kind.ENABLE),  # MSR DAIFClr, bit I
    (0xFFFFFFE0, 0xD51B4220, Kind.ENABLE),  # MSR DAIF, Xt
    (_ALL, 0xD503207F, Kind.WAIT),  # WFI
    (_ALL, 0xD503205F, Kind.WAIT),  # WFE
    *((0xFFFFFFE0, 0xD53BE000 | number << 5, Kind.CLOCK) for number in (1, 2, 5, 6)),  # MRS of CNT{P,V}CT{,SS}_EL0
)

_ARM: tuple[Row, ...] = (  # of the set A32, of which the kernel is built
    (0x0F000000, 0x0B000000, Kind.CALL),  # BL
    (0x0FFFFFF0, 0x012FFF30, Kind.CALL),  # BLX
    (0x0E508000, 0x08508000, Kind.LEAVE),  # LDM with PC, of another mode's registers
    (_ALL, 0xE12FFF1E, Kind.RETURN),  # BX LR; a conditional return is found by its address
    (0xFE508000, 0xE8108000, Kind.RETURN),  # LDM with PC
    (0xFFFFFE80, 0xF10C0080, Kind.DISABLE),  # CPSID I
    (0xFFFFFE80, 0xF1080080, Kind.ENABLE),  # CPSIE I
    (0x0FFFFFF0, 0x0121F000, Kind.ENABLE),  # MSR CPSR_c
    (0x0FFFFFFF, 0x0320F003, Kind.WAIT),  # WFI
    (0x0FF00FEF, 0x0C500F0E, Kind.CLOCK),  # MRRC of CNTPCT or CNTVCT
)

_RISCV: tuple[Row, ...] = (
    (0x00000FFF, 0x000000EF, Kind.CALL),  # JAL ra
    (0x00000FFF, 0x000000E7, Kind.CALL),  # JALR ra
    (_ALL, 0x00008067, Kind.RETURN),
    (_ALL, 0x10200073, Kind.LEAVE),  # SRET
    (_ALL, 0x10500073, Kind.WAIT),  # WFI
    (0xFFFFF07F, 0xC0102073, Kind.CLOCK),  # RDTIME
    (0xFFF1707F, 0x10017073, Kind.DISABLE),  # CSRRCI of sstatus, bit SIE
    (0xFFF1707F, 0x10016073, Kind.ENABLE),  # CSRRSI of sstatus, bit SIE
    (0xFFFFF07F, 0x10002073, Kind.OTHER),  # CSRR of sstatus
    (0xFFF0707F, 0x10002073, Kind.ENABLE),  # CSRRS of sstatus, by a register
)
_RISCV_COMPRESSED: tuple[Row, ...] = (
    (0xFFFF, 0x8082, Kind.RETURN),  # C.JR ra
    (0xFFFF, 0x9002, Kind.OTHER),  # C.EBREAK
    (0xF07F, 0x9002, Kind.CALL),  # C.JALR
)


def _by_rows(words: tuple[Row, ...], halves: tuple[Row, ...] = ()) -> Callable[[bytes], Kind]:
    """Return what finds the kind of an instruction in the rows for its length: four bytes or two."""
    tables = {4: words, 2: halves}

    @functools.lru_cache(maxsize=1 << 16)
    def kind(code: bytes) -> Kind:
        word = int.from_bytes(code, "little")
        rows = tables.get(len(code), ())
        return next((found for mask, value, found in rows if word & mask == value), Kind.OTHER)

    return kind


PROCESSORS = {
    "x86_64": Processor(
        _x86,
        ("asm_exc_", "asm_sysvec_", "asm_common_interrupt", "asm_spurious_interrupt", "entry_SYSCALL_64"),
        ("irq_entries_start", "spurious_entries_start"),
    ),
    "aarch64": Processor(_by_rows(_ARM64), (), ("vectors",)),
    "arm": Processor(
        _by_rows(_ARM),
        ("__irq_", "__dabt_", "__pabt_", "__und_", "vector_swi"),
        ("__vectors_start",),
        vectors=0xFFFF0000,
    ),
    "riscv64": Processor(_by_rows(_RISCV, _RISCV_COMPRESSED), ("handle_exception",), ()),
}
"""By the architecture of a machine."""


def kinds_of(processor: Processor, code: bytes, sizes: bytes) -> Iterator[Kind]:
    """Yield the kinds of a block's instructions, in order."""
    at = 0
    for size in sizes:
        yield processor.kind(code[at : at + size])
        at += size


def count_arm(blocks: Iterable[Block], files: Iterable[CodeFile], kernel_start: int) -> ArmCounts:
    """Count the instructions outside the kernel by kind.

    Args:
        blocks: with the executions of each instruction.
        files: of user code. Calls of libgcc's floating-point functions are counted if the program is linked at a fixed address.
        kernel_start: the lowest address of the kernel.
    """
    programs = [file for file in files if file.fixed and file.kind == PROGRAM]
    helpers = frozenset[int]().union(*(of_elf(file.symbols, _helpers_in, frozenset[int]()) for file in programs))
    kinds = collections.Counter[str]()
    runs = calls = 0
    for block in blocks:
        if block.address >= kernel_start:
            continue
        thumb, before = is_thumb(block), ""
        words = words_of(block.code, thumb=thumb)
        for (offset, word), count in zip(words, block.counts, strict=False):
            kind = kind_of(word, thumb=thumb)
            kinds[kind] += count
            runs += count if kind == VFP_LOAD != before else 0
            calls += count if branch_target(word, block.address + offset, thumb=thumb) in helpers else 0
            before = kind
    return ArmCounts(
        kinds=tuple((kind, kinds[kind]) for kind in KINDS if kinds[kind]), load_runs=runs, helper_calls=calls
    )


def _helpers_in(elf: ELFFile) -> frozenset[int]:
    tables = (section for section in elf.iter_sections() if section["sh_type"] == "SHT_SYMTAB")
    return helper_addresses(symbol for table in tables for symbol in symbols_of(elf, table))


def is_thumb(block: Block) -> bool:
    """Return whether a block has Thumb instructions.

    The emulator does not report the instruction set. Instructions of two bytes are Thumb's. A block of four-byte ones is Thumb if each
    begins as such an instruction does; few ARM instructions do.
    """
    starts = [int.from_bytes(block.code[at : at + 2], "little") for at in range(0, len(block.code), 4)]
    return any(size != 4 for size in block.sizes) or all(map(is_wide, starts))
