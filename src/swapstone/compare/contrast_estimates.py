"""Contrasts of crossed factors in numbers: one number a block, and the inference on those."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from swapstone.compare.factorial_contrasts import Contrast, Kind, Term
from swapstone.compare.layout_spread import by_layout
from swapstone.compare.rows import scale_of
from swapstone.model import Metric, Quantity, Scale, Verdict
from swapstone.stats import LOG_QUANTUM, Interval, SignedRank, common_level, difference_quantum

Floats = NDArray[np.float64]

Family = tuple[str, str, str, Quantity, Kind, int]
"""(suite, load, the index' metric or nothing, quantity, kind of contrast, number of levels held): what is corrected together."""


@dataclasses.dataclass(frozen=True)
class Measured:
    """What the variants of one workload gave of one metric under one load.

    Attributes:
        suite, workload, load, metric: of what.
        series: by the variant's label, block to value; only variants with numbers that may be used.
        lost: by label, verdict and reason, for the variants without.
        certain: whether its values can't vary (sizes).
        preferred: whether this is the time metric to read first.
        layouts: how many links of each program took turns; 0 for one as it comes.
    """

    suite: str
    workload: str
    load: str
    metric: Metric
    series: Mapping[str, Mapping[int, float]]
    lost: Mapping[str, tuple[Verdict, str]]
    certain: bool
    preferred: bool
    layouts: int = 0

    def usable(self, terms: Sequence[Term]) -> tuple[Term, ...]:
        """Return the terms whose variants all have numbers."""
        return tuple(term for term in terms if all(label in self.series for label in term.labels))


@dataclasses.dataclass(frozen=True)
class Numbers:
    """One number a block, on the inner scale: logarithms of ratios, or differences.

    Attributes:
        scale: which.
        values: of the contrast, shape (blocks,).
        without, within: of an interaction, the effect of its first change with the other change's baseline level and with its level,
            shape (blocks,); empty for an effect.
        reference: typical value of the variants in which nothing is changed, for the margin of differences.
        quantum: to which values are rounded before inference.
        constant: whether each variant gave one number throughout, often enough to rely on it.
    """

    scale: Scale
    values: Floats
    without: Floats
    within: Floats
    reference: float
    quantum: float
    constant: bool

    @functools.cached_property
    def inference(self) -> SignedRank | None:
        """Return the inference on the blocks; None where there is nothing to infer."""
        return None if self.constant else SignedRank(self.values, self.quantum)

    def middle(self, values: Floats) -> float:
        """Return the estimate of some values' centre: Hodges-Lehmann, or the number itself where it is constant."""
        if self.constant:
            return round(float(values[0]) / self.quantum) * self.quantum
        return SignedRank(values, self.quantum).estimate()

    def interval(self, alpha: float) -> Interval | None:
        """Return the interval around the estimate; without width for what is constant, None with too few blocks."""
        if self.inference is not None:
            return self.inference.interval(alpha)
        exact = self.middle(self.values)
        return Interval(exact, exact)

    def limit(self, margin: float) -> float:
        """Return the largest contrast of no interest: log(1 + margin), or the margin's share of the reference."""
        return float(np.log1p(margin)) if self.scale is Scale.RATIO else margin * abs(self.reference)


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A contrast of one workload, or of its suite's index, before its verdict.

    Attributes:
        suite, workload, load, metric, preferred: as in `Measured`; the index has no workload.
        contrast: the question.
        terms: those that entered; none where `trouble` says why.
        workloads: how many entered.
        numbers: None where there are none.
        trouble: verdict and reason where nothing may be said.
    """

    suite: str
    workload: str
    load: str
    metric: Metric
    preferred: bool
    contrast: Contrast
    terms: tuple[Term, ...]
    workloads: int
    numbers: Numbers | None
    trouble: tuple[Verdict, str] | None

    @property
    def family(self) -> Family:
        """Return the family in which it is corrected."""
        index = "" if self.workload else self.metric.name
        return self.suite, self.load, index, self.metric.quantity, self.contrast.kind, len(self.contrast.held)

    @property
    def inference(self) -> SignedRank | None:
        """Return the inference; None where there is nothing to infer."""
        return None if self.numbers is None else self.numbers.inference

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the combinations that could not enter."""
        return tuple(term.averaged for term in self.contrast.terms if term not in self.terms and term.averaged)


def block_values(series: Sequence[Mapping[int, float]], layouts: int) -> tuple[tuple[int, ...], Floats]:
    """Return the blocks that all series have, and their values there, shape (series, blocks).

    The only place that knows what a block is: whatever is to be one number for inference is made one number here. With layouts, those
    of the blocks that ran the same links are.
    """
    blocks = tuple(sorted(set.intersection(*(set(each) for each in series))))
    values = np.array([[each[block] for block in blocks] for each in series], dtype=np.float64)
    if layouts and blocks:
        present, reduced = by_layout(blocks, list(values), layouts)
        return present, np.array(reduced)
    return blocks, values


def estimate(measured: Measured, contrast: Contrast, needed: int) -> Estimate:
    """Answer a contrast for one workload.

    Args:
        measured: its values.
        contrast: the question; terms that lack a variant are left out of the mean.
        needed: so many equal values of each variant are relied upon as constant.
    """
    terms = measured.usable(contrast.terms)
    numbers = _numbers(measured, terms, needed) if terms else None
    trouble = None
    if numbers is None:
        none = Verdict.INCONCLUSIVE, "no block holds a run of each variant that it needs"
        trouble = none if terms else _why_not(measured, contrast)
    return _estimate(measured, contrast, terms, numbers, trouble=trouble)


def index_estimate(members: Sequence[Measured], contrast: Contrast) -> Estimate | None:
    """Answer a contrast for a suite's index: the mean of the workloads' logarithms, in the blocks that all of them have.

    A combination enters when at least half of the workloads have it; then a workload enters when it has all the combinations that do.

    Args:
        members: one time metric of every workload of a suite under one load, those that have any numbers, all above zero.
        contrast: the question.

    Returns:
        The estimate, or None where no combination, workload or block is left.
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
    found = _estimate(chosen[0], contrast, terms, numbers, trouble=None)
    return dataclasses.replace(found, workload="", workloads=len(chosen))


def _estimate(
    measured: Measured,
    contrast: Contrast,
    terms: tuple[Term, ...],
    numbers: Numbers | None,
    *,
    trouble: tuple[Verdict, str] | None,
) -> Estimate:
    return Estimate(
        suite=measured.suite,
        workload=measured.workload,
        load=measured.load,
        metric=measured.metric,
        preferred=measured.preferred,
        contrast=contrast,
        terms=terms,
        workloads=1,
        numbers=numbers,
        trouble=trouble,
    )


def _labels(terms: Sequence[Term]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(label for term in terms for label in term.labels))


def _numbers(measured: Measured, terms: Sequence[Term], needed: int) -> Numbers | None:
    """Return a contrast's numbers; None where no block has all its variants."""
    labels = _labels(terms)
    blocks, values = block_values([measured.series[label] for label in labels], measured.layouts)
    if not blocks:
        return None
    scale = scale_of(values)
    ratio = scale is Scale.RATIO
    inner = dict(zip(labels, np.log(values) if ratio else values, strict=True))
    plain = dict(zip(labels, values, strict=True))
    reference = float(np.median(np.mean([plain[term.reference] for term in terms], axis=0)))
    quantum = LOG_QUANTUM if ratio else difference_quantum(float(np.abs(values).max()))
    one_number = bool((values.min(axis=1) == values.max(axis=1)).all())
    constant = one_number and (measured.certain or len(blocks) >= needed)
    return dataclasses.replace(_combined(terms, inner, scale, quantum, reference=reference), constant=constant)


def _combined(
    terms: Sequence[Term], inner: Mapping[str, Floats], scale: Scale, quantum: float, *, reference: float
) -> Numbers:
    """Average the terms: each is what is added less what is subtracted, block by block."""

    def mean(of: Callable[[Term], Floats]) -> Floats:
        averaged: Floats = np.mean([of(term) for term in terms], axis=0)
        return averaged

    def without(term: Term) -> Floats:
        return inner[term.minus[0]] - inner[term.plus[1]]

    def within(term: Term) -> Floats:
        return inner[term.plus[0]] - inner[term.minus[1]]

    both, none = len(terms[0].plus) == 2, np.empty(0)
    return Numbers(
        scale=scale,
        values=mean(lambda term: within(term) - without(term) if both else inner[term.plus[0]] - inner[term.minus[0]]),
        without=mean(without) if both else none,
        within=mean(within) if both else none,
        reference=reference,
        quantum=quantum,
        constant=False,
    )


def _why_not(measured: Measured, contrast: Contrast) -> tuple[Verdict, str]:
    """Say why no term could enter: the trouble of the first variant without numbers."""
    label = next(label for label in _labels(contrast.terms) if label in measured.lost)
    return measured.lost[label]


def levels(estimates: Sequence[Estimate], confidence: float) -> dict[Family, float]:
    """Return the alpha of every family's intervals, as `swapstone.compare.rows.levels` does for comparisons."""
    p_values: dict[Family, list[float]] = {}
    for each in estimates:
        if each.inference is not None:
            p_values.setdefault(each.family, []).append(each.inference.p_value)
    return {family: common_level(values, 1 - confidence) for family, values in p_values.items()}
