# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tables of topics, declared as fields: each has a heading for readers, a key for programs, and a function from a row to its value."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from swapstone.core.model.parts import provided
from swapstone.core.model.safe_text import spreadsheet_cell
from swapstone.core.record import RecordView
from swapstone.core.report import formatting
from swapstone.core.report.document import Cell, Column, Drawing, Paragraph, Section, Table, Tone


def comma_separated(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return CSV (RFC 4180, lines end with a newline) with a header, each cell as `spreadsheet_cell` has it."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(spreadsheet_cell, header))
    writer.writerows(map(spreadsheet_cell, row) for row in rows)
    return out.getvalue()


def plain(value: float | None) -> str:
    """Return a number without loss; a whole one without a point."""
    if value is None:
        return ""
    return f"{value:.0f}" if value == int(value) and abs(value) < 2**53 else repr(value)


Row = TypeVar("Row")
Value = str | float | None
Datum = dict[str, Value]
"""A row of a table for programs."""


def text(value: Value | Cell) -> str | Cell:
    """Return a text or a cell unchanged, and a number in full; nothing for None."""
    return "" if value is None else value if isinstance(value, Cell) else str(value)


class Field(NamedTuple, Generic[Row]):
    """A column of a table for readers, for programs, or for both.

    Attributes:
        head: its heading; empty where only programs have it.
        key: its name in `Section.data`; empty where only readers have it.
        value: a text, a number or nothing from a row, in the unit that `key` or the section states; without a key also a whole cell.
        show: the value as readers see it.
        right: whether its cells are set to the right.
    """

    head: str
    key: str
    value: Callable[[Row], Value | Cell]
    show: Callable[[Any], str | Cell] = text
    right: bool = True

    def plain(self, row: Row) -> Value:
        """Return the value for programs."""
        value = self.value(row)
        assert not isinstance(value, Cell)
        return value


def quotient(value: float | None, base: float | None) -> float | None:
    """Return a value over another one; None where one is missing, or the divisor is 0."""
    return value / base if value is not None and base else None


def known(show: Callable[[float], str], missing: str = "") -> Callable[[float | None], str]:
    """Return a formatter that prints `missing` for None, and numbers as `show` does."""
    return lambda value: missing if value is None else show(value)


def unit(name: str, missing: str = "") -> Callable[[float | None], str]:
    """Return a formatter of quantities with a unit; `missing` for None."""
    return known(lambda value: formatting.quantity(value, name), missing)


def item(head: str, key: str, show: Callable[[Any], str | Cell] = text, *, right: bool = True) -> Field[Datum]:
    """Return a field of rows that are data: the entry `key`."""
    return Field(head, key, lambda row: row.get(key), show, right)


def table_of(title: str, fields: Iterable[Field[Row]], rows: Iterable[Row], *, keys: int = 1) -> Table:
    """Return the table for readers, of the fields that have a heading.

    Args:
        title: a caption for screen readers.
        fields: the columns.
        rows: what they read.
        keys: number of first columns that name a row.
    """
    heads = [field for field in fields if field.head]

    def cell(field: Field[Row], row: Row) -> Cell:
        shown = field.show(field.value(row))
        return shown if isinstance(shown, Cell) else Cell(shown)

    return Table(
        title=title,
        columns=tuple(Column((field.head,), field.right) for field in heads),
        rows=tuple(tuple(cell(field, row) for field in heads) for row in rows),
        keys=keys,
    )


def short_table(
    title: str,
    fields: Iterable[Field[Row]],
    rows: Sequence[Row],
    most: int,
    *,
    keys: int = 1,
    optional: Collection[str] = (),
) -> Table:
    """Return the table of the first rows for an overview, with the number of those left out.

    Args:
        title: as of `table_of`.
        fields: as of `table_of`.
        rows: all of them.
        most: number of rows to print.
        keys: as of `table_of`.
        optional: headings of columns that a narrow terminal leaves out.
    """
    table = table_of(title, fields, rows[:most], keys=keys)
    left_out = max(0, len(rows) - most)
    return msgspec.structs.replace(
        table,
        columns=tuple(msgspec.structs.replace(each, optional=each.name in optional) for each in table.columns),
        left_out=left_out,
        left_out_after=most if left_out else 0,
    )


def data_of(fields: Iterable[Field[Row]], rows: Iterable[Row]) -> tuple[Datum, ...]:
    """Return the table for programs, of the fields that have a key."""
    keyed = [field for field in fields if field.key]
    return tuple({field.key: field.plain(row) for field in keyed} for row in rows)


def as_csv(fields: Iterable[Field[Row]], rows: Iterable[Row]) -> str:
    """Return the table for programs as CSV: numbers without loss, truth values as ``true`` and ``false``, nothing for None."""
    keyed = [field for field in fields if field.key]
    return comma_separated(
        (field.key for field in keyed), ((_exact(field.plain(row)) for field in keyed) for row in rows)
    )


def _exact(value: Value) -> str:
    return value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else plain(value)


def text_table(
    title: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, keys: int = 1, last: int | None = None
) -> Table:
    """Return a table of texts whose first columns name a row, and whose others are set to the right, until the column `last`."""
    right = range(keys, len(head))[:last]
    columns = tuple(Column((name,), right=place in right) for place, name in enumerate(head))
    return Table(title=title, columns=columns, rows=tuple(tuple(map(Cell, row)) for row in rows), keys=keys)


def section_of(
    name: str,
    title: str,
    fields: Iterable[Field[Row]],
    rows: Iterable[Row],
    *,
    keys: int = 1,
    data: Iterable[Row] | None = None,
    notes: Iterable[str] = (),
    warnings: Iterable[str] = (),
    drawing: Drawing | None = None,
) -> Section:
    """Return a section of one table or drawing with notes, and its data for programs.

    Args:
        name: in letters, digits and hyphens, unique in a report.
        title: its heading.
        fields: the columns; without a heading among them there is no table.
        rows: what the fields read.
        keys: number of first columns that name a row.
        data: rows for programs; None for `rows`.
        notes: sentences below the table.
        warnings: sentences above it.
        drawing: above the table on a page; None for none.
    """
    fields, rows = tuple(fields), tuple(rows)
    tables = (table_of(title, fields, rows, keys=keys),) if any(field.head for field in fields) else ()
    return Section(
        name=name,
        title=title,
        blocks=(*((drawing,) if drawing is not None else ()), *tables, *(Paragraph(note, Tone.NOTE) for note in notes)),
        data=data_of(fields, rows if data is None else data),
        warnings=tuple(warnings),
    )


Range = tuple[float, float, str]
"""The smallest and the largest value that the evidence allows, nan without them; and a sentence without the verdict."""

Ranges = Callable[[Any], Iterator[Range]]
"""Yields what a record has for a test: an object whose attributes the part names that has the kind of test."""


def stored_evidence(view: RecordView) -> dict[str, Ranges]:
    """Return the evidence that all parts have stored beside a record, by kind of test."""
    readers: tuple[Callable[[RecordView], Mapping[str, Ranges]], ...] = provided("evidence", Callable)
    return {kind: ranges for read in readers for kind, ranges in read(view).items()}
