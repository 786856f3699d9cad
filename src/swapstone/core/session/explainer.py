# SPDX-License-Identifier: MIT OR Apache-2.0
"""The contract of what explains rows: `Record.explain` and reports use every part's `Explainer`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from swapstone.core.model import Analysis, Experiment, FrozenStruct, UserError
from swapstone.core.model.parts import provided
from swapstone.core.record import FileProblemError, RecordView, read_regular
from swapstone.core.report.context import ExplanationSummary
from swapstone.core.report.document import Document
from swapstone.core.report.render import RENDERERS, find_renderer

if TYPE_CHECKING:
    from swapstone.core.comparison.profile_difference import ProfileDifference
    from swapstone.core.session.progress import Progress

PAGE = "explanation.html"
"""The page of an explanation, which links to what is beside it."""
MOST_BYTES = 256 << 20
"""A larger page is not read."""


class RowExplanation(msgspec.Struct, frozen=True):
    """The explanation of a row.

    Attributes:
        folder: where the evidence, the pages and the flame graphs are stored.
        explanation: the functions that account for the difference, in time or in instructions, and what else was observed.
        files: everything that was written, in the order of writing.
        printed: all of it, for any renderer.
        json: all of it, as JSON.
        no_profile: returns the error that there is no profile of a kind, with the reason.
        evidence: what the instruments observed.
        compare: returns the whole difference of both variants by function; None if it is not known.
    """

    folder: Path
    explanation: FrozenStruct
    files: tuple[Path, ...]
    printed: Document
    json: str
    no_profile: Callable[[str], UserError]
    evidence: FrozenStruct
    compare: Callable[[], ProfileDifference | None]

    def document(self) -> Document:
        """Return the explanation as a document that any renderer prints."""
        return self.printed

    def report(self, format: str = "text") -> str:
        """Return the explanation as ``json``, or in a format of `swapstone report --format`.

        Raises:
            UserError: there is no such format.
        """
        if format == "json":
            return self.json
        names = [renderer.name for renderer in RENDERERS]
        if format not in names:
            raise UserError(f"There is no format {format!r}.", f"The formats are json, {', '.join(names)}.")
        if format != "html":
            return find_renderer(format).render(self.printed)
        page = self.folder / PAGE  # links to the flame graphs beside it
        try:
            return read_regular(page, MOST_BYTES).decode(errors="backslashreplace")
        except (FileNotFoundError, FileProblemError) as error:
            raise UserError(f"{page} can't be read: {error}.", "Explain the row again.") from error

    def profiles(self, kind: str) -> tuple[Path, ...]:
        """Return the files of the profiles of a kind: ``on-cpu``, ``off-cpu``, ``syscalls`` or ``instructions``.

        Raises:
            UserError: there is no profile of this kind, with the reason.
        """
        written = tuple(sorted(path for path in self.files if path.name.startswith(f"{kind}-")))
        if not written:
            raise self.no_profile(kind)
        return written


class Explainer(FrozenStruct, frozen=True, kw_only=True):
    """What explains rows of records. Its module is imported by reports: `explain` imports what runs trials when it is called.

    Attributes:
        explains: returns whether it can explain rows of an experiment, given the names of the metrics, and whether this machine's
            instruments reach the experiment's processes.
        summaries: returns the explanations that are stored beside a record, given the folder of a report that links to their pages;
            None for paths that start with the record's.
        explain: explains a row, with options of its own by name; errors are those of `swapstone.core.session.record_handle.Record.explain`.
    """

    explains: Callable[[Experiment, Collection[str], bool], bool]
    summaries: Callable[[RecordView, Path | None], tuple[ExplanationSummary, ...]]
    explain: Callable[[RecordView, Analysis, Mapping[str, object], Progress], RowExplanation]


def explainers() -> tuple[Explainer, ...]:
    """Return what the parts provide to explain rows."""
    return provided("explainer", Explainer)
