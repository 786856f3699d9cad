# SPDX-License-Identifier: MIT OR Apache-2.0
"""One estimate over several units, such as boards, which are a sample of units: their own differences are a random effect.

The variance between the units is DerSimonian and Laird's (1986, Controlled Clinical Trials 7, 177-188). The interval is that of Hartung and
Knapp (2001, Statistics in Medicine 20, 3875-3889) and of Sidik and Jonkman (2002, ibid. 21, 3153-3159): Student's with the units' number
less one degrees of freedom, and a variance from the weighted spread of the estimates. The factor of that spread is at least 1, as Knapp and
Hartung (2003, ibid. 22, 2693-2710) propose, so that units which agree by chance give no interval that is too short.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from swapstone.core.stats.mean_ratio import student_quantile
from swapstone.core.stats.signed_rank import Interval

_LEAST_VARIANCE = 1e-12
"""Smaller variances of an estimate, such as 0 of exact values, count as this one: a standard error of 1e-6."""


@dataclasses.dataclass(frozen=True)
class PooledEstimate:
    """An estimate over units.

    Attributes:
        estimate: the weighted mean of the units' estimates.
        interval: around it.
        spread: standard deviation of the units' own effects, without the error of their estimates; 0 if that explains all of it.
    """

    estimate: float
    interval: Interval
    spread: float


def pooled_estimate(estimates: Sequence[float], variances: Sequence[float], alpha: float) -> PooledEstimate:
    """Return the estimate over units with an interval of level 1 - alpha.

    Args:
        estimates: one for each of at least two units.
        variances: squared standard errors of the estimates, at least 0.
        alpha: 0 < alpha < 1.
    """
    found, errors = np.asarray(estimates, float), np.maximum(np.asarray(variances, float), _LEAST_VARIANCE)
    freedom = found.size - 1
    fixed = 1 / errors
    apart = float(fixed @ (found - fixed @ found / fixed.sum()) ** 2)
    between = max(0.0, (apart - freedom) / float(fixed.sum() - (fixed @ fixed) / fixed.sum()))
    weights = 1 / (errors + between)
    mean = float(weights @ found / weights.sum())
    factor = max(1.0, float(weights @ (found - mean) ** 2) / freedom)
    reach = student_quantile(freedom, alpha) * math.sqrt(factor / float(weights.sum()))
    return PooledEstimate(mean, Interval(mean - reach, mean + reach), math.sqrt(between))


def deviating_units(
    estimates: Sequence[float], variances: Sequence[float], freedoms: Sequence[int], alpha: float, limit: float
) -> tuple[int, ...]:
    """Return the numbers of the units that differ from the others, the most deviating one first.

    Each unit is compared with the mean of the others, weighted by their variances, by Student's distribution with the smallest number of
    degrees of freedom. The one with the largest statistic is removed if its difference is beyond the limit and significant at alpha
    divided by the number of units. Then the rest is examined, as long as there are three.

    Args:
        estimates: one for each unit.
        variances: squared standard errors.
        freedoms: degrees of freedom of the variances, at least 1.
        alpha: 0 < alpha < 1.
        limit: a difference of no interest.
    """
    left, found = list(range(len(estimates))), []
    errors = [max(each, _LEAST_VARIANCE) for each in variances]
    threshold = student_quantile(min(freedoms, default=1), alpha / max(1, len(left)))
    while len(left) >= 3:
        apart = {unit: _apart(unit, [each for each in left if each != unit], estimates, errors) for unit in left}
        unit = max(left, key=lambda each: abs(apart[each][0]) / apart[each][1])
        difference, error = apart[unit]
        if abs(difference) <= max(limit, threshold * error):
            break
        left.remove(unit)
        found.append(unit)
    return tuple(found)


def _apart(
    unit: int, others: Sequence[int], estimates: Sequence[float], errors: Sequence[float]
) -> tuple[float, float]:
    """Return the difference of a unit from the mean of others, and its standard error."""
    weights = [1 / errors[each] for each in others]
    mean = sum(weight * estimates[each] for weight, each in zip(weights, others, strict=True)) / sum(weights)
    return estimates[unit] - mean, math.sqrt(errors[unit] + 1 / sum(weights))
