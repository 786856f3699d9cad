# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decode what the emulator's plugin writes in its mode `counts` (native/plugin/counts.c): executions of each instruction."""

from __future__ import annotations

import dataclasses

from swapstone.parts.explain.instruments.plugin_file import Block, decode_blocks, decode_numbers, require_end

HEADER = b"swapstone-counts 1"
MOST_BYTES = 300 << 20
"""The plugin writes less (native/plugin/counts.c, MOST_OUTPUT_BYTES)."""

_NAMES = ("begins", "windows", "open", "left", "accesses", "lost", "blocks")


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
    values, at = decode_numbers(data, HEADER, _NAMES, most_bytes=MOST_BYTES, bits=64)
    blocks, at = decode_blocks(data, at, values["blocks"], counted=True)
    require_end(data, at, f"{values['blocks']} blocks")
    return BlockCounts(
        begins=values["begins"],
        windows=values["windows"],
        open=bool(values["open"]),
        left=values["left"],
        accesses=values["accesses"],
        lost=values["lost"],
        blocks=blocks,
    )
