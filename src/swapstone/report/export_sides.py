# SPDX-License-Identifier: MIT OR Apache-2.0
"""Values of variants for exports that have no comparisons: each variant once."""

from __future__ import annotations

from swapstone.model import Analysis, FrozenStruct, Metric, Variant, Verdict


class Side(FrozenStruct, frozen=True, kw_only=True):
    """One variant's values of one metric of one workload, once for all of its comparisons."""

    suite: str
    workload: str
    load: str
    variant: Variant
    metric: Metric
    values: tuple[float, ...]
    exact: bool


def sides(analysis: Analysis) -> tuple[Side, ...]:
    """Return every variant's values, in the analysis' order.

    A baseline that was compared with several candidates has values in each comparison; the longest series is taken. Invalid comparisons
    are left out: the formats have no verdicts.
    """
    found: dict[tuple[str, str, str, str, Variant], Side] = {}
    for c in analysis.comparisons:
        if c.verdict is Verdict.INVALID:
            continue
        for variant, values in ((c.baseline, c.baseline_values), (c.candidate, c.candidate_values)):
            key = (c.suite, c.workload, c.load, c.metric.name, variant)
            if values and (key not in found or len(found[key].values) < len(values)):
                found[key] = Side(
                    suite=c.suite,
                    workload=c.workload,
                    load=c.load,
                    variant=variant,
                    metric=c.metric,
                    values=values,
                    exact=c.exact,
                )
    return tuple(found.values())
