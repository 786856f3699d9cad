# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the emulator's plugin writes about wake-ups, and the instruction that counts latencies."""

from __future__ import annotations

import pytest
from tools.plugin_output import traced_block, wakeups_file

from swapstone.core.model import UserError
from swapstone.parts.explain.instruments.plugin_file import Block
from swapstone.parts.explain.instruments.wakeup_path import MemoryWrite, decode_wakeups, find_mark

NOP, RET = b"\x90", b"\xc3"
FILE = wakeups_file(
    [traced_block(0x401000, [NOP, RET]), traced_block(1 << 63, [RET])],
    [(1, 2), (2, 1), (0, 9)],
    base=0x400000,
    marks=3,
    cycle=2,
    maximum=4104,
    cut=1,
)
WRITES = wakeups_file(writes=[(0x10, 3, 4104, 4096, 4104, -16)])


def test_a_file_is_decoded() -> None:
    found = decode_wakeups(FILE)
    assert (found.marks, found.cycle) == (3, 2)
    assert found.blocks == (Block(0x401000, NOP + RET, b"\1\1"), Block(1 << 63, RET, b"\1"))
    assert found.steps == ((0, 2), (1, 1), (-1, 9))
    assert decode_wakeups(WRITES).writes == (MemoryWrite(0x10, 3, 4104, 4096, 4104, -16),)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it starts with"),
        (FILE.replace(b"wakeups 2", b"wakeups 1"), "it starts with"),
        (FILE.replace(b"marks 3\n", b""), "not the number of marks"),
        (FILE.replace(b"marks 3", b"marks 18446744073709551616"), "not the number of marks"),
        (FILE.replace(b"steps 3\n\n", b"steps 3\n"), "no empty line"),
        (FILE.replace(b"steps 3", b"steps 9999999999"), "it ends before 9999999999 entries"),
        (FILE.replace(b"steps 3", b"steps 2"), "does not end after 2 steps"),
        (FILE.replace(b"blocks 2", b"blocks 900"), "block"),
        (wakeups_file([traced_block(1, [])]), "block 0"),
        (wakeups_file([traced_block((1 << 64) - 1, [NOP, RET])]), "block 0"),
        (wakeups_file([traced_block(1, [NOP])], [(2, 1)]), "a step has 1 instructions of block 2 of 1"),
        (wakeups_file([traced_block(1, [NOP])], [(1, 2)]), "a step has 2 instructions of block 1 of 1"),
        (FILE[:-1], "does not end"),
    ],
)
def test_damage_is_named(data: bytes, words: str) -> None:
    with pytest.raises(UserError, match=words):
        decode_wakeups(data)


HISTOGRAM = ((3, 5), (4, 2), (9, 1))


def _write(**changes: int) -> MemoryWrite:
    # 5 * 3, 2 * 4 and 9 in bins of 8 bytes; the first was 4
    numbers = {
        "instruction": 0x75C4,
        "executions": 8,
        "first": 4128,
        "lowest": 4120,
        "highest": 4168,
        "distances": -5 * 8 + 5 * 8,
    }
    return MemoryWrite(**{**numbers, **changes})


def test_the_write_that_fits_to_the_histogram_is_the_mark() -> None:
    other = (
        _write(instruction=1, executions=9),
        _write(instruction=2, distances=8),
        _write(instruction=3, highest=4176),
    )
    assert find_mark((*other, _write()), HISTOGRAM) == 0x75C4
    assert find_mark(other, HISTOGRAM) is None
    narrow = _write(first=4100, lowest=4096, highest=4120, distances=0)
    assert find_mark([narrow], HISTOGRAM) == 0x75C4  # bins of 4 bytes
    assert (
        find_mark([_write(lowest=1, highest=1, first=1, distances=0)], ((3, 8),)) is None
    )  # one bin alone shows nothing
