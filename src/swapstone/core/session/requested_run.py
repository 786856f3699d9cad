# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs an experiment that the command line or the Python API requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from swapstone.core.model import Experiment
from swapstone.core.run import Steps
from swapstone.core.session import experiment as experiments
from swapstone.core.session.progress import Progress
from swapstone.core.session.record_handle import Record
from swapstone.core.session.request_resolution import resolve_request
from swapstone.core.session.run_options import RunOptions
from swapstone.core.session.settings import Settings
from swapstone.core.subjects import subject_of
from swapstone.core.workloads import own_workload


def run_request(
    factors: Sequence[str], settings: Settings, *, out: Path | None, options: RunOptions, progress: Progress
) -> Record:
    """Run an experiment of bundled workloads or of an own program.

    Args:
        factors: texts ``FACTOR=BASELINE,CANDIDATE``.
        settings: of the user.
        out: the record's folder; None for a new one.
        options: how it runs.
        progress: receives events.

    Raises:
        UserError: an option is wrong, or the experiment can't run here.
        Interrupted: a signal ended it; the record is sealed.
    """
    experiment = _requested(factors, settings, progress)
    return Record(experiments.start(experiment, out, options=options, progress=progress))


def run_request_by_block(
    factors: Sequence[str], settings: Settings, *, out: Path | None, options: RunOptions, progress: Progress
) -> Steps[Path]:
    """Run an experiment as `run_request`; yield as `swapstone.core.session.experiment.start_by_block`, and return the record's folder."""
    experiment = _requested(factors, settings, progress)
    return (yield from experiments.start_by_block(experiment, out, options=options, progress=progress))


def _requested(factors: Sequence[str], settings: Settings, progress: Progress) -> Experiment:
    """Return the experiment, after notes on an own program."""
    own, experiment = resolve_request(factors, settings)
    for note in subject_of(own_workload(experiment)).notes() if own is not None else ():
        progress.note(note)
    return experiment
