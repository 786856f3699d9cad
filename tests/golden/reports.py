# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reports of an analysis in every format, and the texts of a section, for tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from swapstone.core.model import Analysis
from swapstone.core.report import record_report
from swapstone.core.report.context import ReportContext, Selection
from swapstone.core.report.document import Document, Drawing, Section, Table, notes_of
from swapstone.core.report.render import html, markdown, terminal
from swapstone.core.report.render.terminal import Terminal


def document(context: ReportContext, analysis: Analysis, selection: Selection | None = None) -> Document:
    """Return the document of an analysis."""
    return record_report.document_of(
        msgspec.structs.replace(context, selection=selection or context.selection), analysis
    )


def as_text(
    context: ReportContext,
    analysis: Analysis,
    *,
    width: int = 80,
    colour: bool = False,
    ascii_only: bool = False,
    selection: Selection | None = None,
) -> str:
    """Return a report for a terminal."""
    every = selection is not None and selection.every
    shown = Terminal(width=width, colour=colour, ascii_only=ascii_only, every=every)
    return terminal.render(document(context, analysis, selection), shown)


def as_whole_text(
    context: ReportContext,
    analysis: Analysis,
    *,
    width: int = 80,
    colour: bool = False,
    ascii_only: bool = False,
    selection: Selection | None = None,
) -> str:
    """Return a report with every section for a terminal."""
    shown = Terminal(width=width, colour=colour, ascii_only=ascii_only, every=True)
    return terminal.render(document(context, analysis, selection), shown)


def as_markdown(context: ReportContext, analysis: Analysis) -> str:
    """Return a report as Markdown."""
    return markdown.render(document(context, analysis))


def as_html(context: ReportContext, analysis: Analysis) -> str:
    """Return a report as a page."""
    return html.render(document(context, analysis))


class Texts(NamedTuple):
    """A section's table, drawing and sentences as plain values."""

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[bool, ...]
    data: tuple[dict[str, str | float | None], ...]
    notes: tuple[str, ...]
    flags: tuple[str, ...]
    svg: str


def texts(section: Section) -> Texts:
    """Return the texts of a section of one table or drawing."""
    table = next((each for each in section.blocks if isinstance(each, Table)), None)
    drawing = next((each for each in section.blocks if isinstance(each, Drawing)), Drawing(title="", svg=""))
    return Texts(
        name=section.name,
        title=section.title,
        head=tuple(column.name for column in table.columns) if table else (),
        rows=tuple(tuple(cell.text for cell in row) for row in table.rows) if table else (),
        right=tuple(column.right for column in table.columns) if table else (),
        data=section.data,
        notes=notes_of(section),
        flags=section.warnings,
        svg=drawing.svg,
    )


def all_texts(sections: Iterable[Section]) -> tuple[Texts, ...]:
    """Return the texts of several sections."""
    return tuple(map(texts, sections))
