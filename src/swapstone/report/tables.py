# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tables of topics, declared as fields: each has a heading for readers, a key for programs, and a function from a row to its value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from swapstone.report import formatting
from swapstone.report.document import Cell, Column, Drawing, Paragraph, Section, Table, Tone

Row = TypeVar("Row")
Value = str | float | None
Datum = dict[str, Value]
"""A row of a table for programs."""


def text(value: Value) -> str:
    """Return a value as it is; nothing for None."""
    return "" if value is None else str(value)


class Field(NamedTuple, Generic[Row]):
    """A column of a table for readers, for programs, or for both.

    Attributes:
        head: its heading; empty where only programs have it.
        key: its name in `Section.data`; empty where only readers have it.
        value: a text, a number or nothing from a row, in the unit that `key` or the section states.
        show: the value as readers see it.
        right: whether its cells are set to the right.
    """

    head: str
    key: str
    value: Callable[[Row], Value]
    show: Callable[[Any], str] = text
    right: bool = True


def known(show: Callable[[float], str], missing: str = "") -> Callable[[float | None], str]:
    """Return a formatter that prints `missing` for None, and numbers as `show` does."""
    return lambda value: missing if value is None else show(value)


def unit(name: str, missing: str = "") -> Callable[[float | None], str]:
    """Return a formatter of quantities with a unit; `missing` for None."""
    return known(lambda value: formatting.quantity(value, name), missing)


def item(head: str, key: str, show: Callable[[Any], str] = text, *, right: bool = True) -> Field[Datum]:
    """Return a field of rows that are data: the entry `key`."""
    return Field(head, key, lambda row: row.get(key), show, right)


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
    heads = [field for field in fields if field.head]
    table = Table(
        title=title,
        columns=tuple(Column((field.head,), field.right) for field in heads),
        rows=tuple(tuple(Cell(field.show(field.value(row))) for field in heads) for row in rows),
        keys=keys,
    )
    drawn = drawing is not None and (drawing.svg or drawing.lines)
    blocks = (*((drawing,) if drawing is not None and drawn else ()), *((table,) if heads else ()))
    return Section(
        name=name,
        title=title,
        blocks=(*blocks, *(Paragraph(note, Tone.NOTE) for note in notes)),
        data=tuple(
            {field.key: field.value(row) for field in fields if field.key} for row in (rows if data is None else data)
        ),
        warnings=tuple(warnings),
    )
