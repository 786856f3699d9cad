# SPDX-License-Identifier: MIT OR Apache-2.0
"""Judge one row of several records: do size and sign agree, does it depend on the clock, is it the same on each board?"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from swapstone.core.comparison.verdicts import verdict_of
from swapstone.core.model import MEDIAN_DIFFERS, NO_NUMBERS, SAME_CENTRE, Comparison, FrozenStruct, Scale, Verdict
from swapstone.core.plan.stopping import pairs_needed
from swapstone.core.stats import (
    Inference,
    Interval,
    KnownCentre,
    SignedRank,
    common_level,
    deviating_units,
    difference_p_value,
    interval_of_difference,
    log_ratios,
    pooled_estimate,
    rejections,
)

BOARDS_ALPHA = 0.05
"""Of the interval over boards: three boards have two degrees of freedom, and 99 % would be 2.3 times as wide."""

_SIGNS = {-1: "less", 0: "the same", 1: "more"}

Place = TypeVar("Place")
Sides = Sequence[Comparison | None]
"""The comparison of each record; None where a record has none."""
Rows = Mapping[Place, Sides]


class Outcome(enum.Enum):
    """What a row shows, from a difference to agreement.

    `VERDICT`: two clocks give different verdicts or signs. `SIZE`: two clocks give the same verdict, but effects of different sizes.
    `OPPOSITE`: two effects have opposite signs. `DIFFER`: the interval of two effects' ratio excludes 1 and reaches beyond the margin; only
    one of two effects is significant; or a board differs from the others. `UNDECIDED`: neither a difference nor its absence is shown.
    `NOT_COMPARABLE`: fewer than two records have a result. `AGREE`: the same verdict or sign, and effects within the margin of each other.
    """

    VERDICT = "verdict depends"
    SIZE = "size depends"
    OPPOSITE = "opposite signs"
    DIFFER = "differ"
    UNDECIDED = "undecided"
    NOT_COMPARABLE = "not comparable"
    AGREE = "agree"


class Judgement(FrozenStruct, frozen=True, kw_only=True):
    """What a row shows.

    Attributes:
        outcome: the word.
        reason: why; empty where nothing is to be explained.
        ratio: the second effect over the first one, or the effect over all boards; None without one.
        low, high: its interval; None without one.
        confidence: of the interval. That of two records is corrected for the number of rows, that over boards is not. None without one.
        exact: whether every run of both records gave the same number on each side, so that no inference is needed.
        spread: standard deviation of the boards' log ratios, without the error of their estimates; None for two records.
        verdict: of the interval over boards; None for two records.
        deviating: numbers of the boards that differ from the others, from 0.
    """

    outcome: Outcome
    reason: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    exact: bool = False
    spread: float | None = None
    verdict: Verdict | None = None
    deviating: tuple[int, ...] = ()


Judged = dict[Place, tuple[Judgement, Judgement | None]]
"""What each row shows, and what its signs or verdicts show."""


def sign_of(comparison: Comparison) -> int | None:
    """Return +1 if the candidate's median is larger, -1 if smaller, 0 if it lies within the margin, None without a verdict on it."""
    if comparison.verdict in SAME_CENTRE:
        return 0
    if comparison.verdict not in MEDIAN_DIFFERS | {Verdict.MIXED} or comparison.effect is None:
        return None
    return 1 if comparison.effect > (1.0 if comparison.scale is Scale.RATIO else 0.0) else -1


def judge_records(rows: Rows[Place], names: Sequence[str], margin: float, rate: float) -> Judged[Place]:
    """Return whether the effects of two records have the same size, and whether they have the same sign.

    Args:
        rows: the comparison of each record.
        names: of the records.
        margin: relative difference of no interest.
        rate: 1 - confidence, before correction.
    """
    return {place: (sized, signs(rows[place], names)) for place, sized in sizes(rows, names, margin, rate).items()}


def signs(sides: Sides, names: Sequence[str]) -> Judgement:
    """Return whether the effects have the same sign: all that are decided are on one side of the margin, or all lie within it."""
    found = [None if side is None else sign_of(side) for side in sides]
    decided = [sign for sign in found if sign is not None]
    words = ["not measured" if side is None else side.verdict.value for side in sides]
    differ, alike = len(set(decided)) > 1, len(set(words)) == 1
    if differ and alike:
        words = [f"{word}, {_SIGNS[sign or 0]}" for word, sign in zip(words, found, strict=True)]
    reason = words[0] if alike and not differ else _by_name(names, words)
    if differ:
        opposite = min(decided) < 0 < max(decided)
        return Judgement(outcome=Outcome.OPPOSITE if opposite else Outcome.DIFFER, reason=reason)
    if len(decided) < 2:
        return Judgement(outcome=Outcome.NOT_COMPARABLE, reason=reason)
    return Judgement(outcome=Outcome.AGREE, reason=reason if len(decided) < len(sides) else "")


