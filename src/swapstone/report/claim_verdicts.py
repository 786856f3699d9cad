# SPDX-License-Identifier: MIT OR Apache-2.0
"""Verdicts of records on the claims of the pages."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator

from swapstone.model import FrozenStruct, Index, Variant
from swapstone.published import Side
from swapstone.published.claims import ClaimTest, PageClaim
from swapstone.published.coverage import Catalog, problem
from swapstone.report import formatting
from swapstone.report.claim_evidence import ranges
from swapstone.report.measured import Analysed, effects, values
from swapstone.report.published_differences import ratio_text


class ClaimVerdict(enum.Enum):
    """Whether records support a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    ABSENT = "not in the records"
    UNTESTED = "not tested here"


class Evidence(FrozenStruct, frozen=True, kw_only=True):
    """What a record has about one test of a claim: a sentence, and whether it is inside the bounds."""

    record: str
    verdict: ClaimVerdict
    text: str


class JudgedClaim(FrozenStruct, frozen=True, kw_only=True):
    """A claim with its verdict.

    Attributes:
        claim: which.
        verdict: None where no record was given and one could test it.
        reason: why it is not tested here; empty otherwise.
        evidence: of each test and record.
    """

    claim: PageClaim
    verdict: ClaimVerdict | None
    reason: str
    evidence: tuple[Evidence, ...]


def judge(claims: Iterable[PageClaim], records: Iterable[Analysed], catalog: Catalog) -> tuple[JudgedClaim, ...]:
    """Judge claims.

    Args:
        claims: which.
        records: with their analyses; without any, no claim gets a verdict but *not tested here*.
        catalog: what this version can measure.
    """
    known = tuple(records)
    return tuple(_judged(claim, known, catalog) for claim in claims)


def _judged(claim: PageClaim, records: tuple[Analysed, ...], catalog: Catalog) -> JudgedClaim:
    reason = claim.untested or next(filter(None, (_unavailable(each, catalog) for each in claim.tests)), "")
    if reason or not records:
        verdict = ClaimVerdict.UNTESTED if reason else None
        return JudgedClaim(claim=claim, verdict=verdict, reason=reason, evidence=())
    found = [tuple(_evidence(test, records)) for test in claim.tests]
    return JudgedClaim(
        claim=claim,
        verdict=_together([_agreed(each) for each in found]),
        reason="",
        evidence=tuple(each for test in found for each in test),
    )


def _unavailable(test: ClaimTest, catalog: Catalog) -> str:
    text = problem(test.place, catalog)
    known = catalog.metrics.get((test.place.suite, test.place.workload), frozenset())
    if not text and test.part_of and test.part_of not in known:
        text = f"{test.place.workload} has no metric {test.part_of}"
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _agreed(found: tuple[Evidence, ...]) -> ClaimVerdict:
    """Return the verdict of all records on a test. Records that contradict each other leave it undecided."""
    verdicts = {each.verdict for each in found}
    if not verdicts:
        return ClaimVerdict.ABSENT
    decided = verdicts & {ClaimVerdict.HOLDS, ClaimVerdict.FAILS}
    return decided.pop() if len(decided) == 1 else ClaimVerdict.UNDECIDED


def _together(tests: list[ClaimVerdict]) -> ClaimVerdict:
    """Return the verdict of a claim: all its tests must hold, and one that does not hold is enough against it."""
    if ClaimVerdict.FAILS in tests:
        return ClaimVerdict.FAILS
    if set(tests) in ({ClaimVerdict.HOLDS}, {ClaimVerdict.ABSENT}):
        return tests[0]
    return ClaimVerdict.UNDECIDED


def _evidence(test: ClaimTest, records: Iterable[Analysed]) -> Iterator[Evidence]:
    for record in records:
        match test.what:
            case "values" | "share":
                yield from _of_values(test, record)
            case "index":
                yield from _of_index(test, record)
            case "ratio" | "difference":
                yield from _of_effect(test, record)
            case "seconds" | "stacks" | "modelled":
                yield from _of_range(test, record)


def _of_range(test: ClaimTest, record: Analysed) -> Iterator[Evidence]:
    """Decide by what the evidence allows: all of it is inside the bounds, none is, or it reaches over one of them."""
    for found in ranges(test, record):
        verdict = ClaimVerdict.UNDECIDED
        if test.least <= found.low and found.high <= test.most:
            verdict = ClaimVerdict.HOLDS
        elif found.high < test.least or found.low > test.most:
            verdict = ClaimVerdict.FAILS
        yield Evidence(record=record.name, verdict=verdict, text=found.text)


