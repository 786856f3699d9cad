# SPDX-License-Identifier: MIT OR Apache-2.0
"""An experiment on many machines by files alone: its runs are planned into a store, made anywhere, and collected into a record."""

from __future__ import annotations

import hashlib
import re
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from swapstone.core.model import Experiment, FrozenStruct, UserError, refuse
from swapstone.core.model.frozen_struct import amount_problem
from swapstone.core.model.run_sharing import RunSharing
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.record.validation import experiment_problem, passes_problem
from swapstone.core.run.prepare import check_levels, prepare
from swapstone.core.run.trials_ahead import TrialSpecs
from swapstone.core.session.experiment import check_experiment, start
from swapstone.core.session.machines import check_sharing, open_experiment_target
from swapstone.core.session.option_values import duration_seconds, format_duration
from swapstone.core.session.progress import MESSAGE_INTERVAL_S, Progress
from swapstone.core.session.record_handle import Record
from swapstone.core.session.run_options import RunOptions
from swapstone.parts.cluster.content_store import (
    PLANS,
    RUNS,
    ContentStore,
    DamagedEntryError,
    put_run,
    put_trial,
    usable_run,
)
from swapstone.parts.cluster.shared_runs import FinishedRuns, make_run
from swapstone.parts.vm.machine.qemu import HOST_LIMIT_S, GuestEnd, GuestRun
from swapstone.parts.vm.machine.vm_target import VmTarget
from swapstone.version import __version__

_SHARE = re.compile(r"([0-9]{1,6})/([0-9]{1,6})", re.ASCII)


class TrialPlan(FrozenStruct, frozen=True, kw_only=True):
    """An experiment with the names of its runs. A store has it by its SHA-256.

    Attributes:
        swapstone: the version that wrote it.
        experiment: resolved.
        passes: triples (suite, workload, number of passes).
        runs: names of the runs to make, in the order of the plan, each once.
        made: names of the runs that planning needed, which are finished.
    """

    swapstone: str
    experiment: Experiment
    passes: tuple[tuple[str, str, int], ...]
    runs: tuple[str, ...]
    made: tuple[str, ...]


class PlannedRuns(FrozenStruct, frozen=True, kw_only=True):
    """What planning wrote.

    Attributes:
        plan: name of the plan in the store.
        store: its URL.
        trials: how many trials they are of; trials with equal inputs share a run.
        runs: names of the runs to make.
        finished: how many of them the store has.
    """

    plan: str
    store: str
    trials: int
    runs: tuple[str, ...]
    finished: int

    def next_steps(self) -> tuple[str, str]:
        """Return two lines with the commands that make the runs and collect them."""
        where = f"--store {shlex.quote(self.store)}"
        return (
            f"On each machine  swapstone run-trial --plan {self.plan} --share 1/4 {where}",
            f"Then here        swapstone collect {self.plan} {where}",
        )


def _required(url: str | None) -> str:
    if not url:
        raise UserError(
            "The store is missing.", "Name a folder or a URL that all machines reach: --store file:///srv/swapstone"
        )
    return url


def plan_runs(experiment: Experiment, url: str | None, progress: Progress) -> PlannedRuns:
    """Write the inputs of all runs of an experiment into a store. Programs are built, and workloads are calibrated, here.

    Args:
        experiment: on the virtual clock, with an exact number of blocks.
        url: of the store.
        progress: receives events.

    Raises:
        UserError: the experiment can't be planned, or the store can't be written.
    """
    sharing = RunSharing(store=_required(url))
    check_sharing(experiment, sharing)
    own = experiment.own
    refuse(
        (
            not experiment.blocks,
            "A plan needs an exact number of blocks: nothing is measured that could end it.",
            "Add: --blocks 8",
        ),
        (
            experiment.timed,
            "A plan has no budget: nothing is measured that could spend it.",
            "Leave --budget out.",
        ),
        (
            own is not None and (own.setup or own.prepare or own.conclude),
            "A plan has no --setup, --prepare and --conclude commands.",
            "Use --executor, or leave them out.",
        ),
    )
    check_experiment(experiment)
    store = ContentStore(sharing.store)
    with open_experiment_target(experiment, progress.note, RunOptions(sharing=sharing)) as target:
        assert isinstance(target, VmTarget)
        check_levels(experiment, target)
        prepared = prepare(experiment, target, progress.building, progress.note)
        specs = TrialSpecs(prepared, target)
        passes, _ = specs.calibrate({}, {}, progress.calibrating)
        made = target.used_runs
        names: dict[str, None] = {}
        trials = 0
        for trial, spec in specs.of_blocks(experiment, experiment.blocks, passes):
            subject = prepared.subjects[trial.suite, trial.workload]
            named = target.named_run(subject.request(spec), subject.machine_config(spec))
            put_trial(store, named)
            names[named.name] = None
            trials += 1
        if not names:
            raise UserError("The plan has no trial: no variant can be built for the baseline and a candidate.")
    plan = TrialPlan(
        swapstone=__version__,
        experiment=experiment,
        passes=tuple((suite, name, number) for (suite, name), number in passes.items()),
        runs=tuple(names),
        made=made,
    )
    encoded = plan.encoded()
    name = hashlib.sha256(encoded).hexdigest()
    store.put(PLANS, name, encoded)
    finished = sum(store.size(RUNS, each) is not None for each in plan.runs)
    return PlannedRuns(plan=name, store=sharing.store, trials=trials, runs=plan.runs, finished=finished)


