# SPDX-License-Identifier: MIT OR Apache-2.0
"""Does a run's value depend on the variant that ran before it, and differently for the two sides of a row?

Such a carry-over (residual effect: Jones and Kenward, Design and analysis of cross-over trials) is a bias of a row's ratio: with two
variants in random blocks three quarters of the runs follow the other variant, so that three quarters of the effect go into the ratio. A
row is tested in up to two ways:

- Where runs are discarded: in each block, how much the first run of a variant, which follows another one, differs from its measured run, as
  a logarithm, candidate minus baseline; a signed-rank test. What this finds is no longer in the figures, unless it lasts longer than the
  discarded runs. With two or more of these the step from the last of them to the measured run decides whether it does.
- The measured runs by their predecessor: `swapstone.core.stats.RunOrder`.

A block in which a variant's first run follows the same variant, across the boundary of two blocks, stays in the signed-rank test: leaving
it out would halve the blocks of two variants. There it has no effect, and dilutes the estimate, which is divided by the others' share.

`GroupRuns` has the order of the runs of a group, and their values in that order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from swapstone.core.comparison.cells import collect
from swapstone.core.comparison.rows import Findings, Row, run_rows
from swapstone.core.comparison.run_table import OK, UNAVAILABLE, Group, Runs, RunTable, as_table, by_number
from swapstone.core.comparison.verdicts import verdict_of
from swapstone.core.model import (
    BALANCED_ORDER,
    DIRECTION_RULES,
    CarryOver,
    Caveat,
    CaveatKind,
    Experiment,
    Scale,
    Variant,
    Verdict,
    WorkSpec,
    cycle_of,
    named_first,
)
from swapstone.core.model.number_text import quantity
from swapstone.core.stats import LOG_QUANTUM, Floats, Interval, Ints, RunOrder, SignedRank, holm


class GroupRuns(msgspec.Struct, frozen=True):
    """The runs of a group in the blocks that count.

    Attributes:
        labels: of the variants; treatment t of `runs` is the t-th.
        blocks: their numbers, ascending. Blocks in which a variant has no run are left out.
        runs: the order of the measured runs, for the test by predecessors.
        discarded: number of discarded runs before each measured run.
        table: of all runs.
        rows: of the successful runs of the group, ascending by block and label, for each number of runs before the one that directly
            follows `discarded` others of its variant: the numbers of their places in `runs.order`, and their rows. That one is the
            measured run, but where more runs than `discarded` precede it (`swapstone.core.plan.extra_runs`).
    """

    labels: tuple[str, ...]
    blocks: tuple[int, ...]
    runs: RunOrder
    discarded: int
    table: RunTable
    rows: Mapping[int, tuple[Ints, Ints]]

    def logarithms(self, metric: str, discarded: int) -> Floats:
        """Return the logarithms of the runs so many before those of `rows`' 0, in the order of the runs; NaN for missing ones."""
        found = np.full(self.runs.order.size, math.nan)
        column = self.table.metrics.get(metric)
        if discarded in self.rows and column is not None:
            places, rows = self.rows[discarded]
            positive = column[rows] > 0
            # By the C library, as always: numpy's differ in the last bit between processors.
            found[places[positive]] = list(map(math.log, column[rows[positive]].tolist()))
        return found.reshape(self.runs.order.shape)


def group_runs(experiment: Experiment, table: RunTable) -> dict[Group, GroupRuns]:
    """Return the runs of each group that has several variants."""
    found = {}
    available = np.flatnonzero(table.status != UNAVAILABLE)
    for number, mine in by_number(table.group[available]):
        group = _of_group(experiment, table, available[mine])
        if group is not None:
            found[table.groups[number]] = group
    return found


