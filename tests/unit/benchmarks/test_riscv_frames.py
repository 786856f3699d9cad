# SPDX-License-Identifier: MIT OR Apache-2.0
"""Stacks by frame pointers, with crafted code and memory."""

from __future__ import annotations

import dataclasses

import pytest
from benchmarks.riscv_frames import MOST_FRAMES, Memory, Registers, Stack, State, state_at, unwind, waits

# Encodings are those of GNU as for rv64gc and rv64g.
SMALL = bytes.fromhex("411106e422e00008")  # addi sp,-16; sd ra,8; sd s0,0; addi s0,sp,16
RESTORE = bytes.fromhex("a26002644101")  # ld ra,8; ld s0,0; addi sp,16
RETURN = bytes.fromhex("8280")
BODY = bytes.fromhex("05650505")  # lui a0,1; addi a0,1
FRAME = State(depth=16, framed=True, ra=-8, fp=-16)


def words(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(4, "little") for number in numbers)


WIDE = words(0xFE010113, 0x00113C23, 0x00813823, 0x02010413)  # addi sp,-32; sd ra,24; sd s0,16; addi s0,sp,32
WIDE_RESTORE = words(0x01813083, 0x01013403, 0x02010113)
LARGE = bytes.fromhex("417186f7a2f3801b")  # addi sp,-496; sd ra,488; sd s0,480; addi s0,sp,496


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (b"", State()),
        (SMALL[:2], State(depth=16)),
        (SMALL[:4], State(depth=16, ra=-8)),
        (SMALL[:6], State(depth=16, ra=-8, fp=-16)),
        (SMALL, FRAME),
        (SMALL + BODY, FRAME),
        (SMALL + BODY + RESTORE[:2], State(depth=16, framed=True, fp=-16)),
        (SMALL + BODY + RESTORE[:4], State(depth=16)),
        (SMALL + BODY + RESTORE, State()),
        # Code behind a return, a tail call (jr t1; j) is in the body again; behind a jump in the body it is, too.
        (SMALL + BODY + RESTORE + RETURN + BODY, FRAME),
        (SMALL + RESTORE + bytes.fromhex("0283") + BODY, FRAME),
        (SMALL + RESTORE + words(0x6F) + BODY, FRAME),
        (SMALL + words(0x6F) + BODY, FRAME),
        (SMALL + RESTORE + RETURN + RESTORE + RETURN + BODY, FRAME),
        (WIDE, State(depth=32, framed=True, ra=-8, fp=-16)),
        (WIDE + WIDE_RESTORE, State()),
        (WIDE + WIDE_RESTORE + words(0x8067), State(depth=32, framed=True, ra=-8, fp=-16)),
        (LARGE, State(depth=496, framed=True, ra=-8, fp=-16)),
        (LARGE + words(0x40A10133), State(depth=None, framed=True, ra=-8, fp=-16)),  # sub sp,sp,a0
        (LARGE + bytes.fromhex("1691"), State(depth=None, framed=True, ra=-8, fp=-16)),  # add sp,sp,t0
        (LARGE + words(0x40A10133, 0xE1040113), State(depth=496, framed=True, ra=-8, fp=-16)),  # addi sp,s0,-496
        # A function that calls none stores only s0: addi sp,-16; sd s0,8; addi s0,sp,16.
        (bytes.fromhex("411122e40008"), State(depth=16, framed=True, fp=-8)),
        # Arguments on the stack: addi a0,sp,8; sd a0,8(sp).
        (words(0x00810513, 0x00A13423), State()),
        # Without a frame pointer: addi sp,-496; sd ra,488.
        (bytes.fromhex("417186f7"), State(depth=496, ra=-8)),
        (SMALL + b"\x13", FRAME),  # half an instruction at the end
        (bytes(16), State()),
    ],
)
def test_a_function_is_followed_up_to_an_instruction(code: bytes, expected: State) -> None:
    assert state_at(code) == expected


def test_the_program_counter_of_a_waiting_machine_is_behind_wfi() -> None:
    assert waits(words(0x02010413, 0x10500073))
    assert not waits(words(0x10500073, 0x02010413))
    assert not waits(b"")


TEXT = 0x8000_0000
ENTRY = range(TEXT, TEXT + 32)
STACK = range(0x8010_0000, 0x8010_1000)
OUTER, MIDDLE, INNER = TEXT + 0x100, TEXT + 0x200, TEXT + 0x300
TOP = STACK.stop - 16


class Machine:
    """A machine with three functions of 256 bytes; the innermost begins with some code."""

    def __init__(self, inner: bytes = SMALL + BODY) -> None:
        self.words: dict[int, int] = {}
        self.reads: list[int] = []
        self._inner = inner.ljust(256, b"\1")

    def frame(self, fp: int, ra: int, caller: int) -> None:
        """Store a frame: what it returns to, and the caller's frame pointer."""
        self.words[fp - 8], self.words[fp - 16] = ra, caller

    def memory(self) -> Memory:
        def word(address: int) -> int:
            self.reads.append(address)
            return self.words.get(address, 0)

        def function(address: int) -> int | None:
            return address & ~0xFF if OUTER <= address < INNER + 256 else None

        def code(begin: int, end: int) -> bytes:
            return self._inner[begin - INNER : end - INNER] if begin >= INNER else b""

        return Memory(word=word, stack=STACK, function=function, code=code, entry=ENTRY)

    def unwind(self, at: int, sp: int, fp: int, ra: int = 0) -> Stack:
        return unwind(Registers(pc=INNER + at, ra=ra, sp=sp, fp=fp), self.memory())


