# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer of a comparison of levels of one factor."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from swapstone.core.model import Analysis, Direction, Metric, Verdict
from swapstone.core.model.metric import TIMES
from swapstone.core.report import formatting
from swapstone.core.report.answer import tails, wording
from swapstone.core.report.answer.answer import Answer
from swapstone.core.report.answer.claim import Claim
from swapstone.core.report.answer.means import (
    PROCESSOR_TIMES,
    Mean,
    Place,
    Standing,
    cost_groups,
    have_numbers,
    mean_of,
    phrase_of,
    places_of,
)
from swapstone.core.report.answer.ratio_answer import ratio_answer
from swapstone.core.report.context import ReportContext
from swapstone.core.report.topics.factorial_tables import is_crossed
from swapstone.core.report.verdict_groups import DECIDED, NO_NUMBERS, SAME_CENTRE

P99 = "latency_p99"
_LARGE = 1.5
"""A size is in the sentence from this ratio on."""
_DIFFERENT = (Standing.MORE, Standing.LESS)


def answer(context: ReportContext, analysis: Analysis) -> Answer | None:
    """Return the answer of comparisons; None of a record without any, or of crossed factors."""
    if not analysis.comparisons or is_crossed(analysis):
        return None
    places = places_of(analysis)
    return ratio_answer(context, places, claims_of(places, context.experiment.margin))


def claims_of(places: Sequence[Place], margin: float) -> list[Claim]:
    """Return a claim for each place with numbers; where no time or rate was measured, one about memory, events or sizes."""
    if any(place.leads for place in places):
        return [_claim(place, margin) for place in places if have_numbers(place.leads)]
    return _without_times(places, margin)


def _claim(place: Place, margin: float) -> Claim:
    """Return the result of one candidate.

    For example: musl takes 2.5 times as long as glibc on 27 workloads of libc, and a third of the memory; the cost is in regex, strings
    and threads.
    """
    lead = place.lead
    candidate, baseline = place.names
    usable = [row for row in place.leads if row.verdict not in NO_NUMBERS]
    alone = lead is not None and len({row.workload for row in usable}) == 1
    claim = Claim(
        suite=place.suite,
        load=place.load,
        subject=candidate,
        against=baseline,
        scope=place.scope(place.workloads if lead is None else lead.workloads),
        text=f"{candidate} can't be compared with {baseline} as a ratio on {place.scope(place.workloads)}",
        rows=tuple(row for row in usable if row in lead.rows) if alone and lead is not None else place.leads,
        names_rows=alone,
        floor=margin,
    )
    if lead is None:
        return claim
    brief = f"{lead_phrase(lead, margin, '')}{_other_leads(place, lead, margin)}{_memory(place, margin)}"
    return msgspec.structs.replace(claim, text=_text(place, lead, margin), brief=brief).of_mean(lead)


def _text(place: Place, lead: Mean, margin: float) -> str:
    standing = lead.standing(margin)
    candidate, baseline = place.names
    if standing in {Standing.OPEN, Standing.UNKNOWN} and all(
        row.verdict in {Verdict.INCONCLUSIVE, *NO_NUMBERS} for row in place.leads
    ):
        return _nothing_found(place, lead, standing, margin) + _memory(place, margin, alone=True)
    if lead.workloads == 1 and (mixed := _mixed(place, lead)):
        return mixed + _memory(place, margin)
    each = standing is Standing.SAME and all(row.verdict in SAME_CENTRE for row in place.leads)
    where = f" on {'each of ' if each and lead.workloads > 1 else ''}{place.scope(lead.workloads)}"
    others = _other_leads(place, lead, margin) + _memory(place, margin) + _latency(place, margin)
    text = f"{candidate} {lead_phrase(lead, margin, baseline)}{where}{others}"
    return "; ".join([text, *(_where(place, lead, standing) if lead.workloads > 1 else [])])


