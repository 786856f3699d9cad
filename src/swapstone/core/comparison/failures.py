# SPDX-License-Identifier: MIT OR Apache-2.0
"""How often runs fail, and whether so many fail that those which succeed are another sample: crashes in slow runs look like speed.

The test of equal rates flips the signs of the blocks' differences in failed runs (`swapstone.core.stats.sign_flip_p_value`). Where a block
has one run of each side, that is McNemar's exact test (1947): the sign test of the blocks in which one side alone fails. It is preferred to
Fisher's exact test, which needs independent runs: a disk that is full for ten minutes fails the runs of both sides, and two successive runs
of one side fail together. The order in a block is drawn at random, so the signs are fair coins without any difference between the sides,
however failures depend on time. `benchmarks/rules-simulated failures` compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from swapstone.core.comparison.rows import Findings, Place
from swapstone.core.comparison.run_table import FAILED, REFUSED, UNAVAILABLE, RunTable, by_number
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
from swapstone.core.stats import Ints, distinct, holm, sign_flip_p_value, wilson

FEWEST = 2
"""A single failed run is a caveat."""

LARGEST_SHARE = 0.01
"""Share of failed runs above which a side can't be judged. A slow mode of 5 % of the runs must show; one that always fails never does."""

SIDES = ("baseline", "candidate")


def rates(experiment: Experiment, variants: Sequence[Variant], table: RunTable) -> tuple[FailureRates, ...]:
    """Return the failure rates of both sides of every comparison, those without failures too.

    All runs count, with the warm-up and those that are discarded; those of variants that could not be built don't. Which side fails more is
    decided at the experiment's confidence by Holm's procedure (1979) over the tests that can reject with so many blocks (Tarone 1990).

    Args:
        experiment: gives workloads, loads and confidence.
        variants: the baseline first.
        table: of the runs, in any order.
    """
    made = np.flatnonzero(table.status != UNAVAILABLE)
    rows_of = {table.places[place]: made[rows] for place, rows in by_number(table.place[made])}
    groups, nothing = {place[:3] for place in rows_of}, made[:0]
    baseline = variants[0]
    found = []
    for suite, workload in experiment.workloads:
        for load in experiment.loads:
            for candidate in variants[1:] if (suite, workload, load) in groups else ():
                sides = [rows_of.get((suite, workload, load, each.label), nothing) for each in (baseline, candidate)]
                if not any(rows.size for rows in sides):
                    continue  # programs that are never run, or were not built
                before, after = (_counts(table, rows, experiment.confidence) for rows in sides)
                signed = _differences(table, sides)
                found.append(
                    FailureRates(
                        suite=suite,
                        workload=workload,
                        load=load,
                        baseline=baseline,
                        candidate=candidate,
                        baseline_runs=before,
                        candidate_runs=after,
                        confidence=experiment.confidence,
                        discordant=signed.size,
                        p_value=sign_flip_p_value(signed.astype(np.float64)),
                        fails_more=SIDES[int(signed.sum() > 0)] if signed.sum() else "",
                    )
                )
    return tuple(decided(found, 1 - experiment.confidence, tested=experiment.failures_count))


def check(
    experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, WorkSpec], table: RunTable
) -> Findings:
    """Check it for every row; arguments as `swapstone.core.comparison.checks.check`.

    Where more than half of a side's runs fail, `Cell.exclusion` has the reason of the failures.
    """
    found = rates(experiment, variants, table)
    excluded: dict[Place, tuple[Verdict, str]] = {}
    for each in found:
        if each.unfit:
            group = (each.suite, each.workload, each.load)
            for metric in workloads[each.workload].metrics:
                excluded[group, each.candidate.label, metric.name] = (Verdict.INVALID, reason_of(each))
    return Findings(excluded=excluded, failure_rates=found)


def reason_of(each: FailureRates) -> str:
    """Return why rows of a side that fails are invalid, with the rates of both sides."""
    sides, side = each.sides, each.unfit[0]
    other = SIDES[1 - SIDES.index(side)]
    more = "significantly more often: " if each.fails_more == side else ""
    shown = {name: share_with_interval(one.share, one.low, one.high) for name, one in sides.items()}
    return (
        f"{side} fails {more}in {sides[side].failed} of {sides[side].runs} runs, {shown[side]}, and {other} in {sides[other].failed} of "
        f"{sides[other].runs}, {shown[other]}; {FAST_ONES}"
    )


def _counts(table: RunTable, rows: Ints, confidence: float) -> FailureCounts:
    """Return how the runs of one variant of a group ended."""
    failed, runs = rows[table.status[rows] == FAILED], rows.size
    reasons = [table.reasons[number] for number in table.reason[failed].tolist()]
    timed_out, crashed = (sum(reason.startswith(words) for reason in reasons) for words in (TIMED_OUT, KILLED))
    low, high = wilson(failed.size, runs, confidence) if runs else (0.0, 1.0)
    return FailureCounts(
        runs=runs,
        failed=failed.size,
        timed_out=timed_out,
        crashed=crashed,
        others=failed.size - timed_out - crashed,
        refused=int((table.status[rows] == REFUSED).sum()),
        share=failed.size / runs if runs else 0.0,
        low=low,
        high=high,
    )


def _differences(table: RunTable, sides: Sequence[Ints]) -> Ints:
    """Return the failed runs of the second side less those of the first in each block, where these differ.

    Blocks with another number of runs of one side than of the other are left out: one that was interrupted, or in which a variant is
    not run any more.
    """
    failed = [table.block[rows[table.status[rows] == FAILED]] for rows in sides]
    blocks = distinct(np.concatenate(failed))

    def counts(found: Ints) -> Ints:
        return np.bincount(np.searchsorted(blocks, found[np.isin(found, blocks)]), minlength=blocks.size)

    made = [counts(table.block[rows]) for rows in sides]
    difference = counts(failed[1]) - counts(failed[0])
    kept: Ints = difference[(made[0] == made[1]) & (difference != 0)]
    return kept


def decided(found: Sequence[FailureRates], alpha: float, *, tested: bool) -> list[FailureRates]:
    """Return the rates with `fails_more` where a test rejects, and the sides that can't be judged.

    Args:
        found: `fails_more` is the side with more failures, significant or not.
        alpha: rate at which any of the tests rejects falsely.
        tested: whether the test makes a side unfit, at `alpha` without correction, because that is the safe side.
    """
    able = [number for number, each in enumerate(found) if 2.0 ** (1 - each.discordant) <= alpha]
    significant = {able[place] for place in holm([found[number].p_value for number in able], alpha)}
    judged = []
    for number, each in enumerate(found):
        unfit = [
            side for side, counts in each.sides.items() if counts.failed >= FEWEST and counts.share > LARGEST_SHARE
        ]
        if tested and each.p_value <= alpha and each.fails_more and each.fails_more not in unfit:
            unfit.append(each.fails_more)
        more = each.fails_more if number in significant else ""
        # The side with more failures is named first.
        ordered = tuple(sorted(unfit, key=lambda side: -each.sides[side].share))
        judged.append(msgspec.structs.replace(each, fails_more=more, unfit=ordered))
    return judged
