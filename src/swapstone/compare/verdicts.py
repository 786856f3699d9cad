"""From rows to comparisons: the effect, its interval, and what may be said."""

from __future__ import annotations

import math

from swapstone.compare.rows import Row
from swapstone.model import Comparison, Direction, Scale, Verdict
from swapstone.stats import Interval, SignedRank, pairs_needed


def comparison(row: Row, *, alpha: float, margin: float, preferred: bool) -> Comparison:
    """Judge a row.

    Args:
        row: what was measured.
        alpha: 1 - the level of its interval, after correction.
        margin: ratio of no interest.
        preferred: whether this is the time metric to read first.
    """
    effect, interval, visible = _inferred(row, alpha)
    if row.trouble:
        verdict, reason = row.trouble
    elif interval is None:
        verdict, reason = Verdict.INCONCLUSIVE, few_blocks(alpha, row.before.size)
    else:
        verdict = verdict_of(interval, row.limit(margin), row.metric.better)
        reason = open_question(interval) if verdict is Verdict.INCONCLUSIVE else ""
    usable = not row.trouble
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
    """Say what an interval lets one say.

    Args:
        interval: of the log ratio or of the difference; 0 is no difference.
        limit: the largest effect of no interest, on the same scale.
        better: which direction is better.

    Returns:
        Equivalent where the whole interval is within the limit on either side, though it may exclude 0: such an effect is
        real and too small to matter. Otherwise better, worse or changed where it excludes 0, and inconclusive where not.
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
    """Return the effect, its interval and the smallest visible effect, on the row's inner scale (log ratio or difference)."""
    inference: SignedRank | None = row.inference
    if inference is not None:
        return inference.estimate(), inference.interval(alpha), inference.smallest_visible(alpha)
    if row.trouble:
        return None, None, None
    before, after = float(row.before[0]), float(row.after[0])
    effect = math.log(after) - math.log(before) if row.scale is Scale.RATIO else after - before
    return effect, Interval(effect, effect), None


def _shown(row: Row, value: float) -> float:
    """Turn a value of the inner scale into what a comparison says: a ratio or a difference."""
    if row.scale is Scale.DIFFERENCE:
        return value
    if row.constant:
        return float(row.after[0] / row.before[0])
    return math.exp(value)


def few_blocks(alpha: float, have: int) -> str:
    """Say why there is no interval."""
    return (
        f"few blocks: an interval at {100 * (1 - alpha):.4g} % needs {pairs_needed(alpha)} pairs, and there are {have}"
    )


def open_question(interval: Interval, what: str = "difference") -> str:
    """Say why an interval that contains 0 decides nothing."""
    sides = [name for name, reaches in (("smaller", interval.low < 0), ("larger", interval.high > 0)) if reaches]
    return f"the interval holds both no {what} and one beyond the margin ({' or '.join(sides)})"