def _other_leads(place: Place, lead: Mean, margin: float) -> str:
    """Return the clauses about what other workloads measure, or a program prints, where that is decided."""
    names = dict.fromkeys(row.metric.name for row in place.leads if row.metric.name not in {*TIMES, lead.metric.name})
    means = (mean_of([row for row in place.leads if row.metric.name == name]) for name in names)
    return "".join(
        f", and {lead_phrase(mean, margin, '')}" for mean in means if mean is not None and _is_stated(mean, margin)
    )


def _is_stated(mean: Mean, margin: float) -> bool:
    """Return whether a mean is a difference, or shows that there is none in any row."""
    same = mean.standing(margin) is Standing.SAME and not any(row.verdict in DECIDED for row in mean.rows)
    return same or mean.standing(margin) in _DIFFERENT


def _mixed(place: Place, lead: Mean) -> str:
    """Return the result of a single row whose median and mean differ in opposite directions; empty for another row."""
    row = next((row for row in lead.rows if row.verdict not in NO_NUMBERS), None)
    if row is None or row.verdict is not Verdict.MIXED:
        return ""
    candidate, baseline = place.names
    return (
        f"no verdict on {formatting.safe(lead.name)} of {candidate} against {baseline} on {place.scope(1)}: its median is "
        f"{formatting.digits(lead.effect)} times, {tails.detail(row) or 'and its mean differs in the opposite direction'}"
    )


def lead_phrase(mean: Mean, margin: float, other: str) -> str:
    """Return a result as a phrase with its verb, e.g. ``takes 2.5 times as long as glibc``.

    Args:
        mean: of the time or rate to read first.
        margin: ratios within it are no difference.
        other: what it is compared with; empty if the sentence has named it.
    """
    standing = mean.standing(margin)
    elapsed = mean.metric.name == "wall"
    if standing in _DIFFERENT:
        return changed(mean.metric, mean.effect, other)
    if standing is Standing.SAME:
        median = tails.median_only(mean.rows)
        same = f"has the same {'median ' * median}{mean.name}" if median or not elapsed else "takes as long"
        return f"{same}{f' as {other}' if other else ''} (within {wording.percent(margin)})"
    if standing is Standing.UNKNOWN:
        return f"ran too few times for an interval; in these runs it {_past(mean)}"
    low, high = mean.low or mean.effect, mean.high or mean.effect
    between = (
        wording.between(low, high)
        if elapsed
        else f"between {formatting.digits(low)} and {formatting.digits(high)} times"
    )
    if standing is Standing.SLIGHT:
        word = ("slower" if mean.effect > 1 else "faster") if elapsed else f"different in {mean.name}"
        joint = f" {'from' if not elapsed else 'than'} {other}" if other else ""
        return f"is {word}{joint}, perhaps by less than {wording.percent(margin)} ({between})"
    joint = f" from {other}" if other else ""
    return f"shows no difference{joint} in {'median ' * tails.median_only(mean.rows)}{mean.name} ({between})"


def changed(metric: Metric, effect: float, other: str) -> str:
    """Return a difference as a phrase with its verb."""
    phrase = phrase_of(metric)
    if phrase.lasts is not None:
        return wording.duration(effect, other) + phrase.lasts
    noun = phrase.noun or formatting.safe(phrase.name)
    return f"{phrase.verb} {wording.amount(effect, noun, other, counted=phrase.counted)}"


def _past(mean: Mean) -> str:
    verb, _, rest = changed(mean.metric, mean.effect, "").partition(" ")
    return f"{ {'takes': 'took', 'is': 'was'}.get(verb, phrase_of(mean.metric).past) } {rest}"


def _memory(place: Place, margin: float, *, alone: bool = False) -> str:
    """Return the clause about memory, else one about a large difference in size; empty without either.

    Args:
        place: the candidate.
        margin: ratios within it are no difference.
        alone: whether no difference in time precedes the clause.
    """
    memory, size, name = place.memory, place.size, place.names[0]
    if memory is not None and memory.standing(margin) in _DIFFERENT:
        verb = "" if place.lead is not None and place.lead.metric.name == "cpu" else "uses "
        amount = wording.amount(memory.effect, "memory")
        return f"; {name} uses {amount}" if alone else f", and {verb}{amount}"
    if size is not None and size.standing(margin) in _DIFFERENT and not 1 / _LARGE < size.effect < _LARGE:
        who = f"programs of {name}" if alone else "its programs"
        return f"; {who} have {wording.amount(size.effect, 'size')}"
    return ""


