"""From estimates of crossed factors' contrasts to what may be said: verdicts, interactions, and what depends on what."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from swapstone.compare.caveats import DIFFERENT
from swapstone.compare.contrast_estimates import Estimate, Numbers, levels
from swapstone.compare.factorial_contrasts import Kind
from swapstone.compare.verdicts import few_blocks, open_question, verdict_of
from swapstone.model import Direction, FactorEffect, Interaction, LevelChange, Presence, Scale, Verdict
from swapstone.stats import Interval

Place = tuple[str, str, str, str]
"""(suite, workload, load, metric)"""

Gap = tuple[Place, LevelChange, tuple[str, str]]
"""Where, which change, and the (factor, level) that is held."""


@dataclasses.dataclass(frozen=True)
class Crossed:
    """All that crossed factors let one say: parts of an `Analysis`."""

    effects: tuple[FactorEffect, ...]
    interactions: tuple[Interaction, ...]


def judged(estimates: Sequence[Estimate], *, confidence: float, margin: float) -> Crossed:
    """Judge every estimate at the level of its family, then say what follows of one from others.

    Args:
        estimates: all of an experiment.
        confidence: before correction.
        margin: ratio of no interest.
    """
    alphas = levels(estimates, confidence)
    plain = 1 - confidence
    level = {id(each): alphas[each.family] if each.inference is not None else plain for each in estimates}
    effects = {
        kind: [_effect(each, level[id(each)], margin) for each in estimates if each.contrast.kind is kind]
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
    return Crossed((*main, *effects[Kind.SIMPLE]), interactions)


def _place(found: FactorEffect | Interaction) -> Place:
    return found.suite, found.workload, found.load, found.metric.name


def _marked(effects: Sequence[FactorEffect], interactions: Sequence[Interaction]) -> Iterator[FactorEffect]:
    """Name on each main effect the factors on which it depends."""
    others: dict[tuple[Place, str], list[str]] = {}
    for each in interactions:
        if each.presence is Presence.PRESENT:
            for one, other in ((each.change, each.by), (each.by, each.change)):
                others.setdefault((_place(each), one.label), []).append(other.factor)
    for effect in effects:
        names = tuple(dict.fromkeys(others.get((_place(effect), effect.change.label), ())))
        yield msgspec.structs.replace(effect, depends_on=names)


def _effect(found: Estimate, alpha: float, margin: float) -> FactorEffect:
    said = _said(found, alpha)
    verdict, reason = found.trouble or _verdict(said, margin, found.metric.better)
    # Simple effects are many, and nobody reads this of them.
    open_still = verdict is Verdict.INCONCLUSIVE and found.contrast.kind is Kind.MAIN
    return FactorEffect(
        suite=found.suite,
        workload=found.workload,
        load=found.load,
        metric=found.metric,
        change=found.contrast.changes[0],
        held=found.contrast.held,
        averaged=tuple(term.averaged for term in found.terms),
        missing=found.missing,
        workloads=found.workloads,
        blocks=said.blocks,
        scale=said.scale,
        effect=said.shown(said.middle),
        low=said.shown(said.low),
        high=said.shown(said.high),
        confidence=1 - alpha,
        p_value=said.p_value,
        smallest_visible=said.shown(_smallest(found, alpha)) if open_still else None,
        exact=said.exact,
        verdict=verdict,
        reason=reason,
        preferred=found.preferred,
    )


def _interaction(found: Estimate, alpha: float, margin: float, gaps: Mapping[Gap, FactorEffect]) -> Interaction:
    said = _said(found, alpha)
    change, by = found.contrast.changes
    presence, reason = (Presence.UNAVAILABLE, found.trouble[1]) if found.trouble else _presence(said, margin)
    if found.trouble and found.trouble[0] is Verdict.INCONCLUSIVE:
        presence = Presence.UNDECIDED
    numbers = found.numbers
    without, within = (
        (None, None) if numbers is None else (numbers.middle(numbers.without), numbers.middle(numbers.within))
    )
    place = found.suite, found.workload, found.load, found.metric.name
    gap = gaps.get((place, change, (by.factor, by.baseline)))
    return Interaction(
        suite=found.suite,
        workload=found.workload,
        load=found.load,
        metric=found.metric,
        change=change,
        by=by,
        averaged=tuple(term.averaged for term in found.terms),
        missing=found.missing,
        workloads=found.workloads,
        blocks=said.blocks,
        scale=said.scale,
        effect=said.shown(said.middle),
        low=said.shown(said.low),
        high=said.shown(said.high),
        confidence=1 - alpha,
        p_value=said.p_value,
        smallest_visible=said.shown(_smallest(found, alpha)) if presence is Presence.UNDECIDED else None,
        exact=said.exact,
        without=said.shown(without),
        within=said.shown(within),
        closed=_closed(presence, gap, without, within),
        presence=presence,
        reason=reason,
        preferred=found.preferred,
    )


@dataclasses.dataclass(frozen=True)
class Said:
    """What an estimate's numbers say at a level, on the inner scale; all None without numbers."""

    numbers: Numbers | None
    blocks: int
    scale: Scale
    middle: float | None
    interval: Interval | None
    alpha: float

    @property
    def low(self) -> float | None:
        """Return the interval's lower end."""
        return None if self.interval is None else self.interval.low

    @property
    def high(self) -> float | None:
        """Return the interval's upper end."""
        return None if self.interval is None else self.interval.high

    @property
    def exact(self) -> bool:
        """Say whether there was nothing to infer."""
        return self.numbers is not None and self.numbers.constant

    @property
    def p_value(self) -> float | None:
        """Return the p-value of no effect, uncorrected."""
        inference = None if self.numbers is None else self.numbers.inference
        return None if inference is None else inference.p_value

    def shown(self, value: float | None) -> float | None:
        """Turn a value of the inner scale into a ratio or a difference."""
        return value if value is None or self.scale is Scale.DIFFERENCE else math.exp(value)


