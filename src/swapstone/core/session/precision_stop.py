# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decides after each block whether an experiment is precise enough to stop, and how many runs are discarded before each measured one."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence

import msgspec

from swapstone.core import plan
from swapstone.core.comparison import carry_over, precision
from swapstone.core.comparison.pairs import interval_pairs
from swapstone.core.comparison.run_columns import RunColumns, metric_names
from swapstone.core.comparison.run_table import Runs, RunTable
from swapstone.core.model import (
    CURRENT_RULES,
    REPORT_CORRECTION,
    Experiment,
    Run,
    Status,
    WorkloadPrecision,
)
from swapstone.core.plan import Group
from swapstone.core.plan.stop_decision import StopDecision
from swapstone.core.plan.stopping import AT_RESOLUTION, StopReason, decide, due, first_block, first_look, looks
from swapstone.core.session.budget import MOST_EXTENSION, extended_again, fitted
from swapstone.core.session.values import format_compared
from swapstone.core.workloads import workloads_by_name

SUSPICION = 0.05
"""Rate of false alarms of a row at which more runs are discarded, at the first check: few pairs are lost then."""

LATER_SUSPICION = 0.01
"""The same at later checks, where more pairs would be lost."""


@dataclasses.dataclass
class _Discarding:
    """The runs that are discarded before each measured one, by group.

    Attributes:
        number: how many, from the next block on.
        since: the last block with another number, whose measured runs don't count; 0 for none.
        cost_ns: estimate for the next block.
    """

    number: dict[Group, int]
    since: dict[Group, int]
    cost_ns: dict[Group, float]

    def cost_with(self, group: Group, number: int) -> float:
        """Return what a block of a group costs with another number."""
        return self.cost_ns[group] * (1 + number) / (1 + self.number[group])

    def change(self, group: Group, number: int, block: int) -> None:
        """Discard another number from the block after `block` on."""
        self.cost_ns[group] = self.cost_with(group, number)
        self.number[group], self.since[group] = number, block


