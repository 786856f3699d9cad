# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decision rules for a difference of two programs: Swapstone's, and those that users of hyperfine and benchstat apply.

Each rule splits a window of consecutive runs of one program into two arms by its own design, so that all rules get the same runs in
the same order. An injected effect is a factor on the candidate's arm.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from swapstone.comparison.verdicts import verdict_of
from swapstone.model import Direction, Verdict
from swapstone.plan.stopping import due
from swapstone.stats import SignedRank, log_ratios

Floats = NDArray[np.float64]

ALPHA = 0.05


@dataclasses.dataclass(frozen=True)
class Answer:
    """A rule's decision on one window.

    Attributes:
        different: whether it reports a difference.
        pairs: number of runs of each arm that it used.
        verdict: the report's verdict with the margin; Swapstone's rules only.
    """

    different: bool
    pairs: int
    verdict: Verdict | None = None


@dataclasses.dataclass(frozen=True)
class Window:
    """Consecutive runs of one program, with the assignment of each two to baseline and candidate.

    Attributes:
        values: shape (2 n,), in order of time.
        first: shape (n,): whether the candidate comes first in its block.
        factor: on the candidate's values.
    """

    values: Floats
    first: NDArray[np.bool_]
    factor: float

    def interleaved(self, pairs: int) -> tuple[Floats, Floats]:
        """Return baseline and candidate in blocks of two successive runs, in random order."""
        blocks = self.values[: 2 * pairs].reshape(pairs, 2)
        order = self.first[:pairs]
        baseline, candidate = np.where(order, blocks[:, 1], blocks[:, 0]), np.where(order, blocks[:, 0], blocks[:, 1])
        return baseline, candidate * self.factor

    def sequential(self, pairs: int) -> tuple[Floats, Floats]:
        """Return baseline and candidate in sequence: all runs of one, then all runs of the other."""
        return self.values[:pairs], self.values[pairs : 2 * pairs] * self.factor


def ours(window: Window, pairs: int, margin: float) -> Answer:
    """Swapstone's interval for a fixed number of pairs: one comparison, without correction."""
    return _judged(log_ratios(*window.interleaved(pairs)), margin)


def ours_stopping(window: Window, pairs: int, margin: float) -> Answer:
    """Swapstone's interval with its stopping rule: after 15 pairs and then every 5, until it is as narrow as the margin."""
    for block in range(1, pairs + 1):
        if due(block) or block == pairs:
            found = log_ratios(*window.interleaved(block))
            interval = found.interval(ALPHA)
            if block == pairs or (interval is not None and np.expm1(interval.half_width) <= margin):
                return _judged(found, margin)
    raise AssertionError("a window has at least one pair")


def hyperfine_bars(window: Window, pairs: int, margin: float) -> Answer:  # noqa: ARG001 - all rules are called alike
    """Mean and standard deviation as hyperfine prints them; different if the two bars don't overlap."""
    a, b = window.sequential(pairs)
    return Answer(bool(abs(a.mean() - b.mean()) > a.std(ddof=1) + b.std(ddof=1)), pairs)


def hyperfine_relative(window: Window, pairs: int, margin: float) -> Answer:  # noqa: ARG001 - all rules are called alike
    """Hyperfine's summary, "1.03 ± 0.02 times faster"; different if 1 is outside. Its ± is propagated from the two ±."""
    a, b = window.sequential(pairs)
    fast, slow = sorted((a, b), key=lambda arm: float(arm.mean()))
    ratio = slow.mean() / fast.mean()
    spread = ratio * np.hypot(slow.std(ddof=1) / slow.mean(), fast.std(ddof=1) / fast.mean())
    return Answer(bool(ratio - spread > 1), pairs)


def benchstat(window: Window, pairs: int, margin: float) -> Answer:  # noqa: ARG001 - all rules are called alike
    """Benchstat's rule: Mann-Whitney U on all runs of one and then all runs of the other, different if p < 0.05."""
    a, b = window.sequential(pairs)
    if a.min() == a.max() == b.min() == b.max():
        return Answer(False, pairs)
    return Answer(bool(scipy.stats.mannwhitneyu(a, b).pvalue < ALPHA), pairs)


Rule = Callable[[Window, int, float], Answer]

OURS: dict[str, Rule] = {"swapstone": ours, "swapstone, stopping": ours_stopping}
OTHERS: dict[str, Rule] = {
    "hyperfine, bars apart": hyperfine_bars,
    "hyperfine, relative": hyperfine_relative,
    "benchstat, p < 0.05": benchstat,
}


def _judged(found: SignedRank, margin: float) -> Answer:
    interval = found.interval(ALPHA)
    if interval is None:
        return Answer(False, found.n, Verdict.INCONCLUSIVE)
    verdict = verdict_of(interval, float(np.log1p(margin)), Direction.LOWER)
    return Answer(interval.excludes(0.0), found.n, verdict)
