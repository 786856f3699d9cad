# SPDX-License-Identifier: MIT OR Apache-2.0
"""Columns of a comparison about means, tails and carry-over, for CSV and for SQL."""

from __future__ import annotations

from swapstone.model import Comparison

COLUMNS = (
    "baseline_mean",
    "candidate_mean",
    "baseline_p90",
    "candidate_p90",
    "baseline_maximum",
    "candidate_maximum",
    "mean_effect",
    "mean_low",
    "mean_high",
    "tail_p_value",
    "rarest_mode",
    "observed_s",
    "bounded",
    "carry_over_effect",
    "carry_over_p_value",
    "baseline_after_itself",
    "baseline_after_other",
    "candidate_after_itself",
    "candidate_after_other",
    "discarded_runs",
)
"""Their names, of which none is a keyword of SQL. `bounded` is a truth value, the others are numbers in the metric's unit, ratios, or
seconds (``_s``)."""


def values(c: Comparison) -> dict[str, float | bool | None]:
    """Return the value of each column; None for no number."""
    found: dict[str, float | bool | None] = dict.fromkeys(COLUMNS)
    for side, runs in (("baseline", c.baseline_runs), ("candidate", c.candidate_runs)):
        if runs is not None:
            found |= {f"{side}_mean": runs.mean, f"{side}_p90": runs.p90, f"{side}_maximum": runs.maximum}
    found |= {"mean_effect": c.mean_effect, "mean_low": c.mean_low, "mean_high": c.mean_high}
    found |= {"tail_p_value": c.tail_p_value, "rarest_mode": c.rarest_mode, "observed_s": c.observed_s}
    found["bounded"] = c.bounded
    if c.carry_over is not None:
        each = c.carry_over
        found |= {
            "carry_over_effect": each.effect,
            "carry_over_p_value": each.p_value,
            "baseline_after_itself": each.baseline_after_itself,
            "baseline_after_other": each.baseline_after_other,
            "candidate_after_itself": each.candidate_after_itself,
            "candidate_after_other": each.candidate_after_other,
            "discarded_runs": each.discarded,
        }
    return found
