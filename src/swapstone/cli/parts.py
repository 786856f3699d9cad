"""Running a study that consists of parts: each a record of its own, one after another, and an index over all."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fnmatch
import os
import secrets
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import msgspec

from swapstone import __version__
from swapstone.cli.flow import EXIT_INTERRUPT, Session, Wish, go_on, parse_factors, resolve, start
from swapstone.cli.printing import PIPED_WIDTH, context_of
from swapstone.cli.tables import plain
from swapstone.model import Experiment, FrozenStruct, RecordError, UserError, unknown
from swapstone.record import load
from swapstone.report import html
from swapstone.report.study import PartSummary, StudyIndex, summary, to_html, to_json, to_markdown, to_text
from swapstone.session.analysis import analyse_record
from swapstone.session.budget import check_budget
from swapstone.session.study_file import Study, StudyPart
from swapstone.session.values import parse_duration_ns
from swapstone.workloads import find_workloads

STUDY = "study.json"
COMPLETE, INTERRUPTED, FAILED = "complete", "interrupted", "failed"
UNAVAILABLE, LEFT_OUT, NOT_BEGUN = "unavailable", "left out", "not begun"
_MADE_FIRST = {"lock", "raw", "experiment.json"}
"""What a record's folder holds before it is one."""


class StudyRun(FrozenStruct, frozen=True, kw_only=True):
    """A study as it was asked for: `study.json` in its folder, so that it can be gone on with.

    Attributes:
        format, schema: what this file is.
        created: when, in UTC.
        name: of the study.
        study: as its file said then.
        parts: names of those that were asked for, in order.
        only: patterns of workloads; none for all.
        budget: of all parts together; empty for the study's own.
        seed: of every random order.
        blocks: an exact number of blocks for every part; 0 for what the parts say.
        target: another one than the parts need; may be empty.
    """

    format: str = "swapstone-study"
    schema: int = 1
    created: str
    name: str
    study: Study
    parts: tuple[str, ...]
    only: tuple[str, ...] = ()
    budget: str = ""
    seed: int
    blocks: int = 0
    target: str = ""

    @property
    def chosen(self) -> tuple[StudyPart, ...]:
        """Return the parts that were asked for."""
        return tuple(part for part in self.study.part if part.name in self.parts)


@dataclasses.dataclass(frozen=True)
class _Outcome:
    """How a part stands, and why."""

    state: str
    reason: str = ""


def asked(
    name: str,
    study: Study,
    *,
    only_parts: Sequence[str],
    only: Sequence[str],
    budget: str | None,
    seed: int | None,
    blocks: int | None,
    target: str | None,
) -> StudyRun:
    """Put together what a user asked for.

    Raises:
        UserError: there is no such part, or the budget is no duration.
    """
    names = [part.name for part in study.part]
    if wrong := next((part for part in only_parts if part not in names), None):
        raise unknown("part of the study", wrong, names)
    if budget:
        parse_duration_ns(budget)
    return StudyRun(
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        name=name,
        study=study,
        parts=tuple(part for part in names if part in only_parts or not only_parts),
        only=tuple(only),
        budget=budget or "",
        seed=seed if seed is not None else secrets.randbelow(2**31),
        blocks=blocks or 0,
        target=target or "",
    )


def begin(run: StudyRun, folder: Path, *, no_cache: bool = False) -> int:
    """Make a study's folder and run its parts.

    Args:
        run: what was asked for.
        folder: where; must not hold anything yet.
        no_cache: whether virtual machines make every run anew.

    Returns:
        The process's exit status.

    Raises:
        UserError: a pattern matches nothing, a budget is too small, or the folder can't be written.
    """
    planned = _planned(run)
    _check_budgets(planned)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise RecordError(f"{folder} is not empty.", "Name another folder with --out, or go on with --resume.")
        _write(folder / STUDY, msgspec.json.format(run.encoded(), indent=1).decode() + "\n")
    except OSError as error:
        raise RecordError(f"{folder} can't be written: {error.strerror}.") from error
    return _run(run, folder, planned, no_cache=no_cache)


