# SPDX-License-Identifier: MIT OR Apache-2.0
"""Columns of a comparison about failed runs of both sides, for CSV and for SQL."""

from __future__ import annotations

from collections.abc import Mapping

from swapstone.model import Analysis, Comparison, FailureRates

_COUNTS = ("runs", "failed", "timed_out", "crashed", "refused")
_SHARES = ("share", "low", "high")

COLUMNS: Mapping[str, str] = {
    **{f"{side}_{name}": "BIGINT" for side in ("baseline", "candidate") for name in _COUNTS},
    **{f"{side}_failed_{name}": "DOUBLE" for side in ("baseline", "candidate") for name in _SHARES},
    "failures_p_value": "DOUBLE",
    "fails_more": "VARCHAR",
}
"""Their names and SQL types. `baseline_runs` counts attempts, `baseline_failed_share` is the share of failed ones with its interval;
`fails_more` is ``baseline``, ``candidate``, or empty where the rates don't differ significantly."""

Rates = Mapping[tuple[str, str, str, str], FailureRates]
"""By suite, workload, load and the candidate's label."""


def rates_of(analysis: Analysis) -> Rates:
    """Return the failure rates by comparison."""
    return {(each.suite, each.workload, each.load, each.candidate.label): each for each in analysis.failure_rates}


def values(rates: Rates, c: Comparison) -> dict[str, float | str | None]:
    """Return the value of each column; None where nothing ran."""
    found: dict[str, float | str | None] = dict.fromkeys(COLUMNS)
    each = rates.get((c.suite, c.workload, c.load, c.candidate.label))
    if each is not None:
        for side, counts in (("baseline", each.baseline_runs), ("candidate", each.candidate_runs)):
            found |= {f"{side}_{name}": getattr(counts, name) for name in _COUNTS}
            found |= {f"{side}_failed_{name}": getattr(counts, name) for name in _SHARES}
        found |= {"failures_p_value": each.p_value, "fails_more": each.fails_more}
    return found
