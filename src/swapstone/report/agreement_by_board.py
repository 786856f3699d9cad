# SPDX-License-Identifier: MIT OR Apache-2.0
"""Two experiments on several boards, board by board: for each the table of sizes and signs. A document, CSV and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from swapstone.comparison.agreement import AgreementTable
from swapstone.model.safe_text import safe
from swapstone.report import formatting, record_agreement
from swapstone.report.document import BulletList, Document, Item, Section
from swapstone.report.labelled import labelled
from swapstone.report.printed_json import printed_json
from swapstone.report.tables import Datum, as_csv, data_of, item

BoardAgreements = Mapping[str, AgreementTable]
"""The table of each board, by its target."""


def document_of(tables: BoardAgreements, left_out: Sequence[str] = ()) -> Document:
    """Return a section for each board, and the answers of all first.

    Args:
        tables: at least one.
        left_out: targets of which only one side has a record.
    """
    boards = list(tables)
    answers = tuple(Item(record_agreement.answer(tables[board]), label=safe(board)) for board in boards)
    sections = [
        msgspec.structs.replace(section, title=f"{safe(board)}: {found.names[0]} and {found.names[1]}")
        for board, found in tables.items()
        for section in record_agreement.document_of(found).sections
    ]
    notices = tuple(Item(f"{safe(board)} has a record on one side only, and is left out.") for board in left_out)
    count = formatting.count(len(boards), "board")
    return Document(
        title=f"Sizes and signs on {count}",
        answer=f"Two experiments on {count}, board by board; `swapstone agree` with the records of one experiment compares its boards.",
        notices=notices,
        sections=(Section(title="The answer of each board", blocks=(BulletList(items=answers),)), *sections),
    )


def to_csv(tables: BoardAgreements) -> str:
    """Return the rows of all boards, each with its target in the first column."""
    rows: list[Datum] = [
        {"board": board, **datum}
        for board, found in tables.items()
        for datum in data_of(record_agreement.fields(found.names), found.rows)
    ]
    return as_csv([item("", key) for key in rows[0]], rows)


def to_json(tables: BoardAgreements) -> str:
    """Return everything, as JSON of the format ``signs-by-board``."""
    boards = [
        {"board": board, "sentences": record_agreement.sentences(found), "signs": labelled(found)}
        for board, found in tables.items()
    ]
    return printed_json("signs-by-board", boards=boards)
