# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decode what the emulator's plugin writes in its mode `wakeups` (native/plugin/wakeups.c).

A program that counts latencies in a histogram increments one bin for each. The address of that write shows the latency, exactly. So the
instruction that writes to the bins is recognised by the addresses that it wrote to, and the machine's blocks are kept up to the write
with the highest address: the maximum.
"""

from __future__ import annotations

import dataclasses
import re
import struct
from collections.abc import Sequence

from swapstone.model import UserError

HEADER = b"swapstone-wakeups 1"
MOST_BYTES = 96 << 20
"""The plugin writes less: 4 Mi steps of 8 bytes, and the blocks that they execute."""

_NAMES = ("base", "marks", "cycle", "maximum", "writes", "bins", "cut", "blocks", "steps")
_LINE = re.compile(rb"([a-z]+) (0|[1-9][0-9]{0,19})\n")
_WRITE, _BIN, _BLOCK, _STEP = struct.Struct("<5Qq"), struct.Struct("<2Q"), struct.Struct("<QHH"), struct.Struct("<2I")
_END = b"end\n"
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
class TracedBlock:
    """Instructions that the emulator translated together.

    Attributes:
        address: virtual address of the first.
        code: bytes of all.
        sizes: bytes of each.
    """

    address: int
    code: bytes
    sizes: bytes


@dataclasses.dataclass(frozen=True)
class WakeupTrace:
    """What the plugin observed.

    Attributes:
        base: virtual address of the program minus its address in the ELF file.
        marks: how often the watched instruction wrote.
        cycle: the number of its write that was the maximum, from 1.
        writes: instructions that write to memory; only if no instruction is watched.
        bins: pairs (address, how often the watched instruction wrote to it), ascending.
        cut: whether the machine executed blocks before the first step.
        blocks: what was executed.
        steps: pairs (index in `blocks`, instructions that began), in the order of execution, up to the maximum. The index is -1 for a block
            that found no room.
    """

    base: int
    marks: int
    cycle: int
    writes: tuple[MemoryWrite, ...]
    bins: tuple[tuple[int, int], ...]
    cut: bool
    blocks: tuple[TracedBlock, ...]
    steps: tuple[tuple[int, int], ...]


def decode_wakeups(data: bytes) -> WakeupTrace:
    """Decode the plugin's file.

    Raises:
        UserError: it is damaged; the text names where.
    """
    if len(data) > MOST_BYTES:
        raise _damaged(f"it has more than {MOST_BYTES >> 20} MiB")
    if not data.startswith(HEADER + b"\n"):
        raise _damaged(f"it starts with {data[:24]!r} and not with {HEADER.decode()}")
    values, at = _numbers(data, len(HEADER) + 1)
    writes, at = _table(data, at, values["writes"], _WRITE)
    bins, at = _table(data, at, values["bins"], _BIN)
    blocks, at = _blocks(data, at, values["blocks"])
    steps, at = _table(data, at, values["steps"], _STEP)
    if data[at:] != _END:
        raise _damaged(f"at byte {at} it does not end after {len(steps)} steps")
    for number, executed in steps:
        if number > len(blocks) or (number and executed > len(blocks[number - 1].sizes)):
            raise _damaged(f"a step has {executed} instructions of block {number} of {len(blocks)}")
    return WakeupTrace(
        base=values["base"],
        marks=values["marks"],
        cycle=values["cycle"],
        writes=tuple(MemoryWrite(*numbers) for numbers in writes),
        bins=tuple(sorted((address, count) for address, count in bins)),
        cut=bool(values["cut"]),
        blocks=blocks,
        steps=tuple((number - 1, executed) for number, executed in steps),
    )


def _numbers(data: bytes, at: int) -> tuple[dict[str, int], int]:
    values = {}
    for name in _NAMES:
        line = _LINE.match(data, at)
        if line is None or line[1] != name.encode() or int(line[2]) >= 1 << 64:
            raise _damaged(f"at byte {at} it has {data[at : at + 24]!r} and not the number of {name}")
        values[name] = int(line[2])
        at = line.end()
    if data[at : at + 1] != b"\n":
        raise _damaged(f"at byte {at} it has no empty line")
    return values, at + 1


def _table(data: bytes, at: int, count: int, row: struct.Struct) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Decode rows of numbers; return them and the position after them."""
    end = at + count * row.size
    if end > len(data):
        raise _damaged(f"it ends before {count} entries of {row.size} bytes at byte {at}")
    return tuple(row.iter_unpack(data[at:end])), end


def _blocks(data: bytes, at: int, count: int) -> tuple[tuple[TracedBlock, ...], int]:
    """Decode blocks; return them and the position after them."""
    blocks = []
    for number in range(count):
        if at + _BLOCK.size > len(data):
            raise _damaged(f"it ends before block {number} of {count}")
        address, instructions, code_size = _BLOCK.unpack_from(data, at)
        code_at = at + _BLOCK.size + instructions
        end = code_at + code_size
        sizes = data[at + _BLOCK.size : code_at]
        if (
            end > len(data)
            or not instructions
            or sum(sizes) != code_size
            or 0 in sizes
            or address + code_size > 1 << 64
        ):
            raise _damaged(f"block {number} at byte {at} has {code_size} bytes of code for {instructions} instructions")
        blocks.append(TracedBlock(address, data[code_at:end], sizes))
        at = end
    return tuple(blocks), at


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


def matches(bins: Sequence[tuple[int, int]], histogram: Histogram) -> bool:
    """Return whether observed bins are those of a histogram: the same counts at the same distances."""
    return any(
        len(bins) == len(histogram)
        and all(
            count == expected and address - bins[0][0] == width * (value - histogram[0][0])
            for (address, count), (value, expected) in zip(bins, histogram, strict=True)
        )
        for width in _WIDTHS
    )


def _damaged(what: str) -> UserError:
    return UserError(f"The output of the emulator's plugin is damaged: {what}.")
