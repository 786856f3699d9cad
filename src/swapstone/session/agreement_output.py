# SPDX-License-Identifier: MIT OR Apache-2.0
"""What `swapstone agree` prints: two records side by side, or records of one experiment on several virtual clocks or boards."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Mapping, Sequence

from swapstone.model import UserError
from swapstone.report import clock_scale_table, record_agreement, several_boards_table
from swapstone.report.document import Document
from swapstone.report.render import markdown
from swapstone.session.record_handle import Record


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
