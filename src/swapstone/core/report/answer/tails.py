# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a median does not show, in words: means, 90th percentiles, slowest runs, slow modes, and bounds from few pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from swapstone.core.model import NO_NUMBERS, TAIL_DIFFERS, Comparison, Direction, Quantity, Scale, Verdict
from swapstone.core.report import formatting
from swapstone.core.report.answer import wording
from swapstone.core.report.verdict_groups import MEDIAN_ONLY

SLOW_MODE = 0.05
"""The share of slow runs that an equivalent row excludes."""
OPPOSITE = "a median and a mean that differ in opposite directions"
_FAR = 1.5
"""A 90th percentile is printed in a short report if its ratio differs from the median's by this factor."""
_ENOUGH = 10
"""Runs of a side from which on its 90th percentile is not its maximum."""


def median_only(rows: Sequence[Comparison]) -> bool:
    """Return whether the mean of a row differs, or is not shown to be the same, where its median is the same or undecided."""
    return any(row.verdict in MEDIAN_ONLY for row in rows)


def limit_of(rows: Sequence[Comparison], margin: float) -> str:
    """Return what rows with the same median leave open, as a clause; empty without such rows.

    For example: slow modes rarer than 18 % of runs are not excluded. If a mean is outside the margin, it is named.

    Args:
        rows: of which those with the verdict `SAME_MEDIAN` count.
        margin: of the experiment.
    """
    found = [row for row in rows if row.verdict is Verdict.SAME_MEDIAN]
    if not found:
        return ""
    far = max(found, key=_mean_distance)
    if _mean_distance(far) > math.log1p(margin):
        whose = "its mean" if len(rows) == 1 else f"the mean of {formatting.safe(far.workload)}"
        return f"{whose} is {average_text(far)}, undecided"
    rarest = max((row.rarest_mode for row in found if row.rarest_mode is not None), default=0.0)
    if rarest > SLOW_MODE:
        return f"slow modes rarer than {wording.percent(rarest)} of runs are not excluded"
    if not all(_mean_inside(row, margin) for row in found):
        return "its mean is not shown to be the same" if len(rows) == 1 else "not all means are shown to be the same"
    spans = [row.observed_s for row in found if row.observed_s is not None]
    return f"the runs span {formatting.digits(min(spans), 2)} s only" if spans else "rare slow runs are not excluded"


def short_limit(row: Comparison, margin: float) -> str:
    """Return the same of a single row in few words, for a cell: ``mean 1.12 times (0.98 to 1.30)``, ``modes below 18 %``."""
    if _mean_distance(row) > math.log1p(margin):
        return f"mean {average_text(row)}"
    if row.rarest_mode is not None and row.rarest_mode > SLOW_MODE:
        return f"modes below {wording.percent(row.rarest_mode)}"
    return "mean undecided" if not _mean_inside(row, margin) else ""


def _mean_distance(row: Comparison) -> float:
    """Return the absolute logarithm of a row's ratio of means; 0 without one."""
    known = row.scale is Scale.RATIO and row.mean_effect is not None and row.mean_effect > 0
    return abs(math.log(row.mean_effect or 1.0)) if known else 0.0


def _mean_inside(row: Comparison, margin: float) -> bool:
    """Return whether the interval of a row's means is within the margin; a difference is taken for one that is."""
    inside = 1 / (1 + margin) <= (row.mean_low or 0.0) and (row.mean_high or math.inf) <= 1 + margin
    return inside or row.scale is not Scale.RATIO


def clauses(rows: Sequence[Comparison]) -> list[str]:
    """Return how many rows differ in the tail, or in median and mean in opposite directions: ``2 of 12 have a slower tail``.

    Of a single row, the clause has its figures: ``its tail is slower: mean 1.45 times, p90 12 ms against 3 ms``.
    """
    times = all(row.metric.quantity is Quantity.TIME and row.metric.better is Direction.LOWER for row in rows)
    worse, better = ("slower", "faster") if times else ("worse", "better")
    words = {Verdict.WORSE_TAIL: f"a {worse} tail", Verdict.BETTER_TAIL: f"a {better} tail", Verdict.MIXED: OPPOSITE}
    if len(rows) == 1 and rows[0].verdict in words:
        own = {Verdict.WORSE_TAIL: f"its tail is {worse}", Verdict.BETTER_TAIL: f"its tail is {better}"}
        what = own.get(rows[0].verdict, "median and mean differ in opposite directions")
        return [": ".join(filter(None, (what, ", ".join(_figures(rows[0])))))]
    return [
        f"{number} of {len(rows)} {'has' if number == 1 else 'have'} {words[verdict]}"
        for verdict, number in {verdict: sum(row.verdict is verdict for row in rows) for verdict in words}.items()
        if number
    ]


def detail(row: Comparison) -> str:
    """Return mean, 90th percentile and slowest run of a row, candidate against baseline; empty without them, and of exact differences.

    For example: same median; mean 1.45 times (1.20 to 1.80), p90 12 ms against 3 ms, slowest 210 ms against 3.3 ms.
    """
    figures = "" if row.verdict in NO_NUMBERS or formatting.is_exact(row) else ", ".join(_figures(row))
    return "" if not figures else ("same median; " if row.verdict is Verdict.SAME_MEDIAN else "") + figures


