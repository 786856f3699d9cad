# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer of a comparison of levels of one factor."""

from __future__ import annotations

import math
from collections.abc import Sequence

from swapstone.core.model import Analysis, Comparison, Direction, Quantity, Verdict
from swapstone.core.report import formatting
from swapstone.core.report.answer import limits, tails, wording
from swapstone.core.report.answer.answer import Answer
from swapstone.core.report.answer.cost_groups import cost_groups
from swapstone.core.report.answer.means import Mean, Standing
from swapstone.core.report.answer.places import Place, have_numbers, places_of
from swapstone.core.report.answer.ratio_answer import ratio_answer
from swapstone.core.report.context import ReportContext
from swapstone.core.report.topics.servers_answer import latency_clause
from swapstone.core.report.verdict_groups import DECIDED, NO_NUMBERS, SAME_CENTRE

_MOST_CANDIDATES = 3
_MOST_PLACES = 2
_LARGE = 1.5
"""A size is in the sentence from this ratio on."""

_PROCESSOR_TIMES = {"cpu", "cpu_per_request"}
"""Metrics whose difference is in the sentence where that of the time or rate to read first is not significant."""


def answer(context: ReportContext, analysis: Analysis) -> Answer | None:
    """Return the answer of comparisons; None of a record without any."""
    if not analysis.comparisons:
        return None
    places = places_of(analysis)
    return ratio_answer(context, places, sentence(context, analysis, places))


def sentence(context: ReportContext, analysis: Analysis, places: Sequence[Place]) -> str:
    """Return the sentence of an answer."""
    usable = [place for place in places if have_numbers(place.leads)]
    if not usable:
        if any(place.leads for place in places):
            return limits.missing(places) or limits.nothing_measured(analysis)
        return _without_times(context, analysis, places)
    margin, virtual = context.experiment.margin, context.experiment.virtual
    first = [place for place in usable if (place.suite, place.load) == (usable[0].suite, usable[0].load)]
    others = [place for place in usable if place not in first]
    text = candidates_clause(first, margin) if len(first) > 1 else single(first[0], margin)
    if len(first) == 1:
        text += _elsewhere(others, margin)
    elif others:
        text += f"; {formatting.count(len(others), 'more result')} for other suites or loads"
    same = [
        row for place in first if place.lead and place.lead.standing(margin) is Standing.SAME for row in place.leads
    ]
    if limit := tails.limit_of(same, margin):
        text += f"; {limit}"
    text += " (virtual clock)" if virtual else ""
    return f"{limits.opening(analysis)}{wording.sentence_case(text)}.{limits.closing(analysis, places)}"


def single(place: Place, margin: float) -> str:
    """Return the result of one candidate, without a full stop.

    For example: musl takes 2.5 times as long as glibc on 27 workloads of libc, and a third of the memory; the cost is in regex, strings
    and threads; 1 of 27 is faster.
    """
    lead = place.lead
    candidate, baseline = place.names
    if lead is None:
        return f"{candidate} can't be compared with {baseline} as a ratio on {place.scope(place.workloads)}"
    standing = lead.standing(margin)
    if standing in {Standing.OPEN, Standing.UNKNOWN} and all(
        row.verdict in {Verdict.INCONCLUSIVE, *NO_NUMBERS} for row in place.leads
    ):
        return _nothing_found(place, lead, standing, margin) + _memory(place, margin, alone=True)
    if lead.workloads == 1 and (mixed := _mixed(place, lead)):
        return mixed + _memory(place, margin)
    each = standing is Standing.SAME and all(row.verdict in SAME_CENTRE for row in place.leads)
    scope = place.scope(lead.workloads)
    where = f" on {'each of ' if each and lead.workloads > 1 else ''}{scope}"
    parts = [
        f"{candidate} {lead_phrase(lead, margin, baseline)}{where}{_memory(place, margin)}{latency_clause(place, margin)}"
    ]
    usable = [row for row in lead.rows if row.verdict not in NO_NUMBERS]
    if lead.workloads > 1:
        parts += _where(place, lead, standing)
        parts += tails.clauses(place.leads)
    else:
        parts += filter(None, map(tails.bound, usable))
        parts += [clause for row in usable for clause in tails.clauses([row])]
    return "; ".join(parts)


