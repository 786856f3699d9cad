# SPDX-License-Identifier: MIT OR Apache-2.0
"""Blocks in terms of five simple ones, for renderers that have no better form for the others."""

from __future__ import annotations

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
            return (_forest_table(block),)
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


def _forest_table(plot: ForestPlot) -> Table:
    """Return a forest plot as a table: name, both values, ratio, interval and verdict, and the reference ratio."""
    reference = bool(plot.reference_name)
    names = ["workload", plot.before_name, plot.after_name, "ratio", "interval", "verdict"]
    names += [plot.reference_name, "sign"] * reference
    right = (False, True, True, True, True, False, True, False)
    columns = tuple(Column((name,), flush) for name, flush in zip(names, right, strict=False))
    return Table(title=plot.title, columns=columns, rows=tuple(_cells(row, reference=reference) for row in plot.rows))


def _result_group(table: ResultTable, group: ResultGroup) -> tuple[SimpleBlock, ...]:
    """Return a heading, the metric's meaning and a table."""
    plot = ForestPlot(
        title=f"{table.title}: {group.title}",
        before_name=table.before_name,
        after_name=table.after_name,
        margin=table.margin,
        rows=tuple(each.row for each in group.rows),
        reference_name=table.reference_name,
    )
    simple = _forest_table(plot)
    columns = (simple.columns[0], *(Column((name,)) for name in table.key_names), *simple.columns[1:])
    lines = zip(group.rows, simple.rows, strict=True)
    keyed = tuple((cells[0], *map(Cell, each.keys), *cells[1:]) for each, cells in lines)
    return (
        Heading(group.title),
        *((Paragraph(group.note, Tone.NOTE),) if group.note else ()),
        Table(title=simple.title, columns=columns, rows=keyed, keys=1 + len(table.key_names)),
    )


def _cells(row: ForestRow, *, reference: bool) -> tuple[Cell, ...]:
    values = (Cell(row.name, code=True), *map(Cell, (row.before, row.after, row.effect, row.interval)))
    beside = (Cell(row.reference_text), Cell(row.reference_note)) if reference else ()
    return (*values, Cell(mark=row.mark, note=row.detail), *beside)
