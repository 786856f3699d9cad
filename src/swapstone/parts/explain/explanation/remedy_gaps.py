# SPDX-License-Identifier: MIT OR Apache-2.0
"""How much of the gap between two variants a remedy closes, beyond its placebo."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from swapstone.parts.explain.explanation.by_function import duration
from swapstone.parts.explain.model.explanation import RemedyRuns, RemedyShare

ALPHA = 0.05
"""Of all remedies of a row together: each interval has its part (Bonferroni)."""

REPLICATES = 4000
LEAST_ROUNDS = 5
MOST_ROUNDS = 100
"""More rounds only occur in forged evidence."""
_SEED = 21


def remedy_shares(every: Sequence[RemedyRuns]) -> tuple[RemedyShare, ...]:
    """Return the share of the gap that each remedy of a row closes: those that are confirmed first, then those that were measured."""
    found = [_share(tried, ALPHA / len(every)) for tried in every]
    return tuple(sorted(found, key=lambda each: (not each.confirmed, each.share is None)))


def _share(tried: RemedyRuns, alpha: float) -> RemedyShare:
    made = RemedyShare(name=tried.name, text=f"{tried.name}: {tried.text}.", calls=tried.calls)
    if tried.problem:
        return _with_result(made, f"Not measured: {tried.problem.rstrip('.')}.")
    rows = (tried.faster, tried.slower, tried.placebo, tried.remedied)
    rounds = len(tried.remedied)
    if {*map(len, rows)} != {rounds} or not LEAST_ROUNDS <= rounds <= MOST_ROUNDS:
        return _with_result(made, "Not known: it was not measured beside a placebo, or in too few rounds.")
    times = np.asarray(rows, dtype=np.float64)
    chosen = np.random.default_rng(_SEED).integers(0, rounds, (REPLICATES, rounds))
    faster, slower, placebo, remedied = np.median(times[:, chosen], axis=2)
    gap, ends = slower - faster, (alpha / 2, 1 - alpha / 2)
    fast, slow, empty, with_it = map(float, np.median(times, axis=1))
    if slow <= fast or float(np.quantile(gap, ends[0])) <= 0:
        return _with_result(
            made, f"Not known: in {rounds} rounds the gap between both variants is not larger than its error."
        )
    low, high = map(float, np.quantile(((placebo - remedied) / gap)[gap > 0], ends))
    share, alone = (empty - with_it) / (slow - fast), (slow - empty) / (slow - fast)
    calls = "" if tried.calls is None else f", acting on {tried.calls:,} call{'' if tried.calls == 1 else 's'}"
    between = f"({100 * low:.0f} to {100 * high:.0f} %, {rounds} rounds{calls})"
    start = f"Confirmed: it closes {100 * share:.0f} %" if low > 0 else f"No effect is shown: {100 * share:.0f} %"
    what = f"It widens the gap by {-100 * share:.0f} %" if high < 0 else f"{start} of the gap"
    spent = f"{duration(with_it)} with it, {duration(empty)} with its placebo, {duration(slow)} without"
    numbers = {"share": share, "interval": (low, high), "placebo": alone, "confirmed": low > 0}
    return msgspec.structs.replace(_with_result(made, f"{what} {between}: {spent}."), **numbers)


def _with_result(made: RemedyShare, result: str) -> RemedyShare:
    return msgspec.structs.replace(made, text=f"{made.text} {result}")
