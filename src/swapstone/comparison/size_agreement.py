# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compare the sizes of two independent records' effects: the ratio of the two ratios, with an interval."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from swapstone.model import Comparison, FrozenStruct, Scale, Verdict
from swapstone.stats import (
    Interval,
    SignedRank,
    common_level,
    difference_of_estimates,
    difference_p_value,
    interval_of_difference,
    log_ratios,
    pairs_needed,
)

Place = TypeVar("Place")

_NOT_MEASURED = (Verdict.INVALID, Verdict.UNAVAILABLE, Verdict.DISTURBED)


class SizeOutcome(enum.Enum):
    """Whether two effects have the same size.

    `AGREE`: the whole interval of their ratio is within the margin. `DIFFER`: it excludes 1 and reaches beyond the margin. `UNDECIDED`:
    neither.
    """

    AGREE = "agree"
    DIFFER = "differ"
    UNDECIDED = "undecided"
    NOT_COMPARABLE = "not comparable"


class SizeAgreement(FrozenStruct, frozen=True, kw_only=True):
    """The second record's effect over the first one's.

    Attributes:
        outcome: whether they agree.
        metric: of both effects; empty if they are not comparable.
        ratio: second ratio over first ratio; None if they are not comparable.
        low, high: its interval; None without one.
        confidence: of the interval, corrected for the number of rows; None without one.
        exact: whether every run of both records gave the same number on each side, so that no inference is needed.
        reason: why there is no interval, or no ratio; empty otherwise.
    """

    outcome: SizeOutcome
    metric: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    exact: bool = False
    reason: str = ""


def not_comparable(reason: str) -> SizeAgreement:
    """Return the outcome of effects that can't be compared."""
    return SizeAgreement(outcome=SizeOutcome.NOT_COMPARABLE, reason=reason)


def sizes(
    pairs: Mapping[Place, tuple[Comparison, Comparison]], names: tuple[str, str], *, margin: float, rate: float
) -> dict[Place, SizeAgreement]:
    """Compare the effects of two independent records.

    The intervals are corrected together, like the rows of a report: Benjamini and Hochberg's procedure (1995), and intervals at the level
    of Benjamini and Yekutieli (2005). Rows without noise on either side are no hypotheses.

    Args:
        pairs: the comparison of each record, of one metric, by row.
        names: of the records.
        margin: relative difference of no interest.
        rate: 1 - confidence, before correction.
    """
    reasons = {place: _obstacle(pair, names) for place, pair in pairs.items()}
    centres = {place: (_centre(pair[0]), _centre(pair[1])) for place, pair in pairs.items() if not reasons[place]}
    tested = [place for place, pair in centres.items() if any(isinstance(one, SignedRank) for one in pair)]
    p_values = [difference_p_value(*centres[place]) for place in tested]
    alpha = common_level(p_values, rate) if p_values else rate
    return {
        place: _judged(centres[place], pair[0].metric.name, margin, alpha)
        if place in centres
        else not_comparable(reasons[place])
        for place, pair in pairs.items()
    }


def _obstacle(pair: Sequence[Comparison], names: Sequence[str]) -> str:
    """Return why two effects have no ratio; empty if they have one."""
    silent = [f"{name}: {found.verdict.value}" for name, found in zip(names, pair, strict=True) if _silent(found)]
    if silent:
        return ", ".join(silent)
    if any(found.scale is not Scale.RATIO for found in pair):
        return "an effect is a difference, not a ratio"
    return ""


def _silent(found: Comparison) -> bool:
    return found.verdict in _NOT_MEASURED or not found.baseline_values or found.effect is None


def _centre(found: Comparison) -> SignedRank | float:
    """Return the logarithm of an exact ratio, else the inference on the pairs."""
    if found.exact:
        return math.log(found.candidate_values[0]) - math.log(found.baseline_values[0])
    return log_ratios(np.array(found.baseline_values), np.array(found.candidate_values))


def _judged(
    centres: tuple[SignedRank | float, SignedRank | float], metric: str, margin: float, alpha: float
) -> SizeAgreement:
    ratio = math.exp(difference_of_estimates(*centres))
    exact = not any(isinstance(one, SignedRank) for one in centres)
    interval = interval_of_difference(*centres, alpha)
    if interval is None:
        fewest = min(one.n for one in centres if isinstance(one, SignedRank))
        reason = f"few pairs: an interval needs {pairs_needed(alpha)} in each record, and one has {fewest}"
        return SizeAgreement(outcome=SizeOutcome.UNDECIDED, metric=metric, ratio=ratio, reason=reason)
    return SizeAgreement(
        outcome=outcome_of(interval, math.log1p(margin)),
        metric=metric,
        ratio=ratio,
        low=math.exp(interval.low),
        high=math.exp(interval.high),
        confidence=None if exact else 1 - alpha,
        exact=exact,
    )


def outcome_of(interval: Interval, limit: float) -> SizeOutcome:
    """Return the outcome of an interval of the logarithm of two effects' ratio; `limit` is the largest logarithm inside the margin."""
    if -limit <= interval.low and interval.high <= limit:
        return SizeOutcome.AGREE
    return SizeOutcome.DIFFER if interval.excludes(0.0) else SizeOutcome.UNDECIDED