class PrecisionStop:
    """Stops on precision, on the requested number of blocks, or on the budget; never on significance.

    It computes intervals with the code of the final analysis, at the level that they would have if the experiment ended now. Where a check
    finds that runs depend on what ran before them, more runs are discarded from then on, if the budget holds the blocks that an interval
    needs at the new cost of all open groups together; the earlier measured runs don't count any more. All decisions follow from the
    arguments, so that a resumed experiment repeats them.

    Args:
        experiment: what is measured.
        notify: receives notes: the budget is too small, or runs depend on what ran before them.
        extended: receives the experiment with a longer budget, if that was a default and the pairs that an interval needs take longer.
    """

    def __init__(
        self,
        experiment: Experiment,
        notify: Callable[[str], None] = lambda _: None,
        extended: Callable[[Experiment], None] = lambda _: None,
    ) -> None:
        self._experiment = experiment
        self._asked = experiment
        self._notify = notify
        self._extended = extended
        self._variants = plan.variants(experiment)
        self._workloads = workloads_by_name(experiment)
        self._last: Mapping[Group, WorkloadPrecision] = {}
        self._growing = _GrowingRuns(metric_names(self._workloads))

    def __call__(
        self, runs: Sequence[Run], still_open: tuple[Group, ...], block: int, used_ns: int, next_block_ns: int
    ) -> StopDecision:
        """Decide which groups stay open after `block`, from the runs of all blocks up to it.

        Raises:
            BudgetError: the first blocks show that the budget can't hold the pairs that an interval needs.
        """
        self._growing.read(runs)
        now = self._growing.so_far(still_open, block, next_block_ns)
        first = block == first_block(self._experiment)
        # Discarded runs that the user did not ask for begin after the second block: the first contains setup.
        if block == first_block(self._experiment) + (self._experiment.prime_more and not self._experiment.blocks):
            self._begin(now, used_ns)
        self._fit_budget(runs, block, used_ns, round(sum(now.cost_ns.values())))
        experiment = self._experiment
        if not first:
            checked = due(block, *looks(experiment))
            made: Runs = runs
            if checked and experiment.correction == REPORT_CORRECTION:  # else `precision` takes fewer metrics
                made = self._growing.table()  # once for both checks
            if checked:
                self._last = precision(experiment, self._variants, self._workloads, made)
            if checked or block == experiment.blocks:
                lost = self._after_check(made, block, used_ns, now)
                self._last = {
                    group: self._closable(each, block - now.since.get(group, 0), block, lost.get(group, ""))
                    for group, each in self._last.items()
                }
        decision = decide(
            experiment,
            still_open=still_open,
            block=block,
            used_ns=used_ns,
            next_block_ns=round(sum(now.cost_ns.values())),
            precisions=self._last,
            since=now.since,
        )
        why = self._why(decision.stop) if decision.stop else ""
        if experiment.virtual:
            why = why.replace("blocks", "draws")  # as records of the virtual clock store it
        decided = sum(each.decided for each in self._last.values()) if self._last else None
        return StopDecision(
            decision.still_open,
            why,
            decision.remaining_ns,
            decision.widest,
            decided,
            discarded=now.number,
            next_ns=round(sum(now.cost_ns[group] for group in decision.still_open)),
            budget_ns=experiment.budget_ns,
        )

    def _why(self, reason: StopReason) -> str:
        """Return why the experiment stops. Where no workload is precise, because none can get a verdict, that is the reason."""
        if reason is not StopReason.PRECISE or not self._last:
            return reason.value
        if all(each.lost for each in self._last.values()):
            return StopReason.LOST.value
        return f"{reason.value}{AT_RESOLUTION if any(each.at_resolution for each in self._last.values()) else ''}"

    def _begin(self, now: _Discarding, used_ns: int) -> None:
        """Set how many runs are discarded from the next block on: none, if only the default asks for them and the budget is too small."""
        experiment = self._experiment
        costs = {group: now.cost_with(group, experiment.prime) for group in now.number}
        note = _unprimed_note(experiment, used_ns, costs) if experiment.prime and experiment.prime_more else ""
        if note:
            self._notify(note)
        else:
            now.number, now.cost_ns = dict.fromkeys(now.number, experiment.prime), costs

    def _after_check(self, runs: Runs, block: int, used_ns: int, now: _Discarding) -> dict[Group, str]:
        """Let more runs be discarded in groups that need it; return why more blocks are of no use in groups where that is not possible."""
        experiment = self._experiment
        lost: dict[Group, str] = {}
        if experiment.rules < CURRENT_RULES:
            return lost
        rate = SUSPICION if block <= first_look(experiment) else LATER_SUSPICION
        found = carry_over.unsettled(experiment, self._variants, self._workloads, runs, rate)
        left_ns = experiment.budget_ns - used_ns
        first = max(first_look(experiment), interval_pairs(experiment, self._variants, self._workloads))
        for group in [group for group in now.number if group in found]:
            more = carry_over.MORE.get(now.number[group]) if experiment.prime_more else None
            # The other groups go on too, so each of the blocks that this one needs costs what all of them cost.
            added_ns = 0.0 if more is None else now.cost_with(group, more) - now.cost_ns[group]
            fits = (sum(now.cost_ns.values()) + added_ns) * first <= left_ns
            if experiment.blocks:
                fits = 2 * experiment.blocks - block >= min(experiment.blocks, first)
            if more is None or not fits:
                if found[group][1]:
                    lost[group] = f"carry-over: {found[group][0]}"
                continue
            self._notify(
                f"{group[1]}: runs depend on what ran before them: {found[group][0]}. From now on, runs of the same variant that "
                f"are discarded before each measured one: {more}; the {block - now.since[group]} pairs so far don't count."
            )
            now.change(group, more, block)
        return lost

    def _closable(self, found: WorkloadPrecision, pairs: int, block: int, lost: str) -> WorkloadPrecision:
        """Return a precision with which a group does not close too early: one that lost pairs needs those of a first check again."""
        if lost:
            return msgspec.structs.replace(found, lost=found.lost or lost)
        if pairs < min(block, first_look(self._experiment)):
            return msgspec.structs.replace(found, half_width=None, lost="", decided=False)
        return found

    def _fit_budget(self, runs: Sequence[Run], block: int, used_ns: int, next_block_ns: int) -> None:
        """Extend the budget, or raise, if it can't hold the pairs that an interval needs."""
        if block > first_block(self._experiment) + 1:
            fit, note = extended_again(
                self._experiment, block, used_ns, next_block_ns, MOST_EXTENSION * self._asked.budget_ns
            )
        else:
            fit, note = fitted(self._asked, runs, block, used_ns, next_block_ns)
        if note:
            self._notify(note)
        if fit.budget_ns > self._experiment.budget_ns:
            self._experiment = fit
            self._extended(fit)


