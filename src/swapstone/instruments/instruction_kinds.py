# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which instructions call, return, enable interrupts, wait or read the clock, by their bytes.

Sources: Intel SDM volume 2; Arm Architecture Reference Manual (A-profile), C6.2; The RISC-V Instruction Set Manual, volumes I and II.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator


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


def _arm64(code: bytes) -> Kind:
    word = int.from_bytes(code, "little")
    if word >> 26 == 0b100101 or word & 0xFFFFFC1F == 0xD63F0000:  # BL, BLR
        return Kind.CALL
    if word & 0xFFFFFC1F == 0xD65F0000 or word in {0xD65F0BFF, 0xD65F0FFF}:  # RET, RETAA, RETAB
        return Kind.RETURN
    if word in {0xD69F03E0, 0xD69F0BFF, 0xD69F0FFF}:  # ERET, ERETAA, ERETAB
        return Kind.LEAVE
    if word & 0xFFFFF0FF == 0xD50340DF:  # MSR DAIFSet
        return Kind.DISABLE if word & 0x200 else Kind.OTHER
    if word & 0xFFFFF0FF == 0xD50340FF:  # MSR DAIFClr
        return Kind.ENABLE if word & 0x200 else Kind.OTHER
    if word & 0xFFFFFFE0 == 0xD51B4220:  # MSR DAIF, Xt
        return Kind.ENABLE
    if word in {0xD503207F, 0xD503205F}:  # WFI, WFE
        return Kind.WAIT
    return Kind.CLOCK if _is_counter(word) else Kind.OTHER


def _is_counter(word: int) -> bool:
    """Return whether it is MRS of CNTPCT_EL0, CNTVCT_EL0, CNTPCTSS_EL0 or CNTVCTSS_EL0."""
    return word & 0xFFFFFFE0 in {0xD53BE020, 0xD53BE040, 0xD53BE0A0, 0xD53BE0C0}


_ALWAYS = 0xE
"""The condition of an instruction of A32 that is always executed."""


def _arm(code: bytes) -> Kind:
    """Decode instructions of four bytes as those of the set A32, of which the kernel is built."""
    word = int.from_bytes(code, "little")
    if len(code) != 4:
        return Kind.OTHER
    if word & 0x0F000000 == 0x0B000000 or word & 0x0FFFFFF0 == 0x012FFF30:  # BL, BLX
        return Kind.CALL
    if word & 0x0FFFFFFF == 0x012FFF1E or word & 0x0E108000 == 0x08108000:  # BX LR, LDM with PC
        if word & 0x00400000:
            return Kind.LEAVE
        return Kind.RETURN if word >> 28 == _ALWAYS else Kind.OTHER  # a conditional return is found by its address
    if word & 0xFFFFFE00 == 0xF10C0000 and word & 0x80:  # CPSID I
        return Kind.DISABLE
    if (word & 0xFFFFFE00 == 0xF1080000 and word & 0x80) or word & 0x0FF0FFF0 == 0x0121F000:  # CPSIE I, MSR CPSR_c
        return Kind.ENABLE
    if word & 0x0FFFFFFF == 0x0320F003:  # WFI
        return Kind.WAIT
    return Kind.CLOCK if word & 0x0FF00FEF == 0x0C500F0E else Kind.OTHER  # MRRC of CNTPCT or CNTVCT


def _riscv(code: bytes) -> Kind:
    word = int.from_bytes(code, "little")
    if len(code) == 2:
        if word == 0x8082:  # C.JR ra
            return Kind.RETURN
        return Kind.CALL if word & 0xF07F == 0x9002 and word & 0xF80 else Kind.OTHER  # C.JALR
    if word & 0xFFF in {0x0EF, 0x0E7}:  # JAL ra, JALR ra
        return Kind.CALL
    known = {0x00008067: Kind.RETURN, 0x10200073: Kind.LEAVE, 0x10500073: Kind.WAIT}
    if word & 0xFFFFF07F == 0xC0102073:  # RDTIME
        return Kind.CLOCK
    if word & 0xFFF0707F == 0x10007073 and word & 0x10000:  # CSRRCI of sstatus, bit SIE
        return Kind.DISABLE
    if word & 0xFFF0707F == 0x10006073 and word & 0x10000:  # CSRRSI of sstatus, bit SIE
        return Kind.ENABLE
    if word & 0xFFF0707F == 0x10002073 and word & 0xF8000:  # CSRRS of sstatus, by a register
        return Kind.ENABLE
    return known.get(word, Kind.OTHER)


PROCESSORS = {
    "x86_64": Processor(
        _x86,
        ("asm_exc_", "asm_sysvec_", "asm_common_interrupt", "asm_spurious_interrupt", "entry_SYSCALL_64"),
        ("irq_entries_start", "spurious_entries_start"),
    ),
    "aarch64": Processor(_arm64, (), ("vectors",)),
    "arm": Processor(
        _arm, ("__irq_", "__dabt_", "__pabt_", "__und_", "vector_swi"), ("__vectors_start",), vectors=0xFFFF0000
    ),
    "riscv64": Processor(_riscv, ("handle_exception",), ()),
}
"""By the architecture of a machine."""


def kinds_of(processor: Processor, code: bytes, sizes: bytes) -> Iterator[Kind]:
    """Yield the kinds of a block's instructions, in order."""
    at = 0
    for size in sizes:
        yield processor.kind(code[at : at + size])
        at += size
