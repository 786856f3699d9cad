# SPDX-License-Identifier: MIT OR Apache-2.0
"""All hypotheses of a report, and the levels that follow from them."""

from __future__ import annotations

from collections.abc import Iterable

from swapstone.core.comparison.contrast_estimates import Estimate
from swapstone.core.comparison.rows import ErrorRates, Row
from swapstone.core.comparison.suite_index import IndexEstimate
from swapstone.core.model import TAIL_RULES, Experiment


def error_rates(
    experiment: Experiment, rows: Iterable[Row], of_indices: Iterable[IndexEstimate], of_effects: Iterable[Estimate]
) -> ErrorRates:
    """Return the levels of all intervals of a report. Rows and estimates without inference are no hypotheses and don't count.

    Args:
        experiment: gives confidence and correction.
        rows: all, with their exclusions.
        of_indices: estimates of indices.
        of_effects: estimates of main effects, simple effects and interactions.
    """
    rates = ErrorRates(experiment)
    for row in rows:
        rates.add(row.family, [None if row.inference is None else row.inference.p_value])
        rates.add(row.tail_family, [None if row.tail is None else row.tail[0]])
    for index in of_indices:
        rates.add(index.family, [index.inference.p_value])
    for effect in of_effects:
        rates.add(effect.family, [None if effect.inference is None else effect.inference.p_value])
    return rates


def fewest_rows(experiment: Experiment) -> int:
    """Return over how many rows an index must be at least. By the first rules one suffices."""
    return 2 if experiment.rules >= TAIL_RULES else 1
