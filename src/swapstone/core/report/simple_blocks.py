# SPDX-License-Identifier: MIT OR Apache-2.0
"""Blocks in terms of five simple ones, for renderers that have no better form for the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from swapstone.core.report.document import (
    Block,
    BulletList,
    Cell,
    Column,
    Commands,
    Drawing,
    Facts,
    Fold,
    ForestPlot,
    ForestRow,
    Heading,
    Item,
    Links,
    PairedRuns,
    Paragraph,
    ResultGroup,
    ResultTable,
    Table,
    Tone,
)
from swapstone.core.report.tables import text_table

SimpleBlock = Paragraph | Heading | BulletList | Table | Drawing


def simplified(block: Block) -> tuple[SimpleBlock, ...]:
    """Return paragraphs, headings, lists, tables and drawings with the content of a block."""
    match block:
        case Paragraph() | Heading() | BulletList() | Table() | Drawing():
            return (block,)
        case PairedRuns():
            return (Paragraph(f"{block.title}: {block.text}" if block.title else block.text),)
        case ForestPlot():
            return (_ratio_table(block, block.title, ((row, ()) for row in block.rows), ()),)
        case ResultTable():
            return tuple(simple for group in block.groups for simple in _result_group(block, group))
        case Facts():
            return (text_table("Facts", ("what", "value"), block.pairs, last=0),)
        case Commands():
            return (BulletList(items=tuple(Item(command, label=what) for what, command in block.commands)),)
        case Links():
            return (BulletList(items=tuple(Item(where, label=what) for what, where in block.links)),)
        case Fold():
            return (Heading(block.summary), *(simple for each in block.blocks for simple in simplified(each)))
        case _:
            assert_never(block)


def _result_group(table: ResultTable, group: ResultGroup) -> tuple[SimpleBlock, ...]:
    """Return a heading, the metric's meaning and a table."""
    lines = ((each.row, each.keys) for each in group.rows)
    ratios = _ratio_table(table, f"{table.title}: {group.title}", lines, table.key_names)
    return (Heading(group.title), *([Paragraph(group.note, Tone.NOTE)] if group.note else []), ratios)


def _ratio_table(
    block: ForestPlot | ResultTable,
    title: str,
    lines: Iterable[tuple[ForestRow, tuple[str, ...]]],
    keys: tuple[str, ...],
) -> Table:
    """Return ratios as a table: name and further keys, both values, ratio, interval and verdict, and the reference ratio."""
    reference = bool(block.reference_name)
    names = ["workload", *keys, block.before_name, block.after_name, "ratio", "interval", "verdict"]
    names += [block.reference_name, "sign"] * reference
    right = (*[False] * (1 + len(keys)), True, True, True, True, False, True, False)
    return Table(
        title=title,
        columns=tuple(Column((name,), flush) for name, flush in zip(names, right, strict=False)),
        rows=tuple(_cells(row, more, reference=reference) for row, more in lines),
        keys=1 + len(keys),
    )


def _cells(row: ForestRow, keys: tuple[str, ...], *, reference: bool) -> tuple[Cell, ...]:
    values = map(Cell, (*keys, row.before, row.after, row.effect, row.interval))
    beside = (Cell(row.reference_text), Cell(row.reference_note)) if reference else ()
    return (Cell(row.name, code=True), *values, Cell(mark=row.mark, note=row.detail), *beside)
