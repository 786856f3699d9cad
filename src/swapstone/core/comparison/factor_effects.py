# SPDX-License-Identifier: MIT OR Apache-2.0
"""Judge the estimates of factorial contrasts: verdicts, interactions, and which effects depend on other factors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from swapstone.core.comparison.contrast_estimates import Estimate, Measured
from swapstone.core.comparison.factorial_contrasts import Kind
from swapstone.core.comparison.rows import ErrorRates
from swapstone.core.comparison.verdicts import TooFew, against_direction, median_fields, verdict_and_reason
from swapstone.core.model import (
    CONTRAST_RULES,
    DECIDED,
    TAIL_RULES,
    WITHOUT_DIRECTION,
    Direction,
    FactorEffect,
    Interaction,
    LevelChange,
    Presence,
    Quantity,
    Scale,
    Verdict,
)
from swapstone.core.stats import KnownCentre, SignedRank

Place = tuple[str, str, str, str]
"""(suite, workload, load, metric)"""

Gap = tuple[Place, LevelChange, tuple[str, str]]
"""(where, the change, the (factor, level) that is held)."""


class _Judging(msgspec.Struct, frozen=True):
    """What all estimates are judged by: arguments of `judged`."""

    margin: float
    rules: int
    too_few: TooFew


_PRESENCES = {
    Verdict.CHANGED: Presence.PRESENT,
    Verdict.EQUIVALENT: Presence.ABSENT,
    Verdict.BELOW_MARGIN: Presence.ABSENT,
}


def judged(
    estimates: Sequence[Estimate], *, rates: ErrorRates, margin: float, rules: int, too_few: TooFew
) -> tuple[tuple[FactorEffect, ...], tuple[Interaction, ...]]:
    """Judge every estimate at its corrected level, and relate main effects to interactions.

    Args:
        estimates: all of the experiment.
        rates: with the hypotheses of all estimates.
        margin: relative size of an effect that is of no interest.
        rules: of the experiment. By the current ones effects inside the margin are no more than the same median, as means are not examined.
        too_few: words why there is no interval.

    Returns:
        The effects and the interactions, as `Analysis` holds them.
    """
    judging = _Judging(margin, rules, too_few)
    level = {
        id(each): rates.level(each.family) if isinstance(each.inference, SignedRank) else rates.plain
        for each in estimates
    }
    effects = {
        kind: [_effect(each, level[id(each)], judging) for each in estimates if each.contrast.kind is kind]
        for kind in (Kind.MAIN, Kind.SIMPLE)
    }
    gaps = {
        (_place(effect), effect.change, effect.held[0]): effect
        for effect in effects[Kind.SIMPLE]
        if len(effect.held) == 1
    }
    interactions = tuple(
        _interaction(each, level[id(each)], judging, gaps)
        for each in estimates
        if each.contrast.kind is Kind.INTERACTION
    )
    main = _marked(effects[Kind.MAIN], interactions)
    return (*main, *effects[Kind.SIMPLE]), interactions


def _place(each: Measured | FactorEffect | Interaction) -> Place:
    return each.suite, each.workload, each.load, each.metric.name


def _marked(effects: Sequence[FactorEffect], interactions: Sequence[Interaction]) -> Iterator[FactorEffect]:
    """Add to each main effect the factors with which it interacts."""
    others: dict[tuple[Place, str], list[str]] = {}
    for each in interactions:
        if each.presence is Presence.PRESENT:
            for one, other in ((each.change, each.by), (each.by, each.change)):
                others.setdefault((_place(each), one.label), []).append(other.factor)
    for effect in effects:
        names = tuple(dict.fromkeys(others.get((_place(effect), effect.change.label), ())))
        yield msgspec.structs.replace(effect, depends_on=names)


def _effect(estimate: Estimate, alpha: float, judging: _Judging) -> FactorEffect:
    metric = estimate.measured.metric
    verdict, reason = estimate.exclusion or _verdict(estimate, alpha, judging, metric.better)
    exact = estimate.judged_exactly or metric.quantity is Quantity.SIZE
    if verdict is Verdict.EQUIVALENT and judging.rules >= TAIL_RULES and not exact:
        verdict, reason = Verdict.SAME_MEDIAN, "same median; the means of effects are not examined"
    # Not reported for simple effects, and costly for so many.
    open_still = verdict is Verdict.INCONCLUSIVE and estimate.contrast.kind is Kind.MAIN
    return FactorEffect(
        **_estimated(estimate, alpha, judging.rules, visible=open_still),
        held=estimate.contrast.held,
        verdict=verdict,
        reason=reason,
    )


def _interaction(estimate: Estimate, alpha: float, judging: _Judging, gaps: Mapping[Gap, FactorEffect]) -> Interaction:
    change, by = estimate.contrast.changes
    if estimate.exclusion:
        inconclusive = estimate.exclusion[0] is Verdict.INCONCLUSIVE
        presence, reason = Presence.UNDECIDED if inconclusive else Presence.UNAVAILABLE, estimate.exclusion[1]
    else:
        # The rule is that of verdicts, without a better direction.
        verdict, reason = _verdict(estimate, alpha, judging, Direction.NEITHER, what="interaction")
        presence = _PRESENCES.get(verdict, Presence.UNDECIDED)
    numbers = estimate.numbers
    without, within = (
        (None, None) if numbers is None else (numbers.middle(numbers.without), numbers.middle(numbers.within))
    )
    place = _place(estimate.measured)
    return Interaction(
        **_estimated(estimate, alpha, judging.rules, visible=presence is Presence.UNDECIDED),
        by=by,
        without=estimate.shown(without),
        within=estimate.shown(within),
        closed=closed_share(presence, gaps.get((place, change, (by.factor, by.baseline))), without, within),
        presence=presence,
        reason=reason,
    )


def _estimated(estimate: Estimate, alpha: float, rules: int, *, visible: bool) -> dict[str, Any]:
    """Return the fields that effects and interactions share; `visible` for the smallest visible one, too."""
    numbers, inference, interval = estimate.numbers, estimate.inference, estimate.shown_interval(alpha)
    measured = estimate.measured
    averages = estimate.averages if rules >= CONTRAST_RULES else None
    return {
        "suite": measured.suite,
        "workload": measured.workload,
        "load": measured.load,
        "metric": measured.metric,
        "change": estimate.contrast.changes[0],
        "averaged": tuple(term.averaged for term in estimate.terms),
        "missing": estimate.missing,
        "workloads": len(estimate.members),
        "blocks": 0 if numbers is None else numbers.values.size,
        "scale": Scale.RATIO if numbers is None else numbers.scale,
        "effect": None if inference is None else estimate.shown(inference.estimate()),
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        **median_fields(None if averages is None else averages[0]),
        "confidence": 1.0 if estimate.judged_exactly else 1 - alpha,
        "p_value": None if inference is None else inference.p_value,
        "smallest_visible": estimate.shown(inference.smallest_visible(alpha)) if visible and inference else None,
        "exact": isinstance(inference, KnownCentre),
        "floor": None if numbers is None or numbers.exact is None else numbers.exact.floor_shown,
        "preferred": measured.preferred,
    }


def _verdict(
    estimate: Estimate, alpha: float, judging: _Judging, better: Direction, *, what: str = "difference"
) -> tuple[Verdict, str]:
    numbers, interval = estimate.numbers, estimate.shown_interval(alpha)
    assert numbers is not None, "an estimate without values has an exclusion"
    few = judging.too_few(alpha, numbers.values.size)
    verdict, reason = verdict_and_reason(
        numbers.inference, alpha, numbers.limit(judging.margin), better, few, what=what, exact=numbers.exact
    )
    known = isinstance(numbers.inference, KnownCentre)
    if judging.rules < CONTRAST_RULES or interval is None or known or estimate.averages is None:
        return verdict, reason
    against = against_direction(numbers, interval, numbers.inference.estimate(), estimate.averages, judging.margin)
    return (Verdict.INCONCLUSIVE, f"{WITHOUT_DIRECTION}: {against[0]}") if against else (verdict, reason)


def closed_share(
    presence: Presence, gap: FactorEffect | None, without: float | None, within: float | None
) -> float | None:
    """Return the share of a gap that a level closes; None without a gap, or if no interaction is present.

    Args:
        presence: of the interaction.
        gap: the effect of the other factor; None if there is none.
        without: that effect without the level, on the scale of inference; None if unknown.
        within: that effect with the level.
    """
    if presence is not Presence.PRESENT or gap is None or gap.verdict not in DECIDED or not without or within is None:
        return None
    return 1 - within / without
