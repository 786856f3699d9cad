# SPDX-License-Identifier: MIT OR Apache-2.0
"""Running a study: each part into a record of its own, and an index of all parts."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fnmatch
import re
import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import msgspec

from swapstone.core.comparison.side_by_side import Question, SideBySide, differing_setting, question_of, side_by_side
from swapstone.core.model import Experiment, NothingComparableError, RecordError, UserError, unknown
from swapstone.core.model.errors import is_of_machine, remedy
from swapstone.core.model.parts import provided
from swapstone.core.model.run_sharing import NO_SHARING, RunSharing
from swapstone.core.record import (
    ORIGIN,
    RecordView,
    file_bytes,
    has_origin,
    load,
    mark_file,
    replace_file,
)
from swapstone.core.report import record_report
from swapstone.core.report.answer.wording import listed
from swapstone.core.report.render import html, markdown
from swapstone.core.report.study_index import PartOfStudy, PartSummary, StudyIndex, document_of, summary, to_json
from swapstone.core.session.analysis import analyse_record
from swapstone.core.session.experiment import check_programs, resume, start
from swapstone.core.session.machines import has_exact_runs, run_sharer
from swapstone.core.session.option_values import format_duration
from swapstone.core.session.outcome import Interrupted
from swapstone.core.session.precision_stop import check_budget
from swapstone.core.session.progress import NO_PROGRESS, Progress
from swapstone.core.session.record_handle import Record
from swapstone.core.session.report_context import context_of
from swapstone.core.session.request import ExperimentRequest, resolve, wanted_workloads
from swapstone.core.session.run_options import DEFAULT_OPTIONS, RunOptions
from swapstone.core.session.study_file import Study, StudyPart
from swapstone.core.session.study_run import STUDY, StudyRun, load_trusted_run
from swapstone.core.targets.hints import target_hint
from swapstone.core.workloads import own_names
from swapstone.exit_status import Finding
from swapstone.version import __version__

INDEX = "index.json"
COMPLETE, INTERRUPTED, FAILED = "complete", "interrupted", "failed"
UNAVAILABLE, LEFT_OUT, NOT_BEGUN = "unavailable", "left out", "not begun"
_LEFT = re.compile(rf"\.({re.escape(ORIGIN)}|{re.escape(STUDY)})\.[0-9a-f]{{16}}")
"""A temporary file of `replace_file` that a kill left; the next writer of the same file removes it."""


@dataclasses.dataclass(frozen=True)
class PartState:
    """The state of a part, and the reason for it.

    Attributes:
        state, reason: of the part.
        finding: about its candidates, if these or the baseline could not be built or run; None for any other state.
    """

    state: str
    reason: str = ""
    finding: Finding | None = None


Planned = Mapping[str, Experiment | PartState]
"""For each part its experiment, or the state that it has without one: unavailable or left out."""

_PartRead = tuple[PartSummary, PartOfStudy | None]
"""A part's summary, and what its record has; None without runs."""


@dataclasses.dataclass(frozen=True)
class StudyResult:
    """A study that ran to its end.

    Attributes:
        path: the study's folder; for a study without parts its record's.
        records: the records by name of the part; for a study without parts by the study's name.
        states: the state of each part, with the reason; for a study without parts empty.
        index: what each part came to; None for a study without parts.
    """

    path: Path
    records: Mapping[str, Record]
    states: Mapping[str, PartState]
    index: StudyIndex | None

    @property
    def ok(self) -> bool:
        """Return whether no part failed, and at least one is complete or shows a finding."""
        found = {part.finding or part.state for part in self.states.values()}
        return self.index is None or (FAILED not in found and (COMPLETE in found or bool(self.ended)))

    @property
    def ended(self) -> list[tuple[Finding, str]]:
        """Return the findings by which parts ended without a result, each with the part and its reason."""
        return [(part.finding, f"part {name}: {part.reason}") for name, part in self.states.items() if part.finding]


