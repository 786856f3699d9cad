# SPDX-License-Identifier: MIT OR Apache-2.0
"""Verdicts of records on the claims of the pages."""

from __future__ import annotations

import enum
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from swapstone.core.model import FrozenStruct
from swapstone.core.report import formatting
from swapstone.core.report.answer.means import decided_bounds, leading_metric
from swapstone.core.report.document import BulletList, Document, Item, Paragraph, Section, Tone
from swapstone.core.report.printed_json import printed_json
from swapstone.core.report.ratios import WALL
from swapstone.core.report.tables import Range
from swapstone.parts.published.data import ClaimTest, PageClaim, sources
from swapstone.parts.published.report.measured import Analysed, effect_of, values
from swapstone.parts.published.report.published_differences import ratio_text


class ClaimVerdict(enum.Enum):
    """Whether records support a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    ABSENT = "not in the records"
    UNTESTED = "not tested here"


class Evidence(FrozenStruct, frozen=True, kw_only=False):
    """What a record has about one test of a claim: whether it is inside the bounds, and a sentence."""

    record: str
    verdict: ClaimVerdict
    text: str


class JudgedClaim(FrozenStruct, frozen=True, kw_only=True):
    """A claim with its verdict.

    Attributes:
        claim: which.
        verdict: None where no record was given and one could test it.
        evidence: of each test and record.
    """

    claim: PageClaim
    verdict: ClaimVerdict | None
    evidence: tuple[Evidence, ...]


def judge(claims: Iterable[PageClaim], records: Sequence[Analysed]) -> tuple[JudgedClaim, ...]:
    """Judge claims.

    Args:
        claims: which.
        records: with their analyses; without any, no claim gets a verdict but *not tested here*.
    """
    return tuple(_judged(claim, records) for claim in claims)


def _judged(claim: PageClaim, records: Sequence[Analysed]) -> JudgedClaim:
    if claim.untested or not records:
        verdict = ClaimVerdict.UNTESTED if claim.untested else None
        return JudgedClaim(claim=claim, verdict=verdict, evidence=())
    found = [
        [
            Evidence(record.name, _verdict(test, low, high), text)
            for record in records
            for low, high, text in _ranges(test, record)
        ]
        for test in claim.tests
    ]
    # All its tests must hold, and one that does not hold is enough against it.
    verdicts = {_agreed({each.verdict for each in test}) for test in found}
    verdict = ClaimVerdict.FAILS if ClaimVerdict.FAILS in verdicts else ClaimVerdict.UNDECIDED
    if len(verdicts) == 1:
        verdict = verdicts.pop()
    return JudgedClaim(claim=claim, verdict=verdict, evidence=tuple(each for test in found for each in test))


def _agreed(verdicts: set[ClaimVerdict]) -> ClaimVerdict:
    """Return the verdict of all records on a test. Records that contradict each other leave it undecided."""
    if not verdicts:
        return ClaimVerdict.ABSENT
    decided = verdicts & {ClaimVerdict.HOLDS, ClaimVerdict.FAILS}
    return decided.pop() if len(decided) == 1 else ClaimVerdict.UNDECIDED


def _verdict(test: ClaimTest, low: float, high: float) -> ClaimVerdict:
    """Decide by what the evidence allows: all of it is inside the bounds, none is, or it reaches over one of them.

    An interval that touches a bound is outside it. Of values, one beyond a bound contradicts it, whatever the other runs are.
    """
    least, most = test.least, test.most
    if test.what in {"ratio", "difference", "index"}:
        least, most = math.nextafter(least, math.inf), math.nextafter(most, -math.inf)
    if least <= low and high <= most:
        return ClaimVerdict.HOLDS
    return ClaimVerdict.FAILS if high < least or low > most or test.what == "values" else ClaimVerdict.UNDECIDED


def _of_effect(test: ClaimTest, record: Analysed) -> Iterator[Range]:
    side, over = test.sides
    found = effect_of(record, (test.suite, test.workload, test.metric), over, side)
    if found is not None:
        numbers = [math.nan if each is None else each for each in (found.value, *found.interval)]
        if test.what == "difference":
            numbers = [(each - 1) * found.baseline for each in numbers]
        yield _interval(test, record, *numbers)


def _of_index(test: ClaimTest, record: Analysed) -> Iterator[Range]:
    wanted = [dict(side.levels) for side in test.sides]
    metric = test.metric
    if metric == WALL:  # the time to read first, as in comparisons
        rows = [each for each in record.analysis.comparisons if (each.suite, each.load) == (test.suite, test.load)]
        metric = leading_metric(rows) or metric
    for each in record.analysis.indices:
        if (each.suite, each.metric, each.load) != (test.suite, metric, test.load):
            continue
        sides = [dict(variant.levels) for variant in (each.candidate, each.baseline)]
        numbers = [each.effect, *(decided_bounds(each) or (math.nan, math.nan))]
        if sides == wanted:
            yield _interval(test, record, *numbers)
        elif sides == wanted[::-1] and not any(number <= 0 for number in numbers):
            middle, high, low = (1 / number for number in numbers)
            yield _interval(test, record, middle, low, high)


def _interval(test: ClaimTest, record: Analysed, middle: float, low: float, high: float) -> Range:
    text = f"{_name(test)}, {ratio_text(*test.sides)}: {_number(test, record, middle)}"
    if math.isnan(low) or math.isnan(high):
        return math.nan, math.nan, f"{text}, without an interval"
    between = "" if low == high else f" ({_number(test, record, low)} to {_number(test, record, high)})"
    return low, high, text + between


def _of_values(test: ClaimTest, record: Analysed) -> Iterator[Range]:
    side, _ = test.sides
    found = values(record, (test.suite, test.workload, test.metric), side)
    if test.part_of:
        whole = values(record, (test.suite, test.workload, test.part_of), side)
        paired = zip(found, whole, strict=True) if len(found) == len(whole) else ()
        found = tuple(part / each for part, each in paired if each > 0)
    if found:
        least, most = (_number(test, record, each) for each in (min(found), max(found)))
        spread = least if least == most else f"{least} to {most}"
        share = f" of {test.part_of}" if test.part_of else ""
        runs = formatting.count(len(found), "run")
        yield min(found), max(found), f"{_name(test)}{share}, {side.text}: {spread} in {runs}"


def _of_seconds(test: ClaimTest, record: Analysed) -> Iterator[Range]:
    means: list[float] = []
    for side in test.sides:
        fitting = (
            dict(each.series).get(test.metric, ())
            for each in record.analysis.time_series
            if (each.suite, each.workload, each.load) == (test.suite, test.workload, side.load)
            and side.has_label(each.variant.label)
        )
        means += [statistics.fmean(numbers) for numbers in fitting if numbers][:1]
    if len(means) == 2:
        one, other = (f"{mean:.1f} %" for mean in means)
        text = (
            f"{one} on average over the seconds of a run with {test.sides[0].text}, {other} with {test.sides[1].text}"
        )
        yield means[0] - means[1], means[0] - means[1], f"{test.workload}, {test.metric}: {text}"


_RANGES = {
    "ratio": _of_effect,
    "difference": _of_effect,
    "index": _of_index,
    "values": _of_values,
    "share": _of_values,
    "seconds": _of_seconds,
}
"""What yields the evidence that an analysis has for each kind of test."""


def _ranges(test: ClaimTest, record: Analysed) -> Iterable[Range]:
    if test.clock not in {"", record.experiment.clock}:
        return ()
    if find := _RANGES.get(test.what):
        return find(test, record)
    stored = record.stored.get(test.what)
    return stored(test) if stored else ()


def _name(test: ClaimTest) -> str:
    under = "" if test.load == "idle" else f" under {test.load}"
    return f"{test.workload or 'index'}{under}, {test.metric}"


def _number(test: ClaimTest, record: Analysed, value: float) -> str:
    if test.what in {"ratio", "index"}:
        return formatting.ratio(value)
    if test.what == "share":
        return formatting.percent(value)
    row = (test.suite, test.workload, test.metric)
    units = (
        each.metric.unit for each in record.analysis.comparisons if (each.suite, each.workload, each.metric.name) == row
    )
    return formatting.quantity(value, next(units, "1"))


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
