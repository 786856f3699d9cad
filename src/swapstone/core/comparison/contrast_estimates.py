# SPDX-License-Identifier: MIT OR Apache-2.0
"""Estimates of factorial contrasts: one value per block, and the inference on these values."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec
import numpy as np

from swapstone.core.comparison.exact_floors import ExactEffects, Exactness, exact_effects, mean_effects, opposed
from swapstone.core.comparison.factorial_contrasts import Contrast, Term
from swapstone.core.comparison.layout_spread import by_turn
from swapstone.core.comparison.rows import MEDIANS_ALPHA, Family, scale_of
from swapstone.core.comparison.verdicts import Averages
from swapstone.core.model import Metric, Scale, Verdict, layout_of
from swapstone.core.stats import (
    LOG_QUANTUM,
    Floats,
    Inference,
    Interval,
    Ints,
    KnownCentre,
    SignedRank,
    difference_quantum,
    mean_contrast,
    median,
    median_contrast,
)

Series: TypeAlias = "tuple[Ints, Floats]"


class Measured(msgspec.Struct, frozen=True):
    """The values of one metric of one workload under one load, for all variants.

    Attributes:
        suite, workload, load, metric: what was measured.
        series: blocks, ascending, and the values in them, each of shape (blocks,), by the label of the variant; only of variants whose
            values can be used.
        lost: verdict and reason, by the label of the variant, for the other variants.
        certain: whether the values have no variance (sizes).
        preferred: whether this is the time metric that reports read first.
        layouts: number of links of each program that took turns; 0 without layouts.
        exactness: how the values are judged if they are exact; None if not.
    """

    suite: str
    workload: str
    load: str
    metric: Metric
    series: Mapping[str, Series]
    lost: Mapping[str, tuple[Verdict, str]]
    certain: bool
    preferred: bool
    layouts: int = 0
    exactness: Exactness | None = None

    @property
    def is_positive(self) -> bool:
        """Whether there are values, and all are above 0."""
        return min((values.min() for _, values in self.series.values() if values.size), default=0) > 0

    def usable(self, terms: Sequence[Term]) -> tuple[Term, ...]:
        """Return the terms whose variants all have numbers."""
        return tuple(term for term in terms if all(label in self.series for label in term.labels))


class Numbers(msgspec.Struct, frozen=True, dict=True):
    """A contrast's value in each block, on the scale of inference: logarithms of ratios, or differences.

    Attributes:
        scale: ratio or difference.
        values: of the contrast, shape (blocks,).
        without, within: of an interaction: the effect of the first change at the second factor's baseline level, and at its other
            level, shape (blocks,); empty for an effect.
        reference: median of the variants in which no level is changed, to which the margin of a difference is relative.
        quantum: values are rounded to multiples of this before inference.
        constant: whether each variant had the same value in all blocks, in enough blocks to rely on it.
        exact: the values if they are exact.
    """

    scale: Scale
    values: Floats
    without: Floats
    within: Floats
    reference: float
    quantum: float
    constant: bool
    exact: ExactEffects | None = None

    @functools.cached_property
    def inference(self) -> Inference:
        """Return the inference on the blocks."""
        if self.exact is not None and self.exact.known is not None:
            return self.exact.known
        found = SignedRank(self.values, self.quantum)
        return KnownCentre(found.estimate()) if self.constant else found

    def middle(self, values: Floats) -> float:
        """Return the estimated location: the Hodges-Lehmann estimate, which is the value itself if it is constant."""
        return SignedRank(values, self.quantum).estimate()

    def limit(self, margin: float) -> float:
        """Return the largest contrast inside the margin: log(1 + margin), or the margin times the reference."""
        return float(np.log1p(margin)) if self.scale is Scale.RATIO else margin * abs(self.reference)


class Estimate(msgspec.Struct, frozen=True, dict=True):
    """The estimate of a contrast, for one workload or for the index of its suite.

    Attributes:
        measured: the values; of an index those of its first workload, with an empty workload.
        contrast: what is estimated.
        terms: the terms that entered; none if `exclusion` is set.
        numbers: None if there are no values.
        members: values of each workload that entered.
        exclusion: verdict and reason if there is no estimate.
    """

    measured: Measured
    contrast: Contrast
    terms: tuple[Term, ...]
    numbers: Numbers | None
    members: tuple[Measured, ...]
    exclusion: tuple[Verdict, str] | None = None

    @property
    def family(self) -> Family:
        """Return its family: suite, load, metric of an index, quantity, kind of contrast and number of held levels."""
        suite, load, metric = self.measured.suite, self.measured.load, self.measured.metric
        index = "" if self.measured.workload else metric.name
        return Family((suite, load, index, metric.quantity, self.contrast.kind, len(self.contrast.held)))

    @property
    def inference(self) -> Inference | None:
        """Return the inference; None without values."""
        return None if self.numbers is None else self.numbers.inference

    @property
    def judged_exactly(self) -> bool:
        """Return whether it is judged by the range of exact values, without statistics."""
        return self.numbers is not None and self.numbers.exact is not None and isinstance(self.inference, KnownCentre)

    def interval(self, alpha: float) -> Interval | None:
        """Return the interval on the scale of inference; None with too few blocks or without values."""
        return None if self.inference is None else self.inference.interval(alpha)

    def shown_interval(self, alpha: float) -> Interval | None:
        """Return the interval of the ratio or the difference."""
        found = self.interval(alpha)
        if found is None or self.numbers is None or self.numbers.scale is Scale.DIFFERENCE:
            return found
        return Interval(math.exp(found.low), math.exp(found.high))

    def shown(self, value: float | None) -> float | None:
        """Convert a value from the scale of inference to a ratio or a difference."""
        ratio = self.numbers is not None and self.numbers.scale is Scale.RATIO
        return math.exp(value) if ratio and value is not None else value

    @functools.cached_property
    def averages(self) -> Averages | None:
        """Return the same contrast of the variants' medians, and of their means; of an index, the mean of its workloads' logarithms.

        None without values.
        """
        if self.numbers is None:
            return None
        labels = _labels(self.terms)
        _, values = block_values(
            [each.series[label] for each in self.members for label in labels], self.measured.layouts
        )
        signs = dict.fromkeys(labels, 0.0)
        for term in self.terms:
            for sign, of_sign in ((1.0, term.plus), (-1.0, term.minus)):
                for label in of_sign:
                    signs[label] += sign / (len(self.terms) * len(self.members))
        weights = list(signs.values()) * len(self.members)
        ratio = self.numbers.scale is Scale.RATIO
        return (
            median_contrast(values, weights, MEDIANS_ALPHA, ratio=ratio),
            mean_contrast(values, weights, MEDIANS_ALPHA, ratio=ratio),
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the combinations that could not enter."""
        return tuple(term.averaged for term in self.contrast.terms if term not in self.terms and term.averaged)


