# SPDX-License-Identifier: MIT OR Apache-2.0
"""What `swapstone agree` prints: two records side by side, or records of one experiment on several virtual clocks or boards."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from swapstone.model import UserError
from swapstone.model.safe_text import safe
from swapstone.record import find_records
from swapstone.report import agreement_by_board, clock_scale_table, record_agreement, several_boards_table
from swapstone.report.document import Document
from swapstone.report.render import markdown
from swapstone.session.record_handle import Record, open_record

_BOARD = re.compile(r"board-[1-9][0-9]{0,5}", re.ASCII)
"""The folder of a board's record, as `swapstone compare --out` makes it."""


@dataclasses.dataclass(frozen=True)
class AgreementOutput:
    """Records beside each other.

    Attributes:
        document: for renderers, the answer first.
        formats: functions that return the same as text for programs, by name of the format.
    """

    document: Document
    formats: Mapping[str, Callable[[], str]]

    def text(self, kind: str) -> str:
        """Return the text of a format: ``markdown``, ``csv`` or ``json``."""
        return markdown.render(self.document) if kind == "markdown" else self.formats[kind]()


def agreement_of_names(names: Sequence[str]) -> AgreementOutput:
    """Return the records that names stand for beside each other.

    Args:
        names: as of `swapstone.session.record_handle.open_record`, or of folders with the records of several boards. One such folder
            stands for its records; two, or one and a record, are compared board by board.

    Raises:
        UserError: there is no such record, or the records can't be compared.
    """
    groups = [records_of(name) for name in names]
    if len(groups) == 1:
        return agreement_of(groups[0])
    if all(len(group) == 1 for group in groups):
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
    tables = {board: one[board].agreement(other[board]) for board in common}
    left_out = [board for board in (*one, *other) if board not in common]
    return AgreementOutput(
        agreement_by_board.document_of(tables, left_out),
        {"csv": lambda: agreement_by_board.to_csv(tables), "json": lambda: agreement_by_board.to_json(tables)},
    )


def agreement_of(records: Sequence[Record]) -> AgreementOutput:
    """Return two records side by side, or which rows depend on the time of an instruction, where the records differ in that.

    Three or more other records are those of several boards.

    Raises:
        UserError: the records can't be compared.
    """
    if len({record.experiment.ns_per_instruction for record in records}) > 1:
        return clock_output(records)
    if len(records) == 1:
        raise UserError(
            "`swapstone agree` compares two records; 1 was given.",
            "More than two are compared where they differ in the time of an instruction (--ns-per-instruction), or in the board.",
        )
    if len(records) > 2:
        return board_output(records)
    virtual = [record.experiment for record in records if record.experiment.virtual]
    if len({each.processors for each in virtual}) > 1:
        raise UserError(
            f"The machines of these records have {virtual[0].processors} and {virtual[1].processors} processors. One clock "
            "counts the instructions of all of them, so each of N runs at 1/N of the speed: such records can't be compared.",
            "Repeat one of them with the --smp of the other.",
        )
    found = records[0].agreement(records[1])
    return AgreementOutput(
        record_agreement.document_of(found),
        {"csv": lambda: record_agreement.to_csv(found), "json": lambda: record_agreement.to_json(found)},
    )


def board_output(records: Sequence[Record]) -> AgreementOutput:
    """Return the rows over several boards, and the answer of each record.

    Args:
        records: at least three, of one experiment but for the target.

    Raises:
        UserError: the records differ in something else, are on the virtual clock, or can't be read.
    """
    table = records[0].boards(*records[1:])
    shown = [(record.answer, f"swapstone show {shlex.quote(str(record.path))}") for record in records]
    return AgreementOutput(
        several_boards_table.document_of(table, shown),
        {"csv": lambda: several_boards_table.to_csv(table), "json": lambda: several_boards_table.to_json(table)},
    )


def clock_output(records: Sequence[Record]) -> AgreementOutput:
    """Return which rows depend on the time of an instruction, and the answer of each record.

    Args:
        records: at least two, of one experiment but for the time of an instruction; in any order.

    Raises:
        UserError: the records differ in something else, are not on the virtual clock, or can't be read.
    """
    ordered = sorted(records, key=lambda record: record.experiment.ns_per_instruction)
    table = ordered[0].clock_scales(*ordered[1:])
    shown = [(record.answer, f"swapstone show {shlex.quote(str(record.path))}") for record in ordered]
    return AgreementOutput(
        clock_scale_table.document_of(table, shown),
        {"csv": lambda: clock_scale_table.to_csv(table), "json": lambda: clock_scale_table.to_json(table)},
    )
