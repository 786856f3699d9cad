# SPDX-License-Identifier: MIT OR Apache-2.0
"""Judge rows: effect, confidence interval and verdict of each comparison."""

from __future__ import annotations

import math

from swapstone.comparison.rows import Row
from swapstone.model import Comparison, Direction, Scale, Verdict
from swapstone.stats import Interval, SignedRank, pairs_needed


def comparison(row: Row, *, alpha: float, margin: float, preferred: bool) -> Comparison:
    """Judge a row.

    Args:
        row: what was measured.
        alpha: 1 - confidence of its interval, after correction.
        margin: relative size of an effect that is of no interest.
        preferred: whether this is the time metric that reports read first.
    """
    effect, interval, visible = _inferred(row, alpha)
    if row.exclusion:
        verdict, reason = row.exclusion
    elif interval is None:
        verdict, reason = Verdict.INCONCLUSIVE, too_few_pairs_reason(alpha, row.before.size)
    else:
        verdict = verdict_of(interval, row.limit(margin), row.metric.better)
        reason = undecided_reason(interval) if verdict is Verdict.INCONCLUSIVE else ""
    usable = not row.exclusion
    return Comparison(
        suite=row.group[0],
        workload=row.group[1],
        load=row.group[2],
        metric=row.metric,
        baseline=row.baseline,
        candidate=row.candidate,
        baseline_values=tuple(row.before.tolist()) if usable else (),
        candidate_values=tuple(row.after.tolist()) if usable else (),
        scale=row.scale,
        effect=None if effect is None else _shown(row, effect),
        low=None if interval is None else _shown(row, interval.low),
        high=None if interval is None else _shown(row, interval.high),
        confidence=1 - alpha,
        p_value=None if row.inference is None else row.inference.p_value,
        smallest_visible=None if visible is None else _shown(row, visible),
        exact=row.constant and usable,
        verdict=verdict,
        reason=reason,
        preferred=preferred,
    )


def verdict_of(interval: Interval, limit: float, better: Direction) -> Verdict:
    """Return the verdict that follows from an interval.

    Args:
        interval: of the log ratio or of the difference; 0 means no difference.
        limit: the largest effect inside the margin, on the same scale.
        better: which direction is better.

    Returns:
        Equivalent if the whole interval lies inside the margin, even if it excludes 0: such an effect is significant and too
        small to matter. Otherwise better, worse or changed if it excludes 0, and inconclusive if it contains 0.
    """
    if -limit <= interval.low and interval.high <= limit:
        return Verdict.EQUIVALENT
    if not interval.excludes(0.0):
        return Verdict.INCONCLUSIVE
    if better is Direction.NEITHER:
        return Verdict.CHANGED
    lower = interval.high < 0
    return Verdict.BETTER if lower == (better is Direction.LOWER) else Verdict.WORSE


def _inferred(row: Row, alpha: float) -> tuple[float | None, Interval | None, float | None]:
    """Return the effect, its interval and the smallest visible effect, on the scale of inference (log ratio or difference)."""
    inference: SignedRank | None = row.inference
    if inference is not None:
        return inference.estimate(), inference.interval(alpha), inference.smallest_visible(alpha)
    if row.exclusion:
        return None, None, None
    before, after = float(row.before[0]), float(row.after[0])
    effect = math.log(after) - math.log(before) if row.scale is Scale.RATIO else after - before
    return effect, Interval(effect, effect), None


def _shown(row: Row, value: float) -> float:
    """Convert a value from the scale of inference to a ratio or a difference."""
    if row.scale is Scale.DIFFERENCE:
        return value
    if row.constant:
        return float(row.after[0] / row.before[0])
    return math.exp(value)


def too_few_pairs_reason(alpha: float, have: int) -> str:
    """Return why there is no interval."""
    return (
        f"few blocks: an interval at {100 * (1 - alpha):.4g} % needs {pairs_needed(alpha)} pairs, and there are {have}"
    )


def undecided_reason(interval: Interval, what: str = "difference") -> str:
    """Return why an interval that contains 0 is inconclusive."""
    sides = [name for name, reaches in (("smaller", interval.low < 0), ("larger", interval.high > 0)) if reaches]
    return f"the interval contains both no {what} and one outside the margin ({' or '.join(sides)})"
