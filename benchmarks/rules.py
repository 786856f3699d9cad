"""Rules that call two programs different: ours, and what users do with hyperfine and benchstat.

Each takes a window of consecutive runs of one real program and splits it into two arms by its own design, so that all rules see the
same runs in the same order. What is injected is a factor on the arm called candidate.
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
    """What a rule says of one window.

    Attributes:
        different: whether it calls the two arms different.
        pairs: how many runs of each arm it used.
        verdict: ours only: what the report would say with the margin in force.
    """

    different: bool
    pairs: int
    verdict: Verdict | None = None


@dataclasses.dataclass(frozen=True)
class Window:
    """Consecutive runs of one program, and which of each successive two is called candidate.

    Attributes:
        values: shape (2 n,), in order of time.
        first: shape (n,): whether the candidate comes first in its block.
        factor: injected into the candidate.
    """

    values: Floats
    first: NDArray[np.bool_]
    factor: float

    def interleaved(self, pairs: int) -> tuple[Floats, Floats]:
        """Return baseline and candidate, blocked: two successive runs are a block, in random order."""
        blocks = self.values[: 2 * pairs].reshape(pairs, 2)
        order = self.first[:pairs]
        baseline, candidate = np.where(order, blocks[:, 1], blocks[:, 0]), np.where(order, blocks[:, 0], blocks[:, 1])
        return baseline, candidate * self.factor

    def sequential(self, pairs: int) -> tuple[Floats, Floats]:
        """Return baseline and candidate, one after the other: all runs of the one, then all runs of the other."""
        return self.values[:pairs], self.values[pairs : 2 * pairs] * self.factor


def ours(window: Window, pairs: int, margin: float) -> Answer:
    """Swapstone's interval on a fixed number of pairs: one comparison, so that there is nothing to correct."""
    return _judged(log_ratios(*window.interleaved(pairs)), margin)


def ours_stopping(window: Window, pairs: int, margin: float) -> Answer:
    """Swapstone's interval with its stopping rule: looks at 15 pairs and then every 5, until it is as narrow as the margin."""
    for block in range(1, pairs + 1):
        if due(block) or block == pairs:
            found = log_ratios(*window.interleaved(block))
            interval = found.interval(ALPHA)
            if block == pairs or (interval is not None and np.expm1(interval.half_width) <= margin):
                return _judged(found, margin)
    raise AssertionError("a window has at least one pair")


def hyperfine_bars(window: Window, pairs: int, margin: float) -> Answer:  # noqa: ARG001 - all rules are called alike
    """Mean and standard deviation as hyperfine prints them; different when the two bars do not overlap."""
    a, b = window.sequential(pairs)
    return Answer(bool(abs(a.mean() - b.mean()) > a.std(ddof=1) + b.std(ddof=1)), pairs)


def hyperfine_relative(window: Window, pairs: int, margin: float) -> Answer:  # noqa: ARG001 - all rules are called alike
    """Hyperfine's summary, "1.03 ± 0.02 times faster"; different when 1 is outside. Its ± is propagated from the two ±."""
    a, b = window.sequential(pairs)
    fast, slow = sorted((a, b), key=lambda arm: float(arm.mean()))
    ratio = slow.mean() / fast.mean()
    spread = ratio * np.hypot(slow.std(ddof=1) / slow.mean(), fast.std(ddof=1) / fast.mean())
    return Answer(bool(ratio - spread > 1), pairs)


def benchstat(window: Window, pairs: int, margin: float) -> Answer:  # noqa: ARG001 - all rules are called alike
    """Benchstat's rule: Mann-Whitney U on all runs of one and then all of the other, different when p < 0.05."""
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
