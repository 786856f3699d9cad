# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether a record's runs are those of its experiment's plan: which runs, in which order, with how many passes, and when.

The order of every block is a function of the seed, so a run that was removed, added or moved shows, although every line was numbered and
chained anew. Nothing is run.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from swapstone.core import plan
from swapstone.core.model import Copy, Experiment, Run, Status, discarded_by_block
from swapstone.core.plan import Group
from swapstone.core.plan.stopping import MadeRuns, StopReason, due, first_block, looks
from swapstone.core.record import RecordView
from swapstone.core.session.precision_stop import PrecisionStop
from swapstone.core.session.two_sessions import by_session
from swapstone.version import __version__

_EARLY_NS = 2_000_000_000
"""How much earlier than the record a run may start: the record's time has whole seconds."""


def plan_problems(view: RecordView) -> list[str]:
    """Compare the runs of a record with the plan that its seed gives.

    Returns:
        A sentence for each difference; only the first one of the order, as all later runs would differ too.

    Raises:
        UserError: this version of Swapstone does not have a workload of the record.
    """
    now, *earlier = by_session(view)
    found = [*_order(now), *_unavailable(now), *_passes(now), *_times(now)]
    return [*found, *(f"the earlier session: {problem}" for each in earlier for problem in _order(each))]


def _order(view: RecordView) -> Iterator[str]:
    if view.damages:
        return  # lines that can't be read are named already
    experiment = view.experiment
    runs = [run for run in view.runs if run.status is not Status.UNAVAILABLE]
    replay = _Replay(view)
    first = first_block(experiment)
    blocks: dict[int, list[Run]] = {}
    for run in runs:
        if blocks and run.trial.block < max(blocks):
            yield f"the run {run.trial.key} is recorded after runs of block {max(blocks)}"
            return
        blocks.setdefault(run.trial.block, []).append(run)
    if not runs:
        if view.seal and view.seal.state == "complete" and replay.still_open:
            yield "it is sealed as complete and has no run"
        return
    last = max(blocks)
    for number in range(first, last + 1):
        made = blocks.get(number, [])
        may_end = number == last and (view.seal is None or view.seal.state != "complete")
        if problem := replay.block(number, made, may_end=may_end):
            yield problem
            return
    if view.seal and view.seal.state == "complete" and (problem := replay.ended(last)):
        yield problem


class _Replay:
    """Goes through the blocks of a record as the engine did."""

    def __init__(self, view: RecordView) -> None:
        self._experiment: Experiment = view.experiment
        self._view = view
        unavailable = [run for run in view.runs if run.status is Status.UNAVAILABLE]
        self._refused = {(run.trial.suite, run.trial.workload, run.trial.variant) for run in unavailable}
        self._variants = plan.variants(view.experiment)
        self._baseline = self._variants[0].label
        self._candidates = [each.label for each in self._variants[1:] if each.copy is Copy.FIRST]
        self.still_open = tuple(
            group for group in plan.groups(view.experiment) if (*group[:2], self._baseline) not in self._refused
        )
        self._made = MadeRuns(unavailable)
        self._lost: frozenset[plan.Place] = frozenset()
        resumed = view.seal is not None and view.seal.sessions > 1
        # A resumed session may have another budget, on which it depends how many runs are discarded, and so when a group ends.
        self._same_rules = view.meta.swapstone == __version__ and not (resumed and view.experiment.prime_more)

    def block(self, number: int, made: Sequence[Run], *, may_end: bool) -> str:
        """Compare one block with the plan; return what differs first, or an empty text.

        Args:
            number: of the block.
            made: its runs, in their order.
            may_end: whether the session may have ended inside it.
        """
        there = {run.trial.group for run in made}
        if strange := there - set(self.still_open):
            return f"block {number} has runs of {_named(min(strange))}, which was not measured any more"
        if not may_end:
            gone = tuple(group for group in self.still_open if group not in there)
            if gone and (problem := self._closed(number, gone)):
                return problem
            self.still_open = tuple(group for group in self.still_open if group in there)
            return self._compare(number, made, self.still_open, may_end=False)
        groups = self.still_open
        # Groups may have closed before the last block of an interrupted session.
        # Those that come later in the block's order don't change the places of those before.
        if made and self._may_close(number - 1):
            closed = self._closing(number - 1) if self._same_rules else set(self.still_open) - there
            groups = tuple(group for group in self.still_open if group not in closed)
        return self._compare(number, made, groups, may_end=True)

    def _compare(self, number: int, made: Sequence[Run], groups: Sequence[Group], *, may_end: bool) -> str:
        # How many runs are discarded depends on durations, and is taken from the runs.
        discarded = {group: count for (_, group), count in discarded_by_block(run.trial for run in made).items()}
        planned = plan.block(self._experiment, number, groups, discarded)
        trials = [trial for trial in planned if not self._gone(trial.group, trial.variant)]
        for trial, run in zip(trials, made, strict=False):
            if trial != run.trial:
                present = {each.trial.key for each in made}
                if trial.key not in present:
                    return f"the run {trial.key} is missing: block {number} of the plan has it"
                if run.trial.key not in {each.key for each in trials}:
                    return f"the run {run.trial.key} is not in the plan"
                return f"the run {run.trial.key} is not in its place of block {number}, where the seed puts {trial.key}"
        if len(made) > len(trials):
            return f"the run {made[len(trials)].trial.key} is not in the plan"
        if len(made) < len(trials) and not may_end:
            return f"the run {trials[len(made)].key} is missing: block {number} of the plan has it"
        self._enter(number, made)
        return ""

    def _gone(self, group: Group, label: str) -> bool:
        """Return whether a variant is not run on a workload any more, or never was."""
        return (*group[:2], label) in self._refused or (*group, label) in self._lost

    def _enter(self, number: int, made: Sequence[Run]) -> None:
        """Take in the runs of a block, and close the groups that can't be compared any more."""
        for run in made:
            self._made.add(run)
        self._lost = plan.given_up(self._experiment, self._made.of_troubled_places(), number)
        self.still_open = tuple(
            group
            for group in self.still_open
            if not self._gone(group, self._baseline)
            and not (self._candidates and all(self._gone(group, each) for each in self._candidates))
        )

    def _closed(self, number: int, gone: Sequence[Group]) -> str:
        """Return a sentence if groups without runs in a block should have some."""
        if not self._may_close(number - 1):
            return f"block {number} has no run of {_named(gone[0])}"
        if self._same_rules and (early := [group for group in gone if group not in self._closing(number - 1)]):
            return f"block {number} has no run of {_named(early[0])}, whose interval was not narrow enough to end"
        return ""

    def _may_close(self, number: int) -> bool:
        """Return whether groups may end after a block."""
        requested = self._experiment.blocks
        return number >= requested if requested else due(number, *looks(self._experiment))

    def _closing(self, number: int) -> set[Group]:
        """Return the groups that end after a block, by the rule that the session followed."""
        runs, last = self._made.up_to(number), self._made.of_block(number)
        used_ns, cost_ns = self._made.elapsed_ns(number), sum(run.elapsed_ns for run in last)
        decision = PrecisionStop(self._experiment)(runs, self.still_open, number, used_ns, cost_ns)
        return set(self.still_open) - set(decision.still_open)

    def ended(self, last: int) -> str:
        """Return a sentence if the reason for which the record says that it ended is not the case."""
        assert self._view.seal is not None
        why = self._view.seal.why
        spent = self._experiment.timed and why.startswith(StopReason.BUDGET)
        if self._experiment.blocks and last < self._experiment.blocks and self.still_open and not spent:
            return f"{self._experiment.blocks} blocks were requested, and its last one is {last}"
        if self.still_open and why.startswith((StopReason.FAILED, StopReason.INCOMPARABLE)):
            return f"it is sealed because {StopReason.FAILED}, and {_named(self.still_open[0])} did not"
        if not why.startswith(StopReason.PRECISE) or not self.still_open or not self._same_rules:
            return ""
        if not self._may_close(last) or self._closing(last) != set(self.still_open):
            return "it is sealed as precise enough, and its runs are not"
        return ""


