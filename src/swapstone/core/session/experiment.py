# SPDX-License-Identifier: MIT OR Apache-2.0
"""Experiments: from a request to a resolved experiment, and from there to a sealed record."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from swapstone.core.artifacts.distribution_packages import missing_programs
from swapstone.core.model import (
    Experiment,
    NothingComparableError,
    RecordError,
    Run,
    Status,
    UserError,
)
from swapstone.core.model.architectures import ARCHITECTURES
from swapstone.core.model.errors import as_user_error
from swapstone.core.plan.stopping import StopReason
from swapstone.core.record import (
    Manifest,
    RecordView,
    RecordWriter,
    find_record,
    load,
    manifest_differences,
    new_record_path,
)
from swapstone.core.run.engine import Engine, SessionEnd
from swapstone.core.run.prepare import Prepared, check_levels, check_machine, manifest_of, prepare
from swapstone.core.run.subject_kinds import subject_of
from swapstone.core.session.analysis_import import load_analysis
from swapstone.core.session.caller_environment import fixed_environment_note
from swapstone.core.session.command_text import command_line
from swapstone.core.session.description import describe
from swapstone.core.session.earlier_session import (
    carry_over,
    require_same_machine,
    require_same_reference,
    with_earlier,
)
from swapstone.core.session.machines import open_experiment_target
from swapstone.core.session.outcome import Interrupted, check_fail_if
from swapstone.core.session.precision_stop import PrecisionStop, check_budget
from swapstone.core.session.progress import NO_PROGRESS, Progress
from swapstone.core.session.record_errors import named_record
from swapstone.core.session.run_options import DEFAULT_OPTIONS, RunOptions
from swapstone.core.session.trust import require_own_record, require_trust
from swapstone.core.targets import AgentStartError, Target, find_target_kind
from swapstone.core.targets.agent_build import build_reference
from swapstone.core.workloads import REFERENCE, own_workload, reference_program, workloads_of

STOPPED = SessionEnd("interrupted", "the user stopped it")


def check_experiment(experiment: Experiment) -> None:
    """Check that an experiment can run here, as far as that is known before its target is opened. Build its reference program.

    Raises:
        UserError: it can't.
    """
    if REFERENCE in experiment.workloads:
        build_reference(reference_program())
    kind = find_target_kind(experiment.target).opens
    (check_machine if "probes_architecture" in kind.offers else check_levels)(experiment, kind)


def check_programs(experiments: Iterable[Experiment], *, every: bool = False) -> None:
    """Check that this machine has the programs of all experiments.

    Args:
        experiments: that will run.
        every: whether to check also that each can run here; else any other reason is left to its start.

    Raises:
        MissingProgramsError: it lacks some; names all that packages bring.
        UserError: with `every`, an experiment can't run.
    """
    found: list[UserError] = []
    for experiment in experiments:
        try:
            check_experiment(experiment)
        except UserError as error:
            found.append(error)
    missing = missing_programs(name for error in found for name in getattr(error, "programs", ()))
    if first := missing or next((error for error in found if every), None):
        raise first


def on_target(experiment: Experiment, target: Target) -> Experiment:
    """Return an experiment with the architecture that its target was found to have; empty for this machine's."""
    if "probes_architecture" not in target.offers:
        return experiment
    known = {each.machine: each.name for each in ARCHITECTURES if each.machine != os.uname().machine}
    return msgspec.structs.replace(experiment, architecture=known.get(target.architecture, ""))


