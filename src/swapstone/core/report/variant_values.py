# SPDX-License-Identifier: MIT OR Apache-2.0
"""Values of variants, each once, for exports and tables that have no comparisons."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable
from typing import TypeVar

from swapstone.core.model import NO_NUMBERS, Analysis, Comparison, Metric, Variant
from swapstone.core.model.experiment import RunGroup

Each = TypeVar("Each")
Key = TypeVar("Key", bound=Hashable)


class Side(RunGroup, frozen=True, kw_only=True):
    """One variant's values of one metric of one workload, once for all of its comparisons."""

    variant: Variant
    metric: Metric
    values: tuple[float, ...]
    exact: bool

    @property
    def median(self) -> float:
        """Return the median of the values."""
        return statistics.median(self.values)


def sides(
    analysis: Analysis,
    wanted: Callable[[Comparison], bool] | None = None,
    *,
    copies: bool = False,
) -> tuple[Side, ...]:
    """Return every variant's values, in the analysis' order, but those of rows whose runs can't be compared (`NO_NUMBERS`).

    A baseline that was compared with several candidates has values in each comparison; the longest series is taken, which is of the most
    blocks.

    Args:
        analysis: holds the comparisons.
        wanted: which comparisons to read; without it, all.
        copies: whether copies of the baseline are variants, too.
    """
    found: dict[tuple[str, str, str, str, Variant], Side] = {}
    for c in (
        each for each in analysis.comparisons if each.verdict not in NO_NUMBERS and (wanted is None or wanted(each))
    ):
        for variant, values in ((c.baseline, c.baseline_values), (c.candidate, c.candidate_values)):
            key = (c.suite, c.workload, c.load, c.metric.name, variant)
            if (
                (copies or variant not in analysis.copies)
                and values
                and (key not in found or len(found[key].values) < len(values))
            ):
                found[key] = Side(
                    suite=c.suite,
                    workload=c.workload,
                    load=c.load,
                    variant=variant,
                    metric=c.metric,
                    values=values,
                    exact=c.one_number,
                )
    return tuple(found.values())


def without_copies(analysis: Analysis) -> tuple[Comparison, ...]:
    """Return the comparisons without those of copies of the baseline, which test the measurement and no candidate."""
    return tuple(c for c in analysis.comparisons if c.candidate not in analysis.copies)


def variants_of(analysis: Analysis, wanted: Callable[[Comparison], bool]) -> tuple[Variant, ...]:
    """Return the variants of the wanted comparisons, the baseline first, without copies of it."""
    found = dict.fromkeys(each for c in analysis.comparisons if wanted(c) for each in (c.baseline, c.candidate))
    return tuple(each for each in found if each not in analysis.copies)
