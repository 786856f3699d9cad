# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer of crossed factors: the interaction if there is one, else the main effects."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

import msgspec

from swapstone.core.model import (
    Analysis,
    Direction,
    FactorEffect,
    Interaction,
    LevelChange,
    Presence,
    Quantity,
    Scale,
    Verdict,
    grouped,
    named_first,
)
from swapstone.core.model.metric import TIMES
from swapstone.core.report import formatting
from swapstone.core.report.answer import figures, wording
from swapstone.core.report.answer.claim import Answer, Claim
from swapstone.core.report.answer.conclusion import counts, group_text
from swapstone.core.report.answer.means import (
    IDLE,
    PROCESSOR_TIMES,
    Place,
    Standing,
    decided_bounds,
    have_numbers,
    name_of,
    places_of,
    standing,
)
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Block, Cell, Item
from swapstone.core.report.tables import Field, short_table
from swapstone.core.report.topics.comparison_answer import P99, changed, claims_of, ratio_answer
from swapstone.core.report.topics.factorial_tables import is_crossed, pair, present_interactions, size

_MOST_NAMED = 4


def answer(context: ReportContext, analysis: Analysis) -> Answer | None:
    """Return the answer of crossed factors; None of an experiment with one factor."""
    if not is_crossed(analysis):
        return None
    places = places_of(analysis, context.asked)
    return ratio_answer(
        context,
        places,
        claims(context, analysis, places),
        table=interaction_rows(analysis),
        table_title="The largest interactions",
        undecided=tuple(undecided(analysis)),
    )


def claims(context: ReportContext, analysis: Analysis, places: Sequence[Place]) -> list[Claim]:
    """Return the claim of crossed factors; none where nothing has a number.

    For example: With mimalloc, on 8 workloads of libc, musl takes 1.02 times as long as glibc instead of 1.90 times.
    """
    usable = [place for place in places if have_numbers(place.leads)]
    if not usable:
        return []
    margin = context.experiment.margin
    first = [place for place in usable if (place.suite, place.load) == (usable[0].suite, usable[0].load)]
    found, best = dependences(analysis), fastest(first, margin)
    effects = [_effect_clause(each, margin) for each in _whole_effects(analysis)[:_MOST_NAMED] if each.effect]
    parts = [dependence_clause(found[0]) + _p99(analysis, found[0])] if found else [*_single_rows(analysis), *effects]
    beside = [claim for claim in claims_of(usable, margin) if claim not in claims_of(first, margin)]
    if parts:
        beside += _of_other_metrics(first, context)
    else:
        parts = [group_text(claims_of(first, margin))]
    if not found:
        parts.append(_no_interaction(analysis))
    text = "; ".join(filter(None, (*parts, best))) or "no effect could be computed"
    decided = bool(found or best or _single_rows(analysis)) or any(
        _standing(each, margin) in {Standing.MORE, Standing.LESS} for each in _whole_effects(analysis)
    )
    rows = tuple(row for place in first for row in place.times)
    differing = [f"against {first[0].names[1]}, {each}" for each in counts(rows, Standing.OPEN)]
    claim = Claim(
        suite=found[0].suite if found else usable[0].suite,
        load=found[0].load if found else usable[0].load,
        text=text,
        details=tuple(differing),
        rows=rows,
        names_rows=True,
        standing=Standing.MORE if decided else Standing.UNKNOWN,
        value=math.exp(size(found[0])) if found else None,
        floor=margin,
    )
    return [claim, *beside]


def _of_other_metrics(places: Sequence[Place], context: ReportContext) -> list[Claim]:
    """Return the claims about what the user asked for, and about CPU time, beside what is read first."""
    leads = {place.lead.metric.name for place in places if place.lead is not None}
    beside = {*PROCESSOR_TIMES, *TIMES} - leads
    return [
        claim
        for claim in claims_of(places, context.experiment.margin)
        if (claim.metric in context.asked and claim.metric not in leads) or (claim.metric in beside and claim.decided)
    ]


def _p99(analysis: Analysis, each: Interaction) -> str:
    """Return the clause about p99 latency beside another metric of the same servers; empty where it has no such interaction."""
    for tail in dependences(analysis, P99):
        if _place(tail) == _place(each):
            within, without = _effects(tail)
            return f", and {within} times the p99 latency instead of {without} times"
    return ""


