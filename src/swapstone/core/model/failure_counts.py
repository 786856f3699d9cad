# SPDX-License-Identifier: MIT OR Apache-2.0
"""How often the runs of two variants fail."""

from __future__ import annotations

from swapstone.core.model.experiment import RunGroup, Variant
from swapstone.core.model.frozen_struct import FrozenStruct


class FailureCounts(FrozenStruct, frozen=True, kw_only=True):
    """How many runs of one side failed. All runs count, with the warm-up and those that are discarded.

    Attributes:
        runs: how many were attempted.
        failed: how many of them failed: the sum of the next three.
        timed_out: did not end within their time.
        crashed: were killed by a signal.
        others: failed in another way, e.g. by their exit status or by unreadable output.
        refused: ran at another level or did other work than requested. They are no failures.
        share, low, high: of failed runs, and its interval (Wilson 1927); the interval is 0 to 1 without runs.
    """

    runs: int
    failed: int
    timed_out: int
    crashed: int
    others: int
    refused: int
    share: float
    low: float
    high: float


FAST_ONES = "the runs that succeed may be the fast ones"
"""How the reason of a row ends that failures make invalid."""


class FailureRates(RunGroup, frozen=True, kw_only=True):
    """How often the runs of baseline and candidate fail, on one workload under one load.

    Attributes:
        suite, workload, load: of the runs.
        baseline, candidate: the two variants.
        baseline_runs, candidate_runs: counts of each side.
        confidence: of the intervals of both shares, uncorrected.
        discordant: number of blocks in which one side has more failed runs than the other: what the p-value rests on.
        p_value: of equal rates, two-sided, uncorrected: signs of the blocks' differences are flipped, which is McNemar's exact test (1947)
            where a block has one run of each side.
        fails_more: the side that fails significantly more often, ``baseline`` or ``candidate``, corrected for all such tests of the
            report; else empty.
        unfit: the sides whose runs that succeed are no sample of all their runs, because too many fail or significantly more than of
            the other side: their rows are invalid.
    """

    baseline: Variant
    candidate: Variant
    baseline_runs: FailureCounts
    candidate_runs: FailureCounts
    confidence: float
    discordant: int
    p_value: float
    fails_more: str = ""
    unfit: tuple[str, ...] = ()
