# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the files of the emulator's plugin have in common: a header, lines of numbers, tables, blocks of code, and an end."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

from swapstone.model import UserError

_LINE = re.compile(rb"([a-z]+) (0|[1-9][0-9]{0,19})\n")
_BLOCK = struct.Struct("<QHH")
_END = b"end\n"


def damaged(what: str) -> UserError:
    """Return the error for a damaged file; the text names what is wrong in it."""
    return UserError(f"The output of the emulator's plugin is damaged: {what}.")


def decode_numbers(
    data: bytes, header: bytes, names: Sequence[str], *, most_bytes: int, bits: int
) -> tuple[dict[str, int], int]:
    """Decode the header and the lines ``NAME NUMBER`` up to an empty line.

    Args:
        data: the whole file.
        header: its first line, without the newline.
        names: of the numbers, in their order.
        most_bytes: the largest size of a file.
        bits: each number is below 2 to this power.

    Returns:
        The numbers by name, and the position after the empty line.

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
    if data[at : at + 1] != b"\n":
        raise damaged(f"at byte {at} it has no empty line")
    return values, at + 1


def decode_table(data: bytes, at: int, count: int, row: struct.Struct) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Decode rows of numbers; return them and the position after them.

    Raises:
        UserError: the file ends before.
    """
    end = at + count * row.size
    if end > len(data):
        raise damaged(f"it ends before {count} entries of {row.size} bytes at byte {at}")
    return tuple(row.iter_unpack(data[at:end])), end


def decode_block(data: bytes, at: int, which: str) -> tuple[int, bytes, bytes, int]:
    """Decode a block of code.

    Args:
        data: the whole file.
        at: where the block starts.
        which: the block in an error, for example ``block 3 of 7``, counted from 0.

    Returns:
        The address, the code, the size of each instruction in bytes, and the position after the block.

    Raises:
        UserError: the file ends before, or the sizes are not those of the code.
    """
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
    return address, data[code_at:end], sizes, end


def require_end(data: bytes, at: int, after: str) -> None:
    """Require that nothing but the end follows.

    Raises:
        UserError: the text names the position, and `after` what is before it.
    """
    if data[at:] != _END:
        raise damaged(f"at byte {at} it does not end after {after}")
