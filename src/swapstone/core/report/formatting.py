# SPDX-License-Identifier: MIT OR Apache-2.0
"""Numbers with units, ratios, times, and text from outside, for every output format."""

from __future__ import annotations

import datetime

from swapstone.core.model import IDLE, Comparison, FactorEffect, Interaction, Scale
from swapstone.core.model.number_text import digits, exact_effect, fixed, percent, quantity, ratio, trimmed
from swapstone.core.model.safe_text import safe

__all__ = [
    "count",
    "digits",
    "effect",
    "estimate",
    "exact_effect",
    "fixed",
    "interval",
    "moment",
    "narrower",
    "percent",
    "place",
    "quantity",
    "ratio",
    "ratio_interval",
    "safe",
    "smallest",
    "span",
    "trimmed",
]

Judged = Comparison | FactorEffect | Interaction
"""A result with a metric, an effect, its scale and its interval."""


def effect(value: float, comparison: Judged, width: float | None = None) -> str:
    """Return an effect (or a bound of its interval) of a comparison, on the comparison's scale, with the digits that its interval has.

    Args:
        value: the effect or bound.
        comparison: of it.
        width: half the width of another interval that decides the digits; None for that of the comparison.
    """
    if is_exact(comparison):
        return exact_effect(value, "" if comparison.scale is Scale.RATIO else comparison.metric.unit)
    width = _width(comparison) if width is None else width
    if comparison.scale is Scale.RATIO:
        return ratio(value, width)
    text = quantity(value, comparison.metric.unit, width)
    return text if comparison.scale is Scale.VALUE or value < 0 or text.startswith("0") else f"+{text}"


def is_exact(comparison: Judged) -> bool:
    """Return whether a comparison is judged without statistics, and its effect has a sign and four digits."""
    return comparison.exact and comparison.floor is not None


def _width(comparison: Judged) -> float:
    """Return the smaller distance from an effect to a bound of its interval; 0 without an interval."""
    if comparison.low is None or comparison.high is None:
        return 0.0
    middle = comparison.effect if comparison.effect is not None else (comparison.low + comparison.high) / 2
    return narrower(middle, comparison.low, comparison.high)


def narrower(middle: float, low: float, high: float) -> float:
    """Return the smaller distance above 0 from a number to its bounds; 0 without one."""
    return min((side for side in (middle - low, high - middle) if side > 0), default=0.0)


_FEWEST_PAIRS = 2
"""So many have a range."""

BOUNDED = "*"
"""Stands behind an interval that is the range of few pairs (`Comparison.bounded`); a footnote explains it."""


def interval(comparison: Judged) -> str:
    """Return a comparison's interval as two bounds with a dash, or an empty text without one. `BOUNDED` marks a range of few pairs."""
    if comparison.low is None or comparison.high is None:
        return ""
    dash = " to " if comparison.scale is not Scale.RATIO or is_exact(comparison) else "–"  # noqa: RUF001 - a dash between numbers
    mark = BOUNDED if isinstance(comparison, Comparison) and comparison.bounded else ""
    low, high = effect(comparison.low, comparison), effect(comparison.high, comparison)
    if comparison.scale is Scale.VALUE and len({text.partition(" ")[2] for text in (low, high)}) == 1:
        low, high = low.partition(" ")[0], high.partition(" ")[0]
    return "" if low == high and comparison.exact else f"{low}{dash}{high}{mark}"


def pair_range(comparison: Comparison) -> str:
    """Return the lowest and the highest ratio of a comparison's pairs, with their number; empty with fewer than two, or without ratios."""
    pairs = tuple(zip(comparison.baseline_values, comparison.candidate_values, strict=False))
    if comparison.scale is not Scale.RATIO or len(pairs) < _FEWEST_PAIRS or min(map(min, pairs)) <= 0:
        return ""
    ratios = [after / before for before, after in pairs]
    low, high = (ratio(each, max(ratios) - min(ratios)) for each in (min(ratios), max(ratios)))
    return f"{low} to {high} in {len(pairs)} pairs"


def estimate(comparison: Judged) -> str:
    """Return a comparison's effect with its interval, e.g. ``1.134 (1.120–1.150)``; empty without an effect."""  # noqa: RUF002 - a dash between numbers
    if comparison.effect is None:
        return ""
    bounds = interval(comparison)
    return effect(comparison.effect, comparison) + (f" ({bounds})" if bounds else "")


def ratio_interval(value: float, low: float | None, high: float | None) -> str:
    """Return a ratio with its interval, e.g. ``1.134 (1.120–1.150)``; alone where both bounds are the ratio."""  # noqa: RUF002 - a dash between numbers
    if low is None or high is None:
        return f"{ratio(value)} (no interval)"
    words = [ratio(each, narrower(value, low, high)) for each in (value, low, high)]
    return words[0] if low == high else f"{words[0]} ({words[1]}–{words[2]})"  # noqa: RUF001 - a dash between numbers


def smallest(comparison: Judged) -> str:
    """Return the minimum detectable effect as ``3.1 %`` or in the metric's unit; empty where unknown."""
    value = comparison.smallest_visible
    if value is None:
        return ""
    return percent(value - 1) if comparison.scale is Scale.RATIO else quantity(value, comparison.metric.unit)


def moment(unix_ns: int) -> str:
    """Return a time in UTC to the minute, or ``unknown`` for 0."""
    if not unix_ns:
        return "unknown"
    return datetime.datetime.fromtimestamp(unix_ns / 1e9, tz=datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def span(nanoseconds: int) -> str:
    """Return a duration as ``2 min 3 s``."""
    minutes, seconds = divmod(round(nanoseconds / 1e9), 60)
    parts = [(minutes // 60, "h"), (minutes % 60, "min"), (seconds, "s")]
    return " ".join(f"{number} {name}" for number, name in parts if number) or "0 s"


def count(number: int, one: str, many: str = "") -> str:
    """Return ``1 block`` or ``2 blocks``."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def place(name: str, load: str) -> str:
    """Return a suite or a workload, with the load unless that is ``idle``."""
    return name if load == IDLE.name else f"{name}, load {load}"