def plan_study(
    name: str,
    study: Study,
    *,
    only_parts: Sequence[str] = (),
    only: Sequence[str] = (),
    budget_ns: int | None = None,
    seed: int | None = None,
    blocks: int | None = None,
    target: str | None = None,
    directory: str = "",
) -> StudyRun:
    """Combine a study with options that replace its values.

    Raises:
        UserError: there is no such part.
    """
    names = [part.name for part in study.part]
    if wrong := next((part for part in only_parts if part not in names), None):
        raise unknown("part of the study", wrong, names)
    if seed is not None:  # it replaces those of the file
        unset: dict[str, Any] = {"seed": msgspec.UNSET}
        parts = tuple(msgspec.structs.replace(part, **unset) for part in study.part)
        study = msgspec.structs.replace(study, part=parts, **unset)
    return StudyRun(
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        name=name,
        study=study,
        parts=tuple(part for part in names if part in only_parts or not only_parts),
        only=tuple(only),
        budget_ns=budget_ns or 0,
        seed=next(
            (each for each in (seed, study.settings.measuring.seed) if each is not None), secrets.randbelow(2**31)
        ),
        blocks=blocks or 0,
        target=target or "",
        directory=directory,
    )


def start_study(
    run: StudyRun, folder: Path, *, options: RunOptions = DEFAULT_OPTIONS, progress: Progress = NO_PROGRESS
) -> StudyResult:
    """Create a study's folder and run its parts.

    Args:
        run: the study and its options.
        folder: must be empty or absent.
        options: how its experiments run.
        progress: receives events.

    Raises:
        UserError: a pattern matches nothing, a budget is too small, or the folder can't be written.
        Interrupted: a signal ended it.
    """
    planned = plan_parts(run)
    _check_sharing(planned, options.sharing)
    _check_budgets(planned, progress if run.budget_ns else NO_PROGRESS)
    again = "give the same command again."
    with _written(folder, folder, again):
        folder.mkdir(parents=True, exist_ok=True)
        # A signal may have ended it between the mark and the study's file, or while one was written.
        marked = (path for path in folder.iterdir() if not _LEFT.fullmatch(path.name))
        if any(path.name != ORIGIN or not has_origin(folder) for path in marked):
            known = (folder / STUDY).is_file()
            other = f", or continue that study: {_resume_command(folder)}" if known else "."
            raise RecordError(f"{folder} is not empty.", f"Name another folder with --out{other}")
    _write_run(run, folder, again)
    return _run(run, folder, planned, options, progress)


def resume_study(
    folder: Path,
    budget_ns: int | None = None,
    *,
    options: RunOptions = DEFAULT_OPTIONS,
    progress: Progress = NO_PROGRESS,
) -> StudyResult:
    """Resume a study: complete parts stay, interrupted parts are resumed, the others start. The index is written anew.

    Args:
        folder: of the study.
        budget_ns: a new budget for all parts together, or None for the old one.
        options: how its experiments run.
        progress: receives events.

    Raises:
        UntrustedRecordError: the user did not start the study on this machine, or its file or a part's record was edited.
        UserError: the folder can't be read or written.
        Interrupted: a signal ended it.
    """
    run = load_trusted_run(folder, trust=options.trust)
    if budget_ns:
        run = msgspec.structs.replace(run, budget_ns=budget_ns)
    planned = plan_parts(run, lambda part: bool(budget_ns) or _on_disk(folder / part).state != COMPLETE)
    _check_sharing(planned, options.sharing)
    if budget_ns:
        _write_run(run, folder)
    return _run(run, folder, planned, options, progress, more=bool(budget_ns))


def _write_run(run: StudyRun, folder: Path, next_step: str = "") -> None:
    """Write `study.json`, and before it the mark by which `resume_study` recognizes it."""
    with _written(folder / ORIGIN, folder, next_step):
        mark_file(folder, "", STUDY, run)
    _write(folder / STUDY, file_bytes(run).decode(), folder, next_step)


