# SPDX-License-Identifier: MIT OR Apache-2.0
"""How much of the gap between two variants a remedy closes."""

from __future__ import annotations

import dataclasses

import numpy as np

from swapstone.parts.explain.model.explanation import RemedyRuns

CONFIDENCE = 0.95
REPLICATES = 2000
LEAST_ROUNDS = 5
MOST_ROUNDS = 1000
"""More rounds only occur in forged evidence."""
_SEED = 21


@dataclasses.dataclass(frozen=True)
class ClosedGap:
    """The share of the gap that a remedy closes: 1 if the slower variant is then as fast as the other, below 0 if it is slower than before.

    Attributes:
        share: from the medians.
        interval: from a bootstrap of the rounds; None with fewer than `LEAST_ROUNDS`, or if the gap itself is not shown.
        rounds: how often all three were run in turn.
    """

    share: float
    interval: tuple[float, float] | None
    rounds: int


def closed_gap(tried: RemedyRuns) -> ClosedGap | None:
    """Return how much of the gap a remedy closes; None if it was not measured, or if there was no gap in these runs."""
    rounds = len(tried.remedied)
    if not 0 < rounds <= MOST_ROUNDS or not len(tried.faster) == len(tried.slower) == rounds:
        return None
    times = np.asarray((tried.faster, tried.slower, tried.remedied), dtype=np.float64)
    fast, slow, remedied = (float(each) for each in np.median(times, axis=1))
    if slow <= fast:
        return None
    share = (slow - remedied) / (slow - fast)
    chosen = np.random.default_rng(_SEED).integers(0, rounds, (REPLICATES, rounds))
    faster, slower, with_it = np.median(times[:, chosen], axis=2)
    gap = slower - faster
    if rounds < LEAST_ROUNDS or float(np.quantile(gap, (1 - CONFIDENCE) / 2)) <= 0:
        return ClosedGap(share, None, rounds)
    shares = (slower - with_it)[gap > 0] / gap[gap > 0]
    low, high = np.quantile(shares, ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    return ClosedGap(share, (float(low), float(high)), rounds)


def remedy_text(tried: RemedyRuns) -> str:
    """Return a sentence on a remedy that was tried."""
    start = f"{tried.name}: {tried.text}."
    if tried.problem:
        return f"{start} Not measured: {tried.problem.rstrip('.')}."
    found = closed_gap(tried)
    if found is None:
        return f"{start} Not known: the slower variant was not slower in the {len(tried.remedied)} rounds of this measurement."
    rounds = f"{found.rounds} rounds"
    if found.interval is None:
        return f"{start} Not known: in {rounds} the gap between both variants is not larger than its error."
    low, high = (f"{100 * each:.0f}" for each in found.interval)
    between = f"95 % interval {low} to {high} %, {rounds}"
    if found.interval[0] > 0:
        return f"{start} It closes {100 * found.share:.0f} % of the gap ({between})."
    if found.interval[1] < 0:
        return (
            f"{start} It makes the slower variant slower still, by {-100 * found.share:.0f} % of the gap ({between})."
        )
    return f"{start} It closes nothing of the gap that this measurement shows ({between})."
