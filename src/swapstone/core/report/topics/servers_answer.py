# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the answer of a comparison of servers has besides throughput: the 99th percentile of latency."""

from __future__ import annotations

from swapstone.core.report import formatting
from swapstone.core.report.answer import wording
from swapstone.core.report.answer.means import Standing
from swapstone.core.report.answer.places import Place

P99 = "latency_p99"


def latency_clause(place: Place, margin: float) -> str:
    """Return the clause about the p99 latency of a candidate, with a semicolon before it; empty without a difference."""
    mean = next((each for each in place.means if each.metric.name == P99), None)
    if mean is None or mean.standing(margin) not in {Standing.MORE, Standing.LESS}:
        return ""
    if wording.is_near(mean.effect):
        word = "longer" if mean.effect > 1 else "shorter"
        return f"; its p99 latency is {wording.percent(abs(mean.effect - 1))} {word}"
    if mean.effect > 1:
        return f"; its p99 latency is {wording.multiple(mean.effect)} as long"
    return f"; its p99 latency is {wording.fraction(mean.effect)} of that"


def crossed_latency_clause(within: float, without: float) -> str:
    """Return the clause about an interaction in p99 latency, with a comma before it."""
    return f", and {formatting.digits(within)} times the p99 latency instead of {formatting.digits(without)} times"