class _GrowingRuns:
    """What follows from the runs of an experiment so far. Of a list that grew only the new runs are read.

    Args:
        metrics: names of those that a table has.
    """

    def __init__(self, metrics: frozenset[str]) -> None:
        self._metrics = metrics
        self._begin(())

    def _begin(self, runs: Sequence[Run]) -> None:
        self._runs, self._read = runs, 0
        self._columns = RunColumns(self._metrics)
        self._cost_ns: collections.Counter[tuple[int, Group]] = collections.Counter()
        """Of each block and group."""
        self._discarded: dict[Group, dict[int, int]] = {}
        """Number of discarded runs before each measured one, by block."""

    def read(self, runs: Sequence[Run]) -> None:
        """Take over runs: the same list as before with more of them, or others."""
        if runs is not self._runs or len(runs) < self._read:
            self._begin(runs)
        for run in itertools.islice(runs, self._read, None):
            trial = run.trial
            group = (trial.suite, trial.workload, trial.load)
            self._columns.add(run)
            self._cost_ns[trial.block, group] += run.elapsed_ns
            if run.status is not Status.UNAVAILABLE and trial.block > 0:
                by_block = self._discarded.setdefault(group, {})
                by_block[trial.block] = max(by_block.get(trial.block, 0), trial.prime)
        self._read = len(runs)

    def table(self) -> RunTable:
        """Return the runs as a table."""
        return self._columns.table(self._runs, keep=True)

    def so_far(self, still_open: Sequence[Group], block: int, next_block_ns: int) -> _Discarding:
        """Return what the runs of blocks 0 to `block` show; the costs together are `next_block_ns`."""
        cost = {group: float(self._cost_ns[block, group]) for group in still_open}
        total = sum(cost.values())
        levels = {group: self._discarded.get(group, {}) for group in still_open}
        most = {group: max(found.values(), default=0) for group, found in levels.items()}
        return _Discarding(
            number=most,
            since={
                group: max((number for number, discarded in found.items() if discarded < most[group]), default=0)
                for group, found in levels.items()
            },
            cost_ns={group: next_block_ns * (each / total if total else 1 / len(cost)) for group, each in cost.items()},
        )


def _unprimed_note(experiment: Experiment, used_ns: int, costs: Mapping[Group, float]) -> str:
    """Return a note if the budget does not hold the first check with discarded runs; else an empty text.

    Args:
        experiment: with a budget, or an exact number of blocks.
        used_ns: time used so far.
        costs: of a block with discarded runs, by group.
    """
    first = first_look(experiment)
    needed_ns = used_ns + round(first * sum(costs.values()))
    if experiment.blocks or needed_ns <= experiment.budget_ns:
        return ""
    budget, needed = format_compared(experiment.budget_ns, needed_ns)
    return (
        f"The budget of {budget} does not hold {first} pairs with a discarded run of the same variant "
        f"before each measured one, which take {needed}. So none is discarded, and small effects of what ran "
        "before a run are less likely to be found."
    )