def _mixed(place: Place, lead: Mean) -> str:
    """Return the result of a single row whose median and mean differ in opposite directions; empty for another row."""
    row = next((row for row in lead.rows if row.verdict not in NO_NUMBERS), None)
    if row is None or row.verdict is not Verdict.MIXED:
        return ""
    candidate, baseline = place.names
    name = formatting.safe(lead.name)
    text = f"no verdict on {name} of {candidate} against {baseline} on {place.scope(1)}: its median is {_ratio(lead.effect)} times"
    return (
        f"{text}, {tails.detail(row)}"
        if tails.detail(row)
        else f"{text}, and its mean differs in the opposite direction"
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
    if standing in {Standing.MORE, Standing.LESS}:
        return changed(mean, other)
    if standing is Standing.SAME:
        median = tails.median_only(mean.rows)
        same = f"has the same {'median ' * median}{mean.name}" if median or not elapsed else "takes as long"
        return f"{same}{f' as {other}' if other else ''} (within {wording.percent(margin)})"
    low, high = mean.low or mean.effect, mean.high or mean.effect
    if standing is Standing.UNKNOWN:
        return f"ran too few times for an interval; in these runs it {_past(changed(mean, other))}"
    between = wording.between(low, high) if elapsed else f"between {_ratio(low)} and {_ratio(high)} times"
    if standing is Standing.SLIGHT:
        word = ("slower" if mean.effect > 1 else "faster") if elapsed else f"different in {mean.name}"
        joint = f" {'from' if not elapsed else 'than'} {other}" if other else ""
        return f"is {word}{joint}, perhaps by less than {wording.percent(margin)} ({between})"
    joint = f" from {other}" if other else ""
    what = f"median {mean.name}" if tails.median_only(mean.rows) else mean.name
    return f"shows no difference{joint} in {what} ({between})"


def changed(mean: Mean, other: str) -> str:
    """Return a difference as a phrase with its verb."""
    if mean.metric.name == "wall":
        return wording.duration(mean.effect, other)
    if mean.metric.name == "cpu":
        return f"uses {wording.amount(mean.effect, 'CPU time', other)}"
    counted = mean.metric.name == "requests"
    verb = "answers" if counted else "has"
    return f"{verb} {wording.amount(mean.effect, formatting.safe(mean.name), other, counted=counted)}"


def _past(phrase: str) -> str:
    verb, _, rest = phrase.partition(" ")
    return f"{ {'takes': 'took', 'is': 'was', 'uses': 'used', 'answers': 'answered', 'has': 'had'}[verb] } {rest}"


def _ratio(value: float) -> str:
    return formatting.digits(value)


def _memory(place: Place, margin: float, *, alone: bool = False) -> str:
    """Return the clause about memory, else one about a large difference in size; empty without either.

    Args:
        place: the candidate.
        margin: ratios within it are no difference.
        alone: whether no difference in time precedes the clause.
    """
    memory, size, name = place.memory, place.size, place.names[0]
    if memory is not None and memory.standing(margin) in {Standing.MORE, Standing.LESS}:
        verb = "" if place.lead is not None and place.lead.metric.name == "cpu" else "uses "
        amount = wording.amount(memory.effect, "memory")
        return f"; {name} uses {amount}" if alone else f", and {verb}{amount}"
    if size is not None and size.standing(margin) in {Standing.MORE, Standing.LESS} and _large(size):
        who = f"programs of {name}" if alone else "its programs"
        return f"; {who} have {wording.amount(size.effect, 'size')}"
    return ""


def _large(size: Mean) -> bool:
    return size.effect >= _LARGE or size.effect <= 1 / _LARGE


def _where(place: Place, lead: Mean, standing: Standing) -> list[str]:
    """Return where the difference is, and how many workloads differ in the other direction."""
    rows = [row for row in place.leads if row.metric.name == lead.metric.name]
    parts = []
    if standing in {Standing.MORE, Standing.LESS}:
        more = standing is Standing.MORE
        what = _gain_or_cost(lead, more=more)
        if found := cost_groups(rows, more=more):
            parts.append(f"the {what} is in {wording.listed([formatting.safe(each.name) for each in found])}")
    return parts + counts(place.leads, standing)


def _gain_or_cost(lead: Mean, *, more: bool) -> str:
    if lead.metric.better is Direction.NEITHER:
        return "difference"
    return "gain" if more == (lead.metric.better is Direction.HIGHER) else "cost"


def counts(rows: Sequence[Comparison], standing: Standing) -> list[str]:
    """Return how many workloads differ against the direction of the mean; of a mean without direction, in both directions."""
    times = all(row.metric.quantity is Quantity.TIME and row.metric.better is Direction.LOWER for row in rows)
    words = {Verdict.WORSE: "slower" if times else "worse", Verdict.BETTER: "faster" if times else "better"}
    numbers = {verdict: sum(row.verdict is verdict for row in rows) for verdict in words}
    decided = standing in {Standing.MORE, Standing.LESS}
    lower = all(row.metric.better is not Direction.HIGHER for row in rows)
    against = Verdict.BETTER if (standing is Standing.MORE) == lower else Verdict.WORSE
    shown = [against] if decided else list(words)
    found = [(verdict, numbers[verdict]) for verdict in shown if numbers[verdict]]
    if not found:
        return []
    first, *rest = found
    text = f"{first[1]} of {len(rows)} {'is' if first[1] == 1 else 'are'} {words[first[0]]}"
    return [text + "".join(f" and {number} {words[verdict]}" for verdict, number in rest)]


def _nothing_found(place: Place, lead: Mean, standing: Standing, margin: float) -> str:
    """Return that no difference was found, which one would have been, and the CPU time if that differs."""
    candidate, baseline = place.names
    scope = place.scope(lead.workloads)
    if standing is Standing.UNKNOWN and not any(row.low is not None for row in place.leads):
        runs = max((len(row.baseline_values) for row in place.leads), default=0)
        return (
            f"too few runs to compare {candidate} with {baseline} on {scope}: {formatting.count(runs, 'pair')} of runs, "
            f"in which it {_past(changed(lead, ''))}"
        )
    seen = [row.smallest_visible for row in place.leads if row.smallest_visible is not None]
    limit = max(seen, default=None)
    used = _processor_time(place, lead, margin)
    text = f"no difference {f'in {formatting.safe(lead.name)} ' if used else ''}found between {baseline} and {candidate} on {scope}"
    if limit is not None:
        text = f"{text}; changes under {wording.percent(limit - 1)} would not be detected"
    return text + used


def _processor_time(place: Place, lead: Mean, margin: float) -> str:
    """Return a clause about the CPU time, where that differs and the metric of the answer does not; else empty."""
    for mean in place.means:
        if mean.metric.name == lead.metric.name or mean.metric.name not in _PROCESSOR_TIMES:
            continue
        if mean.standing(margin) in {Standing.MORE, Standing.LESS, Standing.SLIGHT}:
            return f"; {place.names[0]} {lead_phrase(mean, margin, '')}"
    return ""


def candidates_clause(places: Sequence[Place], margin: float) -> str:
    """Return the results of several candidates on one suite under one load."""
    ordered = sorted(places, key=lambda place: place.lead.effect if place.lead else math.inf)
    shown = list(places) if len(places) <= _MOST_CANDIDATES else [ordered[0], ordered[-1]]
    _, baseline = places[0].names
    leads = [place.lead for place in places if place.lead is not None]
    if all(lead.standing(margin) is Standing.UNKNOWN for lead in leads):
        names = wording.listed([place.names[0] for place in shown])
        who = names if len(shown) == len(places) else formatting.count(len(places), "variant")
        return f"too few runs to compare {who} with {baseline} on {places[0].scope(places[0].workloads)}"
    clauses = [
        f"{place.names[0]} {lead_phrase(place.lead, margin, '')}{_memory(place, margin)}{_beside(place)}"
        for place in shown
        if place.lead is not None
    ]
    rest = len(places) - len(shown)
    text = f"Against {baseline} on {places[0].scope(places[0].workloads)}: {'; '.join(clauses)}"
    return f"{text}; {rest} more are between these" if rest else text


def _beside(place: Place) -> str:
    """Return how many rows of a candidate differ in the tail, in brackets; empty without such rows."""
    found = tails.clauses([row for row in place.leads if row.verdict not in NO_NUMBERS])
    return f" ({', '.join(found)})" if found else ""


def _elsewhere(places: Sequence[Place], margin: float) -> str:
    """Return the results on other suites or under other loads."""
    clauses = [
        f"; on {place.scope(place.lead.workloads)} it {lead_phrase(place.lead, margin, '')}{_beside(place)}"
        for place in places
        if place.lead is not None
    ]
    rest = len(clauses) - _MOST_PLACES
    more = f"; {formatting.count(rest, 'more result')} for other suites or loads" if rest > 0 else ""
    return "".join(clauses[:_MOST_PLACES]) + more


def _without_times(context: ReportContext, analysis: Analysis, places: Sequence[Place]) -> str:
    """Return the answer of a record that has memory, events or sizes and no time."""
    margin = context.experiment.margin
    for place in places:
        for mean in place.means:
            candidate, baseline = place.names
            if mean.standing(margin) in {Standing.MORE, Standing.LESS}:
                phrase = wording.amount(mean.effect, mean.name, baseline)
                text = f"{candidate} has {phrase} on {place.scope(mean.workloads)}"
                return f"{limits.opening(analysis)}{text}.{limits.closing(analysis, places)}"
    return limits.nothing_measured(analysis) if not any(place.means for place in places) else _same(places)


def _same(places: Sequence[Place]) -> str:
    candidate, baseline = places[0].names
    rows = [row for place in places for row in place.rows]
    where = f"between {baseline} and {candidate} on {places[0].scope(places[0].workloads)}"
    if any(row.verdict in DECIDED for row in rows):
        return f"No mean over the rows differs {where}; single rows do."
    if not any(row.low is not None or row.exact for row in rows):
        return f"Too few runs to find a difference {where}."
    return f"No difference found {where}."