def start(
    experiment: Experiment,
    out: Path | None = None,
    *,
    passes: Mapping[tuple[str, str], int] | None = None,
    options: RunOptions = DEFAULT_OPTIONS,
    progress: Progress = NO_PROGRESS,
) -> Path:
    """Run an experiment into a new record.

    Args:
        experiment: what to measure.
        out: the record's folder; None for a new one under the root of records.
        passes: calibration to use instead of measuring it, for a rerun.
        options: how it runs.
        progress: receives events.

    Returns:
        The record's folder. The record is sealed as complete.

    Raises:
        UserError: the experiment can't run here. An error before the first trial leaves no record.
        Interrupted: a signal ended it; the record is sealed.
    """
    check_fail_if(options.fail_if, experiment, lambda: workloads_of(experiment).values())
    against = load(find_record(options.against)) if options.against else None
    if against is not None:
        with named_record(against.path):
            experiment = with_earlier(against, experiment)
    elif experiment.earlier:
        raise UserError(
            "This record has runs of an earlier session, which can't be made again.",
            f"Measure once more against that session's record: swapstone compare --against RECORD {command_line(experiment)}",
        )
    path = out or new_record_path(_title(experiment))
    # Everything that can be wrong with the experiment is checked before the record is created, and if possible before any download.
    check_experiment(experiment)
    with open_experiment_target(experiment, progress.note, options) as target:
        experiment = on_target(experiment, target)
        check_levels(experiment, target)
        if experiment.layouts and "runs_programs" not in target.offers:
            raise UserError(
                f"The target {target.name} runs no programs that Swapstone builds: --layouts has nothing to link."
            )
        experiment, note = check_budget(experiment)
        if note:
            progress.note(f"Note: {note}")
        if against is not None:
            require_same_reference(against)
            require_same_machine(against, target.describe().facts())
        notes = subject_of(own_workload(experiment)).notes() if experiment.own else ()
        for line in filter(None, (fixed_environment_note(experiment), *notes)):
            progress.note(line)
        with RecordWriter.create(path, experiment, describe(experiment, against.meta if against else None)) as writer:
            ending = STOPPED
            with _sealed_on_error(writer, options), events(experiment, options, progress):
                prepared = prepare(
                    experiment,
                    target,
                    progress.building,
                    progress.note,
                    keep_log=writer.keep_log,
                    rebuild=options.rebuild,
                )
                earlier: tuple[Run, ...] = ()
                if against is not None:
                    manifest, earlier = carry_over(against, experiment, writer)
                    prepared = msgspec.structs.replace(prepared, earlier=manifest)
                ending = _measure(
                    experiment, prepared, target, writer, progress=progress, passes=passes, earlier=earlier
                )
            return _finish(writer, ending)


def _title(experiment: Experiment) -> str:
    """Return the name of an experiment's record: that of its study, or what it compares."""
    if experiment.name != "compare":
        return experiment.name
    title = " ".join(choice.text for choice in experiment.factors)
    own_name = experiment.own.name if experiment.own else ""
    title = "" if experiment.alone else title
    title = f"{own_name}-{title}".rstrip("-") if own_name and not title.startswith(f"{own_name}=") else title
    clock = f"{experiment.ns_per_instruction}ns" if experiment.ns_per_instruction != 1 else ""
    processors = f"smp{experiment.processors}" if experiment.processors != 1 else ""
    return " ".join(filter(None, (title, experiment.architecture, clock, processors)))


def _measure(
    experiment: Experiment,
    prepared: Prepared,
    target: Target,
    writer: RecordWriter,
    *,
    progress: Progress,
    passes: Mapping[tuple[str, str], int] | None,
    earlier: Sequence[Run] = (),
    manifest: Manifest | None = None,
) -> SessionEnd:
    """Make the runs that a record lacks."""
    stop = PrecisionStop(experiment, progress.note, writer.write_experiment)
    return Engine(
        experiment,
        prepared,
        target,
        writer,
        stopping_rule=stop,
        progress=progress,
        earlier=earlier,
        passes=passes,
        manifest=manifest,
    ).run()


def resume(
    path: Path,
    budget_ns: int | None = None,
    *,
    options: RunOptions = DEFAULT_OPTIONS,
    progress: Progress = NO_PROGRESS,
) -> Path:
    """Resume an interrupted record.

    Args:
        path: its folder.
        budget_ns: a new budget for the whole experiment, which replaces a number of blocks that is reached; None for the old ones.
        options: how it runs.
        progress: receives events.

    Returns:
        The record's folder. The record is sealed as complete.

    Raises:
        UserError: the record is complete, altered or not trusted, another process writes it, or machine or programs changed. The record
            is unchanged.
        Interrupted: a signal ended it; the record is sealed.
    """
    from swapstone.core.session.report_context import works_of  # noqa: PLC0415 - as below

    require_own_record(path, "resume", trust=options.trust)
    writer, view = RecordWriter.resume(path)
    with contextlib.ExitStack() as opened:
        opened.enter_context(writer)
        # What has been read now is checked too: another process may have exchanged a file since.
        require_trust(view, "resume", trust=options.trust)
        check_fail_if(options.fail_if, view.experiment, lambda: works_of(view).values())
        check_programs((view.experiment,))
        target = opened.enter_context(open_experiment_target(view.experiment, progress.note, options))
        experiment = _experiment_to_resume(view, budget_ns)
        check_levels(experiment, target)
        passes = {(suite, name): count for suite, name, count in view.manifest.passes} if view.manifest else {}
        ending = STOPPED
        with events(experiment, options, progress):
            prepared = prepare(experiment, target, progress.building, progress.note, keep_log=writer.keep_log)
            then = view.manifest.earlier if view.manifest else None
            prepared = msgspec.structs.replace(prepared, earlier=then)
            if view.manifest is not None:
                _check_same(view.manifest, manifest_of(prepared, target, passes), path)
            with _sealed_on_error(writer, options):
                writer.write_experiment(experiment)
                ending = _measure(
                    experiment,
                    prepared,
                    target,
                    writer,
                    progress=progress,
                    passes=passes,
                    earlier=view.runs,
                    manifest=view.manifest,
                )
        return _finish(writer, ending)


