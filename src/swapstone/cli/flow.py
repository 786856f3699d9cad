"""Making an experiment from beginning to end: target, record, programs, trials, table."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click
import msgspec

from swapstone.artifacts.image_catalog import architecture_of
from swapstone.cli.display import display
from swapstone.cli.printing import print_table
from swapstone.cli.tables import plain
from swapstone.factors import parse_choice
from swapstone.model import (
    IDLE,
    OWN_SUITE,
    VIRTUAL_CLOCK,
    Experiment,
    FactorLevels,
    ImageTool,
    OwnProgram,
    UserError,
    Workload,
)
from swapstone.record import Manifest, RecordView, RecordWriter, load, manifest_differences, new_record_path
from swapstone.run import Engine, SessionEnd, check_levels, manifest_of, prepare
from swapstone.session.analysis import analyse_record, verdicts_digest
from swapstone.session.budget import check_budget
from swapstone.session.machines import default_target_of, open_experiment_target, parse_modules
from swapstone.session.precision_stop import PrecisionStop
from swapstone.session.values import parse_confidence, parse_duration_ns, parse_ratio
from swapstone.targets import TargetOptions, clock_of, parse_target
from swapstone.workloads import find_load, find_workloads, own_names

BUDGET_PER_VARIANT_NS = 60_000_000_000
EXIT_INTERRUPT = 130
STOPPED = SessionEnd("interrupted", "the user stopped it")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wish:
    """What a user typed, or a study says, before it is resolved. Texts are as `--help` describes them."""

    name: str
    factors: Sequence[FactorLevels]
    suites: Sequence[str]
    only: Sequence[str] = ()
    budget: str | None = None
    margin: str = "2%"
    confidence: str = "95"
    seed: int | None = None
    blocks: int | None = None
    null: bool = False
    layouts: int = 0
    target: str | None = None
    loads: Sequence[str] = (IDLE.name,)
    architecture: str = ""
    modules: Sequence[str] = ()
    clock: str | None = None
    published: str = ""
    own: OwnProgram | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Session:
    """How a session goes, beside what it measures.

    Attributes:
        rebuild: whether to build a program of the user's own anew, though it was built before.
        no_cache: whether a virtual machine makes every run anew, though an equal one is known.
        part: which part of a study it is, as progress says it, e.g. ``part 2 of 4``; empty where it is a whole.
    """

    rebuild: bool = False
    no_cache: bool = False
    part: str = ""


def parse_factors(texts: Sequence[str]) -> tuple[FactorLevels, ...]:
    """Read the FACTOR=LEVELS of a command line.

    Raises:
        UserError: there are none, one is malformed, or a factor is named twice.
    """
    if not texts:
        raise UserError(
            "Say what to compare: FACTOR=BASELINE,CANDIDATE.", "For example: swapstone compare libc=glibc,musl"
        )
    choices = tuple(parse_choice(text) for text in texts)
    names = [choice.factor for choice in choices]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(
            f"The factor {twice} is named twice.", f"List all its levels in one: {twice}=BASELINE,CANDIDATE"
        )
    return choices


def parse_loads(text: str) -> tuple[str, ...]:
    """Read names of loads, parted by commas.

    Raises:
        UserError: there is no such load, or one is named twice.
    """
    names = tuple(find_load(name.strip()).name for name in text.split(","))
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"The load {twice} is named twice.", f"Write: --load {','.join(dict.fromkeys(names))}")
    return names


def resolve(wish: Wish) -> Experiment:
    """Turn a wish into an experiment in which nothing is left open.

    Raises:
        UserError: a name is unknown or a value out of range.
    """
    chosen = (
        tuple((OWN_SUITE, name) for name in own_names(wish.own))
        if wish.own
        else _named(find_workloads(wish.suites, wish.only))
    )
    combinations = 1
    for choice in wish.factors:
        combinations *= len(choice.levels)
    works = [] if wish.own else [work for _, work in find_workloads(wish.suites, wish.only)]
    target = wish.target or default_target_of(wish.factors, wish.loads, works)
    clock = clock_of(target, wish.clock or "")
    count = _copies(wish, clock, works) if wish.null else 0
    budget_ns = parse_duration_ns(wish.budget) if wish.budget else BUDGET_PER_VARIANT_NS * (combinations + count)
    parse_target(target, TargetOptions(clock=clock, architecture=wish.architecture))
    return Experiment(
        name=wish.name,
        factors=tuple(wish.factors),
        workloads=chosen,
        loads=tuple(wish.loads),
        target=target,
        architecture=architecture_of(wish.architecture).name if wish.architecture else "",
        modules=parse_modules(wish.modules, wish.factors, wish.target),
        clock=clock,
        budget_ns=budget_ns,
        margin=parse_ratio(wish.margin, "--margin", 0.0, 1.0),
        confidence=parse_confidence(wish.confidence),
        seed=wish.seed if wish.seed is not None else secrets.randbelow(2**31),
        null=wish.null,
        blocks=wish.blocks or 0,
        layouts=wish.layouts,
        published=wish.published,
        own=wish.own,
    )


def _copies(wish: Wish, clock: str, works: Sequence[Workload]) -> int:
    """Return how many copies of the baseline a null comparison adds.

    Raises:
        UserError: there is none that could differ from it.
    """
    if clock != VIRTUAL_CLOCK:
        return 1 if wish.own else 2
    if any(isinstance(work.origin, ImageTool) for work in works):
        raise UserError(
            "On the virtual clock a program that is run again gives the same bytes, and a tool of the image can't be relinked: --null has "
            "nothing to compare.",
            "Leave --null out.",
        )
    return 1


def _tell(line: str) -> None:
    click.echo(plain(line), err=True)


def _named(chosen: Iterable[tuple[str, Workload]]) -> tuple[tuple[str, str], ...]:
    return tuple((suite, workload.name) for suite, workload in chosen)


def start(
    experiment: Experiment,
    out: str | None,
    passes: dict[tuple[str, str], int] | None = None,
    session: Session = Session(),
) -> int:
    """Make a new record of an experiment and print its table.

    Args:
        experiment: what to do.
        out: the record's folder, or None for a new one under the root.
        passes: calibration to use instead of measuring it (for a rerun).
        session: how it goes.

    Returns:
        The process's exit status.
    """
    title = " ".join(f"{choice.factor}={','.join(choice.levels)}" for choice in experiment.factors)
    title = f"{experiment.own.name}-{title}" if experiment.own else title
    path = Path(out) if out else new_record_path(title if experiment.name == "compare" else experiment.name)
    # First all that may be wrong with the wish, then the record: a mistake leaves nothing behind.
    with open_experiment_target(experiment, _tell, no_cache=session.no_cache) as target:
        check_levels(experiment, target)
        if experiment.layouts and not target.needs_build:
            raise UserError(f"The target {target.name} runs no programs of ours: --layouts has nothing to link.")
        note = check_budget(experiment)
        if note:
            click.echo(f"Note: {note}", err=True)
        with RecordWriter.create(path, experiment) as writer:
            ending = STOPPED
            with display(experiment, session.part) as shown, _sealed_when_it_breaks(writer):
                prepared = prepare(
                    experiment, target, shown.building, shown.note, keep_log=writer.keep_log, rebuild=session.rebuild
                )
                referee = PrecisionStop(experiment, shown.note)
                engine = Engine(experiment, prepared, target, writer, referee=referee, progress=shown, passes=passes)
                ending = engine.run()
            return _finish(writer, ending, session)


def go_on(path: Path, budget: str | None, session: Session = Session()) -> int:
    """Go on with a record that was interrupted.

    Args:
        path: its folder.
        budget: a new budget for the whole experiment, or None to keep the old one.
        session: how it goes.

    Returns:
        The process's exit status.

    Raises:
        UserError: it is complete, altered, or being written; or machine or programs are not what they were. The record stays as it is.
    """
    budget_ns = parse_duration_ns(budget) if budget else None
    writer, view = RecordWriter.resume(path)
    with writer, open_experiment_target(view.experiment, _tell, no_cache=session.no_cache) as target:
        experiment = _experiment_to_go_on(view, budget_ns)
        check_levels(experiment, target)
        passes = {(suite, name): count for suite, name, count in view.manifest.passes} if view.manifest else {}
        ending = STOPPED
        with display(experiment, session.part) as shown:
            prepared = prepare(experiment, target, shown.building, shown.note, keep_log=writer.keep_log)
            if view.manifest is not None:
                _same_as_before(view.manifest, manifest_of(prepared, target, passes), path)
            writer.write_experiment(experiment)
            with _sealed_when_it_breaks(writer):
                referee = PrecisionStop(experiment, shown.note)
                engine = Engine(
                    experiment,
                    prepared,
                    target,
                    writer,
                    referee=referee,
                    progress=shown,
                    earlier=view.runs,
                    passes=passes,
                )
                ending = engine.run()
        return _finish(writer, ending, session)


def _experiment_to_go_on(view: RecordView, budget_ns: int | None) -> Experiment:
    if budget_ns is not None:
        return msgspec.structs.replace(view.experiment, budget_ns=budget_ns)
    if view.seal is not None and view.seal.state == "complete":
        raise UserError(
            f"{view.path} is complete ({view.seal.why}): there is nothing to resume.",
            f"Give it more time with --budget, or see it: swapstone show {view.path}",
        )
    return view.experiment


@contextlib.contextmanager
def _sealed_when_it_breaks(writer: RecordWriter) -> Iterator[None]:
    """Seal the record when an error ends the session; let Ctrl-C end it quietly. At most the trial in flight is missing."""
    try:
        yield
    except UserError:
        writer.seal("interrupted", "an error ended it", "")
        raise
    except KeyboardInterrupt:
        pass


def _same_as_before(first: Manifest, now: Manifest, path: Path) -> None:
    """Refuse to mix two machines or two builds in one record.

    Raises:
        UserError: something differs from the session in which the record was begun; says what.
    """
    differences = manifest_differences(first, now)
    if differences:
        raise UserError(
            f"{path} can't be resumed: " + "; ".join(differences[:3]) + ".",
            f"Make it afresh and compare the two: swapstone rerun {path}",
        )


def _finish(writer: RecordWriter, ending: SessionEnd, session: Session) -> int:
    """Seal the record and print what it says so far."""
    writer.seal(ending.state, ending.why, "")
    view = load(writer.path)
    analysis = analyse_record(view)
    writer.seal(ending.state, ending.why, verdicts_digest(analysis))
    if view.runs:
        print_table(load(writer.path), analysis)
    if ending.state == "complete":
        return 0
    sys.stdout.flush()
    if not session.part:  # a study says how to go on with all of it
        click.echo(f"Interrupted. Nothing is lost; go on with: swapstone compare --resume {writer.path}", err=True)
    return EXIT_INTERRUPT
