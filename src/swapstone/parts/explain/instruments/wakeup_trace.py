# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decode what the emulator's plugin writes in its mode `wakeups` (native/plugin/wakeups.c).

A program that counts latencies in a histogram increments one bin for each. The address of that write shows the latency, exactly. So the
instruction that writes to the bins is recognised by the addresses that it wrote to, and the machine's blocks are kept up to the write
with the highest address: the maximum.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence

from swapstone.parts.explain.instruments.plugin_file import (
    Block,
    damaged,
    decode_blocks,
    decode_numbers,
    decode_table,
    require_end,
)

HEADER = b"swapstone-wakeups 2"
MOST_BYTES = 96 << 20
"""The plugin writes less: 4 Mi steps of 8 bytes, and the blocks that they execute."""

_NAMES = ("base", "marks", "cycle", "maximum", "writes", "cut", "blocks", "steps")
_WRITE, _STEP = struct.Struct("<5Qq"), struct.Struct("<2I")
_WIDTHS = (8, 4)
"""Sizes of a bin: an `unsigned long` of a processor with 64 or 32 bits."""

Histogram = Sequence[tuple[int, int]]
"""Pairs (value, how many), ascending."""


@dataclasses.dataclass(frozen=True)
class MemoryWrite:
    """An instruction of the program that writes to memory.

    Attributes:
        instruction: its address in the ELF file.
        executions: how often it wrote.
        first, lowest, highest: addresses that it wrote to.
        distances: sum of the differences of all addresses from the first.
    """

    instruction: int
    executions: int
    first: int
    lowest: int
    highest: int
    distances: int


@dataclasses.dataclass(frozen=True)
class WakeupTrace:
    """What the plugin observed.

    Attributes:
        marks: how often the watched instruction wrote.
        cycle: the number of its write that was the maximum, from 1.
        writes: instructions that write to memory; only if no instruction is watched.
        blocks: what was executed.
        steps: pairs (index in `blocks`, instructions that began), in the order of execution, up to the maximum. The index is -1 for a block
            that found no room.
    """

    marks: int
    cycle: int
    writes: tuple[MemoryWrite, ...]
    blocks: tuple[Block, ...]
    steps: tuple[tuple[int, int], ...]


def decode_wakeups(data: bytes) -> WakeupTrace:
    """Decode the plugin's file.

    Raises:
        UserError: it is damaged; the text names where.
    """
    values, at = decode_numbers(data, HEADER, _NAMES, most_bytes=MOST_BYTES, bits=64)
    writes, at = decode_table(data, at, values["writes"], _WRITE)
    blocks, at = decode_blocks(data, at, values["blocks"])
    steps, at = decode_table(data, at, values["steps"], _STEP)
    require_end(data, at, f"{len(steps)} steps")
    for number, executed in steps:
        if number > len(blocks) or (number and executed > len(blocks[number - 1].sizes)):
            raise damaged(f"a step has {executed} instructions of block {number} of {len(blocks)}")
    return WakeupTrace(
        marks=values["marks"],
        cycle=values["cycle"],
        writes=tuple(MemoryWrite(*numbers) for numbers in writes),
        blocks=blocks,
        steps=tuple((number - 1, executed) for number, executed in steps),
    )


def find_mark(writes: Sequence[MemoryWrite], histogram: Histogram) -> int | None:
    """Return the instruction that increments the bins of a histogram, by the addresses that it wrote to; None if there is none.

    It wrote once for each value; the lowest and the highest address, and the sum of all, fit to the values.

    Args:
        writes: the program's instructions that write to memory.
        histogram: that the program printed.
    """
    total = sum(count for _, count in histogram)
    (low, _), (high, _) = histogram[0], histogram[-1]
    distance = sum((value - low) * count for value, count in histogram)
    found = [
        write.instruction
        for write in writes
        for width in _WIDTHS
        if write.executions == total
        and write.highest - write.lowest == width * (high - low) > 0
        and write.distances + (write.first - write.lowest) * total == width * distance
    ]
    return found[0] if found else None
