# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes what the emulator's plugin writes (native/plugin), for tests and as input for `tools/fuzz`."""

from __future__ import annotations

import struct
from collections.abc import Sequence


def traced_block(address: int, instructions: Sequence[bytes]) -> bytes:
    """Return a block of instructions at an address."""
    code, sizes = b"".join(instructions), bytes(map(len, instructions))
    return struct.pack("<QHH", address, len(instructions), len(code)) + sizes + code


def wakeups_file(
    blocks: Sequence[bytes] = (),
    steps: Sequence[tuple[int, int]] = (),
    *,
    writes: Sequence[tuple[int, ...]] = (),
    **values: int,
) -> bytes:
    """Return a file of wake-ups.

    Args:
        blocks: made by `traced_block`.
        steps: pairs (number of a block, from 1; instructions).
        writes: instruction, executions, first, lowest and highest address, and sum of the distances from the first.
        values: of the other lines of text that are not 0.
    """
    counts = {"writes": len(writes), "blocks": len(blocks), "steps": len(steps), **values}
    names = ("base", "marks", "cycle", "maximum", "writes", "cut", "blocks", "steps")
    lines = "".join(f"{name} {counts.get(name, 0)}\n" for name in names)
    tables = [struct.pack("<5Qq", *each) for each in writes]
    tables += [*blocks, *(struct.pack("<2I", *each) for each in steps)]
    return b"swapstone-wakeups 2\n" + lines.encode() + b"\n" + b"".join(tables) + b"end\n"


def paths_file(
    blocks: Sequence[bytes] = (),
    paths: Sequence[tuple[int, int]] = (),
    leaves: Sequence[tuple[int, int, int, int]] = (),
    **values: int,
) -> bytes:
    """Return a file of call paths (native/plugin/paths.c).

    Args:
        blocks: made by `traced_block`.
        paths: pairs (number of the path above, number of a block), from 1.
        leaves: number of a path, number of a block, instructions that began, executions.
        values: of the other lines of text that are not 0.
    """
    counts = {"blocks": len(blocks), "paths": len(paths), "leaves": len(leaves), **values}
    names = ("begins", "windows", "open", "accesses", "lost", "full", "deep", "blocks", "paths", "leaves")
    lines = "".join(f"{name} {counts.get(name, 0)}\n" for name in names)
    tables = [struct.pack("<2I", *each) for each in paths]
    tables += [struct.pack("<4IQ", *each[:3], 0, each[3]) for each in leaves]
    return b"swapstone-paths 2\n" + lines.encode() + b"\n" + b"".join((*blocks, *tables)) + b"end\n"
