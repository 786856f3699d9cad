# SPDX-License-Identifier: MIT OR Apache-2.0
"""Published figures: how often the signs of differences agree with a published page."""

from __future__ import annotations

from swapstone.core.model import Analysis
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import BulletList, Cell, Heading, Item, Paragraph, Section
from swapstone.core.report.tables import Field, known, table_of
from swapstone.core.report.topics import sentences
from swapstone.core.report.topics.comparison_groups import Agreement, Row, comparison_groups, memory_rows, shown
from swapstone.core.report.topics.topic import Topic
from swapstone.parts.published.data import figures, source_of


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return a section that names the page and counts agreements; none where no row has a published figure."""
    groups = comparison_groups(context, analysis)
    times, memory = tuple(row for group in groups for row in group.rows), memory_rows(groups)
    if not any(row.published for row in (*times, *memory)):
        return ()
    items = (Item(f"Time: {sentences.against_page(times)}"), Item(f"Memory: {sentences.against_page(memory)}"))
    off = [row for row in (*times, *memory) if row.agreement is Agreement.DISAGREES]
    table = table_of("Rows whose sign differs from the published one", _FIELDS, off)
    source = source_of(context.published)
    platforms = "; ".join(sorted({figure.platform for figure in figures(context.published)}))
    page = Paragraph(f"Published: {source['title']}. {source['project']}; measured on {platforms}.")
    more = (Heading("Rows whose sign disagrees"), table) if off else ()
    return (Section(title="Comparison with the published page", blocks=(page, BulletList(items=items), *more)),)


_FIELDS: tuple[Field[Row], ...] = (
    Field("workload", "", lambda row: Cell(row.comparison.workload, code=True), right=False),
    Field("metric", "", lambda row: sentences.metric_name(row.comparison.metric.name), right=False),
    Field("here", "", lambda row: formatting.estimate(row.comparison) if shown(row.comparison) is not None else ""),
    Field("page", "", lambda row: row.published, known(formatting.ratio)),
)
PUBLISHED_FIGURES = Topic("published-figures", 160, sections, selective=True)
