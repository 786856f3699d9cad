# SPDX-License-Identifier: MIT OR Apache-2.0
"""What `swapstone agree` prints: records of one experiment side by side, or two experiments on several boards, board by board."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Mapping, Sequence

from swapstone.core.comparison.side_by_side import Question, SideBySide
from swapstone.core.model import UserError
from swapstone.core.model.safe_text import safe
from swapstone.core.record import find_records
from swapstone.core.report import side_by_side_table
from swapstone.core.report.document import Document
from swapstone.core.report.render import markdown
from swapstone.core.session.record_handle import Record, open_record

_BOARD = re.compile(r"board-[1-9][0-9]{0,5}", re.ASCII)
"""The folder of a board's record, as `swapstone compare --out` makes it."""


@dataclasses.dataclass(frozen=True)
class AgreementOutput:
    """Records side by side.

    Attributes:
        document: for renderers, the answer first.
        tables: by the name of the board that both records are of; empty for a table of its own.
    """

    document: Document
    tables: Mapping[str, SideBySide]

    def text(self, kind: str) -> str:
        """Return the text of a format: ``markdown``, ``csv`` or ``json``."""
        if kind == "markdown":
            return markdown.render(self.document)
        return (side_by_side_table.to_csv if kind == "csv" else side_by_side_table.to_json)(self.tables)


def agreement_of_names(names: Sequence[str]) -> AgreementOutput:
    """Return the records that names stand for side by side.

    Args:
        names: as of `swapstone.core.session.record_handle.open_record`, or of folders with the records of several boards. One such folder
            stands for its records; two, or one and a record, are compared board by board.

    Raises:
        UserError: there is no such record, or the records can't be compared.
    """
    groups = [records_of(name) for name in names]
    if len(groups) == 1 or all(len(group) == 1 for group in groups):
        return agreement_of([record for group in groups for record in group])
    if len(groups) != 2:
        raise UserError(
            "The records of several boards are compared with those of one other experiment.",
            f"Name two: swapstone agree {shlex.join(names[:2])}",
        )
    return _by_board(*groups)


def records_of(name: str) -> list[Record]:
    """Return one record, or those of a folder of several boards, in their order."""
    paths = find_records(name)
    if len(paths) < 2 or not all(_BOARD.fullmatch(path.name) for path in paths):
        return [open_record(name)]
    return [Record(path) for path in sorted(paths, key=lambda path: int(path.name.removeprefix("board-")))]


def agreement_of(records: Sequence[Record]) -> AgreementOutput:
    """Return records side by side, with the answer of each.

    Args:
        records: as of `Record.side_by_side`.

    Raises:
        UserError: the records can't be compared, or can't be read.
    """
    table = records[0].side_by_side(*records[1:])
    ordered = sorted(
        records, key=lambda record: table.question is Question.CLOCKS and record.experiment.ns_per_instruction
    )
    shown = [(record.answer, f"swapstone show {shlex.quote(str(record.path))}") for record in ordered]
    return AgreementOutput(side_by_side_table.document_of(table, shown), {"": table})


def _by_board(first: Sequence[Record], second: Sequence[Record]) -> AgreementOutput:
    """Return two experiments board by board. A single record is compared with that of each board.

    Raises:
        UserError: they have no board in common, or two records can't be compared.
    """
    one, other = ({record.experiment.target: record for record in side} for side in (first, second))
    if len(first) == 1:
        one = dict.fromkeys(other, first[0])
    elif len(second) == 1:
        other = dict.fromkeys(one, second[0])
    common = [board for board in one if board in other]
    if not common:
        raise UserError(
            f"The two experiments have no board in common: {safe(', '.join(one))}, and {safe(', '.join(other))}.",
            f"Name two records, one of each: swapstone agree {shlex.quote(str(first[0].path))} {shlex.quote(str(second[0].path))}",
        )
    tables = {board: one[board].side_by_side(other[board]) for board in common}
    left_out = [board for board in (*one, *other) if board not in common]
    return AgreementOutput(side_by_side_table.document_by_board(tables, left_out), tables)
