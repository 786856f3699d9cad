# SPDX-License-Identifier: MIT OR Apache-2.0
"""The explained rows of a record as evidence of claims: shares of profiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from swapstone.core.record import RecordView
from swapstone.core.report import formatting
from swapstone.core.report.tables import Range, Ranges
from swapstone.parts.explain.model.explanation import RowMeasurements
from swapstone.parts.explain.session.explanation_files import stored_rows


def explained_evidence(view: RecordView) -> dict[str, Ranges]:
    """Return what yields the evidence of ``stacks``: of the rows that `swapstone explain` has stored."""
    return evidence_of([row for _, row, _ in stored_rows(view) if isinstance(row, RowMeasurements)])


def evidence_of(profiled: Sequence[RowMeasurements]) -> dict[str, Ranges]:
    """Return what yields the evidence of ``stacks``.

    A test has the attributes `suite`, `workload`, `load` and `metric` of the row, and its two `sides`, the kind `profile` of the profile,
    and the names `functions`, one of which a stack must have.

    Args:
        profiled: rows that `swapstone explain` has run under instruments.
    """
    return {"stacks": lambda test: _stacks(test, profiled)}


def _stacks(test: Any, rows: Sequence[RowMeasurements]) -> Iterator[Range]:  # noqa: ANN401 - as `Ranges`
    side, _ = test.sides
    profiles = (
        run.profile
        for row in rows
        for run in row.runs
        if (row.place.suite, row.place.workload, row.place.load) == (test.suite, test.workload, test.load)
        and run.instrument == test.profile
        and side.has_label(run.variant)
    )
    for profile in profiles:
        if profile and profile.total > 0:
            wanted = {number for number, frame in enumerate(profile.frames) if frame.symbol in test.functions}
            share = sum(stack.weight for stack in profile.stacks if wanted.intersection(stack.frames)) / profile.total
            what = "processor time" if test.profile == "on-cpu" else "waits"
            text = f"{formatting.percent(share)} of the {what} in {' or '.join(test.functions)}, and what they call"
            yield share, share, f"{test.workload}, {side.text}: {text}"
