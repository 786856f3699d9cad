# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer of an explanation: the causes with the largest shares of a row's difference."""

from __future__ import annotations

from swapstone.core.record.variant_label import short_label
from swapstone.core.report.answer.wording import listed
from swapstone.core.report.formatting import safe
from swapstone.parts.explain.explanation.evidence import duration
from swapstone.parts.explain.explanation.findings import nothing_named, percent
from swapstone.parts.explain.model.explanation import Explanation

_MOST = 3
_LEAST = 0.05


def sentence(explanation: Explanation) -> str:
    """Return which causes account for a row's difference, with the share that has no cause.

    For example: b_malloc_big1 takes 4.1 ms with musl instead of 1.2 ms with glibc; 62 % of the difference is page faults and 34 % system
    calls; 4 % is unexplained.
    """
    place, ledger = explanation.place, explanation.ledger
    candidate, baseline = safe(short_label(place.candidate)), safe(short_label(place.baseline))
    if not explanation.differs and explanation.no_result:
        return (
            f"There is no difference to explain: the record has no result, and its runs now show no difference between {candidate} and "
            f"{baseline} on {safe(place.workload)}."
        )
    if not explanation.differs:
        return (
            f"There is no difference to explain: the record has no significant one between {candidate} and {baseline} on "
            f"{safe(place.workload)}."
        )
    if ledger is None:
        causes = [safe(finding.cause) for finding in explanation.findings[:_MOST]]
        found = f" that are consistent with it: {listed(causes)}" if causes else ", and no count differs"
        return f"How the time of {safe(place.workload)} splits into causes is unavailable; there are counts{found}."
    start = (
        f"{safe(place.workload)} takes {duration(ledger.candidate)} ({safe(ledger.metric)}) with {candidate} instead of "
        f"{duration(ledger.baseline)} with {baseline}"
    )
    shares = [
        f"{percent(finding.share)} {'of the difference ' if not number else ''}is {safe(finding.cause)}"
        + (f" ({safe(finding.how)})" if finding.how else "")
        for number, finding in enumerate(
            [each for each in explanation.findings if each.share is not None and each.share >= _LEAST][:_MOST]
        )
        if finding.share is not None
    ]
    if not shares:
        counted = listed([safe(finding.cause) for finding in explanation.findings[:_MOST]])
        return f"{start}; {nothing_named(ledger)}{f'; counts differ in {counted}' if counted else ''}."
    rest = ledger.residual / ledger.difference if ledger.difference else 0.0
    unexplained = f"; {percent(rest)} is unexplained" if abs(rest) >= _LEAST else ""
    return f"{start}; {listed(shares)}{unexplained}."
