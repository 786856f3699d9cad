# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decides after each block whether an experiment is precise enough to stop, and how many runs are discarded before each measured one."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from swapstone.core import plan
from swapstone.core.comparison.pairs import interval_pairs
from swapstone.core.model import (
    REPORT_CORRECTION,
    TAIL_RULES,
    Experiment,
    Run,
    Status,
    UserError,
    WorkloadPrecision,
    WorkSpec,
)
from swapstone.core.model.experiment import WAKEUP_INTERVAL_US
from swapstone.core.plan import WORK_NS, Group
from swapstone.core.plan.stopping import (
    AT_RESOLUTION,
    StopDecision,
    StopReason,
    decide,
    due,
    first_block,
    first_look,
    looks,
)
from swapstone.core.session.analysis_import import load_analysis
from swapstone.core.session.option_values import format_compared, format_duration
from swapstone.core.workloads import workloads_by_name

if TYPE_CHECKING:
    from swapstone.core.comparison.run_table import RunColumns, Runs, RunTable

MOST_EXTENSION = 10
"""A default budget is extended to at most this many times its length."""

COLD = 2
"""By how much the first block may exceed later ones, beside setup that its runs don't measure: files are not cached yet."""


@functools.lru_cache(maxsize=16)  # after each block
def needed_pairs(experiment: Experiment) -> int:
    """Return the number of pairs of runs that the experiment's intervals need."""
    return interval_pairs(experiment, plan.variants(experiment), workloads_by_name(experiment))