def plan_parts(run: StudyRun, runs: Callable[[str], bool] = lambda _: True, *, every: bool = False) -> Planned:
    """Resolve every part of a study, and check before anything runs that this machine has the programs of those that will run.

    Args:
        run: the study and its options.
        runs: whether a part will run.
        every: whether to check also that each part can run here, as of `check_programs`.

    Raises:
        MissingProgramsError: programs are missing; names those of all parts.
        UserError: a pattern matches no workload of any part.
    """
    planned: dict[str, Experiment | PartState] = {}
    names_of_all: list[str] = []
    for part in run.chosen:
        try:
            request = part.request(f"{run.name}/{part.name}", run.directory)
            names = _workload_names(run, request)
            names_of_all += names
            planned[part.name] = _part_experiment(run, part, request, names)
        except UserError as error:
            if every or is_of_machine(error):
                raise
            planned[part.name] = PartState(UNAVAILABLE, in_one_line(error))
    for pattern in run.only:
        if names_of_all and not any(fnmatch.fnmatchcase(name, pattern) for name in names_of_all):
            raise unknown("workload", pattern, names_of_all)
    check_programs((each for name, each in planned.items() if isinstance(each, Experiment) and runs(name)), every=every)
    return planned


def _workload_names(run: StudyRun, request: ExperimentRequest) -> list[str]:
    if request.own:
        return list(own_names(request.own))
    target = run.target or request.settings.place.target
    return [work.name for _, work in wanted_workloads(request.settings.workloads, request.factors, target)]