def _of_effect(test: ClaimTest, record: Analysed) -> Iterator[Evidence]:
    place = test.place
    over = test.over or place.side  # the decoder requires it
    for each in effects((record,), (place.suite, place.workload, place.metric), over, place.side):
        middle, low, high = each.ratio, each.low, each.high
        if test.what == "difference":
            scaled = [None if bound is None else (bound - 1) * each.baseline for bound in (middle, low, high)]
            middle, low, high = scaled[0] or 0.0, scaled[1], scaled[2]
        yield _of_interval(test, record, middle, low, high)


def _of_interval(test: ClaimTest, record: Analysed, middle: float, low: float | None, high: float | None) -> Evidence:
    """Decide by an interval: it is inside the bounds, outside, or reaches over one of them."""
    sides = ratio_text(test.place.side, test.over) if test.over else ""
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        text = f"{_name(test)}, {sides}: {_number(test, record, middle)}, without an interval"
        return Evidence(record=record.name, verdict=ClaimVerdict.UNDECIDED, text=text)
    between = "" if low == high else f" ({_number(test, record, low)} to {_number(test, record, high)})"
    text = f"{_name(test)}, {sides}: {_number(test, record, middle)}{between}"
    verdict = ClaimVerdict.UNDECIDED
    if low > test.least and high < test.most:
        verdict = ClaimVerdict.HOLDS
    elif high <= test.least or low >= test.most:
        verdict = ClaimVerdict.FAILS
    return Evidence(record=record.name, verdict=verdict, text=text)


def _of_values(test: ClaimTest, record: Analysed) -> Iterator[Evidence]:
    """Decide by the values of all runs: all are within the bounds, or none is."""
    place = test.place
    found = values(record, (place.suite, place.workload, place.metric), place.side)
    if test.part_of:
        whole = values(record, (place.suite, place.workload, test.part_of), place.side)
        if len(found) != len(whole):
            return
        found = tuple(part / each for part, each in zip(found, whole, strict=True) if each > 0)
    if not found:
        return
    inside = [test.least <= each <= test.most for each in found]
    verdict = ClaimVerdict.HOLDS if all(inside) else ClaimVerdict.UNDECIDED if any(inside) else ClaimVerdict.FAILS
    # A largest value beyond a bound of a maximum contradicts it, whatever the other runs are.
    if test.what == "values" and not all(inside):
        verdict = ClaimVerdict.FAILS
    least, most = _number(test, record, min(found)), _number(test, record, max(found))
    spread = least if least == most else f"{least} to {most}"
    share = f" of {test.part_of}" if test.part_of else ""
    side = ",".join(f"{factor}={level}" for factor, level in place.side.levels)
    text = f"{_name(test)}{share}, {side}: {spread} in {formatting.count(len(found), 'run')}"
    yield Evidence(record=record.name, verdict=verdict, text=text)


def _of_index(test: ClaimTest, record: Analysed) -> Iterator[Evidence]:
    over = test.over or test.place.side  # the decoder requires it
    for each in record.analysis.indices:
        if (each.suite, each.metric, each.load) != (test.place.suite, test.place.metric, test.place.side.load):
            continue
        if _is(each.baseline, over) and _is(each.candidate, test.place.side):
            yield _of_interval(test, record, each.effect, each.low, each.high)
        elif _is(each.candidate, over) and _is(each.baseline, test.place.side) and _positive(each):
            low, high = each.low, each.high
            yield _of_interval(test, record, 1 / each.effect, 1 / high if high else None, 1 / low if low else None)


def _is(variant: Variant, side: Side) -> bool:
    return dict(variant.levels) == dict(side.levels)


def _positive(each: Index) -> bool:
    return min(each.effect, each.low or each.effect, each.high or each.effect) > 0


def _name(test: ClaimTest) -> str:
    place = test.place
    under = "" if place.side.load == "idle" else f" under {place.side.load}"
    return f"{place.workload or 'index'}{under}, {place.metric}"


def _number(test: ClaimTest, record: Analysed, value: float) -> str:
    if test.what in {"ratio", "index"}:
        return formatting.ratio(value)
    if test.what == "share":
        return formatting.percent(value)
    place = test.place
    unit = next(
        (
            each.metric.unit
            for each in record.analysis.comparisons
            if (each.suite, each.workload, each.metric.name) == (place.suite, place.workload, place.metric)
        ),
        "1",
    )
    return formatting.quantity(value, unit)
