# SPDX-License-Identifier: MIT OR Apache-2.0
"""The index of a suite: the geometric mean of its workloads' ratios, block by block."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from swapstone.core.comparison.exact_floors import mean_effects, opposed
from swapstone.core.comparison.rows import AGAINST_BASELINE, MEDIANS_ALPHA, ErrorRates, Family, Row
from swapstone.core.comparison.verdicts import Averages, against_direction, median_fields
from swapstone.core.model import CONTRAST_RULES, WITHOUT_DIRECTION, Experiment, Index, Scale, grouped
from swapstone.core.model.metric import TIMES
from swapstone.core.stats import (
    LOG_QUANTUM,
    AverageEffect,
    Floats,
    Interval,
    KnownCentre,
    MeanOfMeans,
    SignedRank,
    distinct,
    mean_contrast,
    median_contrast,
)

FEWEST_PAIRS = 6
"""Pairs that each workload needs for a mean of means."""

FEWEST_COMMON = 0.5
"""The blocks that all workloads have must be this share of the pairs of the workload with the fewest, else means of means are used."""

ENOUGH_COMMON = 12
"""So must they be this many, unless no pair is lacking. With 12 pairs the signed-rank method reaches 2 / 2**12, 1 % over 20 hypotheses."""


class IndexEstimate(msgspec.Struct, frozen=True):
    """The mean log ratio of several rows, block by block.

    Attributes:
        rows: of one suite, load, time metric and candidate.
        inference: on the means.
    """

    rows: Sequence[Row]
    inference: SignedRank | MeanOfMeans | KnownCentre

    @property
    def family(self) -> Family:
        """Return its family: the candidates on one metric. A copy of the baseline is a family of its own."""
        first = self.rows[0]
        return Family(
            ("index", first.group[0], first.group[2], first.metric.name), first.candidate if first.null else None
        )

    @property
    def scale(self) -> Scale:
        """Return the scale of its effect."""
        return Scale.RATIO

    def limit(self, margin: float) -> float:
        """Return the largest effect inside the margin: log(1 + margin)."""
        return math.log1p(margin)

    def averages(self) -> Averages:
        """Return the geometric mean of the rows' ratios of medians, and of their ratios of means, in the blocks of the estimate.

        Of a mean of means, whose rows have different blocks, the bounds are the means of the rows' bounds: they contain the true mean where
        each row's interval contains the true ratio.
        """
        if isinstance(self.inference, MeanOfMeans):
            each = [(row.median_effect(), row.mean_effect(MEDIANS_ALPHA)) for row in self.rows]
            of_medians, of_means = (
                _geometric([found for found in one if found is not None]) for one in zip(*each, strict=True)
            )
            return of_medians, of_means
        common = functools.reduce(
            functools.partial(np.intersect1d, assume_unique=True), [row.blocks for row in self.rows]
        )
        places = [np.searchsorted(row.blocks, common) for row in self.rows]

        def sides(values: Sequence[tuple[Floats, Floats]]) -> Floats:
            return np.array([side[place] for pair, place in zip(values, places, strict=True) for side in pair])

        weights = [weight / len(self.rows) for _ in self.rows for weight in AGAINST_BASELINE]
        pairs = [(row.before, row.after) for row in self.rows]
        means = [row.means or pair for row, pair in zip(self.rows, pairs, strict=True)]
        return (
            median_contrast(sides(pairs), weights, MEDIANS_ALPHA, ratio=True),
            mean_contrast(sides(means), weights, MEDIANS_ALPHA, ratio=True),
        )


def _geometric(found: Sequence[AverageEffect]) -> AverageEffect:
    effect = statistics.geometric_mean(each.effect for each in found)
    known = [each.interval for each in found if each.interval is not None and each.interval.low > 0]
    if len(known) < len(found):
        return AverageEffect(effect, None)
    low, high = (statistics.geometric_mean(getattr(each, end) for each in known) for end in ("low", "high"))
    return AverageEffect(effect, Interval(low, high))


def index_estimates(rows: Iterable[Row], *, fewest: int = 1) -> list[IndexEstimate]:
    """Estimate one index for each (suite, load, time metric, candidate) of the rows, in their order.

    Args:
        rows: any; a row without ratios is left out of its index. Exact rows that differ beyond the margin in both directions have none.
        fewest: an index over fewer rows is left out; 2 because over one row it repeats that row.

    Returns:
        An estimate for each group. It is from the blocks in which all its workloads have a pair. If these are less than half of the pairs
        of the workload that has the fewest, or fewer than these and than 12, it is the mean of the workloads' means.
    """
    times = (row for row in rows if row.metric.name in TIMES and row.inference is not None and row.scale is Scale.RATIO)
    together = grouped(times, lambda row: (row.group[0], row.group[2], row.metric.name, row.candidate))
    found = [
        (members, _inference(members))
        for members in together.values()
        if len(members) >= fewest and not opposed(row.exact for row in members)
    ]
    return [IndexEstimate(members, inference) for members, inference in found if inference is not None]


def indices(estimates: Iterable[IndexEstimate], rates: ErrorRates, experiment: Experiment) -> tuple[Index, ...]:
    """Give each estimate the interval at its corrected level, and the ratio of medians.

    Args:
        estimates: of `index_estimates`.
        rates: with the hypotheses of all estimates.
        experiment: gives rules and margin, and whether the rows' blocks are layouts.
    """
    found = []
    for each in estimates:
        first, inference, alpha = each.rows[0], each.inference, rates.level(each.family)
        interval = inference.interval(alpha)
        if interval is not None:
            interval = Interval(math.exp(interval.low), math.exp(interval.high))
        known = isinstance(inference, KnownCentre)
        averages = each.averages() if experiment.rules >= CONTRAST_RULES and not known else None
        against = None
        if averages is not None and interval is not None:
            against = against_direction(each, interval, inference.estimate(), averages, experiment.margin)
        found.append(
            Index(
                suite=first.group[0],
                load=first.group[2],
                metric=first.metric.name,
                baseline=first.baseline,
                candidate=first.candidate,
                workloads=len(each.rows),
                blocks=inference.n,
                effect=math.exp(inference.estimate()),
                low=None if interval is None else interval.low,
                high=None if interval is None else interval.high,
                confidence=1.0 if known else 1 - alpha,
                layouts=bool(experiment.layouts),
                incomplete=isinstance(inference, MeanOfMeans),
                **median_fields(None if averages is None else averages[0]),
                reason="" if against is None else f"{WITHOUT_DIRECTION}: {against[0]}",
            )
        )
    return tuple(found)


def _inference(rows: Sequence[Row]) -> SignedRank | MeanOfMeans | KnownCentre | None:
    """Return the inference on the mean log ratio over the workloads, of exact rows its range; None without a block that all have."""
    blocks = distinct(np.concatenate([row.blocks for row in rows]))
    ratios = np.full((len(rows), blocks.size), math.nan)
    for row, found in zip(rows, ratios, strict=True):
        found[np.searchsorted(blocks, row.blocks)] = row.effects
    common = ~np.isnan(ratios).any(axis=0)
    fewest = min(row.blocks.size for row in rows)
    few_common = common.sum() < min(fewest, max(fewest * FEWEST_COMMON, ENOUGH_COMMON))
    if fewest >= FEWEST_PAIRS and few_common:
        return MeanOfMeans(ratios)
    if not common.any():
        return None
    means = ratios[:, common].mean(axis=0)
    exact = mean_effects([row.exact for row in rows], means)
    return (exact and exact.known) or SignedRank(means, LOG_QUANTUM)