def _experiment_to_resume(view: RecordView, budget_ns: int | None) -> Experiment:
    if budget_ns is not None and view.experiment.earlier:
        raise UserError(
            f"{view.path} has as many blocks as the earlier session that it compares with: it takes no other budget.",
            "Leave --budget out.",
        )
    if budget_ns is not None:
        ended = (
            view.seal is not None and view.seal.state == "complete" and not view.seal.why.startswith(StopReason.BUDGET)
        )
        changed = {"budget_ns": budget_ns, "budget_extends": False, "blocks": 0 if ended else view.experiment.blocks}
        return msgspec.structs.replace(view.experiment, **changed)
    # A seal without verdicts: an earlier version, which wrote two seals, was killed between them.
    if view.seal is not None and view.seal.state == "complete" and view.seal.verdicts:
        raise UserError(
            f"{view.path} is complete ({view.seal.why}): there is nothing to resume.",
            f"Give it more time with --budget, or print it: swapstone show {view.path}",
        )
    return view.experiment


@contextlib.contextmanager
def events(experiment: Experiment, options: RunOptions, progress: Progress) -> Iterator[None]:
    """Report the start of an experiment, and its end, which may be an error."""
    progress.experiment_started(experiment, options.label)
    try:
        yield
    finally:
        progress.experiment_ended()


@contextlib.contextmanager
def _sealed_on_error(writer: RecordWriter, options: RunOptions) -> Iterator[None]:
    """Seal the record if an error ends the session, and end quietly on SIGINT. At most the trial in flight is missing."""
    again = f"swapstone compare --resume {shlex.quote(str(writer.path))}"
    try:
        yield
    except (UserError, OSError) as error:
        with contextlib.suppress(RecordError):  # one that can't be sealed, as on a full disk, can be resumed too
            writer.seal("interrupted", "an error ended it", "")
        if isinstance(error, NothingComparableError) and options.fail_if:
            error.status = error.finding.status
        elif isinstance(error, AgentStartError):
            error.hint = f"{error.hint} Then continue: {again}"
        elif isinstance(error, OSError) and (known := as_user_error(error, f"continue: {again}")):
            raise known from error
        raise
    except KeyboardInterrupt:
        pass


def _check_same(first: Manifest, now: Manifest, path: Path) -> None:
    """Check that machine and programs are those of the first session.

    Raises:
        UserError: they differ; names the differences.
    """
    differences = manifest_differences(first, now)
    if differences:
        raise UserError(
            f"{path} can't be resumed: " + "; ".join(differences[:3]) + ".",
            f"Repeat the experiment and compare the two: swapstone rerun {path}",
        )


def _finish(writer: RecordWriter, ending: SessionEnd) -> Path:
    """Analyse the record and seal it, with the digest of its verdicts. A record that was killed before that has no seal, and is resumed.

    Raises:
        Interrupted: the session ended before the experiment did.
    """
    interrupted = Interrupted(writer.path, f"swapstone compare --resume {shlex.quote(str(writer.path))}")
    try:
        load_analysis()
        from swapstone.core.session.analysis import record_verdicts  # noqa: PLC0415 - trials begin without what analyses

        writer.seal(ending.state, ending.why, record_verdicts(writer.read_back()))
    except OSError as error:
        if known := as_user_error(error, f"continue: {interrupted.resume}"):
            raise known from error
        raise
    except KeyboardInterrupt:
        if load(writer.path).seal is None:
            raise interrupted from None
    if ending.state != "complete":
        raise interrupted
    return writer.path


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