def _latency(place: Place, margin: float) -> str:
    """Return the clause about the p99 latency of a candidate, with a semicolon before it; empty without a difference."""
    mean = next((each for each in place.means if each.metric.name == P99), None)
    if mean is None or mean.standing(margin) not in _DIFFERENT:
        return ""
    if wording.is_near(mean.effect):
        amount = f"{wording.percent(abs(mean.effect - 1))} {'longer' if mean.effect > 1 else 'shorter'}"
    else:
        amount = (
            f"{wording.multiple(mean.effect)} as long"
            if mean.effect > 1
            else f"{wording.fraction(mean.effect)} of that"
        )
    return f"; its p99 latency is {amount}"


def _where(place: Place, lead: Mean, standing: Standing) -> list[str]:
    """Return which groups of workloads have a difference; empty where there is none, or no group explains it."""
    if standing not in _DIFFERENT:
        return []
    more, better = standing is Standing.MORE, lead.metric.better
    found = cost_groups([row for row in place.leads if row.metric.name == lead.metric.name], more=more)
    what = "difference" if better is Direction.NEITHER else "gain" if more == (better is Direction.HIGHER) else "cost"
    return [f"the {what} is in {wording.listed(list(map(formatting.safe, found)))}"] if found else []


def _nothing_found(place: Place, lead: Mean, standing: Standing, margin: float) -> str:
    """Return that no difference was found, which one would have been, and the CPU time if that differs."""
    candidate, baseline = place.names
    scope = place.scope(lead.workloads)
    if standing is Standing.UNKNOWN and not any(row.low is not None for row in place.leads):
        runs = max((len(row.baseline_values) for row in place.leads), default=0)
        return (
            f"too few runs to compare {candidate} with {baseline} on {scope}: {formatting.count(runs, 'pair')} of runs, "
            f"in which it {_past(lead)}"
        )
    seen = [row.smallest_visible for row in place.leads if row.smallest_visible is not None]
    limit = f"; changes under {wording.percent(max(seen) - 1)} would not be detected" if seen else ""
    # The CPU time may differ where the metric of the answer does not.
    used = next(
        (
            f"; {candidate} {lead_phrase(mean, margin, '')}"
            for mean in place.means
            if mean.metric.name in PROCESSOR_TIMES - {lead.metric.name}
            and mean.standing(margin) in {*_DIFFERENT, Standing.SLIGHT}
        ),
        "",
    )
    metric = f"in {formatting.safe(lead.name)} " if used else ""
    return f"no difference {metric}found between {baseline} and {candidate} on {scope}{limit}{used}"


def _without_times(places: Sequence[Place], margin: float) -> list[Claim]:
    """Return the claims of a record that has memory, events or sizes and no time: the first difference, else that there is none."""
    means = [(place, mean) for place in places for mean in place.means]
    if not means:
        return []
    differing = [(place, mean) for place, mean in means if mean.standing(margin) in _DIFFERENT]
    place, mean = (differing or means)[0]
    candidate, baseline = place.names
    scope = place.scope(mean.workloads)
    rows = [row for each in places for row in each.rows]
    where = f"between {places[0].names[1]} and {places[0].names[0]} on {places[0].scope(places[0].workloads)}"
    if differing:
        text = f"{candidate} has {wording.amount(mean.effect, mean.name, baseline)} on {scope}"
    elif any(row.verdict in DECIDED for row in rows):
        text = f"no mean over the rows differs {where}; single rows do"
    elif any(row.low is not None or row.exact for row in rows):
        text = f"no difference found {where}"
    else:
        text = f"too few runs to find a difference {where}"
    claim = Claim(
        suite=place.suite, load=place.load, subject=candidate, against=baseline, scope=scope, text=text, floor=margin
    )
    return [claim.of_mean(mean)]