def first_decisive_look(experiment: Experiment) -> int:
    """Return after how many pairs precision is first checked with as many pairs as an interval needs."""
    first, every = looks(experiment)
    if experiment.rules < TAIL_RULES:
        return first
    missing = max(0, needed_pairs(experiment) - first)
    return first + -(-missing // every) * every


def check_budget(experiment: Experiment) -> tuple[Experiment, str]:
    """Compare an experiment's budget with the shortest time that its blocks take, before anything is built.

    Own programs and virtual machines pass unchecked: the duration of their trials is unknown until the first block.
    An exact number of blocks has no budget.

    Args:
        experiment: with a budget.

    Returns:
        The experiment, with an extended budget if it needs one and has a default budget; and a note, or
        an empty string: the budget is extended, or ends before there are intervals, or the first check of every row's precision.

    Raises:
        UserError: the budget does not hold one pair of runs, and no number of blocks is given.
    """
    if not experiment.timed or experiment.own is not None or experiment.virtual:
        return experiment, ""
    trial_ns = max(WORK_NS, experiment.wakeups * WAKEUP_INTERVAL_US * 1000)
    variants, groups = len(plan.variants(experiment)), len(plan.groups(experiment))
    left_out = experiment.prime_more and not experiment.blocks  # those that the user did not ask for can be left out
    discarded = 0 if left_out else experiment.prime
    block_ns = round(variants * groups * trial_ns * plan.runs_each(experiment, discarded))
    fewest, _ = _asked(experiment)
    first = experiment.blocks or first_decisive_look(experiment)
    # One block more than there are pairs: the warm-up.
    least_ns, look_ns = (block_ns * (blocks + 1) for blocks in (fewest, first))
    budget, least, look = format_compared(experiment.budget_ns, least_ns, look_ns)
    size = (
        f"{variants} variants x {groups} workloads are {variants * groups} trials a block, at least {_short(block_ns)}"
    )
    if least_ns > experiment.budget_ns:
        if experiment.budget_extends and least_ns <= MOST_EXTENSION * experiment.budget_ns:
            extended = msgspec.structs.replace(experiment, budget_ns=least_ns)
            return extended, f"{size}. {_extension(experiment, fewest, least_ns)}"
        held = experiment.budget_ns // block_ns - 1
        if held < 1 and not experiment.blocks:
            raise UserError(
                f"The budget of {budget} is too small for a pair of runs: {size}. The {fewest} pairs that an interval needs, and the "
                f"warm-up, take {least}. The {first} pairs that the first check of every row's precision needs take {look}.",
                f"Use --budget {rounded_up(look_ns)}, fewer levels, fewer workloads with --only, or an exact number of --blocks.",
            )
        return experiment, f"{size}. {_held(experiment, max(1, held), least_ns, ' on an idle machine')}"
    if look_ns > experiment.budget_ns:
        return experiment, (
            f"{size}. The budget of {budget} ends before the first check of every row's precision, which needs {first} pairs of runs: "
            f"about {look} (--budget {rounded_up(look_ns)})."
        )
    return experiment, ""


def fitted(
    experiment: Experiment, runs: Sequence[Run], block: int, used_ns: int, block_ns: int
) -> tuple[Experiment, str]:
    """Compare a budget with what the pairs take that an interval needs or that are requested, as measured in the first two blocks.

    The first block is a warm-up that contains setup. Until the second one is made, a budget is extended only if the measured times of
    its runs exceed it by the factor `COLD`.

    Args:
        experiment: with a budget.
        runs: made so far.
        block: number of the block that was made last.
        used_ns: time used so far.
        block_ns: estimate for one more block, with its discarded runs, from the duration of the last.

    Returns:
        The experiment, with an extended budget if it needs one and has a default budget; and a note, or an empty string.
    """
    if not experiment.timed or experiment.rules < TAIL_RULES or block > first_block(experiment) + 1:
        return experiment, ""
    cold = block == first_block(experiment)
    fewest, _ = _asked(experiment)
    left = max(0, fewest - block)
    # An estimate from the first block is compared in its favour, and printed as it was measured.
    warm_ns = _warm_ns(experiment, runs, block, block_ns) if cold else block_ns
    needed_ns = used_ns + left * block_ns
    allowed_ns = experiment.budget_ns * (COLD if cold else 1)
    if used_ns + left * warm_ns <= allowed_ns and (not cold or used_ns + warm_ns <= experiment.budget_ns):
        return experiment, "" if cold else _look_note(experiment, block, used_ns, block_ns)
    takes = f"A {_unit(experiment)} takes {_short(block_ns)}."
    if experiment.budget_extends and needed_ns <= experiment.budget_ns * MOST_EXTENSION:
        extended = msgspec.structs.replace(experiment, budget_ns=needed_ns)
        return extended, f"{takes} {_extension(experiment, fewest, needed_ns)}"
    if cold and used_ns + warm_ns <= experiment.budget_ns:
        return experiment, ""
    pairs = max(1, block + max(0, experiment.budget_ns - used_ns) // max(1, warm_ns))
    return experiment, f"{takes} {_held(experiment, pairs, needed_ns)}"


def extended_again(
    experiment: Experiment, block: int, used_ns: int, block_ns: int, most_ns: int
) -> tuple[Experiment, str]:
    """Extend a default budget that ends before the pairs that an interval needs, because blocks got slower than the first two.

    Args:
        experiment: with the budget so far.
        block: number of the block that was made last, a later one than those of `fitted`.
        used_ns: time used so far.
        block_ns: estimate for one more block.
        most_ns: the longest budget.

    Returns:
        The experiment, and a note if it was extended.
    """
    fewest = needed_pairs(experiment)
    if experiment.blocks or experiment.rules < TAIL_RULES or not experiment.budget_extends or block >= fewest:
        return experiment, ""
    mean_ns = used_ns // (block + 1 - first_block(experiment))
    each_ns = max(mean_ns, min(block_ns, COLD * mean_ns))  # the last block may be an outlier
    needed_ns = used_ns + max(block_ns, (fewest - block) * each_ns)
    if used_ns + block_ns <= experiment.budget_ns or needed_ns > most_ns:
        return experiment, ""
    before, after = format_compared(experiment.budget_ns, needed_ns)
    return msgspec.structs.replace(experiment, budget_ns=needed_ns), (
        f"The limit of {before} for measuring becomes {after}, because a "
        f"{_unit(experiment)} now takes {_short(each_ns)}: an interval needs {fewest} pairs of runs, and {block} are made "
        "(--budget sets another limit)."
    )


def rounded_up(nanoseconds: int) -> str:
    """Return a duration in the form that `--budget` accepts, rounded up to whole seconds, minutes or hours."""
    seconds = -(-nanoseconds // 10**9)
    if seconds < 120:
        return f"{seconds}s"
    minutes = -(-seconds // 60)
    return f"{minutes}m" if minutes < 120 else f"{-(-minutes // 60)}h"


def _measured_ns(run: Run) -> int:
    """Return how long the process of a run took; without a measurement, 0."""
    return dict(run.facts).get("wall_ns", 0)


def _warm_ns(experiment: Experiment, runs: Sequence[Run], block: int, block_ns: int) -> int:
    """Estimate a later block from the measured times of the first one's runs: the rest of the first block is partly setup.

    Times on the virtual clock are not those of this machine: there the duration of the block is used.
    """
    made = [run for run in runs if run.trial.block == block]
    elapsed_ns, measured_ns = sum(run.elapsed_ns for run in made), sum(map(_measured_ns, made))
    if experiment.virtual or not measured_ns or not elapsed_ns:
        return block_ns
    return round(block_ns * min(1.0, measured_ns / elapsed_ns))


def _extension(experiment: Experiment, pairs: int, needed_ns: int) -> str:
    usual, needed = format_compared(experiment.budget_ns, needed_ns)
    return (
        f"The {pairs} pairs of runs that an interval needs take about {needed}: that is the limit for measuring, "
        f"and not the usual {usual} (--budget sets another limit)."
    )


def _asked(experiment: Experiment) -> tuple[int, str]:
    """Return the fewest pairs of runs that a budget should hold, and what they are: a number of blocks, or what an interval needs."""
    if experiment.blocks:
        return experiment.blocks, f"{_unit(experiment)}s that are asked for"
    return needed_pairs(experiment), "pairs that an interval needs"


def _held(experiment: Experiment, pairs: int, needed_ns: int, where: str = "") -> str:
    """Return how many pairs a budget holds, and what those that are asked for take; `where` that is so."""
    budget, needed = format_compared(experiment.budget_ns, needed_ns)
    fewest, needing = _asked(experiment)
    without = ": medians without intervals" if pairs < needed_pairs(experiment) else ""
    return (
        f"The budget of {budget} holds about {pairs} {'pair' if pairs == 1 else 'pairs'} of runs{where}{without}. "
        f"The {fewest} {needing} take about {needed} (--budget {rounded_up(needed_ns + needed_ns // 2)})."
    )


def _look_note(experiment: Experiment, block: int, used_ns: int, block_ns: int) -> str:
    first = experiment.blocks or first_decisive_look(experiment)
    look_ns = used_ns + max(0, first - block) * block_ns
    if look_ns <= experiment.budget_ns:
        return ""
    pairs = block + max(0, experiment.budget_ns - used_ns) // max(1, block_ns)
    budget, look = format_compared(experiment.budget_ns, look_ns)
    return (
        f"A {_unit(experiment)} takes {_short(block_ns)}: the budget of {budget} holds {pairs} "
        f"pairs of runs. The first check of every row's precision needs {first} pairs, which take {look} "
        f"(--budget {rounded_up(look_ns)})."
    )


def _short(nanoseconds: int) -> str:
    """Return a duration with a digit behind the point below 10 s, and in milliseconds below 1 s."""
    if nanoseconds < 995_000_000:
        return f"{nanoseconds / 1e6:.3g} ms"
    return format_duration(nanoseconds, 1 if nanoseconds < 9.95e9 else 0)


def _unit(experiment: Experiment) -> str:
    return "replicate" if experiment.virtual else "block"


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
        experiment: that the runs are of.
    """

    experiment: Experiment
    number: dict[Group, int]
    since: dict[Group, int]
    cost_ns: dict[Group, float]

    def cost_with(self, group: Group, number: int) -> float:
        """Return what a block of a group costs with another number."""
        each = functools.partial(plan.runs_each, self.experiment)
        return self.cost_ns[group] * each(number) / each(self.number[group])

    def change(self, group: Group, number: int, block: int) -> None:
        """Discard another number from the block after `block` on."""
        self.cost_ns[group] = self.cost_with(group, number)
        self.number[group], self.since[group] = number, block


class PrecisionStop:
    """Stops on precision or on the requested number of blocks, or on the budget; never on significance.

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
        self._growing = _GrowingRuns(experiment, self._workloads)

    def __call__(
        self, runs: Sequence[Run], still_open: tuple[Group, ...], block: int, used_ns: int, next_block_ns: int
    ) -> StopDecision:
        """Decide which groups stay open after `block`, from the runs of all blocks up to it.

        Raises:
            BudgetError: the first blocks show that the budget can't hold the pairs that an interval needs.
        """
        load_analysis()
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
            if checked and not experiment.blocks:  # an exact number of blocks is made whatever their precision
                from swapstone.core.comparison.analyse_runs import precision  # noqa: PLC0415 - as above

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
        return msgspec.structs.replace(
            decision,
            stop=why.replace("blocks", "draws")
            if experiment.virtual
            else why,  # as records of the virtual clock store it
            decided=sum(each.decided for each in self._last.values()) if self._last else None,
            discarded=now.number,
            next_ns=round(sum(now.cost_ns[group] for group in decision.still_open)),
            budget_ns=experiment.budget_ns,
        )

    def _why(self, reason: str) -> str:
        """Return why the experiment stops. Where no workload is precise, because none can get a verdict, that is the reason."""
        if reason != StopReason.PRECISE or not self._last:
            return str(reason)
        if all(each.lost for each in self._last.values()):
            return StopReason.LOST.value
        return f"{reason}{AT_RESOLUTION if any(each.at_resolution for each in self._last.values()) else ''}"

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
        from swapstone.core.comparison import carry_over  # noqa: PLC0415 - as above

        experiment = self._experiment
        lost: dict[Group, str] = {}
        if experiment.rules < TAIL_RULES or (experiment.blocks and not experiment.prime_more):  # nothing would follow
            return lost
        rate = SUSPICION if block <= first_look(experiment) else LATER_SUSPICION
        found = carry_over.unsettled(experiment, self._variants, self._workloads, runs, rate)
        left_ns = experiment.budget_ns - used_ns
        first = max(first_look(experiment), interval_pairs(experiment, self._variants, self._workloads))
        first = min(experiment.blocks or first, first)
        for group in [group for group in now.number if group in found]:
            more = carry_over.MORE.get(now.number[group]) if experiment.prime_more else None
            # The other groups go on too, so each of the blocks that this one needs costs what all of them cost.
            added_ns = 0.0 if more is None else now.cost_with(group, more) - now.cost_ns[group]
            fits = not experiment.timed or (sum(now.cost_ns.values()) + added_ns) * first <= left_ns
            fits = fits and (not experiment.blocks or 2 * experiment.blocks - block >= first)
            if more is None or not fits:
                if found[group][1]:
                    lost[group] = f"carry-over: {found[group][0]}"
                continue
            means, shown = found[group]
            why = (
                "runs depend on what ran before them"
                if shown
                else "no carry-over is shown, but a check does not exclude it"
            )
            self._notify(
                f"{group[1]}: {why}: {means}. From now on, runs of the same variant that "
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
        experiment: that the runs are of.
        workloads: by name; a table has their metrics.
    """

    def __init__(self, experiment: Experiment, workloads: Mapping[str, WorkSpec]) -> None:
        self._experiment, self._workloads = experiment, workloads
        self._begin(())

    def _begin(self, runs: Sequence[Run]) -> None:
        self._runs, self._read = runs, 0
        self._columns: RunColumns | None = None
        self._tabled = 0
        self._cost_ns: collections.Counter[tuple[int, Group]] = collections.Counter()
        """Of each block and group."""
        self._made: collections.Counter[tuple[int, Group, bool]] = collections.Counter()
        """Number of runs of each block and group, apart for those that are measured and for the others."""
        self._discarded: dict[Group, dict[int, int]] = {}
        """Number of discarded runs before each measured one, by block."""

    def read(self, runs: Sequence[Run]) -> None:
        """Take over runs: the same list as before with more of them, or others."""
        if runs is not self._runs or len(runs) < self._read:
            self._begin(runs)
        for run in itertools.islice(runs, self._read, None):
            trial = run.trial
            group = trial.group
            self._cost_ns[trial.block, group] += run.elapsed_ns
            self._made[trial.block, group, not trial.prime] += 1
            if run.status is not Status.UNAVAILABLE and trial.block > 0:
                by_block = self._discarded.setdefault(group, {})
                by_block[trial.block] = max(by_block.get(trial.block, 0), trial.prime)
        self._read = len(runs)

    def table(self) -> RunTable:
        """Return the runs as a table. They are put into it now, not while trials wait for the block to end."""
        from swapstone.core.comparison.run_table import RunColumns, metric_names  # noqa: PLC0415 - as above

        self._columns = self._columns or RunColumns(metric_names(self._workloads))
        for run in itertools.islice(self._runs, self._tabled, None):
            self._columns.add(run)
        self._tabled = len(self._runs)
        return self._columns.table(self._runs)

    def so_far(self, still_open: Sequence[Group], block: int, next_block_ns: int) -> _Discarding:
        """Return what the runs of blocks 0 to `block` show.

        Args:
            still_open: the groups to estimate costs of.
            block: the last one.
            next_block_ns: what the groups' runs of this block took. The estimates are for as many discarded runs as there are on average.
        """
        cost = {group: float(self._cost_ns[block, group]) for group in still_open}
        total = sum(cost.values())
        levels = {group: self._discarded.get(group, {}) for group in still_open}
        for group, found in levels.items():
            measured, others = self._made[block, group, True], self._made[block, group, False]
            if others:
                cost[group] *= measured * plan.runs_each(self._experiment, found.get(block, 0)) / (measured + others)
        most = {group: max(found.values(), default=0) for group, found in levels.items()}
        return _Discarding(
            experiment=self._experiment,
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
        experiment: with a budget, or a number of blocks.
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
