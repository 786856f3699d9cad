# SPDX-License-Identifier: MIT OR Apache-2.0
"""What limits an answer: what was not measured, what is undecided, caveats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swapstone.core.model import (
    FAST_ONES,
    NO_NUMBERS,
    OWN_SUITE,
    Analysis,
    CaveatKind,
    Comparison,
    FailureCounts,
    FailureRates,
    Verdict,
    grouped,
    named_first,
)
from swapstone.core.model.number_text import share_with_interval
from swapstone.core.report import formatting
from swapstone.core.report.answer import tails
from swapstone.core.report.answer.means import IDLE, Place, have_numbers, name_of, prose_name
from swapstone.core.report.answer.wording import listed
from swapstone.core.report.document import Item, Tone

_FAILS = tuple(
    f"{side} fails {words}in " for side in ("baseline", "candidate") for words in ("", "significantly more often: ")
)
_KINDS = ("carry-over", "prints other output", "writes another file", *_FAILS)
"""How reasons begin whose figures differ from row to row."""
_WITH_HINT = {
    CaveatKind.CARRY_OVER,
    CaveatKind.DISTURBED_RUNS,
    CaveatKind.OUTPUT_NOT_COMPARED,
    CaveatKind.SAME_FILE,
    CaveatKind.PAGE_CACHE,
}
"""Caveats whose hint is the remedy of rows without a result."""


def opening(analysis: Analysis) -> str:
    """Return what an answer states before its result, with a blank at the end: an interruption; else empty."""
    interrupted = any(caveat.kind is CaveatKind.INTERRUPTED for caveat in analysis.caveats)
    return f"Interrupted after {formatting.count(analysis.runs, 'run')}; so far: " if interrupted else ""


def missing(places: Sequence[Place]) -> str:
    """Return the sentences about candidates without any number and about rows without a valid result; empty without such."""
    gone = [place for place in places if place.leads and not have_numbers(place.leads)]
    names = grouped(dict.fromkeys((_why_gone(place), place.names[0]) for place in gone), lambda pair: pair[0])
    found = [
        f"{listed([name for _, name in of])} {'has' if len(of) == 1 else 'have'} no {_lacking(reason)}: {reason}."
        for reason, of in names.items()
    ]
    partly = [(place, sum(row.verdict in NO_NUMBERS for row in place.leads)) for place in places if place not in gone]
    lacking = [(place, count) for place, count in partly if count]
    if lacking:
        place, count = max(lacking, key=lambda pair: pair[1])
        who = f" of {place.names[0]}" if len({each.candidate for each in places}) > 1 else ""
        found.append(f"{count} of {formatting.count(len(place.leads), 'row')}{who} gave no valid result.")
    return " ".join(found)


def _lacking(reason: str) -> str:
    return "verdict" if reason.startswith(Verdict.DISTURBED.value) else "result"


def _why_gone(place: Place) -> str:
    """Return why a candidate has no number."""
    row = next(row for row in place.leads if row.verdict in NO_NUMBERS or not row.baseline_values)
    what = row.verdict.value if row.verdict in NO_NUMBERS else "no complete pair of runs"
    # The answer begins with the rates of failures.
    reason = FAST_ONES if row.reason.endswith(FAST_ONES) else formatting.safe(row.reason.removeprefix("candidate: "))
    return (f"{what}: {reason}" if reason not in {"", what} else what).rstrip(".")


def nothing_measured(analysis: Analysis) -> str:
    """Return the answer of a record in which no comparison has a number."""
    if not analysis.comparisons and not analysis.failures:
        return "There is nothing to compare in this record: no workload finished on two variants."
    found = [f"{failure.status}: {failure.reason}" for failure in analysis.failures if failure.reason]
    found += [f"{row.verdict.value}: {row.reason}" for row in analysis.comparisons if row.reason]
    reason = f" The first reason: {formatting.safe(found[0]).rstrip('.')}." if found else ""
    return f"Nothing was measured: no comparison has a number.{reason}"


def closing(analysis: Analysis, places: Sequence[Place]) -> str:
    """Return what an answer states after its result, with a blank before it; empty where nothing limits it that much.

    These are candidates and rows without a result, and a baseline that differs from its own copies.
    """
    found = [missing(places)]
    if any(caveat.kind is CaveatKind.NULL_DIFFERS for caveat in analysis.caveats):
        found.append("But the baseline differs from copies of itself, so small differences are not reliable here.")
    return "".join(f" {text}" for text in found if text)


def undecided(rows: Sequence[Comparison]) -> Iterator[Item]:
    """Yield inconclusive rows with the smallest change of each that would be detected."""
    found = [row for row in rows if row.verdict is Verdict.INCONCLUSIVE]
    known = sorted(filter(formatting.smallest, found), key=lambda row: -(row.smallest_visible or 0.0))
    named = named_first([f"{row_name(row, rows)} ({formatting.smallest(row)})" for row in known])
    text = f"{formatting.count(len(found), 'row')} inconclusive"
    text += f"; smallest detectable change: {named}" if named else ""
    if few := len(found) - len(known):
        text += f"; {few} with too few runs for an interval"
    if found:
        yield Item(f"{text}.")


def row_name(row: Comparison, rows: Sequence[Comparison]) -> str:
    """Return a row's name among others: its workload, and what else distinguishes it from them."""
    parts = [formatting.safe(row.workload)]
    if len({each.metric.name for each in rows if each.workload == row.workload}) > 1:
        parts.append(name_of(row.metric))
    if len({each.candidate for each in rows}) > 1:
        parts.append(prose_name(row.candidate))
    text = ", ".join(parts)
    return f"{text} under {formatting.safe(row.load)}" if row.load != IDLE else text