def _of_group(experiment: Experiment, table: RunTable, rows: Ints) -> GroupRuns | None:
    """Return the runs of one group, all of whose rows are given."""
    every, turn = np.unique(table.block[rows], return_inverse=True)
    turn = turn.reshape(-1)
    numbers = np.zeros(every.size, dtype=np.int64)
    np.maximum.at(numbers, turn, table.prime[rows])
    level = int(numbers[every > 0].max(initial=0))
    # Measured runs by block and position; equal positions, which no experiment has, by label.
    measured = np.flatnonzero(table.prime[rows] == 0)
    label = table.label[rows[measured]]
    measured = measured[np.lexsort((label, table.position[rows[measured]], table.block[rows[measured]]))]
    if not measured.size:
        return None
    label = table.label[rows[measured]]
    borders = np.flatnonzero(np.diff(turn[measured], prepend=-1))
    sizes = np.diff(np.append(borders, measured.size))
    first = int(np.argmax(sizes))
    chosen = np.sort(label[borders[first] : borders[first] + sizes[first]])
    count = chosen.size
    turns = turn[measured[borders]]
    fits = np.flatnonzero((sizes == count) & (every[turns] > 0) & (numbers[turns] == level))
    orders = label[borders[fits][:, None] + np.arange(count)]
    whole = (np.sort(orders, axis=1) == chosen).all(axis=1)
    fits, orders = fits[whole], orders[whole]
    if count < 2 or not fits.size:
        return None
    treatment = np.full(len(table.labels), -1, dtype=np.int64)
    treatment[chosen[::-1]] = np.arange(count)[::-1]
    order = treatment[orders]
    ends = label[borders + sizes - 1]
    before = np.where(fits > 0, treatment[ends[np.maximum(fits - 1, 0)]], -1)
    blocks = tuple(every[turns[fits]].tolist())
    labels = tuple(table.labels[each] for each in chosen.tolist())
    cycle = (1, 0)
    if experiment.order == BALANCED_ORDER and blocks == tuple(range(blocks[0], blocks[-1] + 1)):
        cycle = (count * (1 + count % 2), cycle_of(blocks[0], count)[1])
    # The place in `order` of each run of a label in a block.
    place_of = np.full((every.size, count), -1, dtype=np.int64)
    place_of[turns[fits][:, None], order] = np.arange(fits.size * count).reshape(order.shape)
    by_prime = {}
    succeeded = np.flatnonzero(table.status[rows] == OK)
    for prime in (0, 1, level):
        chosen_rows = succeeded[table.after_itself[rows[succeeded]] == -prime]
        of_run = treatment[table.label[rows[chosen_rows]]]
        known = np.flatnonzero(of_run >= 0)
        places = place_of[turn[chosen_rows[known]], of_run[known]]
        by_prime[prime] = places[places >= 0], rows[chosen_rows[known]][places >= 0]
    return GroupRuns(
        labels=labels,
        blocks=blocks,
        runs=RunOrder(order, before, *cycle),
        discarded=level,
        table=table,
        rows=by_prime,
    )


FAMILY_RATE = 0.005
"""Probability that any test of a report without carry-over rejects, at most: half of 1 %, because the t-test is an approximation."""

LOOK_RATE = FAMILY_RATE / 20
"""The same at each check while an experiment runs, by rules from `DIRECTION_RULES` on."""

LAST_RATE = 0.8 * FAMILY_RATE
"""The same of the report, by those rules: with the rates of all checks before it is that of `FAMILY_RATE` at most, because a dependence
that a check states is nearly always the one that later checks find (Haybittle 1971; Peto and others 1976)."""

FEWEST_BLOCKS = 6

NEGLIGIBLE = 0.1
"""Share of a row's log ratio: a bias below it does not matter, unless it could change the verdict or exceeds half the margin."""

_BIAS_ALPHA = 0.01
_NORMAL_QUANTILE = 2.576
"""Of the same interval."""

MORE = {0: 1, 1: 2, 2: 4}
"""How many runs to discard next, where a carry-over lasts longer than those that are discarded now."""

_FIRST_WITHOUT = 1
"""The last block without discarded runs, where they are the default (`swapstone.core.session.precision_stop`). No check is that early."""


class Evidence(msgspec.Struct, frozen=True):
    """A test for carry-over, and the bias that it estimates, as logarithms of the ratio candidate / baseline.

    Attributes:
        p_value: of none.
        bias: what the ratio of the tested runs is too large by.
        half_width: of its interval at 99 %.
        means: logarithms: baseline after itself, baseline after the other, candidate after itself, candidate after the other.
    """

    p_value: float
    bias: float
    half_width: float
    means: tuple[float, float, float, float]


class Tested(msgspec.Struct, frozen=True):
    """A row with its tests, and what they show after the correction for their number.

    Attributes:
        row: what is compared.
        discarded: number of discarded runs before each measured run.
        first: carry-over of the first run after another variant.
        remaining: tests for carry-over that is still in the figures.
        fires: whether the first run after another variant depends on it.
        found: the strongest evidence for carry-over in the figures; None for none.
        matters: whether that could change the verdict, or exceeds half the margin and a tenth of the ratio's logarithm.
    """

    row: Row
    discarded: int
    first: Evidence
    remaining: tuple[Evidence, ...]
    fires: bool = False
    found: Evidence | None = None
    matters: bool = False

    @property
    def strongest(self) -> Evidence:
        """Return the strongest evidence for carry-over in the figures."""
        return min(self.remaining, key=lambda evidence: evidence.p_value)