def sizes(rows: Rows[Place], names: Sequence[str], margin: float, rate: float) -> dict[Place, Judgement]:
    """Compare the sizes of the effects of two independent records: the ratio of the two ratios, with an interval.

    The intervals are corrected together, like the rows of a report: Benjamini and Hochberg's procedure (1995), and intervals at the level
    of Benjamini and Yekutieli (2005). Rows without noise on either side are no hypotheses.

    Args:
        rows: as of `judge_records`, as are the following.
        names: of the records.
        margin: relative difference of no interest.
        rate: 1 - confidence, before correction.
    """
    reasons = {place: _no_ratio(pair, names) for place, pair in rows.items()}
    centres = {
        place: [_centre(side) for side in pair if side is not None]
        for place, pair in rows.items()
        if not reasons[place]
    }
    noisy = [pair for pair in centres.values() if any(isinstance(one, SignedRank) for one in pair)]
    p_values = [difference_p_value(*pair) for pair in noisy]
    alpha = common_level(p_values, rate) if p_values else rate
    return {
        place: Judgement(outcome=Outcome.NOT_COMPARABLE, reason=reason)
        if reason
        else _sized(centres[place], margin, alpha)
        for place, reason in reasons.items()
    }


def _no_ratio(pair: Sides, names: Sequence[str]) -> str:
    """Return why two effects have no ratio; empty if they have one."""
    silent = [
        f"{name}: {'not measured' if side is None else side.verdict.value}"
        for name, side in zip(names, pair, strict=True)
        if side is None or side.verdict in NO_NUMBERS or not side.baseline_values or side.effect is None
    ]
    ratios = all(side is not None and side.scale is Scale.RATIO for side in pair)
    return ", ".join(silent) or ("" if ratios else "an effect is a difference, not a ratio")


def _centre(side: Comparison) -> Inference:
    """Return the inference on the logarithms of the pairs."""
    if side.exact and side.effect and side.low and side.high:
        return KnownCentre(math.log(side.effect), Interval(math.log(side.low), math.log(side.high)))
    return log_ratios(np.array(side.baseline_values), np.array(side.candidate_values))


def _sized(centres: Sequence[Inference], margin: float, alpha: float) -> Judgement:
    first, second = centres
    ratio = math.exp(second.estimate() - first.estimate())
    interval = interval_of_difference(first, second, alpha)
    pairs = [one.n for one in centres if isinstance(one, SignedRank)]
    if interval is None:
        reason = f"few pairs: an interval needs {pairs_needed(alpha)} in each record, and one has {min(pairs)}"
        return Judgement(outcome=Outcome.UNDECIDED, reason=reason, ratio=ratio)
    return Judgement(
        outcome=outcome_of(interval, math.log1p(margin)),
        ratio=ratio,
        low=math.exp(interval.low),
        high=math.exp(interval.high),
        confidence=1 - alpha if pairs else None,
        exact=not pairs and interval.half_width == 0,
    )


def outcome_of(interval: Interval, limit: float) -> Outcome:
    """Return the outcome of an interval of the logarithm of two effects' ratio; `limit` is the largest logarithm inside the margin."""
    if -limit <= interval.low and interval.high <= limit:
        return Outcome.AGREE
    return Outcome.DIFFER if interval.excludes(0.0) else Outcome.UNDECIDED


def judge_clocks(rows: Rows[Place], names: Sequence[str], margin: float, rate: float) -> Judged[Place]:
    """Return which rows depend on the time of an instruction.

    The virtual clock has one constant: the guest time of an instruction. Work that only executes instructions takes a multiple of it on
    both sides of a ratio, so the ratio does not depend on it. Work that competes with a device, a timer or another clock in guest time
    does: its ratio is a property of the constant too, and no single number may stand for it.

    Sizes are compared with those of the shortest time of an instruction. They differ if every pair's ratio of one record is beyond every
    ratio of the other one by more than the margin: under equal distributions that has the probability 2 / C(n + m, n) for n and m pairs
    (the most extreme outcome of a permutation test of two independent samples), corrected over all rows by Benjamini and Hochberg's
    procedure. They also differ, or agree, by `sizes`, at the rate divided by the number of the other clocks (Bonferroni). Draws of the
    same number on two clocks may be similar, which makes the separation less likely than stated.

    Args:
        rows: the comparison on each clock, the shortest time of an instruction first.
        names: of the clocks.
        margin: relative difference of no interest.
        rate: 1 - confidence, before correction.
    """
    pairs = [{place: (sides[0], sides[n]) for place, sides in rows.items()} for n in range(1, len(names))]
    sized = [sizes(each, ("first", "other"), margin, rate / len(pairs)) for each in pairs]
    p_values = {
        (number, place): separation_p_value(_log_ratios(first), _log_ratios(other), math.log1p(margin))
        for number, each in enumerate(pairs)
        for place, (first, other) in each.items()
        if _positive(first) and _positive(other)
    }
    ordered = sorted(p_values, key=p_values.__getitem__)
    apart = set(ordered[: rejections(list(p_values.values()), rate)])
    found: Judged[Place] = {}
    for place, sides in rows.items():
        outcomes = [
            Outcome.DIFFER if (number, place) in apart else each[place].outcome for number, each in enumerate(sized)
        ]
        found[place] = clock_judgement(sides, outcomes, names), None
    return found


