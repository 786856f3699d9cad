# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records of one experiment side by side: what the tables by board and by clock have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from swapstone.comparison.clock_scales import ScaleRow
from swapstone.comparison.several_boards import BoardRow
from swapstone.model import IDLE
from swapstone.report.document import BulletList, Cell, Commands, Document, Fold, Item, Paragraph, Section, Tone
from swapstone.report.tables import Field, Row, data_of, table_of

_MOST_ROWS = 16
"""Rows of a brief table. A page has all."""


Placed = TypeVar("Placed", BoardRow, ScaleRow)


def name_of(workload: str, load: str) -> str:
    """Return a workload's name, with its load unless that is ``idle``."""
    return workload if load == IDLE.name else f"{workload} under {load}"


def code(text: str) -> Cell:
    """Return the cell of a name that a user types."""
    return Cell(text, code=True)


def place_fields(kind: type[Placed]) -> tuple[Field[Placed], ...]:
    """Return the fields that name a row."""
    del kind
    return (
        Field("workload", "", lambda row: name_of(row.workload, row.load), code, right=False),
        Field("", "suite", lambda row: row.suite),
        Field("", "workload", lambda row: row.workload),
        Field("", "load", lambda row: row.load),
        Field("metric", "metric", lambda row: row.metric.name, right=False),
        Field("candidate", "", lambda row: row.candidate.short_label, right=False),
        Field("", "candidate", lambda row: row.candidate.label),
    )


def rows_section(
    name: str,
    title: str,
    fields: Sequence[Field[Row]],
    rows: Sequence[Row],
    ordered: Sequence[Row],
    *,
    rest: str,
    notes: Iterable[str],
    below: Iterable[str] = (),
) -> Section:
    """Return the section with every row.

    Args:
        name: of the section, unique in its document.
        title: heading.
        fields: of the table; the first three columns name a row.
        rows: for programs.
        ordered: for readers; those beyond the first are folded away.
        rest: what the rows of the fold are.
        notes: sentences above the table.
        below: sentences below it.
    """
    shown, more = [table_of(title, fields, part, keys=3) for part in (ordered[:_MOST_ROWS], ordered[_MOST_ROWS:])]
    fold = Fold(summary=f"{len(more.rows)} more, {rest}", blocks=(more,), brief=False)
    above, under = [tuple(Paragraph(text, Tone.NOTE) for text in texts) for texts in (notes, below)]
    return Section(
        title=title,
        name=name,
        blocks=(*above, shown, *((fold,) if more.rows else ()), *under),
        data=data_of(fields, rows),
    )


def document_of(
    title: str, answer: str, section: Section, records: Iterable[tuple[str, str, str, str]], each: str
) -> Document:
    """Return a table as a document, the answer first.

    Args:
        title: of the document.
        answer: the result in a sentence.
        section: the rows.
        records: of each record its label, its answer, the purpose of a command and the command that shows it.
        each: what a record is of, e.g. ``board``.
    """
    found = tuple(records)
    answers = tuple(Item(text, label=label) for label, text, _, _ in found)
    commands = tuple((purpose, command) for _, _, purpose, command in found)
    more = (
        Section(title=f"The answer of each {each}", blocks=(BulletList(items=answers),)),
        Section(title="What to do next", blocks=(Commands(commands=commands),)),
    )
    return Document(title=title, answer=answer, sections=(section, *(more if found else ())))