def read_plan(store: ContentStore, name: str) -> TrialPlan:
    """Read a plan, and check that it has this name.

    Raises:
        DamagedEntryError: it was altered.
        UserError: there is none, or another version of Swapstone wrote it.
    """
    if store.size(PLANS, name) is None:
        raise UserError(f"The store {store.shown} has no plan {name}.", "`swapstone plan` prints the name of a plan.")
    data = store.get_object(name, PLANS)
    if problem := amount_problem(data):
        raise DamagedEntryError(store.path_of(PLANS, name), problem)
    try:
        plan = msgspec.json.decode(data, type=TrialPlan)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedEntryError(
            store.path_of(PLANS, name), f"it is no plan of this version ({safe_excerpt(str(error), 100)})"
        ) from error
    if problem := experiment_problem(plan.experiment) or passes_problem(plan.passes):
        raise DamagedEntryError(store.path_of(PLANS, name), f"of its experiment, {problem}")
    return plan


def make_runs(
    names: Sequence[str],
    url: str | None,
    *,
    plan: str | None = None,
    share: str | None = None,
    guest_timeout: str | None = None,
    note: Callable[[str], None] = lambda line: None,  # noqa: ARG005 - nothing is shown
) -> Iterator[tuple[str, GuestRun]]:
    """Make runs of a store on this machine, unless they are finished.

    Args:
        names: of runs.
        url: of the store.
        plan: name of a plan, for all its runs.
        share: ``K/N`` for each Nth run of the plan, beginning with the Kth: N machines make different runs.
        guest_timeout: limit of each machine, a duration; None for the default.
        note: called with a line now and then: how many are done, and how long the others will take.

    Yields:
        The name and the run, when it is in the store if it finished.

    Raises:
        UserError: this machine would make another run, or an entry of the store is damaged; the message has the reason.
    """
    store = ContentStore(_required(url))
    wanted = list(names)
    if plan:
        found = read_plan(store, plan).runs
        first, step = _part_of(share) if share else (1, 1)
        wanted += found[first - 1 :: step]
    elif share:
        raise UserError("--share is a share of a plan.", "Add: --plan NAME")
    if not wanted and not plan:
        raise UserError(
            "The name of a run is missing.",
            "`swapstone plan --json` prints the names; --plan NAME makes all of a plan.",
        )
    host_s = duration_seconds(guest_timeout) or HOST_LIMIT_S
    began = told = time.monotonic()
    for done, name in enumerate(wanted):
        if done and time.monotonic() - told >= MESSAGE_INTERVAL_S:
            told = time.monotonic()
            left = format_duration(round((told - began) / done * (len(wanted) - done) * 1e9))
            note(f"about {left} left; {done} of {len(wanted)} runs are done")
        run = usable_run(store, name, note, "The run is made again.")
        if run is None:
            run = make_run(store, name, host_s)
            if run.end is GuestEnd.FINISHED:
                put_run(store, name, run)
        yield name, run


def _part_of(text: str) -> tuple[int, int]:
    found = _SHARE.fullmatch(text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise UserError(
            f"{safe_excerpt(text)!r} is no share.", "For example: --share 1/4 on one machine, --share 2/4 on the next"
        )
    return int(found[1]), int(found[2])


def collect_runs(plan: str, url: str | None, out: Path | None, progress: Progress) -> Record:
    """Make the record of a plan from the finished runs of a store. The programs are built here again, and must be the same.

    Args:
        plan: its name.
        url: of the store.
        out: the record's folder; None for a new one.
        progress: receives events.

    Raises:
        UserError: runs are missing or damaged, or this machine derives others than the plan has.
        Interrupted: a signal ended it; the record is sealed.
    """
    store = ContentStore(_required(url))
    found = read_plan(store, plan)
    names = (*found.made, *found.runs)
    if missing := [name for name in names if usable_run(store, name, progress.note) is None]:
        raise UserError(
            f"{len(missing)} of {len(names)} runs are not finished; the first is {missing[0]}.",
            f"Make them on any machine: swapstone run-trial --plan {plan} --store {store.shown}",
        )
    sharing = FinishedRuns(store=store.url, planned=names)
    passes = {(suite, name): number for suite, name, number in found.passes}
    return Record(start(found.experiment, out, passes=passes, options=RunOptions(sharing=sharing), progress=progress))