def three() -> tuple[Machine, int]:
    """Return a machine whose innermost function has a frame, and its frame pointer."""
    machine = Machine(SMALL + BODY + RESTORE + RETURN)
    machine.frame(TOP, ENTRY.start + 8, 0)
    machine.frame(TOP - 64, OUTER + 20, TOP)
    machine.frame(TOP - 128, MIDDLE + 40, TOP - 64)
    return machine, TOP - 128


WHOLE = (MIDDLE + 40, OUTER + 20, ENTRY.start + 8)


def test_a_stack_is_followed_to_the_entry_code() -> None:
    machine, fp = three()
    assert machine.unwind(8, fp - 16, fp) == Stack((INNER + 8, *WHOLE), None)


@pytest.mark.parametrize("at", [0, 2])
def test_before_the_frame_is_stored_the_caller_is_in_the_registers(at: int) -> None:
    machine, fp = three()
    sp = fp - 16 if at else fp
    assert machine.unwind(at, sp, TOP - 64, ra=MIDDLE + 40) == Stack((INNER + at, *WHOLE), None)


@pytest.mark.parametrize("at", [4, 6])
def test_before_the_frame_pointer_is_set_the_frame_is_found_by_the_stack_pointer(at: int) -> None:
    machine, fp = three()
    assert machine.unwind(at, fp - 16, TOP - 64, ra=MIDDLE + 40) == Stack((INNER + at, *WHOLE), None)


@pytest.mark.parametrize(("at", "own"), [(14, True), (16, False), (18, False)])
def test_while_the_frame_is_removed_its_caller_is_found(at: int, own: bool) -> None:
    machine, fp = three()
    sp = fp if at == 18 else fp - 16
    found = machine.unwind(at, sp, fp if own else TOP - 64, ra=MIDDLE + 40)
    assert found == Stack((INNER + at, *WHOLE), None)


def test_a_function_that_stores_no_return_address_has_it_in_its_register() -> None:
    machine, fp = three()
    machine = Machine(bytes.fromhex("411122e40008") + BODY)
    machine.frame(TOP, ENTRY.start + 8, 0)
    machine.frame(TOP - 64, OUTER + 20, TOP)
    machine.words[fp - 8] = TOP - 64  # s0 is where other functions store ra
    assert machine.unwind(6, fp - 16, fp, ra=MIDDLE + 40) == Stack((INNER + 6, *WHOLE), None)


def test_code_of_the_entry_needs_no_stack() -> None:
    found = unwind(Registers(pc=ENTRY.start + 4, ra=0, sp=0, fp=0), Machine().memory())
    assert found == Stack((ENTRY.start + 4,), None)


@pytest.mark.parametrize(
    ("fp", "reason"),
    [
        (TOP - 192, "a frame pointer is not above the frame before"),  # downwards
        (TOP - 128, "a frame pointer is not above the frame before"),  # a frame that is its own caller
        (TOP - 60, "the frame pointer is not aligned"),
        (STACK.stop + 4096, "the frame pointer is not in the memory of stacks"),
        (1 << 63, "the frame pointer is not in the memory of stacks"),
        (0, "a frame pointer is not above the frame before"),
    ],
)
def test_a_damaged_chain_ends_with_its_reason(fp: int, reason: str) -> None:
    machine, innermost = three()
    machine.frame(innermost, MIDDLE + 40, fp)
    assert machine.unwind(8, innermost - 16, innermost) == Stack((INNER + 8, MIDDLE + 40), reason)
    assert all(address in STACK and address % 8 == 0 for address in machine.reads)


@pytest.mark.parametrize(("fp", "word"), [(4, "aligned"), (STACK.stop, "memory"), (STACK.start - TOP, "memory")])
def test_a_damaged_innermost_frame_is_named(fp: int, word: str) -> None:
    machine, _ = three()
    found = machine.unwind(8, TOP - 200, TOP + fp)
    assert found.addresses == (INNER + 8,)
    assert found.reason is not None
    assert found.reason.startswith("the innermost frame is not ")
    assert word in found.reason


def test_a_return_address_must_be_in_a_function() -> None:
    machine, fp = three()
    machine.frame(TOP - 64, 0x1234, TOP)
    assert machine.unwind(8, fp - 16, fp) == Stack((INNER + 8, MIDDLE + 40), "a return address is in no function")


def test_a_program_counter_must_be_in_a_function() -> None:
    found = unwind(Registers(pc=0x10, ra=0, sp=0, fp=0), Machine().memory())
    assert found == Stack((0x10,), "the program counter is in no function")


def test_a_frame_of_unknown_size_is_named() -> None:
    machine = Machine(bytes.fromhex("417186f7") + words(0x40A10133))
    found = machine.unwind(8, TOP - 600, TOP)
    assert found == Stack((INNER + 8,), "the size of the innermost frame is unknown")


def test_a_long_stack_is_cut() -> None:
    machine = Machine()
    memory = dataclasses.replace(
        machine.memory(), word=lambda address: OUTER + 4 if address % 16 == 8 else address + 32
    )
    found = unwind(Registers(pc=INNER + 8, ra=0, sp=STACK.start, fp=STACK.start + 16), memory)
    assert found.reason == f"the stack has more than {MOST_FRAMES} frames"
    assert len(found.addresses) == MOST_FRAMES
