# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where the caller's stack frame is at each instruction of x86_64 code that has no unwind tables, derived from the code.

At a function's first instruction the canonical frame address (CFA: the stack pointer before the call; DWARF 5, 6.4) is 8 bytes above the
stack pointer. Pushes, pops, additions to and subtractions from the stack pointer change the distance; it is followed along jumps. Where
the distance depends on data (alloca) and no frame pointer is set up, there is no state. Only the registers that a caller's frame may be
found by are followed: those that the System V ABI requires a function to preserve.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import re
from collections.abc import Collection, Iterable

RSP, RBP = 7, 6
REGISTERS = {"rbx": 3, "rbp": RBP, "r12": 12, "r13": 13, "r14": 14, "r15": 15}
"""DWARF's numbers of the registers that a function preserves (System V ABI, AMD64 supplement, figure 3.36)."""

MOST_HEIGHT = 1 << 30
_ENTRY_HEIGHT = 8
_FRAME_POINTER = 16
"""Distance of the CFA from a frame pointer: the return address and the caller's frame pointer are between them."""

_AFTER_PUSH_RBP = ((RBP, -16),)
_LINE = re.compile(r"\s{0,16}([0-9a-f]{1,16}):\t(\S{1,40})(?:[ \t]{1,40}(.{0,200}))?$")
_TARGET = re.compile(r"(?:bnd )?([0-9a-f]{1,16})(?: |$)")
_NUMBER = re.compile(r"\$(-?0x[0-9a-f]{1,16}|-?(?:0|[1-9][0-9]{0,15})),%rsp$")
_FROM_RSP = re.compile(r"(-?0x[0-9a-f]{1,16})\(%rsp\),%rsp$")
_FROM_RBP = re.compile(r"(-?0x[0-9a-f]{1,16})?\(%rbp\),%rsp$")
_STORED = re.compile(r"%(rbx|rbp|r1[2-5]),(-?0x[0-9a-f]{1,16})?\(%rsp\)$")
_POINTER = re.compile(r"#\s{1,4}([0-9a-f]{1,16})(?: |$)")


@dataclasses.dataclass(frozen=True)
class FrameState:
    """How the caller's frame is found before an instruction.

    Attributes:
        register: DWARF's number of the register that the CFA is relative to.
        offset: of the CFA from that register, in bytes.
        saved: DWARF's numbers of preserved registers, with the offset of each from the CFA where it is stored.
    """

    register: int = RSP
    offset: int = _ENTRY_HEIGHT
    saved: tuple[tuple[int, int], ...] = ()


@dataclasses.dataclass(frozen=True)
class Instruction:
    """An instruction as objdump prints it, in AT&T syntax."""

    at: int
    name: str
    operands: str


def instructions(lines: Iterable[str]) -> list[Instruction]:
    """Decode the output of ``objdump -d --no-show-raw-insn``; lines of any other form are skipped.

    Args:
        lines: as printed.
    """
    found: dict[int, Instruction] = {}
    for line in lines:
        if hit := _LINE.match(line.rstrip("\n")):
            name, operands = hit[2], (hit[3] or "").strip()
            if name in {"bnd", "notrack", "rep", "repz", "lock"}:
                name, _, operands = operands.partition(" ")
            at = int(hit[1], 16)
            found[at] = Instruction(at, name, operands.strip())
    return [found[at] for at in sorted(found)]


def entries_in(code: Iterable[Instruction]) -> set[int]:
    """Return the targets of direct calls, and the addresses that ``lea`` takes: where functions begin."""
    found: set[int] = set()
    for one in code:
        if (one.name.startswith("call") and (hit := _TARGET.match(one.operands))) or (
            one.name == "lea" and "(%rip)" in one.operands and (hit := _POINTER.search(one.operands))
        ):
            found.add(int(hit[1], 16))
    return found


