"""Hold the published pages against themselves: their derived numbers, and their words."""

from __future__ import annotations

from swapstone.model import FrozenStruct
from swapstone.published.claim_checks import Claim, Outcome, claims
from swapstone.published.data import figures
from swapstone.published.derived_figures import Recomputed, recomputed


class Disagreement(FrozenStruct, frozen=True, kw_only=True):
    """Words of a page that its own numbers do not bear out.

    Attributes:
        source, place: where the words stand.
        words: what they say.
        numbers: what the numbers say.
        unsupported: true when the page gives no number for them at all.
    """

    source: str
    place: str
    words: str
    numbers: str
    unsupported: bool


class CheckReport(FrozenStruct, frozen=True, kw_only=True):
    """What `check` found.

    Attributes:
        figures: how many published figures there are.
        recomputed: every derived number.
        disagreements: words against numbers.
        borne_out: words that the numbers do bear out: triples (source, words, numbers).
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
    """Recompute every derived number, and compare the pages' words with their numbers.

    Returns:
        All of it: what agrees, and what does not.

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