def block_values(series: Sequence[Series], layouts: int) -> tuple[Ints, Floats]:
    """Return the blocks that all series have, and their values there, shape (series, blocks).

    Every unit of inference is formed here: with layouts, the mean of the blocks that ran the same links; else the block.
    """
    blocks = functools.reduce(
        lambda known, each: np.intersect1d(known, each[0], assume_unique=True), series, series[0][0]
    )
    values = np.array([found[np.searchsorted(each, blocks)] for each, found in series])
    if layouts and blocks.size:
        present, reduced = by_turn([layout_of(block, layouts) for block in blocks.tolist()], list(values))
        return present, np.array(reduced)
    return blocks, values


def estimate(measured: Measured, contrast: Contrast, needed: int) -> Estimate:
    """Estimate a contrast for one workload.

    Args:
        measured: its values.
        contrast: terms that lack a variant are left out of the mean.
        needed: number of blocks in which a variant's values must be equal to count as constant.
    """
    terms = measured.usable(contrast.terms)
    numbers = _numbers(measured, terms, needed) if terms else None
    exclusion = None
    if numbers is None:
        none = Verdict.INCONCLUSIVE, "no block has a run of every variant that this needs"
        lost = next((label for label in _labels(contrast.terms) if label in measured.lost), "")
        exclusion = none if terms else measured.lost[lost]
    return Estimate(measured, contrast, terms, numbers, (measured,), exclusion)


