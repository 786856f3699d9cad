# SPDX-License-Identifier: MIT OR Apache-2.0
"""Published figures: how often the signs of differences agree with a published page."""

from __future__ import annotations

from collections.abc import Iterator

from swapstone.model import Analysis
from swapstone.report import formatting
from swapstone.report.context import ReportContext
from swapstone.report.document import Block, BulletList, Cell, Column, Heading, Item, Paragraph, Section, Table
from swapstone.report.topics import sentences
from swapstone.report.topics.comparison_groups import Row, comparison_groups, disagreeing, memory_rows, shown
from swapstone.report.topics.topic import Topic


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return a section that names the page and counts agreements; none where no row has a published figure."""
    if not context.published:
        return ()
    groups = comparison_groups(context, analysis)
    times, memory = tuple(row for group in groups for row in group.rows), memory_rows(groups)
    if not any(row.published for row in (*times, *memory)):
        return ()
    return (Section(title="Comparison with the published page", blocks=tuple(_blocks(context, times, memory))),)


def _blocks(context: ReportContext, times: tuple[Row, ...], memory: tuple[Row, ...]) -> Iterator[Block]:
    yield Paragraph(f"Published: {sentences.page(context.published)}")
    items = (Item(f"Time: {sentences.against_page(times)}"), Item(f"Memory: {sentences.against_page(memory)}"))
    yield BulletList(items=items)
    off = disagreeing(times, memory)
    if off:
        yield Heading("Rows whose sign disagrees")
        head = ("workload", "metric", "here", "page")
        yield Table(
            title="Rows whose sign differs from the published one",
            columns=tuple(Column((name,), right=place > 1) for place, name in enumerate(head)),
            rows=tuple(map(_cells, off)),
        )


def _cells(row: Row) -> tuple[Cell, ...]:
    c = row.comparison
    effect = shown(c)
    return (
        Cell(c.workload, code=True),
        Cell(sentences.metric_name(c.metric.name)),
        Cell("" if effect is None else formatting.effect(effect, c)),
        Cell(formatting.ratio(row.published) if row.published else ""),
    )


PUBLISHED_FIGURES = Topic("published-figures", sections, selective=True)