def _figures(row: Comparison) -> list[str]:
    before, after = row.baseline_runs, row.candidate_runs
    parts = [f"mean {mean}"] if (mean := average_text(row)) else []
    if before is not None and after is not None:
        unit = row.metric.unit
        # Of a rate, the high values are the fast ones.
        last = "slowest" if row.metric.quantity is Quantity.TIME else "largest"
        for name, new, old in (("p90", after.p90, before.p90), (last, after.maximum, before.maximum)):
            parts.append(f"{name} {_quantity(new, unit)} against {_quantity(old, unit)}")
    return parts


def average_text(row: Comparison, of: Literal["mean", "median"] = "mean") -> str:
    """Return the ratio of means or medians with its interval, ``1.45 times (1.20 to 1.80)`` with a dash, or their difference.

    It has the digits that its interval has, and is empty without an effect.
    """
    effect, low, high = (getattr(row, f"{of}_{name}") for name in ("effect", "low", "high"))
    if effect is None:
        return ""
    times = " times" if row.scale is Scale.RATIO else ""
    width = 0.0 if low is None or high is None else max(0.0, (high - low) / 2)
    shown = [formatting.safe(formatting.effect(each, row, width)) for each in (effect, low, high) if each is not None]
    dash = "–" if row.scale is Scale.RATIO else " to "  # noqa: RUF001 - a dash between numbers
    between = dash.join(shown[1:]) if len(shown) == 3 else "" if row.exact else "no interval"
    return f"{shown[0]}{times}" + (f" ({between})" if between else "")


def opposed(row: Comparison) -> str:
    """Return what explains medians that point in the other direction than the effect; empty where they don't.

    The effect is that of pairs, runs of the same block. If values change more between blocks than between the sides, the medians of
    all values of each side may differ in the other direction. Records by the first rules have no interval of theirs, so no number is
    printed. Exact differences have a direction in all pairs, or none.
    """
    medians = row.medians
    if (
        row.scale is not Scale.RATIO
        or row.effect is None
        or medians is None
        or min(medians) <= 0
        or formatting.is_exact(row)
    ):
        return ""
    of_medians = row.median_effect or medians[1] / medians[0]
    if (of_medians - 1) * (row.effect - 1) >= 0:
        return ""
    text = average_text(row, "median")
    which = f"that of the medians is {text}" if text else "the medians differ in the other direction"
    return f"ratio of runs of the same block; {which}"


def _quantity(value: float, unit: str) -> str:
    """Return a value with its unit, which may come from outside."""
    return formatting.safe(formatting.quantity(value, unit))


def matters(row: Comparison, margin: float) -> bool:
    """Return whether a short report prints mean and tail of a row: where they differ from the median.

    That is a verdict about the tail, a mean outside the margin beside a median inside it, or a 90th percentile whose ratio is far from
    the median's.
    """
    if row.verdict in TAIL_DIFFERS or row.verdict is Verdict.MIXED:
        return True
    if row.verdict in NO_NUMBERS or row.scale is not Scale.RATIO or row.exact:
        return False
    if row.verdict is Verdict.SAME_MEDIAN and _mean_distance(row) > math.log1p(margin):
        return True
    before, after, effect = row.baseline_runs, row.candidate_runs, row.effect
    if before is None or after is None or effect is None or min(before.runs, after.runs) < _ENOUGH:
        return False
    if min(before.p90, after.p90, effect) <= 0:
        return False
    return abs(math.log(after.p90 / before.p90 / effect)) > math.log(_FAR)


def bound(row: Comparison) -> str:
    """Return a bounded row's statement, e.g. ``at least 470 times in each of 5 pairs (93.8 %)``; empty for another row."""
    if not row.bounded or row.effect is None or row.low is None or row.high is None:
        return ""
    ratio = row.scale is Scale.RATIO
    more = row.effect > (1.0 if ratio else 0.0)
    nearest = row.low if more else row.high
    number = f"{formatting.digits(nearest)} times" if ratio else formatting.safe(formatting.effect(nearest, row))
    pairs = len(row.baseline_values)
    where = f"in each of {pairs} pairs" if pairs > 1 else "in one pair"
    return f"at {'least' if more else 'most'} {number} {where} ({formatting.digits(row.confidence * 100, 3)} %)"


def carry_over_text(row: Comparison) -> str:
    """Return how a row's runs depend on what ran before them, with the four conditional means; empty where that was not tested."""
    each = row.carry_over
    if each is None:
        return ""
    unit = row.metric.unit
    sides = (
        (row.baseline.short_label, each.baseline_after_itself, each.baseline_after_other),
        (row.candidate.short_label, each.candidate_after_itself, each.candidate_after_other),
    )
    means = "; ".join(
        f"{formatting.safe(name)} {_quantity(own, unit)} after itself and {_quantity(other, unit)} after the other"
        for name, own, other in sides
    )
    p_value = formatting.digits(each.p_value, 2)
    return (
        f"Geometric means by what ran before: {means} (a change of {formatting.ratio(each.effect)} times, p {p_value})."
    )
