# SPDX-License-Identifier: MIT OR Apache-2.0
"""Read what a record keeps of the outputs of its trials: texts in the lines of the runs, and files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from pathlib import Path

from swapstone.core.model.closing import Closing
from swapstone.core.record import record_format
from swapstone.core.record.files import FileProblemError, RecordFolder
from swapstone.core.record.reader import RecordView
from swapstone.core.record.run_lines import kept_texts


class KeptOutputs(Closing):
    """The raw outputs and answers of a record by their digests. A context manager; leaving it closes the record.

    `runs.jsonl` is read as far as the requested digests need it. One that no line holds is the name of a file.

    Args:
        path: the record's folder; one that can't be entered has no outputs.
    """

    def __init__(self, path: Path) -> None:
        self._folder: RecordFolder | None = None
        with contextlib.suppress(FileProblemError):
            self._folder = RecordFolder(path)
        self._places: dict[str, tuple[int, int]] = {}
        """By digest: where the line with the text begins, and how long it is, in bytes."""
        self._unread: Generator[None] = self._lines()

    def close(self) -> None:
        """Close the record. Calling it twice is allowed."""
        self._unread.close()
        if self._folder is not None:
            self._folder.close()

    def read(self, digest: str, most_bytes: int | None = None) -> bytes | None:
        """Return an output.

        Args:
            digest: its SHA-256.
            most_bytes: a longer one is not read; None for the limit of raw outputs.

        Returns:
            None if it is missing, in no regular file, too long, or does not match the digest.
        """
        if self._folder is None or not record_format.DIGEST.fullmatch(digest):
            return None
        try:
            if self._find(digest):
                data = self._in_line(digest)
                return data if data is not None and len(data) <= (most_bytes or len(data)) else None
            data = self._folder.read(_name(digest), most_bytes)
        except FileProblemError:
            return None
        return data if data is not None and record_format.file_sha256(data) == digest else None

    def problem(self, digest: str) -> str:
        """Return what is wrong with an output, as a clause, or an empty text."""
        data = None
        try:
            if self._find(digest):
                return ""
            if self._folder is not None:
                data = self._folder.read(_name(digest))
        except FileProblemError as error:
            return str(error)
        if not data:
            return "it is missing, and no line has it" if data is None else "it is empty"
        if record_format.file_sha256(data) != digest:
            return "its content does not match its name: it was edited"
        return ""

    def _find(self, digest: str) -> bool:
        """Return whether a line has a text; read lines until one has."""
        while digest not in self._places:
            try:
                next(self._unread)
            except StopIteration:
                return False
        return True

    def _lines(self) -> Generator[None]:
        """Read line by line, and note the places of the texts."""
        start = 0
        with contextlib.suppress(FileProblemError):
            for line in self._folder.lines(record_format.RUNS) if self._folder is not None else ():
                for text in kept_texts(line):
                    self._places.setdefault(record_format.file_sha256(text), (start, len(line)))
                start += len(line)
                yield

    def _in_line(self, digest: str) -> bytes | None:
        start, length = self._places[digest]
        descriptor = self._folder.open(record_format.RUNS) if self._folder is not None else None
        if descriptor is None:
            return None
        try:
            texts = kept_texts(os.pread(descriptor, length, start))
        finally:
            os.close(descriptor)
        return next((text for text in texts if record_format.file_sha256(text) == digest), None)


def check_raw(view: RecordView) -> list[record_format.Damage]:
    """Compare each run's raw output, and the agent's answer beside it, with their digests.

    Returns:
        A damage for each one that is missing, altered, or in no regular file.
    """
    damages = []
    with KeptOutputs(view.path) as outputs:
        for digest in sorted({digest for run in view.runs for digest in (run.output, run.answer) if digest}):
            if not record_format.DIGEST.fullmatch(digest):
                problem = "a run names a raw output that is no SHA-256"
                damages.append(record_format.Damage(file=record_format.RUNS, line=0, problem=problem))
            elif problem := outputs.problem(digest):
                damages.append(record_format.Damage(file=_name(digest), line=0, problem=problem))
    return damages


def _name(digest: str) -> str:
    return f"{record_format.RAW}/{digest}.txt"
