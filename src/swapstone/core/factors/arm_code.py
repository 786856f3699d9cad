# SPDX-License-Identifier: MIT OR Apache-2.0
"""The kinds of ARM instructions, in both instruction sets: what of floating-point arithmetic is done by which instructions.

Source: "ARM Architecture Reference Manual, ARMv7-A and ARMv7-R edition" (DDI 0406C), sections A5, A6 (encodings of both instruction sets)
and A7.5 to A7.9 (floating-point instructions).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from swapstone.core.factors.elf_file import ElfSymbol

INTEGER, LOAD, STORE, BRANCH = "integer", "load", "store", "branch"
VFP_LOAD, VFP_STORE, TO_CORE, TO_VFP, NEON = "vload", "vstore", "vfp-to-core", "core-to-vfp", "neon"
ARITHMETIC = ("vadd", "vmul", "vmla", "vdiv", "vsqrt", "vcmp", "vcvt", "vmov")
"""Kinds of floating-point arithmetic. Each is followed by ``.f32`` or ``.f64``. ``vadd``: sums and differences; ``vmla``: products with
a sum, fused or not; ``vmov``: copies, constants, absolute values and negations within the unit."""

KINDS: tuple[str, ...] = (
    *(f"{name}.{precision}" for name in ARITHMETIC for precision in ("f32", "f64")),
    *(VFP_LOAD, VFP_STORE, TO_CORE, TO_VFP, NEON, LOAD, STORE, BRANCH, INTEGER),
)

FLOAT_HELPERS = frozenset(
    f"__aeabi_{name}"
    for name in (
        *("fadd", "fsub", "frsub", "fmul", "fdiv", "fcmpeq", "fcmplt", "fcmple", "fcmpge", "fcmpgt", "fcmpun"),
        *("dadd", "dsub", "drsub", "dmul", "ddiv", "dcmpeq", "dcmplt", "dcmple", "dcmpge", "dcmpgt", "dcmpun"),
        *("f2iz", "f2uiz", "d2iz", "d2uiz", "i2f", "ui2f", "i2d", "ui2d", "f2d", "d2f"),
    )
)
"""Functions of libgcc that replace instructions of a floating-point unit: "Run-time ABI for the Arm Architecture" (IHI 0043), 4.1.2.
Conversions of 64-bit integers are none of them: VFP has no such instructions. Comparisons call each other by further names."""


def helper_addresses(symbols: Iterable[ElfSymbol]) -> frozenset[int]:
    """Return the addresses of the `FLOAT_HELPERS` that a file with these symbols defines."""
    return frozenset(symbol.address & ~1 for symbol in symbols if symbol.section and symbol.name in FLOAT_HELPERS)


_OTHER_VFP = {0b0000: "vmov", 0b0001: "vmov", 0b0100: "vcmp", 0b0101: "vcmp"}


def kind_of(word: int, *, thumb: bool = False) -> str:
    """Return the kind of an instruction, one of `KINDS`.

    Args:
        word: its 32 bits; of a Thumb instruction of 32 bits the first halfword is the upper half, one of 16 bits is below 65536.
        thumb: whether it is of that instruction set.
    """
    if thumb and word < 1 << 16:
        return _short(word)
    top = word >> 24
    if word >> 28 != 15 and word >> 26 & 3 == 3 and word >> 9 & 7 == 0b101 and top & 15 != 15:
        return _vfp(word)
    if (top in {0xEF, 0xFF} or (top == 0xF9 and not word >> 20 & 1)) if thumb else top in {0xF2, 0xF3, 0xF4}:
        return NEON
    if thumb:
        return _wide(word)
    return _arm(word)


def _vfp(word: int) -> str:
    """Return the kind of an instruction of the coprocessors 10 and 11."""
    is_load = word >> 20 & 1
    if word >> 25 & 7 == 0b110:
        if word >> 21 & 15 == 0b0010:
            return TO_CORE if is_load else TO_VFP
        return VFP_LOAD if is_load else VFP_STORE
    if word >> 4 & 1:
        return TO_CORE if is_load else TO_VFP
    return f"{_data_processing(word)}.{'f64' if word >> 8 & 1 else 'f32'}"


def _data_processing(word: int) -> str:
    operation = (word >> 23 & 1) << 2 | word >> 20 & 3
    if operation == 0b111:
        if not word >> 6 & 1:
            return "vmov"
        detail = word >> 16 & 15
        if detail == 0b0001 and word >> 7 & 1:
            return "vsqrt"
        return _OTHER_VFP.get(detail, "vcvt")
    return {0b010: "vmul", 0b011: "vadd", 0b100: "vdiv"}.get(operation, "vmla")


def _arm(word: int) -> str:
    if word >> 28 == 15 and word >> 26 & 3 == 1:
        return LOAD  # a hint to load into the cache
    if word >> 25 & 7 == 0b101 or word & 0x0FFFFFD0 == 0x012FFF10 or word & 0x0FFFFFFF == 0x01A0F00E:
        return BRANCH
    group = word >> 25 & 7
    is_load = bool(word >> 20 & 1)
    if group == 0b100:
        return BRANCH if is_load and word >> 15 & 1 else LOAD if is_load else STORE
    if group == 0b010 or (group == 0b011 and not word >> 4 & 1):
        return BRANCH if is_load and word >> 12 & 15 == 15 else LOAD if is_load else STORE
    if group == 0 and word & 0x90 == 0x90 and word & 0x60:
        is_double = not is_load and word >> 6 & 1
        return (STORE if word >> 5 & 1 else LOAD) if is_double else LOAD if is_load else STORE
    return INTEGER


def _short(word: int) -> str:
    """Return the kind of a Thumb instruction of 16 bits."""
    top = word >> 12
    if top == 0xD or word >> 11 == 0b11100 or word & 0xFF00 == 0x4700 or word & 0xF500 == 0xB100 or word >> 8 == 0xBD:
        return BRANCH if word >> 8 not in {0xDE, 0xDF} else INTEGER
    if word >> 11 == 0b01001 or top in {6, 7, 8, 9, 0xC}:
        return LOAD if word >> 11 & 1 else STORE
    if top == 5:
        return STORE if word >> 9 & 7 < 3 else LOAD
    if word & 0xF600 == 0xB400:
        return LOAD if word >> 11 & 1 else STORE
    return INTEGER


def _wide(word: int) -> str:
    """Return the kind of a Thumb instruction of 32 bits that is none of the floating-point unit's."""
    is_load = bool(word >> 20 & 1)
    if word >> 27 == 0b11110 and word >> 15 & 1:
        is_jump = word >> 12 & 1 or word >> 14 & 1 or word >> 22 & 14 != 14
        return BRANCH if is_jump else INTEGER
    if word >> 25 == 0b1110100:
        if word & 0xFFF000E0 == 0xE8D00000 and word >> 12 & 15 == 15:
            return BRANCH  # a table of branches
        to_pc = is_load and not word >> 22 & 1 and word >> 15 & 1
        return BRANCH if to_pc else LOAD if is_load else STORE
    if word >> 25 == 0b1111100:
        return BRANCH if is_load and word >> 12 & 15 == 15 and word >> 21 & 3 == 2 else LOAD if is_load else STORE
    return INTEGER


