# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes what the emulator's plugin writes (native/plugin/counts.c), for tests and as input for `tools/fuzz`."""

from __future__ import annotations

import struct
from collections.abc import Sequence

Instructions = Sequence[tuple[bytes, int]]
"""Pairs (bytes, executions)."""


def block(address: int, instructions: Instructions) -> bytes:
    """Return a block of instructions at an address."""
    code = b"".join(data for data, _ in instructions)
    sizes = bytes(len(data) for data, _ in instructions)
    counts = struct.pack(f"<{len(instructions)}Q", *(count for _, count in instructions))
    return struct.pack("<QHH", address, len(instructions), len(code)) + sizes + code + counts


def counts_file(blocks: Sequence[bytes], **values: int) -> bytes:
    """Return a file of counts.

    Args:
        blocks: made by `block`.
        values: of the lines of text that are not 0.
    """
    names = ("begins", "windows", "open", "left", "accesses", "lost")
    lines = [f"{name} {values.get(name, 0)}\n" for name in names] + [f"blocks {len(blocks)}\n\n"]
    return b"swapstone-counts 1\n" + "".join(lines).encode() + b"".join(blocks) + b"end\n"