def _effects(each: Interaction) -> tuple[str, str]:
    """Return the effects of an interaction's level with and without the other level, as ratios."""
    return formatting.digits(each.within or 1.0), formatting.digits(each.without or 1.0)


def _place(each: Interaction) -> tuple[str, str, LevelChange, LevelChange]:
    return each.suite, each.load, each.change, each.by


def dependences(analysis: Analysis, metric: str = "") -> list[Interaction]:
    """Return the present interactions of whole suites in one metric, or without one in those to read first.

    Those of the most workloads come first, among them the largest.

    That is the interaction of the suite's index. A metric without an index has one here if all its workloads have a present interaction
    in the same direction: its effects are geometric means over the workloads.
    """
    chosen = (
        each
        for each in analysis.interactions
        if (each.metric.name == metric if metric else each.preferred)
        if each.scale is Scale.RATIO and each.presence is not Presence.UNAVAILABLE
    )
    groups = grouped(chosen, lambda each: (_place(each), each.metric.name))
    found = (_dependence(members) for members in groups.values())
    return sorted((each for each in found if each is not None), key=lambda each: (-each.workloads, -size(each)))


def _dependence(members: Sequence[Interaction]) -> Interaction | None:
    index = [each for each in members if not each.workload]
    used = index or list(members)
    values = [(each.effect, each.without, each.within) for each in used]
    ratios = [(e, a, b) for e, a, b in values if e and a and b and min(e, a, b) > 0]
    present = all(each.presence is Presence.PRESENT for each in used)
    if not present or len(ratios) < len(used) or len({effect > 1 for effect, _, _ in ratios}) != 1:
        return None
    effect, without, within = (statistics.geometric_mean(column) for column in zip(*ratios, strict=True))
    workloads = used[0].workloads if index else len(used)
    return msgspec.structs.replace(used[0], effect=effect, without=without, within=within, workloads=workloads)


def dependence_clause(each: Interaction) -> str:
    """Return an interaction as a clause, without a full stop."""
    within, without = _effects(each)
    level, baseline = formatting.safe(each.change.shown[1]), formatting.safe(each.change.shown[0])
    text = f"{level} has {within} times the {formatting.safe(name_of(each.metric))} of {baseline} instead of {without} times"
    if each.metric.name == "wall":
        text = f"{level} takes {within} times as long as {baseline} instead of {without} times"
    where = f"{formatting.count(each.workloads, 'workload')} of {formatting.safe(each.suite)}"
    load = "" if each.load == IDLE else f" under load {formatting.safe(each.load)}"
    return f"with {formatting.safe(each.by.shown[1])}, on {where}{load}, {text}"


def _single_rows(analysis: Analysis) -> list[str]:
    """Return the clause about workloads with a present interaction, where the whole suite has none."""
    rows = [each for each in analysis.interactions if each.workload and each.preferred]
    present = [each for each in rows if each.presence is Presence.PRESENT and each.without and each.within]
    if not present:
        return []
    largest = max(present, key=lambda each: abs(math.log(each.effect)) if each.effect and each.effect > 0 else 0.0)
    places = {(each.suite, each.load, each.workload) for each in rows}
    mine = {(each.suite, each.load, each.workload) for each in present}
    effects = [formatting.effect(value, largest) for value in (largest.within, largest.without) if value is not None]
    level, by = formatting.safe(largest.change.shown[1]), formatting.safe(largest.by.shown[1])
    text = f"{len(mine)} of {formatting.count(len(places), 'workload')} {'has' if len(mine) == 1 else 'have'} an interaction"
    return [
        f"{text}, the largest {formatting.safe(largest.workload)}: with {by}, {level} has {effects[0]} times the "
        f"{formatting.safe(name_of(largest.metric))} instead of {effects[1]} times"
        if largest.scale is Scale.RATIO
        else text
    ]


def _whole_effects(analysis: Analysis) -> list[FactorEffect]:
    """Return the main effects on the first suite, or on the single workload, of the metric to read first."""
    found = [each for each in analysis.effects if not each.held and each.preferred and each.scale is Scale.RATIO]
    whole = [each for each in found if not each.workload]
    used = whole or (found if len({each.workload for each in found}) == 1 else [])
    return [
        each
        for each in used
        if (each.suite, each.load, each.metric.name) == (used[0].suite, used[0].load, used[0].metric.name)
    ]


def _standing(each: FactorEffect, margin: float) -> Standing:
    low, high = decided_bounds(each) or (None, None)
    return standing(low, high, margin)