def _named(group: Group) -> str:
    return group[1] if group[2] == "idle" else f"{group[1]} under {group[2]}"


def _unavailable(view: RecordView) -> Iterator[str]:
    """Yield a sentence on each variant that is marked as impossible although the manifest has its program."""
    if view.manifest is None:
        return
    built = {(each.suite, each.workload, each.variant) for each in view.manifest.artifacts}
    for run in view.runs:
        place = (run.trial.suite, run.trial.workload, run.trial.variant)
        if run.status is Status.UNAVAILABLE and place in built:
            yield f"{place[1]} with {place[2]} is marked as unavailable, and the manifest has its program"


def _passes(view: RecordView) -> Iterator[str]:
    """Yield a sentence on the first run of each workload that made another number of passes than was calibrated."""
    if view.manifest is None:
        return
    calibrated = {(suite, workload): passes for suite, workload, passes in view.manifest.passes}
    named: set[tuple[str, str]] = set()
    for run in view.runs:
        place = (run.trial.suite, run.trial.workload)
        if run.status is Status.UNAVAILABLE or place in named:
            continue
        if run.passes != calibrated.get(place):
            named.add(place)
            yield f"the run {run.trial.key} made {run.passes} passes, and {calibrated.get(place, 'none')} were calibrated"


def _times(view: RecordView) -> Iterator[str]:
    """Yield a sentence on the first run whose time contradicts the others, the record or itself."""
    clock = "the clock was set, or the record was edited"
    begun = _created_ns(view.meta.created)
    sealed = view.seal.sealed_unix_ns if view.seal and len(view.runs) <= view.seal.runs else 0
    one_at_once = not view.experiment.virtual
    real_time = one_at_once and not view.experiment.simulated
    before: Run | None = None
    for run in view.runs:
        if not run.started_unix_ns:
            continue
        start = run.started_unix_ns
        free_ns = before.started_unix_ns + before.elapsed_ns * 9 // 10 if one_at_once and before is not None else 0
        problems = (
            (begun is not None and start < begun - _EARLY_NS, f"started before the record was created: {clock}"),
            (sealed and start > sealed, f"started after the record was sealed: {clock}"),
            (start < free_ns, f"started before the end of the run before it: {clock}"),
            (
                real_time and dict(run.facts).get("wall_ns", 0) > run.elapsed_ns > 0,
                "took longer than the time until its answer came",
            ),
        )
        if problem := next((text for wrong, text in problems if wrong), ""):
            yield f"the run {run.trial.key} {problem}"
            return
        before = run


def _created_ns(text: str) -> int | None:
    try:
        created = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return int(created.timestamp() * 1e9) if created.tzinfo else None
