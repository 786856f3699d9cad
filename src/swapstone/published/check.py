# SPDX-License-Identifier: MIT OR Apache-2.0
"""Check the published pages against their own figures: derived numbers and claims."""

from __future__ import annotations

from swapstone.model import FrozenStruct
from swapstone.published.claim_checks import Claim, Outcome, claims
from swapstone.published.data import figures
from swapstone.published.derived_figures import Recomputed, recomputed


class Disagreement(FrozenStruct, frozen=True, kw_only=True):
    """A claim of a page that its own numbers contradict or don't support.

    Attributes:
        source, place: the page, and where on it.
        words: the claim.
        numbers: the result of its check.
        unsupported: whether the page has no numbers for it.
    """

    source: str
    place: str
    words: str
    numbers: str
    unsupported: bool


class CheckReport(FrozenStruct, frozen=True, kw_only=True):
    """The result of `check`.

    Attributes:
        figures: number of published figures.
        recomputed: every derived number.
        disagreements: claims that the numbers contradict or don't support.
        borne_out: claims that the numbers support: triples (source, claim, numbers).
    """

    figures: int
    recomputed: tuple[Recomputed, ...]
    disagreements: tuple[Disagreement, ...]
    borne_out: tuple[tuple[str, str, str], ...]


def _disagreement(claim: Claim, outcome: Outcome) -> Disagreement:
    return Disagreement(
        source=claim.source,
        place=claim.place,
        words=claim.words,
        numbers=outcome.numbers,
        unsupported=outcome.borne_out is None,
    )


def check() -> CheckReport:
    """Recompute every derived number, and check every claim.

    Returns:
        All results, whether they agree or not.

    Raises:
        UserError: a file of figures is damaged.
    """
    judged = [(claim, claim.judge()) for claim in claims()]
    return CheckReport(
        figures=len(figures()),
        recomputed=recomputed(),
        disagreements=tuple(_disagreement(claim, outcome) for claim, outcome in judged if not outcome.borne_out),
        borne_out=tuple((claim.source, claim.words, outcome.numbers) for claim, outcome in judged if outcome.borne_out),
    )