def _effect_clause(each: FactorEffect, margin: float) -> str:
    level, baseline = formatting.safe(each.change.shown[1]), formatting.safe(each.change.shown[0])
    where, name = _standing(each, margin), formatting.safe(name_of(each.metric))
    if where in {Standing.MORE, Standing.LESS, Standing.UNKNOWN}:
        few = " in these runs, too few for an interval" if where is Standing.UNKNOWN else ""
        return f"{level} {changed(each.metric, each.effect or 1.0, baseline)} on average{few}"
    if each.verdict is Verdict.BELOW_MARGIN:
        return f"{level} {changed(each.metric, each.effect or 1.0, baseline)} on average, below the margin of {wording.percent(margin)}"
    if where is Standing.SAME:
        median = "median " if each.verdict is not Verdict.EQUIVALENT else ""
        return f"{level} has the same {median}{name} as {baseline} on average (within {wording.percent(margin)})"
    return f"whether {level} differs from {baseline} in {name} on average is not decided"


def _no_interaction(analysis: Analysis) -> str:
    """Return whether interactions are absent or undecided."""
    preferred = [each for each in analysis.interactions if each.preferred]
    found = {each.presence for each in preferred if not each.workload} or {each.presence for each in preferred}
    if found == {Presence.ABSENT}:
        return "the factors do not depend on each other"
    undecided = Presence.UNDECIDED in found and Presence.PRESENT not in found
    return "whether the factors depend on each other is undecided" if undecided else ""


def fastest(places: Sequence[Place], margin: float) -> str:
    """Return the clause about the variant with the best ratio of the time or rate to read first; empty where none is better."""
    leads = [(place, place.lead) for place in places if place.lead is not None]
    if not leads:
        return ""
    higher = leads[0][1].metric.better is Direction.HIGHER
    place, lead = min(leads, key=lambda each: -each[1].effect if higher else each[1].effect)
    decided = lead.standing(margin) is (Standing.MORE if higher else Standing.LESS)
    mixed = any(row.verdict is Verdict.MIXED for row in place.leads)
    if not decided or mixed or lead.metric.better is Direction.NEITHER:
        return ""
    word = "fastest" if lead.metric.quantity is Quantity.TIME else "best"
    return f"the {word}, {place.names[0]}, {changed(lead.metric, lead.effect, place.names[1])}"


def interaction_rows(analysis: Analysis) -> tuple[Block, ...]:
    """Return the table of the largest present interactions of the metric to read first; nothing without one."""
    headline = next((each.metric.name for each in dependences(analysis)), "")
    present = present_interactions(each for each in analysis.interactions if each.preferred)
    found = [each for each in present if each.effect and headline in {"", each.metric.name}]
    if not found:
        return ()
    several = len({(each.change, each.by) for each in found}) > 1
    change, by = found[0].change, found[0].by
    level = formatting.safe(change.shown[1])
    single = f"{level}, {formatting.safe(by.shown[0])}", f"{level}, {formatting.safe(by.shown[1])}"
    heads = ("without", "with") if several else single
    fields: tuple[Field[Interaction], ...] = (
        Field("workload", "", lambda each: formatting.safe(each.workload) or "index", right=False),
        Field("pair" if several else "", "", lambda each: pair(each.change, each.by), right=False),
        Field(heads[0], "", lambda each: "" if each.without is None else formatting.effect(each.without, each)),
        Field(heads[1], "", lambda each: "" if each.within is None else formatting.effect(each.within, each)),
        Field("interaction", "", _estimate, right=False),
    )
    title = f"Effect of {pair(change, by)} without and with the second level"
    return (short_table(title, fields, found, figures.MOST_ROWS, keys=1 + several, optional=("interaction",)),)


def _estimate(each: Interaction) -> Cell:
    effect = "" if each.effect is None else formatting.effect(each.effect, each)
    return Cell(effect=effect, interval=formatting.interval(each))


def undecided(analysis: Analysis) -> Iterator[Item]:
    """Yield the undecided interactions with the smallest that would be detected."""
    if found := [each for each in analysis.interactions if each.preferred and each.presence is Presence.UNDECIDED]:
        known = filter(formatting.smallest, found)
        named = named_first(
            [f"{formatting.safe(each.workload) or 'index'} {formatting.smallest(each)}" for each in known]
        )
        smallest = f"; smallest detectable: {named}" if named else ""
        yield Item(f"{formatting.count(len(found), 'interaction')} undecided{smallest}.")
