# SPDX-License-Identifier: MIT OR Apache-2.0
"""The contrasts of crossed factors: signed sums of the logarithms of variants' values."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from swapstone.core.model import Experiment, FactorLevels, LevelChange, Variant


class Kind(enum.Enum):
    """Kinds of contrasts. Contrasts of one kind are corrected together."""

    MAIN = "main"
    SIMPLE = "simple"
    INTERACTION = "interaction"


class Term(msgspec.Struct, frozen=True):
    """A contrast at one combination of the factors that it averages over.

    Attributes:
        averaged: that combination, e.g. ``linking=static``; empty if no factor is left.
        plus: labels of the variants with a positive sign. The last one of an interaction has both factors at their baselines.
        minus: labels of the variants with a negative sign.
    """

    averaged: str
    plus: tuple[str, ...]
    minus: tuple[str, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of all variants in it."""
        return (*self.plus, *self.minus)

    @property
    def reference(self) -> str:
        """Return the label of the variant in which no level is changed."""
        return self.plus[-1] if len(self.plus) == 2 else self.minus[0]


class Contrast(msgspec.Struct, frozen=True):
    """An effect of one change of level, or the interaction of two.

    Attributes:
        kind: main effect, simple effect or interaction.
        changes: one for an effect, two for an interaction.
        held: levels at which other factors are held.
        terms: one for each combination of the remaining factors' levels; the contrast is their mean.
    """

    kind: Kind
    changes: tuple[LevelChange, ...]
    held: tuple[tuple[str, str], ...]
    terms: tuple[Term, ...]


def contrasts(experiment: Experiment) -> tuple[Contrast, ...]:
    """Return every contrast of an experiment's crossed factors; none if only one factor is varied.

    Args:
        experiment: the first level of each factor is its baseline.

    Returns:
        Main effects, then simple effects (one other factor held, or all others held where there are several), then the
        interactions of two factors.
    """
    factors = experiment.factors
    if len(factors) < 2:
        return ()
    found = [_contrast(factors, Kind.MAIN, (change,), ()) for factor in factors for change in _changes(factor)]
    for factor in factors:
        for change in _changes(factor):
            found += [_contrast(factors, Kind.SIMPLE, (change,), held) for held in _held(factors, factor)]
    for first, second in itertools.combinations(factors, 2):
        for pair in itertools.product(_changes(first), _changes(second)):
            found.append(_contrast(factors, Kind.INTERACTION, pair, ()))
    return tuple(found)


def _changes(factor: FactorLevels) -> tuple[LevelChange, ...]:
    baseline, *others = factor.levels
    return tuple(LevelChange(factor=factor.factor, baseline=baseline, level=level) for level in others)


def _held(factors: Sequence[FactorLevels], changed: FactorLevels) -> Iterator[tuple[tuple[str, str], ...]]:
    """Yield each level of each other factor alone, then each combination of all others' levels if there are several others."""
    others = [factor for factor in factors if factor is not changed]
    for factor in others:
        yield from (((factor.factor, level),) for level in factor.levels)
    if len(others) > 1:
        yield from _combinations(others)


def _combinations(factors: Sequence[FactorLevels]) -> Iterator[tuple[tuple[str, str], ...]]:
    yield from itertools.product(*([(factor.factor, level) for level in factor.levels] for factor in factors))


def _contrast(
    factors: Sequence[FactorLevels], kind: Kind, changes: tuple[LevelChange, ...], held: tuple[tuple[str, str], ...]
) -> Contrast:
    fixed = {change.factor for change in changes} | {name for name, _ in held}
    rest = _combinations([factor for factor in factors if factor.factor not in fixed])
    terms = tuple(_term(factors, changes, held, combination) for combination in rest)
    return Contrast(kind, changes, held, terms)


def _term(
    factors: Sequence[FactorLevels],
    changes: Sequence[LevelChange],
    held: tuple[tuple[str, str], ...],
    combination: tuple[tuple[str, str], ...],
) -> Term:
    """Give each combination of changed and unchanged levels its sign: minus for every unchanged level."""
    signs: dict[int, list[str]] = {1: [], -1: []}
    for made in itertools.product((True, False), repeat=len(changes)):
        chosen = {
            change.factor: change.level if there else change.baseline
            for change, there in zip(changes, made, strict=True)
        }
        signs[(-1) ** made.count(False)].append(_label(factors, {**chosen, **dict(held), **dict(combination)}))
    averaged = ",".join(f"{name}={level}" for name, level in combination)
    return Term(averaged, tuple(signs[1]), tuple(signs[-1]))


def _label(factors: Sequence[FactorLevels], levels: Mapping[str, str]) -> str:
    return Variant(levels=tuple((factor.factor, levels[factor.factor]) for factor in factors)).label