def check(
    experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, WorkSpec], table: RunTable
) -> Findings:
    """Check it for every row; arguments as `swapstone.core.comparison.checks.check`."""
    if experiment.virtual:
        return Findings()
    judged = judge(experiment, _tested(experiment, variants, workloads, table))
    found = findings(experiment, judged, len(variants))
    return msgspec.structs.replace(found, caveats=(*found.caveats, *_left_out(experiment, variants, workloads, table)))


def findings(experiment: Experiment, judged: Sequence[Tested], variants: int) -> Findings:
    """Return what follows from judged rows: those that are invalid, with a remedy, and the carry-over that does not matter as a caveat.

    Args:
        experiment: gives the margin, and which remedies it has.
        judged: of `judge`.
        variants: number of variants, with the baseline.
    """
    return Findings(
        excluded={
            each.row.place: (
                Verdict.INVALID,
                f"carry-over: {_described(each, variants)}; {_remedy(experiment, each)}",
            )
            for each in judged
            if each.matters
        },
        caveats=tuple(_settled(experiment, judged, variants)),
        carry_overs={each.row.place: _carry_over(each) for each in judged},
    )


Unsettled = tuple[str, bool]
"""Carry-over of a group that matters: the conditional means, and whether it is significant after the correction for the number of tests,
so that its row would be invalid."""


def unsettled(
    experiment: Experiment,
    variants: Sequence[Variant],
    workloads: Mapping[str, WorkSpec],
    runs: Runs,
    rate: float,
) -> dict[Group, Unsettled]:
    """Return the groups that may have carry-over which matters in a row that decides (`Metric.leads`).

    Args:
        experiment: that the runs are of.
        variants: the baseline first.
        workloads: by name.
        runs: those made so far.
        rate: of false alarms of each row. To discard more runs without need costs time and no error, so it may be larger than that of a
            report.
    """
    if experiment.virtual:
        return {}
    leading = {metric.name for workload in workloads.values() for metric in workload.metrics if metric.leads}
    table = as_table(runs, leading)
    judged = judge(experiment, _tested(experiment, variants, workloads, table, leading=True), running=True)
    return unsettled_rows(experiment, judged, len(variants), rate)


def unsettled_rows(
    experiment: Experiment, judged: Sequence[Tested], variants: int, rate: float
) -> dict[Group, Unsettled]:
    """Return the groups of judged rows that may have carry-over which matters; arguments as `findings` and `unsettled`."""
    found: dict[Group, Unsettled] = {}
    for each in judged:
        strongest, group = each.strongest, each.row.group
        likely = strongest.p_value * len(each.remaining) <= rate and _matters(experiment, each.row, strongest)
        if (each.matters or likely) and (group not in found or each.matters > found[group][1]):
            found[group] = _described(msgspec.structs.replace(each, found=strongest), variants), each.matters
    return found


def judge(experiment: Experiment, tested: Sequence[Tested], *, running: bool = False) -> list[Tested]:
    """Decide which tests reject: Holm's procedure over all rows, for each of the two questions.

    Args:
        experiment: gives the rules and the margin.
        tested: the rows.
        running: whether the experiment goes on, so that this is one of several checks.
    """
    rate = FAMILY_RATE
    if experiment.rules >= DIRECTION_RULES:
        rate = LOOK_RATE if running else LAST_RATE
    first = holm([each.first.p_value for each in tested], rate)
    remaining = holm([each.strongest.p_value * len(each.remaining) for each in tested], rate)
    return [
        msgspec.structs.replace(
            each,
            fires=number in first,
            found=each.strongest if number in remaining else None,
            matters=number in remaining and _matters(experiment, each.row, each.strongest),
        )
        for number, each in enumerate(tested)
    ]


def _matters(experiment: Experiment, row: Row, found: Evidence) -> bool:
    """Return whether a bias is too large, or could change the verdict if it were removed."""
    inference = row.inference
    if not isinstance(inference, SignedRank):
        return False
    limit = row.limit(experiment.margin)
    if abs(found.bias) > max(limit / 2, NEGLIGIBLE * abs(inference.estimate())):
        return True
    interval = inference.interval(1 - experiment.confidence)
    if interval is None:
        return False
    verdict, *without = (
        verdict_of(Interval(interval.low - shift, interval.high - shift), limit, row.metric.better)
        for shift in (0.0, found.bias - found.half_width, found.bias + found.half_width)
    )
    return verdict is not Verdict.INCONCLUSIVE and without != [verdict] * 2