def open_rows(rows: Sequence[Comparison]) -> tuple[Item, ...]:
    """Return what rows with numbers leave open: inconclusive ones, those with the same median only, and bounds from few pairs."""
    return (*undecided(rows), *_same_median(rows), *_bounded(rows))


def _same_median(rows: Sequence[Comparison]) -> Iterator[Item]:
    """Yield the number of rows with the same median, and what the first of them lacks to be equivalent."""
    if found := [row for row in rows if row.verdict is Verdict.SAME_MEDIAN]:
        why = formatting.safe(max(found, key=lambda row: row.rarest_mode or 0.0).reason.removeprefix("same median; "))
        text = f"{formatting.count(len(found), 'row')} with the same median, not shown to be equivalent"
        yield Item(f"{text}: {why}." if why else f"{text}.")


def _bounded(rows: Sequence[Comparison]) -> Iterator[Item]:
    """Yield the footnote of intervals that are the range of few pairs."""
    if named := named_first([f"{row_name(row, rows)} {tails.bound(row)}" for row in rows if tails.bound(row)]):
        yield Item(f"{formatting.BOUNDED} the range of all pairs, too few for an interval: {named}.")


def rejected(rows: Sequence[Comparison]) -> Iterator[Item]:
    """Yield an item for each kind of reason for which rows have no result, or a mixed one: the rows, and the first reason."""
    found = (row for row in rows if row.verdict in {*NO_NUMBERS, Verdict.MIXED})
    for (verdict, _), refused in grouped(found, lambda row: (row.verdict, _kind(row))).items():
        reason = formatting.safe(refused[0].reason.removeprefix("candidate: ")) or "no reason given"
        yield Item(f"{_where(refused, rows)}: {verdict.value}: {reason}{_measured(refused[0])}", tone=Tone.WARNING)


def values(row: Comparison) -> tuple[str, str]:
    """Return the medians of baseline and candidate with their unit; empty texts where there are none."""
    if row.medians is None:
        return "", ""
    before, after = (formatting.quantity(each, row.metric.unit) for each in row.medians)
    return before, after


def _measured(row: Comparison) -> str:
    """Return the figures of a disturbed row: both medians and the range of its pairs; else an empty text."""
    if row.verdict is not Verdict.DISTURBED or row.medians is None:
        return ""
    ranged = formatting.pair_range(row)
    return f"; medians without a verdict: {' and '.join(values(row))}{f' (ratios {ranged})' if ranged else ''}"


def _kind(row: Comparison) -> str:
    """Return what rows of one item have in common.

    The figures of disturbed and mixed rows differ from row to row, and so do those behind the colon of a reason such as ``carry-over:
    ...`` or ``outputs differ: ...``.
    """
    if row.verdict in {Verdict.DISTURBED, Verdict.MIXED}:
        return ""
    reason = row.reason.removeprefix("candidate: ")
    return next((kind for kind in _KINDS if reason.startswith(kind)), reason)


