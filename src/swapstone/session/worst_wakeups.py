# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which experiments have worst wake-ups whose path can be derived, and the documents of `swapstone compare --why-max`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from swapstone.model import Experiment, ImageTool, UserError, Workload
from swapstone.model.safe_text import safe
from swapstone.model.wakeup_paths import EXPLAINED_LATENCY
from swapstone.report.document import Commands, Document, Section
from swapstone.session.progress import Progress
from swapstone.workloads import workloads_of

if TYPE_CHECKING:
    from swapstone.session.record_handle import Record

_READER = "cyclictest"
"""The reader of the workloads whose worst wake-ups have a path (workloads/output_readers.py)."""


def has_wakeups(workload: Workload) -> bool:
    """Return whether a workload measures wake-ups whose path can be derived."""
    return isinstance(workload.origin, ImageTool) and workload.origin.reader == _READER


def measures_wakeups(experiment: Experiment) -> bool:
    """Return whether a workload of an experiment measures wake-ups whose path can be derived."""
    return experiment.virtual and any(has_wakeups(each) for each in workloads_of(experiment).values())


def require_wakeups(experiment: Experiment) -> None:
    """Check before a measurement that the path of its worst wake-up can be derived.

    Raises:
        UserError: it measures none on the exact clock.
    """
    if not measures_wakeups(experiment):
        raise UserError(
            "--why-max needs a workload that measures wake-ups, in a virtual machine on the exact clock.",
            "For example: swapstone compare kernel=generic,rt --suite latency --load memory --why-max",
        )


def worst_wakeup_documents(records: Iterable[Record], progress: Progress) -> Iterator[Document]:
    """Yield the explanation of each record's row of worst wake-ups with the largest difference, or why it is unavailable.

    Args:
        records: with or without runs.
        progress: receives events.
    """
    for record in records:
        if not record.view.runs:
            continue
        try:
            document = record.explain(metric=EXPLAINED_LATENCY, progress=progress).document()
        except UserError as error:
            yield Document(answer=f"The path of the worst wake-up is unavailable: {safe(str(error))}", title="")
            continue
        others = f"swapstone explain {shlex.quote(str(record.path))} {EXPLAINED_LATENCY} --load LOAD"
        more = Section(title="What to do next", blocks=(Commands(commands=(("another load", others),)),))
        several = len(record.experiment.loads) > 1
        yield msgspec.structs.replace(document, sections=(*document.sections, more)) if several else document
