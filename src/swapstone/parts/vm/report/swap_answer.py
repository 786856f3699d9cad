# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer of swapping: how fast each level swaps out, and how long a touch of a swapped page takes."""

from __future__ import annotations

from collections.abc import Sequence

from swapstone.core.model import Analysis
from swapstone.core.report import formatting
from swapstone.core.report.answer import limits, tails, wording
from swapstone.core.report.answer.answer import Answer
from swapstone.core.report.answer.means import Mean, Standing
from swapstone.core.report.answer.places import Place, have_numbers, places_of
from swapstone.core.report.answer.ratio_answer import ratio_answer
from swapstone.core.report.context import ReportContext
from swapstone.core.report.topics.factorial_tables import is_crossed
from swapstone.core.report.verdict_groups import NO_NUMBERS
from swapstone.parts.vm.report.swap_data import SUITE

OUT, TOUCH = "out_steady", "touch_time"
_MOST = 4


def answer(context: ReportContext, analysis: Analysis) -> Answer | None:
    """Return the answer of an analysis that has workloads of the suite `swap` only; None for another, or for crossed factors."""
    if is_crossed(analysis) or not analysis.comparisons or any(row.suite != SUITE for row in analysis.comparisons):
        return None
    places = places_of(analysis)
    return ratio_answer(context, places, _sentence(context, analysis, places))


def _sentence(context: ReportContext, analysis: Analysis, places: Sequence[Place]) -> str:
    usable = [place for place in places if have_numbers(place.leads)]
    if not usable:
        return limits.missing(places) or limits.nothing_measured(analysis)
    margin = context.experiment.margin
    first = [place for place in usable if place.load == usable[0].load]
    clauses = [clause for place in first if (clause := _clause(place, margin))]
    rest = len(clauses) - _MOST
    text = "; ".join(clauses[:_MOST]) or f"no difference from {usable[0].names[1]} could be computed"
    text += f"; {formatting.count(rest, 'more level')} in the table" if rest > 0 else ""
    virtual = " (virtual clock)" if context.experiment.virtual else ""
    intro = f"Against {usable[0].names[1]}: " if len(clauses) > 1 else ""
    return f"{limits.opening(analysis)}{intro}{text}{virtual}.{limits.closing(analysis, places)}"


def _clause(place: Place, margin: float) -> str:
    """Return the result of one level, e.g. ``flash swaps out at 3 % of the rate of zram, and a touch takes 12 times as long``."""
    found = {mean.metric.name: mean for mean in place.means}
    parts = [
        text
        for name, words in ((OUT, _rate), (TOUCH, _touch))
        if name in found and (text := words(found[name], margin, place))
    ]
    beside = tails.clauses([row for row in place.leads if row.verdict not in NO_NUMBERS])
    return ", and ".join(parts) + (f" ({', '.join(beside)})" if parts and beside else "")


def _rate(mean: Mean, margin: float, place: Place) -> str:
    candidate, baseline = place.names
    phrase = f"swaps out at {_relative(mean.effect, 'rate', baseline)}"
    return f"{candidate} {_decided(mean, margin, phrase, f'swaps out as fast as {baseline}')}"


def _touch(mean: Mean, margin: float, place: Place) -> str:
    del place
    return f"a touch of a swapped page {_decided(mean, margin, wording.duration(mean.effect), 'takes as long')}"


def _relative(ratio: float, noun: str, other: str) -> str:
    if wording.is_near(ratio):
        return f"a {noun} {wording.percent(abs(ratio - 1))} {'higher' if ratio > 1 else 'lower'} than {other}"
    return wording.amount(ratio, noun, other)


def _decided(mean: Mean, margin: float, different: str, same: str) -> str:
    """Return the phrase that the interval supports."""
    standing = mean.standing(margin)
    if standing in {Standing.MORE, Standing.LESS}:
        return different
    if standing is Standing.SAME:
        median = " in the median" if tails.median_only(mean.rows) else ""
        return f"{same}{median} (within {wording.percent(margin)})"
    if standing is Standing.UNKNOWN:
        runs = max((len(row.baseline_values) for row in mean.rows), default=0)
        return f"{different} in {formatting.count(runs, 'pair')} of runs, too few for an interval"
    return (
        f"shows no decided difference ({formatting.digits(mean.low or 0)} to {formatting.digits(mean.high or 0)} times)"
    )
