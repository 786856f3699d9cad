# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run trials of a record again on the virtual clock."""

from __future__ import annotations

from collections.abc import Sequence

from swapstone.core.model import Run, refuse
from swapstone.core.record import RecordView, manifest_differences
from swapstone.core.run.prepare import manifest_of, prepare
from swapstone.core.run.recompute import Recomputed, recompute
from swapstone.core.session.experiment import events
from swapstone.core.session.machines import open_experiment_target
from swapstone.core.session.progress import Progress
from swapstone.core.session.run_options import RunOptions
from swapstone.core.session.trust import require_trust


def require_repeatable(view: RecordView, count: int, *, trust: bool) -> None:
    """Refuse to run trials of a record again whose runs don't repeat, or that is untrusted.

    Args:
        view: the record.
        count: of the trials, for the message.
        trust: whether they may run though another user or machine made the record, or it was edited.

    Raises:
        UntrustedRecordError: the user did not make the record here, or it was damaged or edited.
        UserError: it was measured on a wall clock, or in machines with several processors.
    """
    hint = f"Repeat the whole experiment and compare the two: swapstone rerun {view.path}"
    on_wall_clock = f"{view.path} was measured on a wall clock: no trial of it can be repeated to the byte."
    processors = view.experiment.processors
    several = (
        f"{view.path} has machines with {processors} processors: most of their runs repeat to the byte, but not all, "
        "so other bytes would show no damage."
    )
    refuse((not view.experiment.virtual, on_wall_clock, hint), (processors > 1, several, hint))
    require_trust(view, f"run {count} trials again", trust=trust)


def run_again(
    view: RecordView, chosen: Sequence[Run], progress: Progress
) -> tuple[tuple[Recomputed, ...], tuple[str, ...]]:
    """Run trials again, without cache and store; return their digests, and what differs in machine and programs."""
    if not chosen:
        return (), ()

    def running(done: int, total: int, key: str) -> None:
        if key:
            progress.note(f"running {key} again, {done + 1} of {total}")

    options = RunOptions(no_cache=True)
    opened = open_experiment_target(view.experiment, progress.note, options)
    with opened as target, events(view.experiment, options, progress):
        prepared = prepare(view.experiment, target, progress.building, progress.note)
        passes = {(suite, name): number for suite, name, number in view.manifest.passes} if view.manifest else {}
        now = manifest_of(prepared, target, passes)
        differences = manifest_differences(view.manifest, now) if view.manifest else ()
        return tuple(recompute(prepared, target, chosen, running)), differences
