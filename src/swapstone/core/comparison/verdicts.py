# SPDX-License-Identifier: MIT OR Apache-2.0
"""Judge rows: effect, confidence interval and verdict of each comparison."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import numpy as np

from swapstone.core.comparison.exact_floors import LARGEST_LOGARITHM, ExactEffects
from swapstone.core.comparison.means import RAREST_MODE, rarest_mode, runs_needed, summary
from swapstone.core.comparison.rows import MEDIANS_ALPHA, Row
from swapstone.core.model import (
    DIRECTION_RULES,
    TAIL_RULES,
    WITHOUT_DIRECTION,
    Comparison,
    Direction,
    Quantity,
    Scale,
    Verdict,
)
from swapstone.core.plan.stopping import pairs_needed
from swapstone.core.stats import AverageEffect, Floats, Inference, Interval, KnownCentre

LEAST_S = 10.0
"""The runs of an own program must span this much time to be equivalent: a slow mode of the machine or the program may last seconds."""

SEPARATION = {3: 20.0, 4: 5.0}
"""By how much the sides must be apart for a bound without rank statistics, by the number of pairs; from 5 on by `LEAST_SEPARATION`.

If a fifth of all runs takes ten times as long, on both sides alike, 3 pairs are apart by a factor of 2 in 0.8 % of rows, 4 pairs in 0.1 %.
"""

SEPARATION_OF_REPLICATES = {3: 5.0, 4: 2.0}
"""The same on the virtual clock, where no replicate is delayed by others; from 5 on by the margin."""

LEAST_SEPARATION = 2.0

OPPOSITE_ALPHA = 0.05
"""Level, without correction, at which the means contradict a median that differs: the verdict is then "mixed". A false "mixed" hides a
difference in 2.5 % of rows at most; a false "better" or "worse" would be read as one of the mean too.
"""


def too_few_pairs_reason(alpha: float, have: int, needed: int = 0, unit: str = "blocks") -> str:
    """Return why there is no interval.

    Args:
        alpha: 1 - confidence of the interval.
        have: number of pairs.
        needed: how many all intervals of the report need, as budgets and notes name it; 0 if that is not known.
        unit: what holds a pair.
    """
    if have < needed:
        return f"few {unit}: an interval needs {needed} pairs, and there are {have}"
    return (
        f"few {unit}: an interval at {100 * (1 - alpha):.4g} % needs {pairs_needed(alpha)} pairs, and there are {have}"
    )


TooFew = Callable[[float, int], str]
"""Returns why there is no interval, as `too_few_pairs_reason`."""


def comparison(
    row: Row,
    *,
    alpha: float,
    margin: float,
    preferred: bool,
    tail_alpha: float | None = None,
    too_few: TooFew = too_few_pairs_reason,
) -> Comparison:
    """Judge a row. Its `smallest_visible`, which takes longest, and from which no verdict follows, is left out.

    Args:
        row: what was measured.
        alpha: 1 - confidence of its interval, after correction.
        margin: relative size of an effect that is of no interest.
        preferred: whether this is the time metric that reports read first.
        tail_alpha: level of the test of the means; `alpha` if None.
        too_few: words why there is no interval.
    """
    inference = row.inference
    effect, interval = (None, None) if inference is None else (inference.estimate(), inference.interval(alpha))
    known = isinstance(inference, KnownCentre)
    verdict, reason = row.exclusion or (
        (Verdict.MEASURED, "")
        if row.alone
        else verdict_and_reason(
            inference, alpha, row.limit(margin), row.metric.better, too_few(alpha, row.before.size), exact=row.exact
        )
    )
    usable = not row.exclusion or verdict is Verdict.DISTURBED
    found = Comparison(
        suite=row.group[0],
        workload=row.group[1],
        load=row.group[2],
        metric=row.metric,
        baseline=row.baseline,
        candidate=row.candidate,
        baseline_values=_values(row.after if row.alone else row.before) if usable else (),
        candidate_values=_values(row.after) if usable else (),
        scale=Scale.VALUE if row.alone else row.scale,
        effect=None if effect is None else _shown(row, effect),
        low=None if interval is None else _shown(row, interval.low),
        high=None if interval is None else _shown(row, interval.high),
        confidence=1.0 if known and row.exact else 1 - alpha,
        p_value=None if inference is None else inference.p_value,
        smallest_visible=None,
        exact=known,
        verdict=verdict,
        reason=reason,
        preferred=preferred,
        floor=None if row.exact is None else row.exact.floor_shown,
    )
    if row.rules < TAIL_RULES or row.exclusion or row.means is None or row.before.size == 0:
        return found
    mean = row.mean_effect(alpha)
    assert mean is not None, "a row with pairs has means"
    return _with_means(row, found, mean, margin, alpha if tail_alpha is None else tail_alpha)


def smallest_visible(row: Row, alpha: float) -> float | None:
    """Return `Comparison.smallest_visible` of a row at level `alpha`."""
    visible = None if row.inference is None else row.inference.smallest_visible(alpha)
    return None if visible is None else _converted(row, visible)


def _values(values: Floats) -> tuple[float, ...]:
    """Return values as a tuple. If all are the same, as of most counters and sizes, they are one object, a quarter of the memory."""
    if values.size > 1 and values[0] != 0 and (values == values[0]).all():
        return (float(values[0]),) * values.size
    if not values.any() and not np.signbit(values).any():
        return (0.0,) * values.size
    return tuple(values.tolist())


def _with_means(row: Row, found: Comparison, mean: AverageEffect, margin: float, tail_alpha: float) -> Comparison:
    """Return a comparison by the current rules: with its means and its tail, and the verdict that follows from all."""
    assert row.runs is not None
    medians = row.median_effect()
    known = found.exact and row.exact is not None
    if known and found.low is not None and found.high is not None:
        medians = AverageEffect(
            medians.effect, Interval(found.low, found.high)
        )  # the ratio of medians lies between those of the pairs
    found = msgspec.structs.replace(
        found,
        mean_effect=mean.effect,
        mean_low=None if mean.interval is None else mean.interval.low,
        mean_high=None if mean.interval is None else mean.interval.high,
        **median_fields(medians),
        tail_p_value=None if row.tail is None else row.tail[0],
        baseline_runs=summary(row.runs[1 if row.alone else 0]),
        candidate_runs=summary(row.runs[1]),
        rarest_mode=rarest_mode(row.observed_runs),
        observed_s=row.observed_s,
    )
    if known or row.alone:
        return found
    bound = bounds(row, margin) if found.low is None else None
    if bound is not None:
        return msgspec.structs.replace(
            found,
            low=math.exp(bound.low),
            high=math.exp(bound.high),
            confidence=1 - 2.0 ** (1 - row.before.size),
            bounded=True,
            verdict=verdict_of(bound, 0.0, row.metric.better),
            reason="",
        )
    without = _without_direction(row, found, medians, margin) if row.rules >= DIRECTION_RULES else None
    verdict, reason = without or verdict_with_tail(row, found, mean, margin, tail_alpha)
    return msgspec.structs.replace(found, verdict=verdict, reason=reason)


def _without_direction(
    row: Row, found: Comparison, medians: AverageEffect, margin: float
) -> tuple[Verdict, str] | None:
    """Return the verdict and its reason if the direction of the signed-rank interval is not that of the medians; else None.

    If the medians are the same, a direction of the means is one of the tail.
    """
    mean = row.mean_effect(MEDIANS_ALPHA)
    if found.verdict not in (Verdict.BETTER, Verdict.WORSE, Verdict.CHANGED) or mean is None or row.inference is None:
        return None
    assert found.low is not None and found.high is not None, "a direction has an interval"
    against = against_direction(row, Interval(found.low, found.high), row.inference.estimate(), (medians, mean), margin)
    if against is None:
        return None
    shown, tail = against
    if tail and found.verdict is not Verdict.CHANGED:
        return Verdict.WORSE_TAIL if found.verdict is Verdict.WORSE else Verdict.BETTER_TAIL, f"same median: {shown}"
    return Verdict.INCONCLUSIVE, f"{WITHOUT_DIRECTION}: {shown}"


class Scaled(Protocol):
    """What has a scale and a margin: a row, an index, or the numbers of a contrast."""

    @property
    def scale(self) -> Scale:
        """Return the scale of its effect."""

    def limit(self, margin: float) -> float:
        """Return the largest effect inside the margin, on the scale of inference."""


Averages = tuple[AverageEffect, AverageEffect]
"""An effect on medians, and on arithmetic means, with intervals at `MEDIANS_ALPHA`."""


def against_direction(
    of: Scaled, interval: Interval, estimate: float, averages: Averages, margin: float
) -> tuple[str, bool] | None:
    """Return what averages show against the direction of a signed-rank interval, and whether the means have it; None without either.

    The signed-rank estimate is of the median only if the two sides have one shape (Hollander, Wolfe and Chicken, section 3.2): if 40 % of
    the runs take 0.6 times as long and 10 % 2.6 times, it is 0.81 where medians and means are equal. So a direction also needs

    - the interval of the ratio of medians, or of the ratio of means, each at `MEDIANS_ALPHA`, beyond 1 on the same side and not inside the
      margin: the medians' alone is wider than the signed-rank one, and would hide small effects;
    - and an interval of the ratio of medians that is neither inside the margin nor beyond 1 on the other side.

    Of an estimate inside the margin, averages inside it have the direction, too.

    Args:
        of: what the effect is of.
        interval: the signed-rank interval, as a ratio or a difference.
        estimate: the signed-rank estimate, on the scale of inference.
        averages: of the same values.
        margin: relative size of an effect that is of no interest.
    """
    if mean_inside(of, interval, margin):
        return None
    if abs(estimate) <= of.limit(margin):
        margin = 0.0
    side, of_medians, of_means = (
        _side(of, each, margin) for each in (interval, *(average.interval for average in averages))
    )
    if not side or (side in (of_medians, of_means) and of_medians in (side, None)):
        return None
    name = "ratio" if of.scale is Scale.RATIO else "difference"
    medians, means = map(_ends, averages)
    return f"the {name} of medians is {medians}, that of means {means}", side == of_means and of_medians == 0


def _side(of: Scaled, interval: Interval | None, margin: float) -> int | None:
    """Return on which side of no effect an interval lies: -1 or 1; 0 if it is inside the margin, None without either."""
    if interval is None:
        return None
    if mean_inside(of, interval, margin):
        return 0
    none = 1.0 if of.scale is Scale.RATIO else 0.0
    return (1 if interval.low > none else -1) if interval.excludes(none) else None


def median_fields(medians: AverageEffect | None) -> dict[str, Any]:
    """Return the fields that comparisons, indices and effects have of their medians; none without any."""
    if medians is None:
        return {}
    low, high = (None, None) if medians.interval is None else (medians.interval.low, medians.interval.high)
    return {"median_effect": medians.effect, "median_low": low, "median_high": high}


def _ends(average: AverageEffect) -> str:
    """Return an effect with its interval."""
    ends = "" if average.interval is None else f" ({average.interval.low:.4g} to {average.interval.high:.4g})"
    return f"{average.effect:.4g}{ends}"


def verdict_with_tail(
    row: Row, found: Comparison, mean: AverageEffect, margin: float, tail_alpha: float
) -> tuple[Verdict, str]:
    """Return the verdict and its reason from the median's verdict, the means, the tail, and what the runs could have shown.

    Args:
        row: what was measured.
        found: the comparison of its medians.
        mean: the effect on the mean.
        margin: relative size of an effect that is of no interest.
        tail_alpha: level of the test of the means.
    """
    inside = mean.interval is not None and mean_inside(row, mean.interval, margin)
    tail, suspected = None, None
    if row.tail is not None and not inside:
        direction = Verdict.BETTER if row.tail[1] == (row.metric.better is Direction.HIGHER) else Verdict.WORSE
        tail = direction if row.tail[0] <= tail_alpha else None
        suspected = direction if row.tail[0] <= max(tail_alpha, OPPOSITE_ALPHA) else None
    if found.verdict in (Verdict.BETTER, Verdict.WORSE):
        if suspected in (None, found.verdict):
            return found.verdict, found.reason
        return Verdict.MIXED, f"the median is {found.verdict.value}, and {_mean_text(row, mean)}"
    if tail is not None:
        median = "the same median" if found.verdict is Verdict.EQUIVALENT else "the median is undecided"
        return Verdict.WORSE_TAIL if tail is Verdict.WORSE else Verdict.BETTER_TAIL, (
            f"{median}, and {_mean_text(row, mean)}"
        )
    if found.verdict is Verdict.EQUIVALENT:
        missing = "; ".join(_missing(row, mean, inside))
        return (Verdict.SAME_MEDIAN, f"same median; {missing}") if missing else (Verdict.EQUIVALENT, "")
    return found.verdict, found.reason


def _missing(row: Row, mean: AverageEffect, inside: bool) -> list[str]:
    """Return what a row with the same median lacks to be equivalent."""
    found = []
    slow = "slow" if row.metric.quantity in (Quantity.TIME, Quantity.RATE) else "separate"
    if not inside:
        found.append(f"{_mean_text(row, mean)}, which reaches beyond the margin")
    if rarest_mode(row.observed_runs) > RAREST_MODE:
        found.append(
            f"{row.observed_runs} {row.unit} would miss a {slow} mode of up to {100 * rarest_mode(row.observed_runs):.2g} % "
            f"of the {row.unit}: {runs_needed()} are needed"
        )
    if row.must_last and (row.observed_s is None or row.observed_s < LEAST_S):
        # 9.96 s is not rounded to the text of the limit.
        known = "an unknown time" if row.observed_s is None else f"{min(row.observed_s, 0.99 * LEAST_S):.2g} s"
        found.append(f"the runs span {known}: {LEAST_S:.0f} s are needed")
    return found


def _mean_text(row: Row, mean: AverageEffect) -> str:
    """Return a clause with the effect on the mean."""
    if mean.interval is None:
        return "the mean is too uncertain for an interval"
    ends = f"{mean.interval.low:.4g} to {mean.interval.high:.4g}"
    if row.scale is Scale.RATIO:
        return f"the mean is {mean.effect:.4g} times the baseline's ({ends})"
    return f"the mean differs by {mean.effect:.4g} ({ends})"


def mean_inside(of: Scaled, interval: Interval, margin: float) -> bool:
    """Return whether an interval of the effect on the mean lies inside the margin."""
    if of.scale is Scale.RATIO:
        return 1 / (1 + margin) <= interval.low and interval.high <= 1 + margin
    limit = of.limit(margin)
    return -limit <= interval.low and interval.high <= limit


def bounds(row: Row, margin: float) -> Interval | None:
    """Return the range of the pairs' log ratios where so few pairs suffice for a verdict: one sign, and sides far apart.

    If each pair's sign is a fair coin, all signs are equal with the probability 2 / 2^n, so the range's confidence is one less that.
    Noise can be much larger than that on single rows; therefore all values of one side must be far from all values of the other.

    Args:
        row: with at least one pair.
        margin: on the virtual clock the smallest distance of five or more replicates.
    """
    n = row.before.size
    if row.scale is not Scale.RATIO or n < min(SEPARATION):
        return None
    apart, virtual = row.effects, row.unit == "replicates"
    needed = SEPARATION_OF_REPLICATES.get(n, 1 + margin) if virtual else separation_needed(n)
    first, second = (row.before, row.after) if apart[0] > 0 else (row.after, row.before)
    if float(np.log(second.min()) - np.log(first.max())) < math.log(needed) or needed <= 1:
        return None
    return Interval(float(apart.min()), float(apart.max()))


def separation_needed(pairs: int) -> float:
    """Return the factor by which the sides must be apart on the wall clock for a bound; infinite for too few pairs."""
    return math.inf if pairs < min(SEPARATION) else SEPARATION.get(pairs, LEAST_SEPARATION)


def verdict_of(interval: Interval, limit: float, better: Direction, least: float = 0.0) -> Verdict:
    """Return the verdict that follows from an interval.

    Args:
        interval: of the log ratio or of the difference; 0 means no difference.
        limit: the largest effect inside the margin, on the same scale.
        better: which direction is better.
        least: the smallest difference that is one, on that scale: of exact values three floors.

    Returns:
        Equivalent if the whole interval lies inside the margin, even if it excludes 0: such an effect is significant and too
        small to matter. Otherwise better, worse or changed if it excludes 0 and what is no difference, else inconclusive.
    """
    if -limit <= interval.low and interval.high <= limit:
        return Verdict.EQUIVALENT
    if interval.low <= least and interval.high >= -least:
        return Verdict.INCONCLUSIVE
    if better is Direction.NEITHER:
        return Verdict.CHANGED
    lower = interval.high < 0
    return Verdict.BETTER if lower == (better is Direction.LOWER) else Verdict.WORSE


def _shown(row: Row, value: float) -> float:
    """Convert an effect from the scale of inference to a ratio or a difference."""
    if row.constant and row.scale is Scale.RATIO:
        return float(row.after[0] / row.before[0])
    return _converted(row, value)


def _converted(row: Row, value: float) -> float:
    return math.exp(min(value, LARGEST_LOGARITHM)) if row.scale is Scale.RATIO else value


def verdict_and_reason(
    inference: Inference | None,
    alpha: float,
    limit: float,
    better: Direction,
    too_few: str,
    *,
    what: str = "difference",
    exact: ExactEffects | None = None,
) -> tuple[Verdict, str]:
    """Return the verdict, and why it is inconclusive, or the figure of a difference below the margin.

    Args:
        inference: on the effects; None without any.
        alpha: 1 - confidence of its interval.
        limit: as of `verdict_of`, like the next one.
        better: which direction is better.
        too_few: why there is no interval.
        what: 0 means that there is none of it.
        exact: the effects if they are exact.
    """
    if exact is not None and isinstance(inference, KnownCentre):
        verdict = verdict_of(exact.range, limit, better, exact.threshold)
        if verdict is Verdict.EQUIVALENT and exact.sign:
            return Verdict.BELOW_MARGIN, f"different, below the margin: {exact.figures}"
        return verdict, exact.undecided if verdict is Verdict.INCONCLUSIVE else ""
    interval = None if inference is None else inference.interval(alpha)
    if interval is None:
        return Verdict.INCONCLUSIVE, too_few
    verdict = verdict_of(interval, limit, better, 0.0 if exact is None else exact.three_floors)
    return verdict, undecided_reason(interval, what) if verdict is Verdict.INCONCLUSIVE else ""


def undecided_reason(interval: Interval, what: str = "difference") -> str:
    """Return why an interval is inconclusive that contains 0, or else what is no difference."""
    if interval.excludes(0.0):
        return "the interval contains differences within three floors"
    sides = [name for name, reaches in (("smaller", interval.low < 0), ("larger", interval.high > 0)) if reaches]
    return f"the interval contains both no {what} and one outside the margin ({' or '.join(sides)})"
