# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the files of the emulator's plugin have in common: a header, lines of numbers, tables, blocks of code, and an end."""

from __future__ import annotations

import dataclasses
import itertools
import re
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from swapstone.core.model import UserError
from swapstone.core.record import FileProblemError, read_regular

_LINE = re.compile(rb"([a-z0-9_]+) (0|[1-9][0-9]{0,19})\n")
_BLOCK = struct.Struct("<QHH")
_END = b"end\n"

Decoded = TypeVar("Decoded")


@dataclasses.dataclass(frozen=True)
class Block:
    """Instructions that the emulator translated together.

    Attributes:
        address: virtual address of the first.
        code: bytes of all.
        sizes: bytes of each.
        counts: how often each was completed; empty where that is not counted.
    """

    address: int
    code: bytes
    sizes: bytes
    counts: tuple[int, ...] = ()

    @property
    def addresses(self) -> list[int]:
        """Return the address of each instruction."""
        return list(itertools.accumulate(self.sizes, initial=self.address))[:-1]

    @property
    def instructions(self) -> int:
        """Return how many instructions were executed."""
        return sum(self.counts)


def read_output(path: Path, most_bytes: int, decode: Callable[[bytes], Decoded]) -> Decoded:
    """Read and decode a file that the plugin wrote.

    Raises:
        UserError: there is none, or it is damaged.
    """
    try:
        data = read_regular(path, most_bytes)
    except (OSError, FileProblemError) as error:
        raise UserError(f"The emulator's plugin wrote no {path.name}: {error}.") from error
    return decode(data)


def damaged(what: str) -> UserError:
    """Return the error for a damaged file; the text names what is wrong in it."""
    return UserError(f"The output of the emulator's plugin is damaged: {what}.")


def decode_numbers(
    data: bytes, header: bytes, names: Sequence[str], *, most_bytes: int, bits: int, more: bool = True
) -> tuple[dict[str, int], int]:
    """Decode the header and the lines ``NAME NUMBER``.

    Args:
        data: the whole file.
        header: its first line, without the newline.
        names: of the numbers, in their order.
        most_bytes: the largest size of a file.
        bits: each number is below 2 to this power; that of ``open`` is 0 or 1.
        more: whether an empty line follows, and tables.

    Returns:
        The numbers by name, and the position after them and the empty line.

    Raises:
        UserError: the file is damaged; the text names where.
    """
    if len(data) > most_bytes:
        raise damaged(f"it has more than {most_bytes >> 20} MiB")
    if not data.startswith(header + b"\n"):
        raise damaged(f"it starts with {data[:24]!r} and not with {header.decode()}")
    at, values = len(header) + 1, dict[str, int]()
    for name in names:
        line = _LINE.match(data, at)
        if line is None or line[1] != name.encode() or int(line[2]) >= 1 << bits:
            raise damaged(f"at byte {at} it has {data[at : at + 24]!r} and not the number of {name}")
        values[name] = int(line[2])
        at = line.end()
    if more and data[at : at + 1] != b"\n":
        raise damaged(f"at byte {at} it has no empty line")
    if values.get("open", 0) > 1:
        raise damaged(f"open is {values['open']}, not 0 or 1")
    return values, at + more


def decode_table(data: bytes, at: int, count: int, row: struct.Struct) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Decode rows of numbers; return them and the position after them.

    Raises:
        UserError: the file ends before.
    """
    end = at + count * row.size
    if end > len(data):
        raise damaged(f"it ends before {count} entries of {row.size} bytes at byte {at}")
    return tuple(row.iter_unpack(data[at:end])), end


def decode_blocks(data: bytes, at: int, count: int) -> tuple[tuple[Block, ...], int]:
    """Decode blocks of code; return them and the position after them.

    Raises:
        UserError: the file ends before, or the sizes are not those of the code; the text has the number of the block, from 0.
    """
    blocks = []
    for number in range(count):
        which = f"block {number} of {count}"
        if at + _BLOCK.size > len(data):
            raise damaged(f"it ends before {which}")
        address, instructions, code_size = _BLOCK.unpack_from(data, at)
        code_at = at + _BLOCK.size + instructions
        end = code_at + code_size
        if end > len(data):
            raise damaged(f"it ends inside {which}")
        sizes = data[at + _BLOCK.size : code_at]
        if not instructions or sum(sizes) != code_size or 0 in sizes or address + code_size > 1 << 64:
            raise damaged(f"{which} at byte {at} has {code_size} bytes of code for {instructions} instructions")
        blocks.append(Block(address, data[code_at:end], sizes))
        at = end
    return tuple(blocks), at


def require_end(data: bytes, at: int, after: str) -> None:
    """Require that nothing but the end follows.

    Raises:
        UserError: the text names the position, and `after` what is before it.
    """
    if data[at:] != _END:
        raise damaged(f"at byte {at} it does not end after {after}")
