# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer of a bisection as a document, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swapstone.core.model.number_text import exact_effect, quantity
from swapstone.core.report.document import Commands, Document, Item, Section
from swapstone.core.report.printed_json import printed_json
from swapstone.core.report.tables import text_table
from swapstone.parts.bisect.bisect import BisectResult, Step
from swapstone.parts.gate.gate_result import Row
from swapstone.parts.gate.revisions import SHORT

_HEAD = ("commit", "run", "row", "before", "after", "difference", "reverted")
_PARTS = ("own_code", "kernel")
"""Rows that a row of instructions has in it."""


def document_of(result: BisectResult) -> Document:
    """Return the document: the sentence, every step with what it changes, and how to repeat it."""
    lines = [line for step in result.steps for line in _lines(step)]
    ranges = [f"{each.since[:SHORT]}..{each.commit[:SHORT]}: {each.why}." for each in result.steps if each.why]
    unverified = [f"{each.commit[:SHORT]} is {each.check}." for each in result.steps if each.check.startswith("not")]
    first = next(iter(result.steps), None)
    commands = [("repeat", result.repeat)] + ([("look at it", f"git show {first.commit[:SHORT]}")] if first else [])
    return Document(
        title=f"{result.first[:SHORT]}..{result.last[:SHORT]}",
        answer=result.answer,
        lead=(
            f"{result.points} of {result.commits} commits change a file that decides what is built; {result.builds} builds were made.",
        ),
        sections=(Section(title="Steps", blocks=(text_table("Steps", _HEAD, lines, keys=3, last=-1),)),)
        if lines
        else (),
        notices=tuple(map(Item, (*ranges, *unverified, *result.notes))),
        closing=(Section(title="What to do next", blocks=(Commands(commands=tuple(commands)),)),),
    )


def _lines(step: Step) -> Iterator[tuple[str, ...]]:
    for number, row in enumerate(shown_rows(step.rows)):
        name = f"{step.commit[:SHORT]}{f' in {step.merge[:SHORT]}' if step.merge else ''}"
        undone = row_cells(step.undone)[-1] if step.undone and not number else ""
        yield "" if number else name, *row_cells(row), undone


def shown_rows(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return rows without the parts of instructions where those are shown themselves."""
    whole = {row.run for row in rows if row.metric == "instructions"}
    return tuple(row for row in rows if row.metric not in _PARTS or row.run not in whole)


def row_cells(row: Row) -> tuple[str, ...]:
    """Return run, metric, both values and the difference as texts."""
    amount = exact_effect(row.difference, row.unit)
    values = (quantity(each, row.unit, significant=4) for each in (row.base, row.head))
    return row.run, row.detail or row.metric, *values, f"{amount} ({exact_effect(row.ratio)})" if row.ratio else amount


def to_json(result: BisectResult) -> str:
    """Return the result as JSON of the format ``swapstone-bisect-result``."""
    return printed_json("bisect-result", **{name: getattr(result, name) for name in result.__struct_fields__})
