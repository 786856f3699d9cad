# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decode what the emulator's plugin writes in its mode `counts` (native/plugin/counts.c): executions of each instruction."""

from __future__ import annotations

import dataclasses
import re
import struct

from swapstone.model import UserError

HEADER = b"swapstone-counts 1"
MOST_BYTES = 300 << 20
"""The plugin writes less (native/plugin/counts.c, MOST_OUTPUT_BYTES)."""

_NAMES = ("begins", "windows", "open", "left", "accesses", "lost", "blocks")
_LINE = re.compile(rb"([a-z]+) (0|[1-9][0-9]{0,19})\n")
_START = struct.Struct("<QHH")
_END = b"end\n"


@dataclasses.dataclass(frozen=True)
class Block:
    """Instructions that the emulator translated together.

    Attributes:
        address: virtual address of the first.
        code: bytes of all.
        sizes: bytes of each.
        counts: how often each was completed.
    """

    address: int
    code: bytes
    sizes: bytes
    counts: tuple[int, ...]

    @property
    def instructions(self) -> int:
        """Return how many instructions were executed."""
        return sum(self.counts)


@dataclasses.dataclass(frozen=True)
class BlockCounts:
    """The instructions that a machine executed in the observed windows.

    Attributes:
        begins: how often the instruction was executed that may begin a window.
        windows: complete windows.
        open: whether the machine ended inside a window.
        left: how often a block was left before its last instruction began, by a fault or by an access to a device.
        accesses: how many of these were accesses to devices.
        lost: instructions that were counted without their addresses, because there were too many blocks.
        blocks: what was executed. One address may occur in several blocks.
    """

    begins: int
    windows: int
    open: bool
    left: int
    accesses: int
    lost: int
    blocks: tuple[Block, ...]

    @property
    def instructions(self) -> int:
        """Return how many instructions were executed, with the lost ones."""
        return self.lost + sum(block.instructions for block in self.blocks)


def decode_counts(data: bytes) -> BlockCounts:
    """Decode the plugin's file.

    Raises:
        UserError: it is damaged; the text names where.
    """
    if len(data) > MOST_BYTES:
        raise _damaged(f"it has more than {MOST_BYTES >> 20} MiB")
    if not data.startswith(HEADER + b"\n"):
        raise _damaged(f"it starts with {data[:24]!r} and not with {HEADER.decode()}")
    at, values = len(HEADER) + 1, []
    for name in _NAMES:
        line = _LINE.match(data, at)
        if line is None or line[1] != name.encode() or int(line[2]) >= 1 << 64:
            raise _damaged(f"at byte {at} it has {data[at : at + 24]!r} and not the number of {name}")
        values.append(int(line[2]))
        at = line.end()
    if data[at : at + 1] != b"\n":
        raise _damaged(f"at byte {at} it has no empty line")
    begins, windows, is_open, left, accesses, lost, count = values
    blocks, at = _blocks(data, at + 1, count)
    if data[at:] != _END:
        raise _damaged(f"at byte {at} it does not end after {count} blocks")
    if is_open > 1:
        raise _damaged(f"open is {is_open}, not 0 or 1")
    return BlockCounts(begins, windows, bool(is_open), left, accesses, lost, blocks)


def _blocks(data: bytes, at: int, count: int) -> tuple[tuple[Block, ...], int]:
    """Decode blocks; return them and the position after them."""
    blocks = []
    for number in range(count):
        if at + _START.size > len(data):
            raise _damaged(f"it ends before block {number} of {count}")
        address, instructions, code_size = _START.unpack_from(data, at)
        sizes_at = at + _START.size
        code_at = sizes_at + instructions
        counts_at = code_at + code_size
        end = counts_at + 8 * instructions
        if end > len(data):
            raise _damaged(f"it ends inside block {number} of {count}")
        sizes = data[sizes_at:code_at]
        if not instructions or sum(sizes) != code_size or 0 in sizes or address + code_size > 1 << 64:
            raise _damaged(f"block {number} at byte {at} has {code_size} bytes of code for {instructions} instructions")
        counts = struct.unpack_from(f"<{instructions}Q", data, counts_at)
        blocks.append(Block(address, data[code_at:counts_at], sizes, counts))
        at = end
    return tuple(blocks), at


def _damaged(what: str) -> UserError:
    return UserError(f"The output of the emulator's plugin is damaged: {what}.")
