# SPDX-License-Identifier: MIT OR Apache-2.0
"""The second estimand of a row: arithmetic means, the test of the tail, and how rare a slow mode its runs could show."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from swapstone.core.model import RunSummary
from swapstone.core.stats import Floats, Ints, distinct, sign_flip_p_value

SEEN = 0.99
"""Probability with which a separate mode of `RAREST_MODE` must show in the runs of an equivalent row."""

RAREST_MODE = 0.05
"""Share of runs of the rarest mode that an equivalent row must have been able to show."""


def rarest_mode(runs: int) -> float:
    """Return the smallest share of runs that a mode can have and still show up at least once with probability `SEEN`.

    Args:
        runs: independent runs of the side, at least 1.
    """
    return float(1 - (1 - SEEN) ** (1 / runs))


def runs_needed(share: float = RAREST_MODE) -> int:
    """Return how many runs show a mode of this share with probability `SEEN`."""
    return math.ceil(math.log(1 - SEEN) / math.log(1 - share))


def tail_p_value(baseline: Floats, candidate: Floats, centred: Floats) -> tuple[float, bool]:
    """Test whether the means differ beside the medians, by sign flips of the pairs.

    Two tests must agree: of candidate - baseline, and of the same after the centre's effect is taken out of the candidate. The p-value is
    the larger one. If nothing differs, the first is exact by the randomisation of the order, so the larger one is valid. If the sides
    differ by a constant ratio alone, the pairs are exchangeable after that ratio is divided out; with the estimated ratio the second test
    is valid in the limit, and conservative for few pairs, as it removes what the differences have in common.

    Args:
        baseline: one value per pair, shape (n,).
        candidate: the same.
        centred: `candidate` without the centre's effect.

    Returns:
        The two-sided p-value, and whether the candidate's mean is the larger one. 1.0 if the two tests have opposite signs.
    """
    unit = max(float(np.abs(baseline).max()), float(np.abs(candidate).max()), float(np.abs(centred).max())) or 1.0
    plain, shape = candidate / unit - baseline / unit, centred / unit - baseline / unit
    larger = bool(plain.sum() > 0)
    if larger != bool(shape.sum() > 0):
        return 1.0, larger
    return max(sign_flip_p_value(plain), sign_flip_p_value(shape)), larger


def summary(values: Floats) -> RunSummary:
    """Return mean, 90th percentile and maximum of one side's runs, shape (n,), n >= 1."""
    ordered = np.sort(values)
    return RunSummary(
        runs=values.size,
        mean=_exact_mean(values),
        p90=float(ordered[math.ceil(0.9 * values.size) - 1]),
        maximum=float(ordered[-1]),
    )


def _exact_mean(values: Floats) -> float:
    """Return the mean; of equal values exactly that value, and finite for finite values."""
    if values.min() == values.max():
        return float(values[0])
    unit = float(np.abs(values).max())
    return float(np.clip((values / unit).mean() * unit, values.min(), values.max()))


def with_discarded(values: Floats, places: Ints, discarded: Floats) -> Floats:
    """Return the arithmetic mean of the runs of each block, shape (blocks,); of equal values exactly that value.

    Args:
        values: of the measured runs, shape (blocks,).
        places: of the block of each discarded run, shape (discarded runs,).
        discarded: the values of these runs, shape (discarded runs,).
    """
    if not places.size:
        return values
    apart = np.bincount(places, discarded - values[places], minlength=values.size)
    means: Floats = values + apart / (1 + np.bincount(places, minlength=values.size))
    return means


def unit_means(values: Floats, units: Sequence[int]) -> Floats:
    """Return the arithmetic mean of each unit of inference, in their order.

    Args:
        values: of the blocks, shape (blocks,).
        units: the unit of each block, e.g. its layout.
    """
    which = np.asarray(units)
    parts = (values[which == unit] for unit in distinct(which))
    return np.array([_exact_mean(part) for part in parts])
