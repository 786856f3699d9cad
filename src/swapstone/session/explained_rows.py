# SPDX-License-Identifier: MIT OR Apache-2.0
"""The rows of a record that `explain` has run again, as they are stored beside it."""

from __future__ import annotations

from swapstone.model import RowMeasurements
from swapstone.model.instruction_counts import InstructionExplanation
from swapstone.record import FileProblemError, RecordFolder, RecordView
from swapstone.session.explanation_files import FOLDER, read, read_counts


def explained_rows(view: RecordView) -> tuple[tuple[RowMeasurements, ...], tuple[InstructionExplanation, ...]]:
    """Return the rows with measurements under instruments, and those with counted instructions.

    Rows from before the record was resumed are left out, and those whose files can't be read.
    """
    try:
        with RecordFolder(view.path) as record:
            folders = tuple(view.path / FOLDER / name for name in record.subfolders(FOLDER))
    except FileProblemError:
        return (), ()
    profiled = tuple(filter(None, (read(folder, view) for folder in folders)))
    return profiled, tuple(filter(None, (read_counts(folder, view) for folder in folders)))
