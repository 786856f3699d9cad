# SPDX-License-Identifier: MIT OR Apache-2.0
"""The claims of the pages with their verdicts, as a document and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from swapstone.core.report import formatting
from swapstone.core.report.document import BulletList, Document, Item, Paragraph, Section, Tone
from swapstone.core.report.printed_json import printed_json
from swapstone.parts.published.data import sources
from swapstone.parts.published.report.claim_verdicts import ClaimVerdict, JudgedClaim

_TONES = {ClaimVerdict.HOLDS: Tone.GOOD, ClaimVerdict.FAILS: Tone.BAD, ClaimVerdict.UNDECIDED: Tone.NOTE}
_MANY = {ClaimVerdict.HOLDS: "hold", ClaimVerdict.FAILS: "do not hold"}


def answer(found: Sequence[JudgedClaim], records: Sequence[str]) -> str:
    """Return the sentence with the number of claims of each verdict."""
    counts = Counter(each.verdict for each in found)
    claims = formatting.count(len(found), "claim")
    if not records:
        silent = counts[ClaimVerdict.UNTESTED]
        return f"Records can test {len(found) - silent} of {claims} of the pages; {silent} can't be tested here."
    parts = [
        formatting.count(counts[each], each.value, _MANY[each])
        if each in _MANY
        else f"{counts[each]} {'is' if counts[each] == 1 else 'are'} {each.value}"
        for each in ClaimVerdict
        if counts[each]
    ]
    return f"Of {claims} of the pages, {', '.join(parts)}."


def document_of(
    found: Sequence[JudgedClaim], records: Sequence[str], left_out: str = "", damaged: Sequence[str] = ()
) -> Document:
    """Return the claims as a document, a section for each page.

    Args:
        found: the claims with their verdicts.
        records: names of the records; empty for none.
        left_out: a sentence about records that test no claim; empty for none.
        damaged: a sentence about each record that is damaged.
    """
    sections = tuple(
        Section(
            title=f"{name}: {source['title']}",
            blocks=(BulletList(items=tuple(_item(each) for each in found if each.claim.source == name)),),
        )
        for name, source in sources().items()
        if any(each.claim.source == name for each in found)
    )
    if left_out:
        text = Paragraph(formatting.safe(left_out))
        sections = (*sections, Section(title="Records that test no claim", blocks=(text,)))
    return Document(
        title="Claims of the published pages",
        answer=answer(found, records),
        notices=tuple(Item(formatting.safe(text)) for text in damaged),
        sections=sections,
    )


def _item(each: JudgedClaim) -> Item:
    claim, verdict = each.claim, each.verdict
    lines = [
        f"{formatting.safe(found.record)}: {formatting.safe(found.text)}: {found.verdict.value}."
        for found in each.evidence
    ]
    lines += filter(None, (claim.untested or claim.note,))
    if claim.command and verdict not in _MANY:
        lines.append(f"{'Related' if claim.untested else 'Measure it'}: {claim.command}")
    return Item(
        f"{'can be tested' if verdict is None else verdict.value}. {claim.words} ({claim.place}).",
        label=claim.name,
        code=True,
        tone=Tone.PLAIN if verdict is None else _TONES.get(verdict, Tone.PLAIN),
        items=tuple(lines),
    )


def to_json(
    found: Sequence[JudgedClaim], records: Sequence[str], left_out: str = "", damaged: Sequence[str] = ()
) -> str:
    """Return everything, as JSON of the format ``published-claims``."""
    return printed_json(
        "published-claims",
        answer=answer(found, records),
        records=tuple(records),
        left_out=left_out or None,
        damaged=tuple(damaged),
        claims=[
            {
                "id": each.claim.name,
                "source": each.claim.source,
                "place": each.claim.place,
                "words": each.claim.words,
                "command": each.claim.command or None,
                "verdict": each.verdict.value if each.verdict else None,
                "reason": each.claim.untested or None,
                "note": each.claim.note or None,
                "evidence": each.evidence,
            }
            for each in found
        ],
    )
