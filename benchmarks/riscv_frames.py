# SPDX-License-Identifier: MIT OR Apache-2.0
"""The call stack of a stopped riscv64 machine, by frame pointers.

A frame pointer (s0) is the value of sp at the function's entry; the return address is 8 bytes below it, the caller's frame pointer 16
(RISC-V ELF psABI, "Frame Pointer Convention"). In the innermost function these may not be stored yet, no longer, or never: that is read
from its instructions up to the program counter.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

WFI = 0x10500073
"""The instruction that waits for an interrupt."""
MOST_FRAMES = 64
_WORD = 8
_RA, _SP, _S0 = 1, 2, 8


@dataclasses.dataclass(frozen=True)
class Registers:
    """The registers from which a stack is followed."""

    pc: int
    ra: int
    sp: int
    fp: int


@dataclasses.dataclass(frozen=True)
class Memory:
    """What can be followed.

    Attributes:
        word: returns the 8 bytes at an address, which is inside `stack`.
        stack: addresses of memory that may hold stacks.
        function: returns the address of the function that contains an address; None if it is in none.
        code: returns the code from one address to another.
        entry: addresses of the machine's entry code, which nothing has called.
    """

    word: Callable[[int], int]
    stack: range
    function: Callable[[int], int | None]
    code: Callable[[int, int], bytes]
    entry: range


@dataclasses.dataclass(frozen=True)
class Stack:
    """A stack: the program counter and the return addresses, the innermost first, and why it ends before the entry code; None if not."""

    addresses: tuple[int, ...]
    reason: str | None


@dataclasses.dataclass(frozen=True)
class State:
    """What a function has done up to an instruction.

    Attributes:
        depth: bytes by which sp is lower than at the entry; None if unknown.
        framed: whether s0 is the frame pointer of this function.
        ra, fp: where the return address and the caller's s0 are stored, relative to sp at the entry; None if they are in their registers.
    """

    depth: int | None = 0
    framed: bool = False
    ra: int | None = None
    fp: int | None = None


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _instructions(code: bytes) -> Iterator[int]:
    """Return instructions of 2 and 4 bytes; an incomplete one at the end is left out."""
    at = 0
    while at + 2 <= len(code):
        half = int.from_bytes(code[at : at + 2], "little")
        size = 4 if half & 3 == 3 else 2
        if at + size > len(code):
            return
        yield int.from_bytes(code[at : at + size], "little")
        at += size


def _addition(word: int) -> tuple[int, int, int] | None:
    """Return target, source and constant of an `addi`; None of another instruction."""
    if word & 3 == 3:
        if word & 0x707F != 0x13:
            return None
        return word >> 7 & 31, word >> 15 & 31, _signed(word >> 20, 12)
    kind, target = word & 0xE003, word >> 7 & 31
    if kind == 0x0001:  # c.addi
        return target, target, _signed(word >> 7 & 32 | word >> 2 & 31, 6)
    if kind == 0x6001 and target == _SP:  # c.addi16sp
        value = word >> 3 & 512 | word >> 2 & 16 | word << 1 & 64 | word << 4 & 384 | word << 3 & 32
        return _SP, _SP, _signed(value, 10)
    if kind == 0x0000 and word:  # c.addi4spn
        value = word >> 7 & 48 | word >> 1 & 960 | word >> 4 & 4 | word >> 2 & 8
        return (word >> 2 & 7) + 8, _SP, value
    return None


def _store(word: int) -> tuple[int, int] | None:
    """Return register and offset of an `sd` to sp."""
    if word & 3 == 3:
        if word & 0x707F != 0x3023 or word >> 15 & 31 != _SP:
            return None
        return word >> 20 & 31, _signed(word >> 20 & 0xFE0 | word >> 7 & 31, 12)
    if word & 0xE003 == 0xE002:  # c.sdsp
        return word >> 2 & 31, word >> 7 & 56 | word >> 1 & 448
    return None


def _load(word: int) -> int | None:
    """Return the register of an `ld` from sp."""
    if word & 3 == 3:
        return word >> 7 & 31 if word & 0x707F == 0x3003 and word >> 15 & 31 == _SP else None
    return word >> 7 & 31 if word & 0xE003 == 0x6002 else None


def _moves_by_register(word: int) -> bool:
    """Return whether an instruction adds a register to sp or subtracts one from it."""
    if word & 3 == 3:
        return word & 0xBE007FFF == 0x00000133  # add and sub with the target sp
    return word & 0xFF83 == 0x9102 and word & 0x7C != 0  # c.add


def _leaves(word: int) -> bool:
    """Return whether an instruction is a return or a jump, as at the end of a function."""
    if word & 3 == 3:
        return word & 0xFFF in {0x06F, 0x067}  # jal and jalr that store no return address
    return word & 0xE003 == 0xA001 or (word & 0xF07F == 0x8002 and word >> 7 & 31 != 0)


def state_at(code: bytes) -> State:
    """Return what a function has done after the instructions from its entry.

    Args:
        code: from the entry up to the instruction that comes next. Branches are not followed: code behind a return continues in the
            state before the restoring that precedes the return.
    """
    state, body = State(), None
    for word in _instructions(code):
        if (register := _load(word)) in {_RA, _S0}:
            body = body or state
            gone: dict[str, Any] = {"ra": None} if register == _RA else {"fp": None, "framed": False}
            state = dataclasses.replace(state, **gone)
        elif _leaves(word) and body is not None:
            state, body = body, None
        elif (addition := _addition(word)) is not None:
            state = _added(state, *addition)
        elif (store := _store(word)) is not None:
            state = _stored(state, *store)
        elif _moves_by_register(word):
            state = dataclasses.replace(state, depth=None)
    return state


def _added(state: State, target: int, source: int, value: int) -> State:
    if target == source == _SP and state.depth is not None:
        return dataclasses.replace(state, depth=state.depth - value)
    if (target, source) == (_SP, _S0) and state.framed:
        return dataclasses.replace(state, depth=-value)
    if (target, source) == (_S0, _SP) and state.fp is not None:
        return dataclasses.replace(state, framed=True)
    return state


def _stored(state: State, register: int, offset: int) -> State:
    if state.depth is not None and register == _RA and state.ra is None:
        return dataclasses.replace(state, ra=offset - state.depth)
    if state.depth is not None and register == _S0 and state.fp is None:
        return dataclasses.replace(state, fp=offset - state.depth)
    return state


def waits(code: bytes) -> bool:
    """Return whether the last instruction of some code waits for an interrupt."""
    return code[-4:] == WFI.to_bytes(4, "little")


class _EndError(Exception):
    """The stack can't be followed; the message states why."""