def _said(found: Estimate, alpha: float) -> Said:
    numbers = found.numbers
    if numbers is None:
        return Said(None, 0, Scale.RATIO, None, None, alpha)
    middle, interval = numbers.middle(numbers.values), numbers.interval(alpha)
    return Said(numbers, numbers.values.size, numbers.scale, middle, interval, alpha)


def _verdict(said: Said, margin: float, better: Direction) -> tuple[Verdict, str]:
    assert said.numbers is not None, "without numbers there is a trouble"
    if said.interval is None:
        return Verdict.INCONCLUSIVE, few_blocks(said.alpha, said.blocks)
    verdict = verdict_of(said.interval, said.numbers.limit(margin), better)
    return verdict, open_question(said.interval) if verdict is Verdict.INCONCLUSIVE else ""


def _presence(said: Said, margin: float) -> tuple[Presence, str]:
    """Say whether an interaction is there: as verdicts do, but with no good direction."""
    verdict, reason = _verdict(said, margin, Direction.NEITHER)
    names = {Verdict.CHANGED: Presence.PRESENT, Verdict.EQUIVALENT: Presence.ABSENT}
    if verdict in names:
        return names[verdict], ""
    return Presence.UNDECIDED, open_question(said.interval, "interaction") if said.interval else reason


def _smallest(found: Estimate, alpha: float) -> float | None:
    return None if found.inference is None else found.inference.smallest_visible(alpha)


def _closed(presence: Presence, gap: FactorEffect | None, without: float | None, within: float | None) -> float | None:
    """Return the share of a gap that a level closes; None where there is no gap to speak of, or nothing changes it."""
    if presence is not Presence.PRESENT or gap is None or gap.verdict not in DIFFERENT or not without or within is None:
        return None
    return 1 - within / without
