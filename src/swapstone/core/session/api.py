# SPDX-License-Identifier: MIT OR Apache-2.0
"""The functions of the Python API: `compare`, `study` and `load`. `import swapstone` exports them, and `query`."""

from __future__ import annotations

from pathlib import Path

import attrs

from swapstone.core.factors import all_factors
from swapstone.core.model import UserError, refuse, unknown
from swapstone.core.record import default_root, find_record, new_record_path
from swapstone.core.session import experiment as experiments
from swapstone.core.session import study as studies
from swapstone.core.session.option_table import Piece, options_of
from swapstone.core.session.option_values import Levels, duration_ns, name_list
from swapstone.core.session.options import PIECES, Settings, given_settings, settings_from, settings_of
from swapstone.core.session.progress import Progress, ProgressLike, as_progress
from swapstone.core.session.record_handle import Record, open_record
from swapstone.core.session.request import ExperimentRequest, request_of, resolve
from swapstone.core.session.run_options import WITH_RESUME, RunOptions, run_options_of
from swapstone.core.session.study import StudyResult
from swapstone.core.session.study_file import load_study, study_path
from swapstone.core.session.study_run import STUDY


def compare(
    *settings: Piece, out: str | Path | None = None, progress: ProgressLike = None, **factors: Levels
) -> Record:
    """Compare levels of one or several factors, and return the record: ``compare(Measuring(blocks=10), libc=["glibc", "musl"])``.

    Args:
        *settings: the options of `swapstone compare`, in any order: `Workloads`, `Program`, `Measuring`, `Place`, `VirtualMachine`,
            `Boards`, `Sharing`.
        out: the record's folder; a new one under the root of records if None.
        progress: a `Progress`, or a function that receives lines of text.
        **factors: levels by name of the factor, the baseline first.

    Returns:
        The record, sealed as complete.

    Raises:
        UserError: an argument is wrong, or the experiment can't run here.
        Interrupted: a signal ended it (a `KeyboardInterrupt`); the record is sealed, and its path is in the exception.
    """
    known = [factor.name for factor in all_factors()]
    if wrong := next((name for name in factors if name not in known), None):
        if piece := next((kind for kind in PIECES.values() if wrong in dict(options_of(kind))), None):
            raise UserError(
                f"{wrong} is an option, not a factor.",
                f"Write: swapstone.compare(swapstone.{piece.__name__}({wrong}=...), ...)",
            )
        raise unknown("factor", wrong, known)
    texts = [f"{name}={','.join(name_list(each))}" for name, each in factors.items()]
    made = settings_of(*settings)
    path = experiments.start(
        resolve(request_of(texts, made)),
        Path(out) if out else None,
        options=run_options_of(made),
        progress=as_progress(progress),
    )
    return Record(path)


def study(
    name: str | Path | None = None,
    *settings: Piece,
    only_parts: Levels = (),
    fail_if: Levels = (),
    out: str | Path | None = None,
    resume: str | Path | None = None,
    trust: bool = False,
    progress: ProgressLike = None,
) -> StudyResult:
    """Run or resume a study.

    Args:
        name: of a shipped study, or the path of a TOML file.
        *settings: what replaces the study's own: `only`, `budget`, `seed`, `blocks` and `target`; and `no_cache`, `guest_timeout`, and
            those of `Sharing`, for the parts on the virtual clock; at least one part must be on it.
        only_parts: names of the parts to run; empty for all.
        fail_if: texts of ``--fail-if``, whose form is checked before anything is measured.
        out: the folder of the records; a new one under the root of records if None.
        resume: the folder of an interrupted study, instead of a name. Only `budget`, `no_cache`, `guest_timeout`, `Sharing`, `trust` and
            `progress` may be given with it.
        trust: whether the commands of the study that is resumed may run though another user or machine started it, or it was edited.
        progress: a `Progress`, or a function that receives lines of text.

    Raises:
        UserError: there is no such study, or an argument is wrong.
        Interrupted: a signal ended it; the records are sealed.
    """
    receiver, made = as_progress(progress), settings_of(*settings)
    given = [each for each in given_settings(made) if each not in _HOW]
    options = run_options_of(made, name_list(fail_if), trust=trust)
    refuse(
        *(
            (
                each not in _REPLACED,
                f"A study has its own {each}.",
                f"Change {each} in a copy of its file (`swapstone docs studies`).",
            )
            for each in given
        ),
        (resume is None and trust, "Only a study that is resumed can be untrusted.", "Leave --trust out."),
        (
            resume is not None and (name or only_parts or out or set(given) - {"budget"}),
            "A study resumes with its own options.",
            f"Leave out all but {WITH_RESUME}.",
        ),
    )
    if resume is not None:
        return _resume_study(str(resume), duration_ns(made.measuring.budget), options, receiver)
    if not name:
        raise UserError("The name of the study is missing.", "`swapstone list studies` shows them all.")
    found = load_study(str(name))
    file = study_path(str(name))
    directory = str(file.absolute().parent) if str(name).endswith(".toml") else ""
    if not found.part:
        if only_parts:
            raise UserError(f"The study {name} has no parts.", "Leave --only-part out.")
        path = experiments.start(
            resolve(_replaced(found.request(file.stem, directory), made)),
            Path(out) if out else None,
            options=options,
            progress=receiver,
        )
        return StudyResult(path, {file.stem: Record(path)}, {}, None)
    run = studies.plan_study(
        file.stem,
        found,
        only_parts=name_list(only_parts),
        only=made.workloads.only,
        budget_ns=duration_ns(made.measuring.budget),
        seed=made.measuring.seed,
        blocks=made.measuring.blocks or 0,
        target=made.place.target,
        directory=directory,
    )
    folder = Path(out) if out else new_record_path(run.name)
    return studies.start_study(run, folder, options=options, progress=receiver)


_REPLACED = ("only", "budget", "seed", "blocks", "target")
"""Options that replace a study's own."""

_HOW = ("no_cache", "guest_timeout", "store", "executor", "recheck")
"""Options that change how a study runs, and not what it measures."""


def _replaced(request: ExperimentRequest, settings: Settings) -> ExperimentRequest:
    """Return a study's request with the user's settings in place of its own."""
    given = {name: value for name, value in given_settings(settings).items() if name in _REPLACED}
    made = settings_from({**given_settings(request.settings), **given})
    return attrs.evolve(request, settings=made, budget_extends=settings.measuring.budget is None)


def _resume_study(name: str, budget_ns: int | None, options: RunOptions, progress: Progress) -> StudyResult:
    """Resume a study's folder, or the record of a study without parts."""
    for folder in (Path(name), default_root() / name):
        if (folder / STUDY).is_file():
            return studies.resume_study(folder, budget_ns, options=options, progress=progress)
    path = experiments.resume(find_record(name), budget_ns, options=options, progress=progress)
    return StudyResult(path, {Record(path).experiment.name: Record(path)}, {}, None)


def load(name: str | Path) -> Record:
    """Open a record.

    Args:
        name: its folder, its name under the root of records, or ``last``.

    Raises:
        RecordError: there is no such record; names the nearest ones.
    """
    record = open_record(str(name))
    _ = record.view
    return record
