# SPDX-License-Identifier: MIT OR Apache-2.0
"""Comparisons of two sessions: a difference counts only beyond that of the reference program, which no change of the user's reaches.

Two sessions are not interleaved. What differs between them beside the program (the kernel, temperature, where files lie in the page cache)
changes the reference program, too, and the pairs' noise does not contain it. Let [l, h] be the interval of a row's log ratio, and b the
largest magnitude in that of the reference program's same metric. If the session changes the row by at most b in either direction, the
program's own change is in [l - b, h + b]: the sum of two intervals (Moore, Kearfott and Cloud 2009, Introduction to Interval Analysis,
section 2.3). By Bonferroni's inequality both intervals hold with the probability 1 - 2 alpha at least if each has the level alpha, so each
has half of the error (`swapstone.core.comparison.rows.ErrorRates`).

That the session changes other programs by no more than the reference program is an assumption: memory and disks may change otherwise.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from swapstone.core.model import (
    REFERENCE_SUITE,
    Caveat,
    CaveatKind,
    Comparison,
    Quantity,
    Scale,
    Verdict,
)
from swapstone.core.model.number_text import percent

_MEDIAN, _MEAN = "", "mean_"
_BEYOND: dict[Verdict, tuple[str, ...]] = {
    **dict.fromkeys((Verdict.BETTER, Verdict.WORSE, Verdict.CHANGED, Verdict.BELOW_MARGIN), (_MEDIAN,)),
    **dict.fromkeys((Verdict.WORSE_TAIL, Verdict.BETTER_TAIL), (_MEAN,)),
    Verdict.MIXED: (_MEDIAN, _MEAN),
}
"""Which intervals must exclude no difference."""

_INSIDE: dict[Verdict, tuple[str, ...]] = {Verdict.EQUIVALENT: (_MEDIAN, _MEAN), Verdict.SAME_MEDIAN: (_MEDIAN,)}
"""Which must be inside the margin."""


def with_session_effect(rows: Sequence[Comparison], margin: float) -> tuple[Comparison, ...]:
    """Return the comparisons of two sessions, their intervals extended by what the reference program's rows show.

    Rows of the reference program are unchanged. So are rows of a metric that it does not have, unless they are times or rates: those are
    extended by its elapsed time.

    Args:
        rows: all of the analysis.
        margin: relative size of an effect that is of no interest.
    """
    known = {row.metric.name: row for row in rows if row.suite == REFERENCE_SUITE}
    return tuple(row if row.suite == REFERENCE_SUITE else _extended(row, known, margin) for row in rows)


def reference_caveat(rows: Sequence[Comparison]) -> Iterator[Caveat]:
    """Yield how much the reference program's elapsed time differs; nothing without such a row."""
    for row in rows:
        if row.suite == REFERENCE_SUITE and row.metric.name == "wall":
            yield Caveat(
                kind=CaveatKind.OTHER_SESSION,
                message=f"The two sessions are not interleaved. The reference program itself {_differs(row)}: smaller changes are not "
                "attributed to the program.",
                hint="To compare two programs more finely, measure both in one session.",
            )


def _differs(row: Comparison) -> str:
    if row.effect is None or row.low is None or row.high is None or row.scale is not Scale.RATIO:
        return "has too few runs for an interval"
    effect, low, high = (
        f"{'-' if each < 1 else ''}{percent(abs(each - 1))}" for each in (row.effect, row.low, row.high)
    )
    return f"differs by {effect} ({low.removesuffix(' %')} to {high})"


def _extended(row: Comparison, known: Mapping[str, Comparison], margin: float) -> Comparison:
    timed = row.metric.quantity in {Quantity.TIME, Quantity.RATE}
    reference = known.get(row.metric.name) or (known.get("wall") if timed else None)
    if reference is None or row.effect is None or (bound := _bound(reference)) == 0:
        return row
    found = row
    if decided := bound is not None and reference.scale is row.scale:
        names = ("smallest_visible", *(f"{of}{end}" for of in (_MEDIAN, _MEAN, "median_") for end in ("low", "high")))
        moves = {name: -bound if name.endswith("low") else bound for name in names}
        moved = {name: _moved(row, getattr(row, name), by) for name, by in moves.items()}
        found = msgspec.structs.replace(row, **moved, confidence=2 * row.confidence - 1, exact=False)
        decided = _holds(found, margin)
    if decided or row.verdict not in {**_BEYOND, **_INSIDE}:
        return found
    reason = f"not beyond what the session itself changes: the reference program's {reference.metric.name} {_differs(reference)}"
    return msgspec.structs.replace(found, verdict=Verdict.INCONCLUSIVE, reason=reason)


def _moved(row: Comparison, value: float | None, by: float) -> float | None:
    return value if value is None else value * math.exp(by) if row.scale is Scale.RATIO else value + by


def _bound(reference: Comparison) -> float | None:
    """Return the largest magnitude in the reference program's interval, of logarithms of ratios; None without one."""
    if reference.low is None or reference.high is None:
        return None
    ends = reference.low, reference.high
    return max(abs(math.log(end)) if reference.scale is Scale.RATIO else abs(end) for end in ends)


def _holds(row: Comparison, margin: float) -> bool:
    """Return whether a row's verdict follows from its extended intervals."""
    ratio = row.scale is Scale.RATIO
    limit = margin * abs(statistics.median(row.baseline_values or (0.0,)))
    none, least, most = (1.0, 1 / (1 + margin), 1 + margin) if ratio else (0.0, -limit, limit)

    def lies(of: str, *, inside: bool) -> bool:
        low, high = getattr(row, f"{of}low"), getattr(row, f"{of}high")
        known = low is not None and high is not None
        return known and (least <= low and high <= most if inside else low > none or high < none)

    beyond, inside = _BEYOND.get(row.verdict, ()), _INSIDE.get(row.verdict, ())
    return all(lies(of, inside=False) for of in beyond) and all(lies(of, inside=True) for of in inside)
