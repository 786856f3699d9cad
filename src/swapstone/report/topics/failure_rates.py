# SPDX-License-Identifier: MIT OR Apache-2.0
"""Failure rates: how many runs of each variant fail, with intervals, and whether a candidate fails more often than the baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swapstone.model import Analysis, FailureCounts, FailureRates, Variant
from swapstone.report import formatting
from swapstone.report.answer.failing import share, shown
from swapstone.report.answer.places import IDLE
from swapstone.report.context import ReportContext
from swapstone.report.document import Section, data_section
from swapstone.report.topics.topic import Topic

NAME = "failure-rates"

_MOST_NAMES = 4
_HEAD = ("workload", "variant", "runs", "failed", "share (interval)", "timed out", "crashed", "otherwise", "refused")


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return a section with a row for each variant of each workload that has failed or refused runs; none where no run failed."""
    del context
    found = shown(analysis)
    if not found:
        return ()
    rows = list(_sides(found))
    confidence = formatting.percent(found[0].confidence)
    section = data_section(
        name=NAME,
        title="Failure rates",
        head=_HEAD,
        rows=tuple((_place(each), variant.short_label, *_cells(counts)) for each, variant, counts in rows),
        right=(False, False, True, True, False, True, True, True, True),
        keys=2,
        data=tuple(_data(each, variant, counts) for each, variant, counts in rows),
        notes=(
            f"All runs count, with the warm-up and those that are discarded. Intervals: {confidence}, not corrected. Refused runs are no "
            "failures.",
            *_tests(found),
        ),
    )
    return (section,)


def _sides(found: Sequence[FailureRates]) -> Iterator[tuple[FailureRates, Variant, FailureCounts]]:
    """Yield each variant with its counts, the baseline of a workload once."""
    places = set()
    for each in found:
        place = (each.suite, each.workload, each.load)
        if place not in places:
            places.add(place)
            yield each, each.baseline, each.baseline_runs
        yield each, each.candidate, each.candidate_runs


def _place(each: FailureRates) -> str:
    return each.workload if each.load == IDLE else f"{each.workload}, load {each.load}"


def _cells(counts: FailureCounts) -> tuple[str, ...]:
    numbers = (counts.timed_out, counts.crashed, counts.others, counts.refused)
    return (str(counts.runs), str(counts.failed), share(counts), *(str(number or "") for number in numbers))


def _data(each: FailureRates, variant: Variant, counts: FailureCounts) -> dict[str, str | float | None]:
    against = variant is each.candidate
    return {
        "suite": each.suite,
        "workload": each.workload,
        "load": each.load,
        "variant": variant.label,
        "runs": counts.runs,
        "failed": counts.failed,
        "share": counts.share,
        "low": counts.low,
        "high": counts.high,
        "timed_out": counts.timed_out,
        "crashed": counts.crashed,
        "others": counts.others,
        "refused": counts.refused,
        "p_value": each.p_value if against else None,
        "fails_more": each.fails_more if against else "",
    }


def _tests(found: Sequence[FailureRates]) -> Iterator[str]:
    """Yield sentences about the tests of equal rates: one for each that rejects, and one for all others."""
    for each in found:
        if each.fails_more:
            variants = (each.candidate, each.baseline)
            more, less = variants if each.fails_more == "candidate" else variants[::-1]
            yield (
                f"{formatting.safe(_place(each))}: {formatting.safe(more.short_label)} fails significantly more often than "
                f"{formatting.safe(less.short_label)} (p {formatting.digits(each.p_value, 2)}, from "
                f"{formatting.count(each.discordant, 'block')} in which they differ)."
            )
    rest = [each for each in found if not each.fails_more]
    if rest:
        named = ", ".join(_named(each) for each in rest[:_MOST_NAMES])
        more_rows = f" and {len(rest) - _MOST_NAMES} more" if len(rest) > _MOST_NAMES else ""
        yield f"No significant difference in rates: {named}{more_rows}."


def _named(each: FailureRates) -> str:
    candidate, p_value = formatting.safe(each.candidate.short_label), formatting.digits(each.p_value, 2)
    return f"{formatting.safe(_place(each))}, {candidate} (p {p_value})"


FAILURE_RATES = Topic(NAME, sections, selective=True)