def branch_target(word: int, address: int, *, thumb: bool = False) -> int | None:
    """Return the address to which a direct branch or call jumps; None for another instruction.

    Args:
        word: as of `kind_of`.
        address: of the instruction.
        thumb: as of `kind_of`.
    """
    if not thumb:
        if word >> 25 & 7 != 0b101:
            return None
        half = word >> 24 & 1 if word >> 28 == 15 else 0
        return (address + 8 + _signed(word & 0xFFFFFF, 24) * 4 + half * 2) & 0xFFFFFFFF
    if word >> 27 != 0b11110 or (word & 0x9000 != 0x9000 and word & 0xD000 != 0xC000):
        return None
    sign = word >> 26 & 1
    first, second = (word >> 13 & 1) ^ sign ^ 1, (word >> 11 & 1) ^ sign ^ 1
    offset = sign << 24 | first << 23 | second << 22 | (word >> 16 & 0x3FF) << 12 | (word & 0x7FF) << 1
    start = address + 4 if word >> 12 & 1 else (address + 4) & ~3
    return (start + _signed(offset, 25)) & 0xFFFFFFFF


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def words_of(code: bytes, *, thumb: bool, little: bool = True) -> Iterator[tuple[int, int]]:
    """Yield pairs (offset, word) of the instructions in code; what is left at its end is ignored.

    Args:
        code: instructions without data among them.
        thumb: whether they are Thumb instructions.
        little: whether they are little-endian.
    """
    mark = "<" if little else ">"
    if not thumb:
        usable = len(code) // 4 * 4
        yield from ((4 * number, word) for number, (word,) in enumerate(struct.iter_unpack(f"{mark}I", code[:usable])))
        return
    halves = [half for (half,) in struct.iter_unpack(f"{mark}H", code[: len(code) // 2 * 2])]
    at = 0
    while at < len(halves):
        if not is_wide(halves[at]):
            yield 2 * at, halves[at]
            at += 1
        elif at + 1 < len(halves):
            yield 2 * at, halves[at] << 16 | halves[at + 1]
            at += 2
        else:
            return


def is_wide(half: int) -> bool:
    """Return whether a halfword begins a Thumb instruction of 32 bits."""
    return half >> 11 in {0b11101, 0b11110, 0b11111}
