# SPDX-License-Identifier: MIT OR Apache-2.0
"""How often runs fail, and whether so many fail that those which succeed are another sample: crashes in slow runs look like speed.

The test of equal rates flips the signs of the blocks' differences in failed runs (`swapstone.core.stats.sign_flip_p_value`). Where a block
has one run of each side, that is McNemar's exact test (1947): the sign test of the blocks in which one side alone fails. It is preferred to
Fisher's exact test, which needs independent runs: a disk that is full for ten minutes fails the runs of both sides, and two successive runs
of one side fail together. The order in a block is drawn at random, so the signs are fair coins without any difference between the sides,
however failures depend on time. `benchmarks/rules-simulated failures` compares the two.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from swapstone.core.comparison.cells import Group
from swapstone.core.comparison.findings import Findings, Place
from swapstone.core.comparison.run_columns import as_table
from swapstone.core.comparison.run_table import FAILED, REFUSED, STATUSES, UNAVAILABLE, Runs, RunTable, by_number
from swapstone.core.model import (
    FAST_ONES,
    KILLED,
    TIMED_OUT,
    Experiment,
    FailureCounts,
    FailureRates,
    Variant,
    Verdict,
    WorkSpec,
)
from swapstone.core.model.number_text import share_with_interval
from swapstone.core.stats import sign_flip_p_value, wilson

FEWEST = 2
"""A single failed run is a caveat."""

LARGEST_SHARE = 0.01
"""Share of failed runs above which a side can't be judged. A slow mode of 5 % of the runs must show; one that always fails never does."""

SIDES = ("baseline", "candidate")


def rates(experiment: Experiment, variants: Sequence[Variant], runs: Runs) -> tuple[FailureRates, ...]:
    """Return the failure rates of both sides of every comparison, those without failures too.

    All runs count, with the warm-up and those that are discarded; those of variants that could not be built don't. Which side fails more is
    decided at the experiment's confidence by Holm's procedure (1979) over the tests that can reject with so many blocks (Tarone 1990).

    Args:
        experiment: gives workloads, loads and confidence.
        variants: the baseline first.
        runs: in any order.
    """
    table = as_table(runs, ())
    counted = _counted(table)
    blocks = _differences(table, counted)
    groups = {group for group, _ in counted}
    baseline = variants[0]
    found = []
    for suite, workload in experiment.workloads:
        for load in experiment.loads:
            group = (suite, workload, load)
            for candidate in variants[1:] if group in groups else ():
                signed = blocks.get(group, _Blocks()).differences(baseline.label, candidate.label)
                before, after = (counted.get((group, each.label), _Side()) for each in (baseline, candidate))
                if not before.runs and not after.runs:
                    continue  # programs that are never run, or were not built
                found.append(
                    FailureRates(
                        suite=suite,
                        workload=workload,
                        load=load,
                        baseline=baseline,
                        candidate=candidate,
                        baseline_runs=_counts(before, experiment.confidence),
                        candidate_runs=_counts(after, experiment.confidence),
                        confidence=experiment.confidence,
                        discordant=len(signed),
                        p_value=sign_flip_p_value(np.array(signed, dtype=np.float64)),
                        fails_more=_larger(signed),
                    )
                )
    return tuple(decided(found, 1 - experiment.confidence, tested=experiment.failures_count))


def check(
    experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, WorkSpec], runs: Runs
) -> Findings:
    """Check it for every row; arguments as `swapstone.core.comparison.checks.check`.

    Where more than half of a side's runs fail, `Cell.exclusion` has the reason of the failures.
    """
    found = rates(experiment, variants, runs)
    excluded: dict[Place, tuple[Verdict, str]] = {}
    for each in found:
        if each.unfit:
            group = (each.suite, each.workload, each.load)
            for metric in workloads[each.workload].metrics:
                excluded[group, each.candidate.label, metric.name] = (Verdict.INVALID, reason_of(each))
    return Findings(excluded=excluded, failure_rates=found)


def reason_of(each: FailureRates) -> str:
    """Return why rows of a side that fails are invalid, with the rates of both sides."""
    side = each.unfit[0]
    own, other = _sides(each)[side], _sides(each)[_opposite(side)]
    more = "significantly more often: " if each.fails_more == side else ""
    return (
        f"{side} fails {more}in {own.failed} of {own.runs} runs, {_text(own)}, and {_opposite(side)} in {other.failed} of {other.runs}, "
        f"{_text(other)}; {FAST_ONES}"
    )


def _text(counts: FailureCounts) -> str:
    return share_with_interval(counts.share, counts.low, counts.high)


def _sides(each: FailureRates) -> dict[str, FailureCounts]:
    return dict(zip(SIDES, (each.baseline_runs, each.candidate_runs), strict=True))


def _opposite(side: str) -> str:
    return SIDES[1 - SIDES.index(side)]