def _log_ratios(side: Comparison | None) -> list[float]:
    pairs = zip(side.baseline_values, side.candidate_values, strict=True) if side is not None else ()
    return [math.log(after) - math.log(before) for before, after in pairs]


def _positive(side: Comparison | None) -> bool:
    """Return whether a side has ratios of positive values."""
    values = () if side is None or side.scale is not Scale.RATIO else (*side.baseline_values, *side.candidate_values)
    return min(values, default=0.0) > 0


def separation_p_value(first: Sequence[float], second: Sequence[float], limit: float) -> float:
    """Return the p-value of two samples that are separate: all of one beyond all of the other by more than a limit; else 1.

    Args:
        first: a sample; an empty one gives 1.
        second: an independent sample; likewise.
        limit: a difference of no interest, at least 0.

    Returns:
        2 / C(n + m, n), at most 1: the probability under one distribution without ties, and an upper bound with ties.
    """
    if not first or not second or max(min(first) - max(second), min(second) - max(first)) <= limit:
        return 1.0
    return min(1.0, 2 / math.comb(len(first) + len(second), len(first)))


def clock_judgement(sides: Sides, outcomes: Sequence[Outcome], names: Sequence[str]) -> Judgement:
    """Return whether a row depends on the clock.

    Args:
        sides: the row on each clock.
        outcomes: whether the size on each other clock is that on the first.
        names: of the clocks.
    """
    found = signs(sides, names)
    if found.outcome is not Outcome.AGREE:
        compared = found.outcome is not Outcome.NOT_COMPARABLE
        return Judgement(outcome=Outcome.VERDICT if compared else found.outcome, reason=found.reason)
    other = [(name, each) for name, each in zip(names[1:], outcomes, strict=True) if each is not Outcome.AGREE]
    if differing := ", ".join(name for name, each in other if each is Outcome.DIFFER):
        return Judgement(outcome=Outcome.SIZE, reason=f"another size at {differing} than at {names[0]}")
    reason = found.reason
    if not reason and not one_scale(sides):
        kinds = _by_name(names, [f"a {side.scale.value}" for side in sides if side is not None])
        reason = f"{kinds} (a baseline of zero has no ratio)"
    elif not reason and other and len({side.effect for side in sides if side is not None}) > 1:
        reason = f"the sizes at {names[0]} and {', '.join(name for name, _ in other)} are not shown to be equal"
    return Judgement(outcome=Outcome.UNDECIDED if reason else Outcome.AGREE, reason=reason)


def _by_name(names: Sequence[str], words: Sequence[str]) -> str:
    return ", ".join(f"{name}: {word}" for name, word in zip(names, words, strict=True))


def one_scale(sides: Sides) -> bool:
    """Return whether the effects of a row can be compared: all are ratios, or all are differences."""
    return len({side.scale for side in sides if side is not None and side.effect is not None}) < 2


def same_verdict(verdicts: Sequence[Verdict | None]) -> bool:
    """Return whether all verdicts are the same; the same median is within the margin, too."""
    return len(set(verdicts)) == 1 or set(verdicts) <= SAME_CENTRE


def judge_boards(rows: Rows[Place], names: Sequence[str], margin: float, rate: float) -> Judged[Place]:
    """Return which boards differ from the others, and whether each has the verdict over all of them.

    Each board is a random draw from the boards of interest. Its estimate is the mean of the log ratios of its pairs, and its standard error
    that of Student's t. docs/statistics.md gives the method. The interval over boards has the level 1 - `BOARDS_ALPHA` and is not corrected
    for the number of rows. The rate of the test of which board differs is divided by that number.

    Args:
        rows: the comparison of positive values on each board, with at least two pairs.
        names: of the boards.
        margin: ratio of two effects that is of no interest.
        rate: 1 - confidence, before correction.
    """
    del names
    found: Judged[Place] = {}
    limit = math.log1p(margin)
    for place, sides in rows.items():
        ratios = [np.array(_log_ratios(side)) for side in sides]
        estimates = [float(each.mean()) for each in ratios]
        variances = [float(each.var(ddof=1)) / each.size for each in ratios]
        pooled = pooled_estimate(estimates, variances, BOARDS_ALPHA)
        known = [side for side in sides if side is not None]
        over = verdict_of(pooled.interval, limit, known[0].metric.better)
        held = same_verdict([*(side.verdict for side in known), over])
        freedoms = [each.size - 1 for each in ratios]
        deviating = deviating_units(estimates, variances, freedoms, rate / len(rows), limit)
        judgement = Judgement(
            outcome=Outcome.DIFFER if deviating else Outcome.AGREE if held else Outcome.UNDECIDED,
            reason=", ".join(f"board {number + 1}" for number in deviating),
            ratio=math.exp(pooled.estimate),
            low=math.exp(pooled.interval.low),
            high=math.exp(min(pooled.interval.high, 700.0)),
            confidence=1 - BOARDS_ALPHA,
            spread=pooled.spread,
            verdict=over,
            deviating=deviating,
        )
        found[place] = judgement, Judgement(outcome=Outcome.AGREE if held else Outcome.DIFFER)
    return found
