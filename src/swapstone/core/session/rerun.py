# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reruns: the experiment of a record again, and whether two records are independent."""

from __future__ import annotations

from pathlib import Path

from swapstone.core.model import Status, UserError
from swapstone.core.record import RecordView, manifest_differences, new_record_path
from swapstone.core.session.experiment import start
from swapstone.core.session.progress import NO_PROGRESS, Progress
from swapstone.core.session.trust import require_trust


def rerun(view: RecordView, out: Path | None = None, progress: Progress = NO_PROGRESS, *, trust: bool = False) -> Path:
    """Run a record's experiment again, with the same plan and the same passes.

    Args:
        view: the record.
        out: the folder of the new record; None for a new one under the root of records.
        progress: receives events.
        trust: whether its commands may run though another user or machine made it, or it was edited.

    Returns:
        The folder of the new record.

    Raises:
        UntrustedRecordError: the user did not make the record here, or it was damaged or edited.
        UserError: the record ended before anything was built, or as `swapstone.core.session.experiment.start`.
        Interrupted: a signal ended it.
    """
    require_trust(view, "repeat the experiment", trust=trust)
    if view.manifest is None:
        raise UserError(f"{view.path} ended before anything was built: there is nothing to repeat.")
    passes = {(suite, workload): count for suite, workload, count in view.manifest.passes}
    path = out or new_record_path(f"rerun-{view.path.name[16:] or view.experiment.name}")
    return start(view.experiment, path, passes=passes, progress=progress)


def check_independent(first: RecordView, second: RecordView) -> None:
    """Check that two records hold different runs.

    Raises:
        UserError: they are one record, or one is a copy of the other, as a whole or of a part, whatever was measured later.
    """
    again = "Measure again, then compare the two: swapstone rerun"
    if first.meta.id == second.meta.id:
        same = "one record" if first.path.resolve() == second.path.resolve() else "copies of one record"
        raise UserError(
            f"{first.path} and {second.path} are {same} ({first.meta.id}): a record agrees with itself.",
            f"{again} {first.path}",
        )
    common = {_fingerprint(first, number) for number in range(len(first.runs))}
    shared = sum(_fingerprint(second, number) in common for number in range(len(second.runs)))
    if shared:
        raise UserError(
            f"{first.path} and {second.path} share {shared} runs: one is a copy of the other, and a record agrees with itself.",
            f"{again} {first.path}",
        )


def _fingerprint(view: RecordView, number: int) -> bytes:
    """Return the encoding of a run with its time of day, which no second run has."""
    run = view.runs[number]
    return run.encoded() if run.status is Status.OK and run.started_unix_ns else f"{view.path} {number}".encode()


def rerun_differences(first: RecordView, second: RecordView) -> tuple[str, ...]:
    """Return what differs between machine, tools and programs of two records."""
    if first.manifest is None or second.manifest is None:
        return ("a record has no manifest",)
    return manifest_differences(first.manifest, second.manifest)