def states(code: list[Instruction], entries: Collection[int]) -> dict[int, FrameState]:
    """Return the state before each instruction that has one, by address.

    An instruction that is reached with two different states has none, and neither has what follows only from it.

    Args:
        code: in order of addresses.
        entries: addresses at which functions begin.
    """
    places = {one.at: number for number, one in enumerate(code)}
    begins = sorted(entry for entry in entries if entry in places)
    fixed = set(begins)
    known: dict[int, FrameState] = {}
    contradicted: set[int] = set()
    jumps: dict[int, FrameState] = {}  # the only indirect jump of each function

    def run(work: list[tuple[int, FrameState]]) -> None:
        while work:
            at, state = work.pop()
            while at in places:
                if at in known:
                    if known[at] != state and at not in fixed:
                        contradicted.add(at)
                    break
                known[at] = state
                place = places[at]
                one, after = code[place], _after(code[place], state)
                if one.name.startswith("j") and (hit := _TARGET.match(one.operands)):
                    work.append((int(hit[1], 16), state))
                elif one.name == "jmp" and (number := bisect.bisect_right(begins, at)):
                    jumps.setdefault(begins[number - 1], state)
                if after is None or _ends(one) or place + 1 >= len(code) or code[place + 1].at in fixed:
                    break
                at, state = code[place + 1].at, after

    run([(entry, FrameState()) for entry in begins])
    tables = []  # code that only a table of jumps leads to: it has the state of the only indirect jump of its function
    for before, one in itertools.pairwise(code):
        if _ends(before) and one.at not in known and not one.name.startswith(("nop", "xchg", "data16", "cs")):
            entry = bisect.bisect_right(begins, one.at)
            if entry and begins[entry - 1] in jumps:
                tables.append((one.at, jumps[begins[entry - 1]]))
    run(tables)
    return {at: state for at, state in known.items() if at not in contradicted}


def _ends(one: Instruction) -> bool:
    return one.name in {"ret", "retq", "jmp", "jmpq", "hlt", "ud2", "iretq"}


def _after(one: Instruction, state: FrameState) -> FrameState | None:
    """Return the state after an instruction; None if it can't be derived."""
    name, operands = one.name, one.operands
    if name.startswith("push"):
        return _pushed(state, operands)
    if name.startswith("pop"):
        return _popped(state, operands)
    if name == "leave":
        return _moved(dataclasses.replace(state, register=RSP), -8) if state.register == RBP else None
    if name == "mov" and operands == "%rsp,%rbp" and state.register == RSP and state.saved == _AFTER_PUSH_RBP:
        return dataclasses.replace(state, register=RBP) if state.offset == _FRAME_POINTER else state
    if name.startswith("mov") and (hit := _STORED.fullmatch(operands)) and state.register == RSP:
        number = REGISTERS[hit[1]]
        if number not in dict(state.saved):
            at = int(hit[2] or "0", 16) - state.offset
            return dataclasses.replace(state, saved=(*state.saved, (number, at)))
        return state
    if not operands.endswith("%rsp") or name.startswith(("cmp", "test")):
        return state
    return _assigned(name, operands, state)


def _assigned(name: str, operands: str, state: FrameState) -> FrameState | None:
    """Return the state after an assignment to the stack pointer."""
    if state.register == RBP:  # the CFA doesn't depend on the stack pointer
        if name == "lea" and (hit := _FROM_RBP.fullmatch(operands)):
            below = int(hit[1] or "0", 16)
            return dataclasses.replace(state, register=RSP, offset=state.offset - below)
        if name == "mov" and operands == "%rbp,%rsp":
            return dataclasses.replace(state, register=RSP)
        return state
    if name in {"sub", "add", "subq", "addq"} and (hit := _NUMBER.fullmatch(operands)):
        number = int(hit[1], 0)
        return _moved(state, number if name.startswith("sub") else -number)
    if name == "lea" and (hit := _FROM_RSP.fullmatch(operands)):
        return _moved(state, -int(hit[1], 16))
    return None


def _moved(state: FrameState, by: int) -> FrameState | None:
    """Return the state after the stack pointer was lowered."""
    offset = state.offset + by
    return dataclasses.replace(state, offset=offset) if 0 < offset <= MOST_HEIGHT else None


def _pushed(state: FrameState, operands: str) -> FrameState | None:
    if state.register == RBP:
        return state
    after = _moved(state, 8)
    number = REGISTERS.get(operands.removeprefix("%"))
    if after is None or number is None or number in dict(state.saved):
        return after
    return dataclasses.replace(after, saved=(*state.saved, (number, -after.offset)))


def _popped(state: FrameState, operands: str) -> FrameState | None:
    number = REGISTERS.get(operands.removeprefix("%"))
    if state.register == RBP:
        return None if number == RBP else state
    after = _moved(state, -8)
    if after is None or number is None:
        return after
    where = dict(state.saved).get(number)
    restored = where == -state.offset  # popped from where it was stored
    return (
        dataclasses.replace(after, saved=tuple(each for each in state.saved if each[0] != number))
        if restored
        else after
    )