def index_estimate(members: Sequence[Measured], contrast: Contrast, *, preferred: bool) -> Estimate | None:
    """Estimate a contrast for the index of a suite: the mean of its workloads' logarithms, over the blocks that all of them have.

    A combination enters if at least half of the workloads have it. A workload enters if it has every combination that entered.

    Args:
        members: one time metric of each workload of a suite under one load, with values above zero.
        contrast: what to estimate.
        preferred: whether that is the time metric which reports read first.

    Returns:
        The estimate, or None if no combination, workload or block is left.
    """
    having = {term: sum(bool(each.usable((term,))) for each in members) for term in contrast.terms}
    terms = tuple(term for term, count in having.items() if count and 2 * count >= len(members))
    chosen = [each for each in members if each.usable(terms) == terms] if terms else []
    if not chosen:
        return None
    labels = _labels(terms)
    _, values = block_values([each.series[label] for each in chosen for label in labels], chosen[0].layouts)
    if values.shape[1] == 0:
        return None
    logs = np.log(values).reshape(len(chosen), len(labels), -1).mean(axis=0)
    numbers = _combined(terms, dict(zip(labels, logs, strict=True)), Scale.RATIO, LOG_QUANTUM, reference=1.0)
    if chosen[0].exactness is not None:
        each = [found.exact for one in chosen if (found := _numbers(one, terms, values.shape[1])) is not None]
        if opposed(each):
            return None
        numbers = msgspec.structs.replace(numbers, exact=mean_effects(each, numbers.values))
    first = msgspec.structs.replace(chosen[0], workload="", preferred=preferred)
    return Estimate(first, contrast, terms, numbers, tuple(chosen))


def _labels(terms: Sequence[Term]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(label for term in terms for label in term.labels))


def _numbers(measured: Measured, terms: Sequence[Term], needed: int) -> Numbers | None:
    """Return the values of a contrast; None if no block has all its variants."""
    labels = _labels(terms)
    blocks, values = block_values([measured.series[label] for label in labels], measured.layouts)
    if not blocks.size:
        return None
    scale = scale_of(values)
    ratio = scale is Scale.RATIO
    inner = dict(zip(labels, np.log(values) if ratio else values, strict=True))
    plain = dict(zip(labels, values, strict=True))
    reference = median(np.mean([plain[term.reference] for term in terms], axis=0))
    quantum = LOG_QUANTUM if ratio else difference_quantum(float(np.abs(values).max()))
    one_number = bool((values.min(axis=1) == values.max(axis=1)).all())
    constant = one_number and (measured.certain or blocks.size >= needed)
    found = _combined(terms, inner, scale, quantum, reference=reference)
    differences = 2 if found.without.size else 1
    exact = exact_effects(
        measured.exactness, measured.metric, found.values, np.array([reference]), scale, differences=differences
    )
    return msgspec.structs.replace(found, constant=constant, exact=exact)


def _combined(
    terms: Sequence[Term], inner: Mapping[str, Floats], scale: Scale, quantum: float, *, reference: float
) -> Numbers:
    """Return the mean of the terms in each block: the sum of the added variants less the sum of the subtracted ones."""
    within = [inner[term.plus[0]] - inner[term.minus[-1]] for term in terms]
    without = [inner[term.minus[0]] - inner[term.plus[1]] for term in terms if len(term.plus) == 2]
    values = [one - other for one, other in zip(within, without, strict=True)] if without else within
    return Numbers(
        scale=scale,
        values=np.mean(values, axis=0),
        without=np.mean(without, axis=0) if without else np.empty(0),
        within=np.mean(within, axis=0) if without else np.empty(0),
        reference=reference,
        quantum=quantum,
        constant=False,
    )