def _where(refused: Sequence[Comparison], rows: Sequence[Comparison]) -> str:
    """Return the rows of a reason: the candidate if they are all of its rows, else the first and the number of the others."""
    candidate = refused[0].candidate
    if len(refused) > 1 and refused == [row for row in rows if row.candidate == candidate]:
        return f"{prose_name(candidate)}, {formatting.count(len(refused), 'row')}"
    first = row_name(refused[0], rows)
    return first if len(refused) == 1 else f"{first} and {len(refused) - 1} more"


def caveats(analysis: Analysis) -> Iterator[Item]:
    """Yield every caveat, without its hint unless it is the remedy of rows without a result."""
    for caveat in analysis.caveats:
        hint = f" {caveat.hint}" if caveat.hint and caveat.kind in _WITH_HINT else ""
        yield Item(formatting.safe(caveat.message + hint), tone=Tone.WARNING)


_MOST_ITEMS = 3


def shown(analysis: Analysis) -> tuple[FailureRates, ...]:
    """Return the rates of comparisons in which a run failed or was refused, without copies of the baseline."""
    return tuple(
        each
        for each in analysis.failure_rates
        if each.candidate not in analysis.copies and any(side.failed or side.refused for side in each.sides.values())
    )


def sentence(analysis: Analysis) -> str:
    """Return how often the runs of rows fail that are invalid for that reason, with a blank at the end; empty without such rows.

    Comparisons with a side that never succeeds are left out: its reason is in the answer.
    """
    found = [
        each for each in shown(analysis) if each.unfit and all(side.failed < side.runs for side in each.sides.values())
    ]
    if not found:
        return ""
    first = max(found, key=lambda each: (bool(each.fails_more), each.sides[each.unfit[0]].share))
    pairs = (first.baseline, first.baseline_runs), (first.candidate, first.candidate_runs)
    (who, own), (other, against) = pairs if (first.fails_more or first.unfit[0]) == "baseline" else pairs[::-1]
    text = f"{prose_name(who)} fails in {share(own)} of its runs{_of(first, analysis)}, {prose_name(other)} in {share(against)}"
    undecided = "" if first.fails_more else "; whether the rates differ is not decided"
    more = f" Runs fail in {formatting.count(len(found) - 1, 'more comparison')} too." if len(found) > 1 else ""
    return f"{text}: {kinds(own)} of {own.runs}{undecided}.{more} "


def share(counts: FailureCounts) -> str:
    """Return the share of failed runs with its interval, e.g. ``12 % (6.2–21 %)``."""  # noqa: RUF002 - a dash between numbers
    return share_with_interval(counts.share, counts.low, counts.high)


def kinds(counts: FailureCounts) -> str:
    """Return how runs failed, e.g. ``12 timed out and 2 crashed``."""
    found = ((counts.timed_out, "timed out"), (counts.crashed, "crashed"), (counts.others, "failed otherwise"))
    return listed([f"{number} {what}" for number, what in found if number])


def items(analysis: Analysis) -> Iterator[Item]:
    """Yield the rates of comparisons that are judged although runs failed."""
    found = [each for each in shown(analysis) if not each.unfit and any(side.failed for side in each.sides.values())]
    for each in found[:_MOST_ITEMS]:
        before, after = each.baseline_runs, each.candidate_runs
        yield Item(
            f"{prose_name(each.candidate)} fails in {after.failed} of {after.runs} runs{_of(each, analysis)}, {share(after)}, "
            f"{prose_name(each.baseline)} in {before.failed} of {before.runs}, {share(before)}.",
            tone=Tone.WARNING,
        )
    if len(found) > _MOST_ITEMS:
        rest = formatting.count(len(found) - _MOST_ITEMS, "more comparison")
        yield Item(f"Runs fail in {rest} too.", tone=Tone.WARNING)


def _of(each: FailureRates, analysis: Analysis) -> str:
    """Return of which workload runs are, with a blank before it; empty for an own program, whose name is that of a variant."""
    load = "" if each.load == IDLE else f" under load {formatting.safe(each.load)}"
    alone = len({other.workload for other in analysis.failure_rates}) == 1
    return load if each.suite == OWN_SUITE and alone else f" of {formatting.safe(each.workload)}{load}"