@dataclasses.dataclass
class _Side:
    """The runs of one variant of a group, by how they ended.

    Attributes:
        failed: number of failed runs by block.
    """

    runs: int = 0
    timed_out: int = 0
    crashed: int = 0
    others: int = 0
    refused: int = 0
    failed: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)

    def add_failure(self, block: int, reason: str) -> None:
        """Count a failed run."""
        self.failed[block] += 1
        if reason.startswith(TIMED_OUT):
            self.timed_out += 1
        elif reason.startswith(KILLED):
            self.crashed += 1
        else:
            self.others += 1


def _counted(table: RunTable) -> dict[tuple[Group, str], _Side]:
    found: dict[tuple[Group, str], _Side] = {}
    statuses = len(STATUSES)
    counts = np.bincount(table.place * statuses + table.status, minlength=len(table.places) * statuses)
    for number, (suite, workload, load, variant) in enumerate(table.places):
        of_place = counts[number * statuses : (number + 1) * statuses].tolist()
        runs = sum(of_place) - of_place[UNAVAILABLE]
        if runs:
            found[(suite, workload, load), variant] = _Side(runs=runs, refused=of_place[REFUSED])
    for row in np.flatnonzero(table.status == FAILED).tolist():
        suite, workload, load, variant = table.places[int(table.place[row])]
        side = found[(suite, workload, load), variant]
        side.add_failure(int(table.block[row]), table.reasons[int(table.reason[row])])
    return found


def _counts(side: _Side, confidence: float) -> FailureCounts:
    failed = side.failed.total()
    low, high = wilson(failed, side.runs, confidence) if side.runs else (0.0, 1.0)
    return FailureCounts(
        runs=side.runs,
        failed=failed,
        timed_out=side.timed_out,
        crashed=side.crashed,
        others=side.others,
        refused=side.refused,
        share=failed / side.runs if side.runs else 0.0,
        low=low,
        high=high,
    )


def _differences(table: RunTable, counted: Mapping[tuple[Group, str], _Side]) -> Mapping[Group, _Blocks]:
    """Return the blocks of each group in which a run failed."""
    found: dict[Group, _Blocks] = {}
    for (group, label), side in counted.items():
        for block, number in side.failed.items():
            found.setdefault(group, _Blocks()).failed[block, label] = number
    for number, rows in by_number(table.group) if found else ():
        each = found.get(table.groups[number], _Blocks())
        blocks = np.array(sorted({block for block, _ in each.failed}), dtype=np.int64)
        mine = rows[(table.status[rows] != UNAVAILABLE) & np.isin(table.block[rows], blocks)]
        for block, label in zip(table.block[mine].tolist(), table.label[mine].tolist(), strict=True):
            each.made[block, table.labels[label]] += 1
    return found


@dataclasses.dataclass
class _Blocks:
    """The runs of a group in the blocks in which one failed, and how many of them failed, by block and variant."""

    made: collections.Counter[tuple[int, str]] = dataclasses.field(default_factory=collections.Counter)
    failed: collections.Counter[tuple[int, str]] = dataclasses.field(default_factory=collections.Counter)

    def differences(self, baseline: str, candidate: str) -> list[int]:
        """Return failed runs of the candidate less those of the baseline, where these differ.

        Blocks with another number of runs of one side than of the other are left out: one that was interrupted, or in which a variant is
        not run any more.
        """
        blocks = sorted({block for block, _ in self.failed})
        return [
            difference
            for block in blocks
            if self.made[block, baseline] == self.made[block, candidate]
            and (difference := self.failed[block, candidate] - self.failed[block, baseline])
        ]


def _larger(signed: Sequence[int]) -> str:
    total = sum(signed)
    return SIDES[total > 0] if total else ""


def decided(found: Sequence[FailureRates], alpha: float, *, tested: bool) -> list[FailureRates]:
    """Return the rates with `fails_more` where a test rejects, and the sides that can't be judged.

    Args:
        found: `fails_more` is the side with more failures, significant or not.
        alpha: rate at which any of the tests rejects falsely.
        tested: whether the test makes a side unfit, at `alpha` without correction, because that is the safe side.
    """
    able = sorted((each.p_value, number) for number, each in enumerate(found) if 2.0 ** (1 - each.discordant) <= alpha)
    significant = set()
    for rank, (p_value, number) in enumerate(able):
        if p_value > alpha / (len(able) - rank):
            break
        significant.add(number)
    judged = []
    for number, each in enumerate(found):
        unfit = [side for side, counts in _sides(each).items() if _too_many(counts)]
        if tested and each.p_value <= alpha and each.fails_more and each.fails_more not in unfit:
            unfit.append(each.fails_more)
        more = each.fails_more if number in significant else ""
        # The side with more failures is named first.
        ordered = tuple(sorted(unfit, key=lambda side: -_sides(each)[side].share))
        judged.append(msgspec.structs.replace(each, fails_more=more, unfit=ordered))
    return judged


def _too_many(counts: FailureCounts) -> bool:
    return counts.failed >= FEWEST and counts.share > LARGEST_SHARE
