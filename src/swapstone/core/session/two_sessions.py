# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reading a record with the runs of two sessions, as `swapstone.core.session.earlier_session` makes it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from swapstone.core import plan
from swapstone.core.model import NOW, SESSION, FactorLevels, Run
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.record import Manifest, RecordView, manifest_differences

_LONGEST = 400


def session_notes(manifest: Manifest | None) -> Iterator[str]:
    """Yield what a report states on an earlier session: what differs beside the program."""
    if manifest is None or manifest.earlier is None:
        return
    found = manifest_differences(
        *(msgspec.structs.replace(each, artifacts=()) for each in (manifest.earlier, manifest))
    )
    yield from (f"Differs since: {safe_excerpt(each, _LONGEST)}." for each in found)
    if not found:
        yield "Nothing else that is recorded of machine and tools differs since."


def by_session(view: RecordView) -> tuple[RecordView, ...]:
    """Return a record as that of this session alone, then that of the earlier one if it has runs of it."""
    experiment = view.experiment
    if not experiment.earlier:
        return (view,)
    alone = msgspec.structs.replace(experiment, factors=(FactorLevels(factor=SESSION, levels=(NOW,)),))
    label = plan.variants(alone)[0].label

    def of(variant: str) -> tuple[Run, ...]:
        runs = (run for run in view.runs if run.trial.variant == variant)
        return tuple(
            msgspec.structs.replace(run, trial=msgspec.structs.replace(run.trial, variant=label)) for run in runs
        )

    return tuple(msgspec.structs.replace(view, experiment=alone, runs=of(each)) for each in (label, experiment.earlier))