def _word(memory: Memory, address: int, name: str) -> int:
    if address % _WORD:
        raise _EndError(f"the {name} is not aligned")
    if address not in memory.stack or address + _WORD - 1 not in memory.stack:
        raise _EndError(f"the {name} is not in the memory of stacks")
    return memory.word(address)


def _caller_of_innermost(registers: Registers, memory: Memory, start: int) -> tuple[int, int, int]:
    """Return return address and frame pointer of the innermost function's caller, and an address below that frame pointer."""
    state = state_at(memory.code(start, registers.pc))
    if state.ra is None and state.fp is None:
        return registers.ra, registers.fp, registers.sp
    if state.framed:
        at_entry = registers.fp
    elif state.depth is not None:
        at_entry = registers.sp + state.depth
    else:
        raise _EndError("the size of the innermost frame is unknown")
    ra = registers.ra if state.ra is None else _word(memory, at_entry + state.ra, "innermost frame")
    fp = registers.fp if state.fp is None else _word(memory, at_entry + state.fp, "innermost frame")
    return ra, fp, at_entry


def unwind(registers: Registers, memory: Memory) -> Stack:
    """Follow the stack of a stopped machine.

    Returns:
        The addresses that were found. The reason is None if the last one is in the entry code.
    """
    found = [registers.pc]
    try:
        if registers.pc in memory.entry:
            return Stack(tuple(found), None)
        start = memory.function(registers.pc)
        if start is None:
            raise _EndError("the program counter is in no function")
        ra, fp, lowest = _caller_of_innermost(registers, memory, start)
        while True:
            if ra not in memory.entry and memory.function(ra - 1) is None:
                raise _EndError("a return address is in no function")
            found.append(ra)
            if ra in memory.entry:
                return Stack(tuple(found), None)
            if len(found) >= MOST_FRAMES:
                raise _EndError(f"the stack has more than {MOST_FRAMES} frames")
            if fp <= lowest:
                raise _EndError("a frame pointer is not above the frame before")
            ra, fp, lowest = (
                _word(memory, fp - _WORD, "frame pointer"),
                _word(memory, fp - 2 * _WORD, "frame pointer"),
                fp,
            )
    except _EndError as end:
        return Stack(tuple(found), str(end))
