# SPDX-License-Identifier: MIT OR Apache-2.0
"""What `swapstone agree` prints: records side by side."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from swapstone.core.record import find_records
from swapstone.core.report.document import Document
from swapstone.core.report.render import find_renderer
from swapstone.core.session.record_handle import Record, open_record

if TYPE_CHECKING:
    from swapstone.core.comparison.side_by_side import SideBySide

_BOARD = re.compile(r"board-[1-9][0-9]{0,5}", re.ASCII)
"""The folder of a board's record, as `swapstone compare --out` makes it."""


class AgreementOutput(msgspec.Struct, frozen=True):
    """Records side by side.

    Attributes:
        document: for renderers, the answer first.
        table: the rows.
    """

    document: Document
    table: SideBySide

    def text(self, kind: str) -> str:
        """Return the text of a format: ``markdown``, ``csv`` or ``json``."""
        if kind == "markdown":
            return find_renderer(kind).render(self.document)
        from swapstone.core.report import side_by_side_table  # noqa: PLC0415 - imports what analyses

        return (side_by_side_table.to_csv if kind == "csv" else side_by_side_table.to_json)(self.table)


def records_of(name: str) -> list[Record]:
    """Return one record, or those of a folder of several boards, in their order.

    Args:
        name: as of `swapstone.core.session.record_handle.open_record`, or of such a folder.
    """
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
    from swapstone.core.comparison.side_by_side import Question  # noqa: PLC0415 - as above
    from swapstone.core.report import side_by_side_table  # noqa: PLC0415 - as above

    table = records[0].side_by_side(*records[1:])
    ordered = sorted(
        records, key=lambda record: table.question is Question.CLOCKS and record.experiment.ns_per_instruction
    )
    shown = [(record.answer, f"swapstone show {shlex.quote(str(record.path))}") for record in ordered]
    return AgreementOutput(side_by_side_table.document_of(table, shown), table)
