# SPDX-License-Identifier: MIT OR Apache-2.0
"""Crossed factors: each variant against the first, main effects, interactions, and what they mean in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from swapstone.core.model import Analysis, Comparison, FactorEffect, Index, Interaction
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import (
    Block,
    BulletList,
    Cell,
    Column,
    Fold,
    Heading,
    Item,
    Paragraph,
    Section,
    Table,
    Tone,
)
from swapstone.core.report.topics import factorial_tables as tables
from swapstone.core.report.topics import interaction_plot, sentences
from swapstone.core.report.topics.comparison_groups import shown
from swapstone.core.report.topics.factorial_answer import answer
from swapstone.core.report.topics.factorial_tables import CrossedMetric, Matrix
from swapstone.core.report.topics.topic import Topic
from swapstone.core.report.verdict_groups import PRESENCE_MARKS, VERDICT_MARKS

_MOST = 6
"""Number of interactions of workloads in a brief report."""


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return one section per suite, load and metric; none of an experiment with one factor."""
    return tuple(
        Section(
            title=f"{each.title}: {sentences.metric_name(each.metric.name)}, each variant against the first",
            blocks=tuple(_blocks(each)),
        )
        for each in tables.crossed_metrics(context, analysis, context.selection.metrics)
    )


def _blocks(each: CrossedMetric) -> Iterator[Block]:
    name = sentences.heading(each.metric.name)
    yield Paragraph(f"{sentences.upper_first(each.metric.meaning)}. Ratios to the first variant.", Tone.NOTE)
    yield _matrix_table(each)
    for text in each.rejected:
        yield Paragraph(text)
    if each.main.lines:
        yield Fold(
            summary=f"{name}, main effects",
            blocks=tuple(_main_effects(each)),
            open=not each.brief,
            brief=not each.brief,
        )
    if each.interactions.lines:
        yield Fold(
            summary=f"{name}, interactions",
            blocks=tuple(_interactions(each)),
            open=not each.brief,
            brief=not each.brief,
        )


def _matrix_table(each: CrossedMetric) -> Table:
    matrix: Matrix = each.matrix
    columns = (Column(matrix.factors), *(Column(levels, right=True) for levels in (matrix.baseline, *matrix.variants)))
    rows = [
        (Cell(name, code=True), Cell(tables.baseline_text(line)), *map(_comparison_cell, line))
        for name, line in matrix.lines
    ]
    if matrix.indices:
        rows.append((Cell(tables.INDEX), Cell(), *map(_index_cell, matrix.indices)))
    title = f"{each.title}, {sentences.metric_name(each.metric.name)}: the first variant, then the ratio of each other to it"
    return Table(title=title, columns=columns, rows=tuple(rows), dense=True)


def _comparison_cell(c: Comparison | None) -> Cell:
    if c is None:
        return Cell()
    effect = shown(c)
    return Cell(effect="" if effect is None else formatting.effect(effect, c), mark=VERDICT_MARKS[c.verdict])


def _index_cell(index: Index | None) -> Cell:
    if index is None:
        return Cell()
    known = index.low is not None and index.high is not None
    between = f"{formatting.ratio(index.low or 0)} to {formatting.ratio(index.high or 0)}" if known else ""
    return Cell(effect=formatting.ratio(index.effect), note=between)


def _main_effects(each: CrossedMetric) -> Iterator[Block]:
    yield Paragraph("Each is the mean over the other factors' levels.", Tone.NOTE)
    yield Table(
        title=f"{each.title}, main effects on {sentences.metric_name(each.metric.name)}",
        columns=(Column(("workload",)), *(Column((change.label,)) for change in each.main.columns)),
        rows=tuple((_name(name), *map(_estimate_cell, cells)) for name, cells in each.main.lines),
        dense=True,
    )
    if dependences := tables.dependences(each.main):
        yield Paragraph(dependences, Tone.NOTE)
    if left_out := tables.left_out(each.main):
        yield Paragraph(left_out)


def _name(name: str) -> Cell:
    return Cell(name, code=name != tables.INDEX)


def _estimate_cell(cell: FactorEffect | Interaction | None) -> Cell:
    if cell is None:
        return Cell()
    depends_on = cell.depends_on if isinstance(cell, FactorEffect) else ()
    return Cell(
        effect="" if cell.effect is None else formatting.effect(cell.effect, cell),
        interval="" if cell.effect is None else formatting.interval(cell),
        mark=VERDICT_MARKS[cell.verdict] if isinstance(cell, FactorEffect) else PRESENCE_MARKS[cell.presence],
        note=f"depends on {', '.join(depends_on)}" if depends_on else "",
        sign="*" if depends_on else "",
    )


def _interactions(each: CrossedMetric) -> Iterator[Block]:
    table = each.interactions
    yield Paragraph(
        "Each is the ratio of the first level with the second, over its ratio without: 1 for none.", Tone.NOTE
    )
    yield Table(
        title=f"{each.title}, interactions on {sentences.metric_name(each.metric.name)}",
        columns=(Column(("workload",)), *(Column((tables.pair(*pair),)) for pair in table.columns)),
        rows=tuple((_name(name), *map(_estimate_cell, cells)) for name, cells in table.lines),
        dense=True,
    )
    present = tables.present_interactions(table.cells)
    if present:
        of_index = sum(not one.workload for one in present)
        items = tuple(_interaction_item(one) for one in present)
        yield BulletList(items=items, most=of_index + _MOST, rest="more that are present")
    if counted := tables.counted(table):
        yield Paragraph(counted)
    if undecided := tables.undecided(table.cells):
        title = "Undecided, with the smallest interaction that would be detected:"
        yield BulletList(title=title, items=tuple(map(Item, undecided)), most=_MOST)


def _interaction_item(each: Interaction) -> Item:
    text = f"{tables.sentence(each)}."
    if each.workload:
        return Item(text, label=each.workload, code=True)
    return Item(text, label=sentences.upper_first(tables.INDEX), tone=Tone.STRONG)


def page(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the sections of a page: those of `sections`, each with its interaction plots below the matrix."""
    metrics = tables.crossed_metrics(context, analysis, context.selection.metrics)
    return tuple(
        Section(title=section.title, blocks=(*section.blocks[:2], *_plots(context, each), *section.blocks[2:]))
        for each, section in zip(metrics, sections(context, analysis), strict=True)
    )


def _plots(context: ReportContext, each: CrossedMetric) -> Iterator[Block]:
    drawings = interaction_plot.drawings(context, each)
    if drawings:
        yield Heading("Interaction plots")
        yield Paragraph(
            "Each point is a variant's ratio to the first, with its interval, on a logarithmic axis. Parallel lines: the factors multiply, "
            "there is no interaction. After the index, the workloads with the largest interactions.",
            Tone.NOTE,
        )
        yield from drawings


FACTORIAL = Topic("factorial", 120, sections, selective=True, answer=answer, remaining=True, page=page)