def _tested(
    experiment: Experiment,
    variants: Sequence[Variant],
    workloads: Mapping[str, WorkSpec],
    table: RunTable,
    *,
    leading: bool = False,
) -> list[Tested]:
    """Return the rows that can be tested: ratios that vary, of enough blocks. With `leading`, only those that decide, without nulls."""
    groups = group_runs(experiment, table)
    found: list[Tested] = []
    if not any(len(group.blocks) >= FEWEST_BLOCKS for group in groups.values()):
        return found  # no row of a record of few blocks is made for nothing
    for row in run_rows(experiment, variants, workloads, collect(table)):
        skipped = leading and (row.null or not row.metric.leads)
        usable = row.exclusion is None and not row.constant and row.before.size and row.scale is Scale.RATIO
        if not skipped and usable and row.group in groups and len(groups[row.group].blocks) >= FEWEST_BLOCKS:
            evidence = tests_of(groups[row.group], row)
            if evidence is not None:
                found.append(evidence)
    return found


def tests_of(group: GroupRuns, row: Row) -> Tested | None:
    """Return the tests of a row of a group; None if one of its variants is not in the group, or if there are too few runs for a test."""
    if not {row.baseline.label, row.candidate.label} <= set(group.labels):
        return None
    sides = group.labels.index(row.baseline.label), group.labels.index(row.candidate.label)
    measured = group.logarithms(row.metric.name, 0)
    by_predecessor = group.runs.test(measured, *sides)
    remaining = [
        Evidence(
            each.p_value, each.effect * each.share, _NORMAL_QUANTILE * each.standard_error * each.share, each.means
        )
        for each in (by_predecessor,)
        if each is not None
    ]
    if not group.discarded:
        return Tested(row, 0, remaining[0], (remaining[0],)) if remaining else None
    first = _step(group, group.logarithms(row.metric.name, group.discarded), measured, sides, diluted=True)
    last = first
    if group.discarded > 1:
        last = _step(group, group.logarithms(row.metric.name, 1), measured, sides, diluted=False)
    if first is None or last is None:
        return None
    return Tested(row, group.discarded, first, (last, *remaining))


def _step(
    group: GroupRuns, earlier: Floats, measured: Floats, sides: tuple[int, int], *, diluted: bool
) -> Evidence | None:
    """Test the step from discarded runs to the measured ones; `diluted` if those of some blocks followed their own variant."""
    steps, means, follow = [], [], []
    for side in sides:
        mine = group.runs.order == side
        step = (earlier - measured)[mine]  # one per block, in the order of blocks
        follows = (group.runs.previous != side)[mine] if diluted else np.ones(step.shape, dtype=bool)
        level, known = measured[mine], np.isfinite(step)
        if not (known & follows).any():
            return None
        itself = float(level[np.isfinite(level)].mean())
        means += [itself, itself + float(step[known & follows].mean())]
        steps.append(step)
        follow.append(follows)
    differences = steps[1] - steps[0]
    known = np.isfinite(differences)
    if known.sum() < FEWEST_BLOCKS:
        return None
    inference = SignedRank(differences[known], LOG_QUANTUM)
    share = float(np.concatenate([each[known] for each in follow]).mean())
    interval = inference.interval(_BIAS_ALPHA)
    half_width = math.inf if interval is None else interval.half_width / share
    return Evidence(
        inference.p_value, inference.estimate() / share, half_width, (means[0], means[1], means[2], means[3])
    )


def _carry_over(judged: Tested) -> CarryOver:
    shown = judged.found or judged.first
    before_itself, before_other, after_itself, after_other = map(_exp, shown.means)
    return CarryOver(
        baseline_after_itself=before_itself,
        baseline_after_other=before_other,
        candidate_after_itself=after_itself,
        candidate_after_other=after_other,
        effect=_exp((shown.means[3] - shown.means[2]) - (shown.means[1] - shown.means[0])),
        p_value=shown.p_value,
        discarded=judged.discarded,
        matters=judged.matters,
    )


def _exp(logarithm: float) -> float:
    return math.exp(min(700.0, logarithm))


