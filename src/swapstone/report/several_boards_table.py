# SPDX-License-Identifier: MIT OR Apache-2.0
"""The rows of an experiment on several boards: a document, CSV and JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from swapstone.comparison.several_boards import BoardRow, BoardTable
from swapstone.model.safe_text import safe
from swapstone.report import formatting, side_by_side
from swapstone.report.document import Cell, Document, Mark, Tone
from swapstone.report.labelled import labelled
from swapstone.report.printed_json import printed_json
from swapstone.report.side_by_side import place_fields
from swapstone.report.tables import Field, as_csv
from swapstone.report.verdict_marks import LEGEND, VERDICT_MARKS

MEANING = (
    "Boards are a random effect: the interval over boards (95 % for each row, not corrected for their number) contains the spread between "
    "them, and is wide with few boards. Spread is the standard deviation of the boards' true ratios."
)


def answer(table: BoardTable) -> str:
    """Return how many rows have one verdict on every board, and which board differs."""
    held, total = sum(table.held(row) for row in table.rows), len(table.rows)
    rows = formatting.count(total, "row")
    text = f"{held} of {rows} {'has' if held == 1 else 'have'} the same verdict on each of {len(table.boards)} boards and over all of them"
    counts = Counter(board for row in table.rows for board in row.deviating)
    if not counts:
        return f"{text}; no board is shown to differ from the others."
    named = "; ".join(
        f"{_named(table, board)}, differs in {formatting.count(number, 'row')}"
        for board, number in counts.most_common()
    )
    return f"{text}; {named}."


def _named(table: BoardTable, board: int) -> str:
    return f"{_label(board)}, {safe(table.boards[board])}"


def _label(board: int) -> str:
    return f"board {board + 1}"


def _side_fields(board: int, name: str) -> tuple[Field[BoardRow], ...]:
    def side(row: BoardRow) -> str:
        found = row.sides[board]
        return (
            ""
            if found.effect is None
            else f"{formatting.effect(found.effect, found)} {VERDICT_MARKS[found.verdict].letter}"
        )

    return (
        Field(_label(board), "", side),
        Field("", f"board_{board + 1}", lambda _row: name),
        Field("", f"effect_{board + 1}", lambda row: row.sides[board].effect),
        Field("", f"verdict_{board + 1}", lambda row: row.sides[board].verdict.value),
    )


def _over_boards(row: BoardRow) -> str:
    width = row.high - row.low
    ratio, low, high = (formatting.ratio(value, width) for value in (row.ratio, row.low, row.high))
    return f"{ratio} ({low} to {high}) {VERDICT_MARKS[row.verdict].letter}"


def _deviating(row: BoardRow) -> Cell:
    names = ", ".join(map(_label, row.deviating))
    return Cell(mark=Mark(names, "", Tone.WARNING) if names else None)


def _fields(table: BoardTable) -> tuple[Field[BoardRow], ...]:
    return (
        *place_fields(BoardRow),
        *(field for board, name in enumerate(table.boards) for field in _side_fields(board, name)),
        Field("over boards", "", _over_boards),
        Field("", "ratio", lambda row: row.ratio),
        Field("", "low", lambda row: row.low),
        Field("", "high", lambda row: row.high),
        Field("spread", "spread", lambda row: row.spread, lambda spread: f"{100 * math.expm1(spread):.1f} %"),
        Field("", "verdict", lambda row: row.verdict.value),
        Field("differs", "", _deviating, right=False),
        Field("", "deviating", lambda row: " ".join(table.boards[board] for board in row.deviating)),
    )


def document_of(table: BoardTable, records: Sequence[tuple[str, str]] = ()) -> Document:
    """Return the table as a document, the answer first.

    Args:
        table: of at least three boards.
        records: pairs (answer of a record, command that shows it), parallel to the boards; none to leave them out.
    """
    left_out = f"{formatting.count(table.omitted, 'row')} without 3 pairs of positive values on every board: left out."
    section = side_by_side.rows_section(
        "boards",
        "Rows by board",
        _fields(table),
        table.rows,
        sorted(table.rows, key=lambda row: (not row.deviating, table.held(row), -row.spread)),
        rest="of boards that differ less",
        notes=(f"{MEANING} Verdicts: {LEGEND}.",),
        below=(left_out,) if table.omitted else (),
    )
    return side_by_side.document_of(
        f"The same experiment on {len(table.boards)} boards",
        answer(table),
        section,
        (
            (_named(table, board), text, f"the record of {_label(board)}", command)
            for board, (text, command) in enumerate(records)
        ),
        "board",
    )


def to_csv(table: BoardTable) -> str:
    """Return one line per row; an empty cell stands for no number."""
    return as_csv(_fields(table), table.rows)


def to_json(table: BoardTable) -> str:
    """Return everything, as JSON of the format ``boards``."""
    return printed_json("boards", answer=answer(table), table=labelled(table))