def load_run(folder: Path) -> StudyRun:
    """Read what a study's folder was asked for.

    Raises:
        RecordError: it holds no study.
    """
    try:
        return msgspec.json.decode((folder / STUDY).read_bytes(), type=StudyRun)
    except OSError as error:
        raise RecordError(f"{folder} is no study's folder: it has no {STUDY}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"{folder / STUDY} can't be read: {error}.") from error


def resume(folder: Path, budget: str | None, *, no_cache: bool = False) -> int:
    """Go on with a study: what is complete stays, what was interrupted goes on, the rest is begun.

    Args:
        folder: of the study.
        budget: a new one for all parts together, or None for the old one.
        no_cache: as for `begin`.

    Returns:
        The process's exit status.
    """
    run = load_run(folder)
    if budget:
        parse_duration_ns(budget)
        run = msgspec.structs.replace(run, budget=budget)
    planned = _planned(run)
    if all(_on_disk(folder / part.name).state == COMPLETE or planned[part.name] is None for part in run.chosen):
        raise UserError(
            f"Every part of {folder} is complete: there is nothing to resume.", f"See it: {folder / 'index.html'}"
        )
    if budget:
        _write(folder / STUDY, msgspec.json.format(run.encoded(), indent=1).decode() + "\n")
    return _run(run, folder, planned, no_cache=no_cache, more=bool(budget))


_Planned = Mapping[str, Experiment | str | None]
"""For each part its experiment, or why it is unavailable, or None where `--only` leaves nothing of it."""


def _planned(run: StudyRun) -> _Planned:
    """Resolve every part before anything runs.

    Raises:
        UserError: a pattern of the user's matches nothing in any part.
    """
    names: dict[str, list[str] | str] = {}
    for part in run.chosen:
        try:
            names[part.name] = [work.name for _, work in find_workloads(part.suites, part.only)]
        except UserError as error:
            names[part.name] = _in_one_line(error)
    every = [name for found in names.values() if isinstance(found, list) for name in found]
    for pattern in run.only:
        if every and not any(fnmatch.fnmatchcase(name, pattern) for name in every):
            raise unknown("workload", pattern, every)
    return {part.name: _one_planned(run, part, names[part.name]) for part in run.chosen}


def _one_planned(run: StudyRun, part: StudyPart, names: list[str] | str) -> Experiment | str | None:
    if isinstance(names, str):
        return names
    kept = [name for name in names if not run.only or any(fnmatch.fnmatchcase(name, each) for each in run.only)]
    if not kept:
        return None
    try:
        return resolve(
            Wish(
                name=f"{run.name}/{part.name}",
                factors=parse_factors(
                    [f"{factor.name}={','.join(factor.levels)}" for factor in part.factor or run.study.factor]
                ),
                suites=part.suites,
                only=kept if run.only else part.only,
                budget=f"{_share_ns(run, part) / 1e9:.3f}s",
                margin=part.margin or run.study.margin,
                seed=run.seed,
                blocks=run.blocks or part.blocks,
                null=run.study.null,
                target=run.target or None,
                loads=part.loads,
                architecture=part.architecture,
                published=run.study.published,
            )
        )
    except UserError as error:
        return _in_one_line(error)


def _share_ns(run: StudyRun, part: StudyPart) -> float:
    """Return a part's budget: its own, or its share of the one for all, in proportion to the parts' own."""
    own_ns = parse_duration_ns(part.budget)
    if not run.budget:
        return own_ns
    return parse_duration_ns(run.budget) * own_ns / sum(parse_duration_ns(each.budget) for each in run.chosen)


def _check_budgets(planned: _Planned) -> None:
    """Refuse a budget that is too small for a part.

    Raises:
        UserError: one is; names the part.
    """
    for name, experiment in planned.items():
        if isinstance(experiment, Experiment):
            try:
                check_budget(experiment)
            except UserError as error:
                raise UserError(
                    f"Part {name}: {error.message}", "Give it a larger --budget, or say how many --blocks."
                ) from error


def _run(run: StudyRun, folder: Path, planned: _Planned, *, no_cache: bool, more: bool = False) -> int:
    """Run the parts that are not complete; print each one's table and, in the end, the index."""
    outcomes: dict[str, _Outcome] = {}
    summaries: dict[str, PartSummary] = {}
    parts = run.chosen
    try:
        for number, part in enumerate(parts, start=1):
            outcomes[part.name] = _on_disk(folder / part.name)
            if outcomes[part.name].state == COMPLETE and not more:
                continue
            session = Session(no_cache=no_cache, part=f"part {number} of {len(parts)}")
            click.echo(f"\nPart {number} of {len(parts)}: {part.name}: {plain(part.title)}")
            sys.stdout.flush()
            outcomes[part.name] = _one(folder / part.name, planned[part.name], session, more=more)
            if outcomes[part.name].reason:
                click.echo(f"{outcomes[part.name].state}: {plain(outcomes[part.name].reason)}")
            if outcomes[part.name].state == INTERRUPTED:
                raise KeyboardInterrupt
            _write_index(run, folder, outcomes, summaries)
    except KeyboardInterrupt:
        for part in parts:  # also of the one whose images were being built
            outcomes.setdefault(part.name, _on_disk(folder / part.name))
        _write_index(run, folder, outcomes, summaries)
        sys.stdout.flush()
        click.echo(f"Interrupted. Nothing is lost; go on with: {_resume_command(folder)}", err=True)
        return EXIT_INTERRUPT
    _print(_write_index(run, folder, outcomes, summaries))
    return _status([outcomes[part.name].state for part in parts])


def _status(states: Sequence[str]) -> int:
    """Return the exit status: 0 unless a part failed, or none could be made."""
    if FAILED in states:
        return 2
    return 0 if COMPLETE in states else 2


def _on_disk(path: Path) -> _Outcome:
    """Say how far a part's record is, before this session does anything to it."""
    try:
        view = load(path)
    except RecordError as error:
        return _Outcome(FAILED, _in_one_line(error)) if (path / "record.json").exists() else _Outcome(NOT_BEGUN)
    done = view.seal is not None and view.seal.state == "complete"
    return _Outcome(COMPLETE) if done else _Outcome(INTERRUPTED, "" if view.seal is None else view.seal.why)


def _one(path: Path, planned: Experiment | str | None, session: Session, *, more: bool) -> _Outcome:
    """Make a part's record, or go on with it."""
    if planned is None:
        return _Outcome(LEFT_OUT, "none of its workloads matches --only")
    if isinstance(planned, str):
        return _Outcome(UNAVAILABLE, planned)
    try:
        if (path / "record.json").exists():
            status = go_on(path, f"{planned.budget_ns / 1e9:.3f}s" if more else None, session)
        else:
            _clear(path)
            status = start(planned, str(path), session=session)
    except RecordError as error:
        return _Outcome(FAILED, _in_one_line(error))
    except UserError as error:
        begun = (path / "runs.jsonl").is_file() and (path / "runs.jsonl").stat().st_size > 0
        return _Outcome(FAILED if begun else UNAVAILABLE, _in_one_line(error))
    return _Outcome(INTERRUPTED) if status else _Outcome(COMPLETE)


def _in_one_line(error: UserError) -> str:
    return " ".join(str(error).splitlines())


def _clear(path: Path) -> None:
    """Remove what is left where a record's folder was being made when its program was killed: there is no run in it."""
    if path.is_dir() and {entry.name for entry in path.iterdir()} <= _MADE_FIRST:
        shutil.rmtree(path)


def _resume_command(folder: Path) -> str:
    return f"swapstone study --resume {shlex.quote(str(folder))}"


def _write_index(
    run: StudyRun, folder: Path, outcomes: Mapping[str, _Outcome], summaries: dict[str, PartSummary]
) -> StudyIndex:
    """Write the index and the pages of the parts that changed since the last time."""
    parts = []
    for part in run.chosen:
        outcome = outcomes.get(part.name, _Outcome(NOT_BEGUN))
        if part.name not in summaries or summaries[part.name].state != outcome.state:
            summaries[part.name] = _summary(part, outcome, folder)
        parts.append(summaries[part.name])
    open_parts = any(part.state in {INTERRUPTED, FAILED, NOT_BEGUN} for part in parts)
    index = StudyIndex(
        name=run.name,
        title=run.study.title,
        question=run.study.question,
        folder=str(folder),
        parts=tuple(parts),
        resume=_resume_command(folder) if open_parts else "",
        version=__version__,
    )
    _write(folder / "index.json", to_json(index))
    _write(folder / "index.md", to_markdown(index))
    _write(folder / "index.html", to_html(index))
    return index


def _summary(part: StudyPart, outcome: _Outcome, folder: Path) -> PartSummary:
    found = PartSummary(name=part.name, title=part.title, state=outcome.state, reason=outcome.reason)
    with contextlib.suppress(RecordError):
        view = load(folder / part.name)
        if view.runs:
            context, analysis = context_of(view), analyse_record(view)
            _write(folder / part.name / "report.html", html.render(context, analysis))
            places = msgspec.structs.replace(found, record=part.name, page=f"{part.name}/report.html")
            return summary(context, analysis, places)
    return found


def _print(index: StudyIndex) -> None:
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else PIPED_WIDTH
    colour = terminal and not os.environ.get("NO_COLOR")
    ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
    click.echo()
    click.echo(to_text(index, width=width, colour=colour, ascii_only=ascii_only), nl=False, color=terminal or None)


def _write(path: Path, content: str) -> None:
    """Write a file at once, or not at all.

    Raises:
        RecordError: it can't be written.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".part-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as opened:
                opened.write(content)
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise RecordError(f"{path} can't be written: {error.strerror}.") from error
