# SPDX-License-Identifier: MIT OR Apache-2.0
"""The rows of an experiment on several boards: a document, CSV and JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from swapstone.comparison.several_boards import BoardRow, BoardTable
from swapstone.model.safe_text import safe
from swapstone.report import formatting
from swapstone.report.csv_output import comma_separated, plain
from swapstone.report.document import (
    Block,
    BulletList,
    Cell,
    Column,
    Commands,
    Document,
    Fold,
    Item,
    Mark,
    Paragraph,
    Section,
    Table,
    Tone,
)
from swapstone.report.labelled import labelled
from swapstone.report.printed_json import printed_json
from swapstone.report.verdict_marks import LEGEND, VERDICT_MARKS

_MOST_ROWS = 16
"""Rows of a brief table. A page has all."""
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


def _name(row: BoardRow) -> str:
    return row.workload if row.load == "idle" else f"{row.workload} under {row.load}"


def _spread(row: BoardRow) -> str:
    """Return the spread as a share of the ratio."""
    return f"{100 * math.expm1(row.spread):.1f} %"


def _named(table: BoardTable, board: int) -> str:
    return f"{_label(board)}, {safe(table.boards[board])}"


def _cells(row: BoardRow) -> Iterator[Cell]:
    yield Cell(_name(row), code=True)
    yield Cell(row.metric.name)
    yield Cell(row.candidate.short_label)
    for side in row.sides:
        mark = VERDICT_MARKS[side.verdict]
        yield Cell("" if side.effect is None else f"{formatting.effect(side.effect, side)} {mark.letter}")
    width = row.high - row.low
    low, high = formatting.ratio(row.low, width), formatting.ratio(row.high, width)
    yield Cell(f"{formatting.ratio(row.ratio, width)} ({low} to {high}) {VERDICT_MARKS[row.verdict].letter}")
    yield Cell(_spread(row))
    names = ", ".join(_label(board) for board in row.deviating)
    yield Cell(mark=Mark(names, "", Tone.WARNING)) if names else Cell("")


def _label(board: int) -> str:
    return f"board {board + 1}"


def _rows(table: BoardTable) -> Section:
    boards = (Column((_label(board),), right=True) for board, _ in enumerate(table.boards))
    columns = (
        *(Column(("workload",)), Column(("metric",)), Column(("candidate",)), *boards),
        *(Column(("over boards",), right=True), Column(("spread",), right=True), Column(("differs",))),
    )
    ordered = sorted(table.rows, key=lambda row: (not row.deviating, table.held(row), -row.spread))
    title = "Rows by board"
    shown, rest = (
        Table(title=title, columns=columns, rows=tuple(tuple(_cells(row)) for row in rows), keys=3)
        for rows in (ordered[:_MOST_ROWS], ordered[_MOST_ROWS:])
    )
    blocks: list[Block] = [Paragraph(f"{MEANING} Verdicts: {LEGEND}.", Tone.NOTE), shown]
    if rest.rows:
        blocks.append(Fold(summary=f"{len(rest.rows)} more, of boards that differ less", blocks=(rest,), brief=False))
    if table.omitted:
        left_out = formatting.count(table.omitted, "row")
        blocks.append(Paragraph(f"{left_out} without 3 pairs of positive values on every board: left out.", Tone.NOTE))
    return Section(title=title, name="boards", blocks=tuple(blocks), data=_data(table))


def document_of(table: BoardTable, records: Sequence[tuple[str, str]] = ()) -> Document:
    """Return the table as a document, the answer first.

    Args:
        table: of at least three boards.
        records: pairs (answer of a record, command that shows it), parallel to the boards; none to leave them out.
    """
    title = f"The same experiment on {len(table.boards)} boards"
    sections = [_rows(table)]
    if records:
        sections += [
            Section(
                title="The answer of each board",
                blocks=(
                    BulletList(
                        items=tuple(Item(text, label=_named(table, board)) for board, (text, _) in enumerate(records))
                    ),
                ),
            ),
            Section(
                title="What to do next",
                blocks=(
                    Commands(
                        commands=tuple(
                            (f"the record of {_label(board)}", shows) for board, (_, shows) in enumerate(records)
                        )
                    ),
                ),
            ),
        ]
    return Document(title=title, answer=answer(table), sections=tuple(sections))


def _head(table: BoardTable) -> tuple[str, ...]:
    sides = (f"{name}_{number}" for number, _ in enumerate(table.boards, 1) for name in ("board", "effect", "verdict"))
    start = ("suite", "workload", "load", "metric", "candidate")
    return (*start, *sides, "ratio", "low", "high", "spread", "verdict", "deviating")


def _values(row: BoardRow, table: BoardTable) -> tuple[str | float | None, ...]:
    sides = (
        value
        for board, side in zip(table.boards, row.sides, strict=True)
        for value in (board, side.effect, side.verdict.value)
    )
    start = (row.suite, row.workload, row.load, row.metric.name, row.candidate.label)
    names = " ".join(table.boards[board] for board in row.deviating)
    return (*start, *sides, row.ratio, row.low, row.high, row.spread, row.verdict.value, names)


def _data(table: BoardTable) -> tuple[dict[str, str | float | None], ...]:
    return tuple(dict(zip(_head(table), _values(row, table), strict=True)) for row in table.rows)


def to_csv(table: BoardTable) -> str:
    """Return one line per row; an empty cell stands for no number."""
    lines = (
        tuple(value if isinstance(value, str) else plain(value) for value in _values(row, table)) for row in table.rows
    )
    return comma_separated(_head(table), lines)


def to_json(table: BoardTable) -> str:
    """Return everything, as JSON of the format ``boards``."""
    return printed_json("boards", answer=answer(table), table=labelled(table))
