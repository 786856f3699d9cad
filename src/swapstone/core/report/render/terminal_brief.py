# SPDX-License-Identifier: MIT OR Apache-2.0
"""An overview in few lines: rows from the middle of tables, and the ends of long items, are left out until it fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from swapstone.core.report.document import Block, BulletList, Commands, ForestPlot, Heading, Item, Table, Tone

Shortened = TypeVar("Shortened", Table, ForestPlot)


class Brevity(NamedTuple):
    """How much of an overview to print.

    Attributes:
        rows: of each table.
        lines: of each item of a list.
        items: of each list, without warnings.
        warnings: of each list.
        commands: of what to do next.
    """

    rows: int
    lines: int
    items: int
    warnings: int
    commands: int

    @property
    def detail(self) -> int | None:
        """Return the lines of a row's detail; None for none."""
        return None if self.rows < _LEAST_DETAILED else 1 if self.rows == _LEAST_DETAILED else max(2, self.lines)


_LEAST_INDICES = 4
"""Rows of the tables above the first heading: elapsed time, CPU time, memory and size."""

_LEAST_DETAILED = 3
"""Of so many rows of a table, each detail has one line; of fewer, none has a detail."""

BREVITIES = (
    Brevity(10, 3, 20, 20, 4),
    Brevity(8, 3, 20, 20, 4),
    Brevity(8, 2, 20, 20, 4),
    Brevity(8, 1, 20, 20, 4),
    Brevity(8, 1, 9, 12, 4),
    Brevity(6, 1, 6, 12, 4),
    Brevity(4, 1, 4, 12, 4),
    Brevity(3, 1, 2, 10, 4),
    Brevity(3, 1, 1, 8, 3),
    Brevity(2, 1, 1, 6, 3),
    Brevity(2, 1, 1, 4, 2),
    Brevity(2, 1, 1, 2, 2),
    Brevity(1, 1, 0, 1, 1),
)
"""From the longest to the shortest; a terminal gets the first that fits. Caveats give way last. Ten rows: two kernels, five loads."""


def brief_blocks(blocks: Sequence[Block], brevity: Brevity) -> Iterator[Block]:
    """Yield the blocks of an overview, shortened."""
    most = max(brevity.rows, _LEAST_INDICES)
    for block in blocks:
        match block:
            case Heading():
                most = brevity.rows
                yield block
            case ForestPlot():
                yield _rows(block, most)
            case Table():
                yield _rows(block, most)
            case BulletList():
                yield _items(block, brevity)
            case Commands():
                yield Commands(commands=block.commands[-brevity.commands :])
            case _:
                yield block


def _rows(block: Shortened, most: int) -> Shortened:
    """Return a table without rows from its middle, beside those that are left out already."""
    cut = len(block.rows) - most
    if cut <= 0:
        return block
    below = len(block.rows) - (block.left_out_after if block.left_out else len(block.rows))
    # Each side of the gap gives in proportion to its rows, and keeps one row if it has any.
    last = 0 if not below or most < 2 else max(1, most * below // len(block.rows))
    if not block.left_out and most > 1 and isinstance(block, ForestPlot):
        last = most // 2
    first = most - last
    kept = block.rows[:first] + block.rows[len(block.rows) - last :]
    return msgspec.structs.replace(block, rows=kept, left_out=block.left_out + cut, left_out_after=first)


def _items(block: BulletList, brevity: Brevity) -> BulletList:
    """Return a list without its last items; plain ones give way before warnings."""
    kept: list[Item] = []
    left = {True: brevity.warnings, False: brevity.items}
    for item in block.items:
        warning = item.tone is Tone.WARNING
        if left[warning] > 0:
            kept.append(item)
            left[warning] -= 1
    missing = len(block.items) - len(kept)
    return msgspec.structs.replace(block, items=(*kept, *((Item(f"{missing} more with --all"),) if missing else ())))
