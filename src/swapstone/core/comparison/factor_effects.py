# SPDX-License-Identifier: MIT OR Apache-2.0
"""Judge the estimates of factorial contrasts: verdicts, interactions, and which effects depend on other factors."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from swapstone.core.comparison.caveats import DIFFERENT
from swapstone.core.comparison.contrast_estimates import Estimate, Numbers
from swapstone.core.comparison.error_rate import ErrorRates
from swapstone.core.comparison.factorial_contrasts import Kind
from swapstone.core.comparison.verdicts import too_few_pairs_reason, undecided_reason, verdict_of
from swapstone.core.model import (
    CURRENT_RULES,
    Direction,
    FactorEffect,
    Interaction,
    LevelChange,
    Presence,
    Quantity,
    Scale,
    Verdict,
)
from swapstone.core.stats import Interval

Place = tuple[str, str, str, str]
"""(suite, workload, load, metric)"""

Gap = tuple[Place, LevelChange, tuple[str, str]]
"""(where, the change, the (factor, level) that is held)."""


@dataclasses.dataclass(frozen=True)
class FactorialEffects:
    """Effects and interactions of crossed factors, as `Analysis` holds them."""

    effects: tuple[FactorEffect, ...]
    interactions: tuple[Interaction, ...]


def judged(estimates: Sequence[Estimate], *, rates: ErrorRates, margin: float, rules: int) -> FactorialEffects:
    """Judge every estimate at its corrected level, and relate main effects to interactions.

    Args:
        estimates: all of the experiment.
        rates: with the hypotheses of all estimates.
        margin: relative size of an effect that is of no interest.
        rules: of the experiment. By the current ones effects inside the margin are no more than the same median, as means are not examined.
    """
    level = {id(each): rates.level(each.family) if each.inference is not None else rates.plain for each in estimates}
    effects = {
        kind: [_effect(each, level[id(each)], margin, rules) for each in estimates if each.contrast.kind is kind]
        for kind in (Kind.MAIN, Kind.SIMPLE)
    }
    gaps = {
        (_place(effect), effect.change, effect.held[0]): effect
        for effect in effects[Kind.SIMPLE]
        if len(effect.held) == 1
    }
    interactions = tuple(
        _interaction(each, level[id(each)], margin, gaps)
        for each in estimates
        if each.contrast.kind is Kind.INTERACTION
    )
    main = _marked(effects[Kind.MAIN], interactions)
    return FactorialEffects((*main, *effects[Kind.SIMPLE]), interactions)


def _place(estimate: FactorEffect | Interaction) -> Place:
    return estimate.suite, estimate.workload, estimate.load, estimate.metric.name


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


def _effect(estimate: Estimate, alpha: float, margin: float, rules: int) -> FactorEffect:
    inferred = _inferred(estimate, alpha)
    verdict, reason = estimate.exclusion or _verdict(inferred, margin, estimate.metric.better)
    if verdict is Verdict.EQUIVALENT and rules >= CURRENT_RULES and estimate.metric.quantity is not Quantity.SIZE:
        verdict, reason = Verdict.SAME_MEDIAN, "same median; the means of effects are not examined"
    # Not reported for simple effects, and costly for so many.
    open_still = verdict is Verdict.INCONCLUSIVE and estimate.contrast.kind is Kind.MAIN
    return FactorEffect(
        suite=estimate.suite,
        workload=estimate.workload,
        load=estimate.load,
        metric=estimate.metric,
        change=estimate.contrast.changes[0],
        held=estimate.contrast.held,
        averaged=tuple(term.averaged for term in estimate.terms),
        missing=estimate.missing,
        workloads=estimate.workloads,
        blocks=inferred.blocks,
        scale=inferred.scale,
        effect=inferred.shown(inferred.middle),
        low=inferred.shown(inferred.low),
        high=inferred.shown(inferred.high),
        confidence=1 - alpha,
        p_value=inferred.p_value,
        smallest_visible=inferred.shown(_smallest(estimate, alpha)) if open_still else None,
        exact=inferred.exact,
        verdict=verdict,
        reason=reason,
        preferred=estimate.preferred,
    )


def _interaction(estimate: Estimate, alpha: float, margin: float, gaps: Mapping[Gap, FactorEffect]) -> Interaction:
    inferred = _inferred(estimate, alpha)
    change, by = estimate.contrast.changes
    presence, reason = (
        (Presence.UNAVAILABLE, estimate.exclusion[1]) if estimate.exclusion else _presence(inferred, margin)
    )
    if estimate.exclusion and estimate.exclusion[0] is Verdict.INCONCLUSIVE:
        presence = Presence.UNDECIDED
    numbers = estimate.numbers
    without, within = (
        (None, None) if numbers is None else (numbers.middle(numbers.without), numbers.middle(numbers.within))
    )
    place = estimate.suite, estimate.workload, estimate.load, estimate.metric.name
    gap = gaps.get((place, change, (by.factor, by.baseline)))
    return Interaction(
        suite=estimate.suite,
        workload=estimate.workload,
        load=estimate.load,
        metric=estimate.metric,
        change=change,
        by=by,
        averaged=tuple(term.averaged for term in estimate.terms),
        missing=estimate.missing,
        workloads=estimate.workloads,
        blocks=inferred.blocks,
        scale=inferred.scale,
        effect=inferred.shown(inferred.middle),
        low=inferred.shown(inferred.low),
        high=inferred.shown(inferred.high),
        confidence=1 - alpha,
        p_value=inferred.p_value,
        smallest_visible=inferred.shown(_smallest(estimate, alpha)) if presence is Presence.UNDECIDED else None,
        exact=inferred.exact,
        without=inferred.shown(without),
        within=inferred.shown(within),
        closed=closed_share(presence, gap, without, within),
        presence=presence,
        reason=reason,
        preferred=estimate.preferred,
    )


@dataclasses.dataclass(frozen=True)
class Inference:
    """Inference on an estimate at one level, on the scale of inference; all None without values."""

    numbers: Numbers | None
    blocks: int
    scale: Scale
    middle: float | None
    interval: Interval | None
    alpha: float

    @property
    def low(self) -> float | None:
        """Return the lower end of the interval."""
        return None if self.interval is None else self.interval.low

    @property
    def high(self) -> float | None:
        """Return the upper end of the interval."""
        return None if self.interval is None else self.interval.high

    @property
    def exact(self) -> bool:
        """Return whether the value is constant, so that no inference was needed."""
        return self.numbers is not None and self.numbers.constant

    @property
    def p_value(self) -> float | None:
        """Return the uncorrected p-value of no effect."""
        inference = None if self.numbers is None else self.numbers.inference
        return None if inference is None else inference.p_value

    def shown(self, value: float | None) -> float | None:
        """Convert a value from the scale of inference to a ratio or a difference."""
        return value if value is None or self.scale is Scale.DIFFERENCE else math.exp(value)


def _inferred(estimate: Estimate, alpha: float) -> Inference:
    numbers = estimate.numbers
    if numbers is None:
        return Inference(None, 0, Scale.RATIO, None, None, alpha)
    middle, interval = numbers.middle(numbers.values), numbers.interval(alpha)
    return Inference(numbers, numbers.values.size, numbers.scale, middle, interval, alpha)


def _verdict(inferred: Inference, margin: float, better: Direction) -> tuple[Verdict, str]:
    assert inferred.numbers is not None, "an estimate without values has an exclusion"
    if inferred.interval is None:
        return Verdict.INCONCLUSIVE, too_few_pairs_reason(inferred.alpha, inferred.blocks)
    verdict = verdict_of(inferred.interval, inferred.numbers.limit(margin), better)
    return verdict, undecided_reason(inferred.interval) if verdict is Verdict.INCONCLUSIVE else ""


def _presence(inferred: Inference, margin: float) -> tuple[Presence, str]:
    """Return whether there is an interaction. The rule is that of verdicts, without a better direction."""
    verdict, reason = _verdict(inferred, margin, Direction.NEITHER)
    names = {Verdict.CHANGED: Presence.PRESENT, Verdict.EQUIVALENT: Presence.ABSENT}
    if verdict in names:
        return names[verdict], ""
    return Presence.UNDECIDED, undecided_reason(inferred.interval, "interaction") if inferred.interval else reason


def _smallest(estimate: Estimate, alpha: float) -> float | None:
    return None if estimate.inference is None else estimate.inference.smallest_visible(alpha)


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
    if presence is not Presence.PRESENT or gap is None or gap.verdict not in DIFFERENT or not without or within is None:
        return None
    return 1 - within / without