def _described(judged: Tested, variants: int) -> str:
    """Return the four conditional means, e.g. "evict takes 22.6 ms after evict and 6.3 ms after keep; keep ..."."""
    row, found = judged.row, judged.found or judged.first
    values = [quantity(_exp(each), row.metric.unit) for each in found.means]
    verb = "takes" if row.metric.unit == "ns" else f"has a {row.metric.name} of"
    candidate, baseline = row.candidate.short_label, row.baseline.short_label
    if variants == 2:
        itself, other = (candidate, baseline), (baseline, candidate)
    else:
        itself, other = ("others", "others"), (baseline, candidate)
        if judged.discarded:
            itself, other = (candidate, baseline), ("another variant", "another variant")
    return (
        f"{candidate} {verb} {values[2]} after {itself[0]} and {values[3]} after {other[0]}; "
        f"{baseline} {values[0]} after {itself[1]} and {values[1]} after {other[1]}"
    )


def _remedy(experiment: Experiment, judged: Tested) -> str:
    discarded = judged.discarded
    remedies = []
    if discarded < 16:
        remedies.append(f"measure with --prime {min(16, max(2, 2 * discarded))}")
    if experiment.prime_more and not experiment.blocks and discarded < max(MORE.values()):
        remedies.append("give it a longer --budget")
    if experiment.own is not None:
        remedies.append("reset the state with --prepare CMD")
    return ", or ".join(remedies) or "it lasts longer than the discarded runs"


def _settled(experiment: Experiment, judged: Sequence[Tested], variants: int) -> Iterator[Caveat]:
    """Yield the carry-over that does not matter, because it is small or no longer in the figures."""
    for discarded in (False, True):
        found = [
            each
            for each in judged
            if (each.fires or each.found is not None)
            and not each.matters
            and bool(each.discarded) == discarded
            and (not discarded or abs(each.first.bias) > each.row.limit(experiment.margin) / 2)
        ]
        if not found:
            continue
        names = [f"{each.row.group[1]} {each.row.metric.name}" for each in found]
        rows = f"{len(found)} of {len(judged)} rows" if len(judged) > 1 else "the only row"
        consequence = (
            "The figures are of runs that directly follow a run of the same variant."
            if discarded
            else "It is too small to change their verdicts."
        )
        yield Caveat(
            kind=CaveatKind.CARRY_OVER,
            message=f"A run depends on what ran before it in {rows} ({named_first(names)}). In {names[0]}, "
            f"{_described(found[0], variants)}. {consequence}",
            hint="If the programs never follow themselves in use, reset the state with --prepare CMD."
            if discarded
            else "--prime 1 discards a run of the same variant before each measured one.",
        )


def _left_out(
    experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, WorkSpec], table: RunTable
) -> Iterator[Caveat]:
    """Yield the groups whose first measured runs don't count, because more runs are discarded since a check.

    A check discards more runs on a suspicion that is wrong in some reports without carry-over. It is stated as carry-over only where the
    same check shows it at `LOOK_RATE`. By default own programs have discarded runs from the second block on, without a check.
    """
    made = table if (table.status != UNAVAILABLE).all() else table.rows(table.status != UNAVAILABLE)
    every, block, level, _ = made.turns
    later = np.flatnonzero(block > 0)
    levels = {made.groups[number]: (block[later[mine]], level[later[mine]]) for number, mine in by_number(every[later])}
    grown = {}
    for group, (blocks, numbers) in levels.items():
        most = int(numbers.max())
        earlier = int(blocks[numbers < most].max(initial=0))
        if earlier > (_FIRST_WITHOUT if most == experiment.prime else 0):
            grown[group] = most, earlier, {int(blocks[numbers == each].max()) for each in numbers if each < most}
    checks = {
        last: judge(
            experiment,
            _tested(experiment, variants, workloads, made.rows(made.block <= last), leading=True),
            running=True,
        )
        for last in sorted(set().union(*(lasts for _, _, lasts in grown.values())))
    }
    shown = {
        group
        for group, (_, _, lasts) in grown.items()
        if any(each.matters and each.row.group == group for last in lasts for each in checks[last])
    }
    for those in ([group for group in grown if group in shown], [group for group in grown if group not in shown]):
        if not those:
            continue
        name, (most, earlier, _) = those[0][1], grown[those[0]]
        many = f"{len(those)} of {len(levels)} workloads" if len(levels) > 1 else "the only workload"
        stated = those[0] in shown
        why = "Runs depended on what ran before them, so" if stated else "As a precaution,"
        yield Caveat(
            kind=CaveatKind.CARRY_OVER if stated else CaveatKind.NOT_MEASURED,
            message=f"{why} more runs of the same variant are discarded before each measured one "
            f"in {many}: {most} after block {earlier} of {name}. The measured runs before that are not in the figures."
            + ("" if stated else " No carry-over is shown."),
            hint=f"--prime {most} discards them from the start.",
        )