def _part_experiment(
    run: StudyRun, part: StudyPart, request: ExperimentRequest, names: Sequence[str]
) -> Experiment | PartState:
    """Return the experiment of a part, with the options of the run in place of its own; a state if none of its workloads is wanted."""
    kept = [name for name in names if not run.only or any(fnmatch.fnmatchcase(name, each) for each in run.only)]
    if not kept:
        return PartState(LEFT_OUT, "none of its workloads matches --only")
    settings = request.settings
    measuring = attrs.evolve(
        settings.measuring,
        budget=datetime.timedelta(microseconds=max(1, _budget_share_ns(run, part) // 1000)),
        seed=run.seed if settings.measuring.seed is None else settings.measuring.seed,
        blocks=run.blocks or settings.measuring.blocks,
    )
    only = kept if run.only and not request.own else settings.workloads.only
    settings = attrs.evolve(
        settings,
        measuring=measuring,
        workloads=attrs.evolve(settings.workloads, only=only),
        place=attrs.evolve(settings.place, target=run.target or settings.place.target),
    )
    return resolve(attrs.evolve(request, settings=settings, budget_extends=not run.budget_ns))


def _budget_share_ns(run: StudyRun, part: StudyPart) -> int:
    """Return a part's budget: its own, or its share of the common budget, in proportion to the parts' own."""
    if not run.budget_ns:
        return part.budget_ns
    return run.budget_ns * part.budget_ns // sum(each.budget_ns for each in run.chosen)


def _check_sharing(planned: Planned, sharing: RunSharing) -> None:
    """Check that at least one part takes the options of many machines, and that store and workers can be opened.

    Raises:
        UserError: none does, or one can't be opened.
    """
    if not sharing:
        return
    if not any(isinstance(each, Experiment) and has_exact_runs(each) for each in planned.values()):
        raise UserError(
            f"No part of this study takes {listed(sharing.options())}: a run is the same on every machine on the virtual clock "
            "only, and a measured time is not.",
            "Name other parts, leave it out" + target_hint("shares_runs", ", or choose another target: {}"),
        )
    run_sharer(sharing).check(sharing)


def _check_budgets(planned: Planned, progress: Progress) -> None:
    """Check that every part's budget is large enough, and note what each holds as far as that is known before anything is built.

    Raises:
        UserError: one is not; names the part.
    """
    for name, experiment in planned.items():
        if isinstance(experiment, Experiment):
            try:
                _, note = check_budget(experiment)
            except UserError as error:
                raise UserError(
                    f"Part {name}: {error.message}", "Give it a larger --budget, or an exact number of --blocks."
                ) from error
            later = experiment.own is not None or experiment.virtual
            known = (
                "what it holds is known after its first block"
                if later
                else "it suffices if trials are as short as planned"
            )
            progress.note(
                f"Part {name} has {format_duration(experiment.budget_ns)} of the budget: {note or f'{known}.'}"
            )


def _run(
    run: StudyRun, folder: Path, planned: Planned, options: RunOptions, progress: Progress, *, more: bool = False
) -> StudyResult:
    """Run the parts that are not complete, and write the index after each."""
    parts = run.chosen
    states = {part.name: _on_disk(folder / part.name) for part in parts}
    summaries: dict[str, _PartRead] = {}
    index = None
    try:
        for number, part in enumerate(parts, start=1):
            path = folder / part.name
            if states[part.name].state == COMPLETE and not more:
                continue
            progress.part_started(number, len(parts), part.name, part.title)
            own = dataclasses.replace(options, fail_if=(), label=f"part {number} of {len(parts)}")
            experiment = planned[part.name]
            if options.sharing and isinstance(experiment, Experiment) and not has_exact_runs(experiment):
                progress.note(
                    f"Note: the part {part.name} is not on the virtual clock: "
                    f"it is measured here, without {listed(options.sharing.options())}."
                )
                own = dataclasses.replace(own, sharing=NO_SHARING)
            states[part.name] = state = _run_part(path, experiment, own, progress, more=more)
            summaries.pop(part.name, None)
            changed = state.state in {COMPLETE, INTERRUPTED}
            progress.part_ended(state.state, state.reason, path if changed else None)
            if state.state == INTERRUPTED:
                raise KeyboardInterrupt
            index = _write_index(run, folder, states, summaries)
    except KeyboardInterrupt:
        with contextlib.suppress(
            KeyboardInterrupt
        ):  # a second signal: the index stays as it was, until the study is resumed
            _write_index(run, folder, states, summaries)
        raise Interrupted(folder, _resume_command(folder)) from None
    records = {
        name: Record(folder / name)
        for name, part in states.items()
        if (folder / name / "record.json").is_file() and part.state != FAILED
    }
    return StudyResult(folder, records, states, index or _write_index(run, folder, states, summaries))


def _on_disk(path: Path) -> PartState:
    """Return the state of a part before this session changes it."""
    try:
        view = load(path)
    except RecordError as error:
        return PartState(FAILED, in_one_line(error)) if (path / "record.json").exists() else PartState(NOT_BEGUN)
    done = view.seal is not None and view.seal.state == "complete"
    return PartState(COMPLETE) if done else PartState(INTERRUPTED, "" if view.seal is None else view.seal.why)


def _run_part(
    path: Path, planned: Experiment | PartState, options: RunOptions, progress: Progress, *, more: bool
) -> PartState:
    """Start or resume the record of a part."""
    if isinstance(planned, PartState):
        return planned
    try:
        if (path / "record.json").exists():
            resume(path, planned.budget_ns if more else None, options=options, progress=progress)
        else:
            start(planned, path, options=options, progress=progress)
    except Interrupted:
        return PartState(INTERRUPTED)
    except RecordError as error:
        return PartState(FAILED, in_one_line(error))
    except UserError as error:
        begun = (path / "runs.jsonl").is_file() and (path / "runs.jsonl").stat().st_size > 0
        found = error.finding if isinstance(error, NothingComparableError) else None
        kept = found if begun or found is not Finding.NOT_COMPARED else None
        return PartState(FAILED if begun or is_of_machine(error) else UNAVAILABLE, in_one_line(error), finding=kept)
    return PartState(COMPLETE)


def in_one_line(error: UserError) -> str:
    """Return the message and the hint of an error as sentences in one line."""
    message, *hint = str(error).splitlines() or [""]
    return " ".join((message if not hint or message.endswith((".", "!", "?", ":")) else f"{message}.", *hint))


def _resume_command(folder: Path) -> str:
    return f"swapstone study --resume {shlex.quote(str(folder))}"


def _write_index(
    run: StudyRun, folder: Path, states: Mapping[str, PartState], summaries: dict[str, _PartRead]
) -> StudyIndex:
    """Write the index, and the reports of the parts that changed since the last time."""
    parts = []
    for part in run.chosen:
        state = states.get(part.name, PartState(NOT_BEGUN))
        if part.name not in summaries or summaries[part.name][0].state != state.state:
            summaries[part.name] = _summary(part, state, folder)
        parts.append(summaries[part.name])
    open_parts = any(part.state in {INTERRUPTED, FAILED, NOT_BEGUN} for part, _ in parts)
    read = tuple(each for _, each in parts if each is not None)
    page = next((each.context.published for each in read if each.context.published), "")
    index = StudyIndex(
        name=run.name,
        title=run.study.title,
        question=run.study.question,
        folder=str(folder),
        parts=tuple(part for part, _ in parts),
        resume=_resume_command(folder) if open_parts else "",
        version=__version__,
        clocks=_clock_tables(run, folder),
        opening=tuple(each for topic in provided("study-topic", Callable) for each in topic(page, read) if page),
    )
    _write(folder / "index.md", markdown.render(document_of(index)), folder)
    _write(folder / "index.html", html.render(document_of(index, page=True)), folder)
    _write(folder / INDEX, to_json(index), folder)
    return index


def _clock_tables(run: StudyRun, folder: Path) -> tuple[SideBySide, ...]:
    """Return the tables of parts that differ in the time of an instruction alone."""
    if len({part.settings.machine.ns_per_instruction for part in run.chosen}) < 2:
        return ()
    groups: list[list[RecordView]] = []
    for part in run.chosen:
        with contextlib.suppress(RecordError):
            view = load(folder / part.name)
            group = next((group for group in groups if all(_other_clock(each, view) for each in group)), None)
            if view.runs and group is not None:
                group.append(view)
            elif view.runs:
                groups.append([view])
    found = []
    for group in groups:
        if len(group) > 1:
            with contextlib.suppress(UserError):  # they have no row in common
                found.append(side_by_side([(view.experiment, analyse_record(view)) for view in group]))
    return tuple(found)


def _other_clock(first: RecordView, second: RecordView) -> bool:
    both = (first.experiment, second.experiment)
    return question_of(both) is Question.CLOCKS and not differing_setting(both)


def _summary(part: StudyPart, state: PartState, folder: Path) -> _PartRead:
    found = PartSummary(name=part.name, title=part.title, state=state.state, reason=state.reason)
    with contextlib.suppress(RecordError):
        view = load(folder / part.name)
        if view.runs:
            context, analysis = context_of(view), analyse_record(view)
            page = html.render(record_report.document_of(context, analysis))
            _write(folder / part.name / "report.html", page, folder)
            places = msgspec.structs.replace(found, record=part.name, page=f"{part.name}/report.html")
            return summary(context, analysis, places), PartOfStudy(part.name, context, analysis)
    return found, None


def _write(path: Path, content: str, folder: Path, next_step: str = "") -> None:
    """Replace a file atomically; arguments and errors as of `_written`."""
    with _written(path, folder, next_step):
        replace_file(path, content.encode("utf-8", "backslashreplace"))


@contextlib.contextmanager
def _written(path: Path, folder: Path, next_step: str) -> Iterator[None]:
    """Name a file that can't be written.

    Args:
        path: of the file.
        folder: of the study.
        next_step: what to do after an error of the disk; empty for resuming the study.

    Raises:
        RecordError: instead of an `OSError`.
    """
    try:
        yield
    except OSError as error:
        cause = remedy(error)
        then = next_step or f"continue: {_resume_command(folder)}"
        hint = f"{cause}, then {then}" if cause else "Name another folder with --out."
        raise RecordError(f"{path} can't be written: {error.strerror}.", hint) from error
