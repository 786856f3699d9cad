# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer of a comparison of levels of one factor, and the parts that every answer about ratios has beside its sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from swapstone.core.model import (
    DECIDED,
    MEDIAN_DIFFERS,
    NO_NUMBERS,
    SAME_CENTRE,
    Analysis,
    Comparison,
    Direction,
    Metric,
    Scale,
    Verdict,
    grouped,
)
from swapstone.core.model.metric import TIMES
from swapstone.core.report import formatting
from swapstone.core.report.answer import figures, limits, tails, wording
from swapstone.core.report.answer.claim import Answer, Claim
from swapstone.core.report.answer.commands import commands_for
from swapstone.core.report.answer.means import (
    Mean,
    Place,
    Standing,
    cost_groups,
    have_numbers,
    mean_of,
    name_of,
    phrase_of,
    places_of,
)
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Block, Item
from swapstone.core.report.topics import measurements
from swapstone.core.report.topics.factorial_tables import is_crossed

P99 = "latency_p99"
_LARGE = 1.5
"""A size is in the sentence from this ratio on."""
_DIFFERENT = (Standing.MORE, Standing.LESS)


def answer(context: ReportContext, analysis: Analysis) -> Answer | None:
    """Return the answer of comparisons; None of a record without any, or of crossed factors."""
    if not analysis.comparisons or is_crossed(analysis):
        return None
    if context.experiment.alone:
        return measurements.answer(context, analysis)
    places = places_of(analysis, context.asked)
    return ratio_answer(context, places, claims_of(places, context.experiment.margin))


def ratio_answer(
    context: ReportContext,
    places: Sequence[Place],
    claims: Sequence[Claim],
    *,
    table: tuple[Block, ...] = (),
    table_title: str = "",
    undecided: tuple[Item, ...] = (),
) -> Answer:
    """Return an answer with the table of ratios, the rows that matter most, what limits them, and commands.

    Args:
        context: gives the margin, and the commands.
        places: of the comparisons.
        claims: the results.
        table: in the place of the rows that matter most; empty for those.
        table_title: its heading.
        undecided: what else is undecided.
    """
    rows = [row for place in places for row in _rows_of(place)]
    return Answer(
        claims=tuple(claims),
        figures=figures.ratio_table(places, margin=context.experiment.margin),
        rows=table or figures.rows_plot(rows, margin=context.experiment.margin),
        rows_title=table_title if table else figures.ROWS_TITLE,
        unknown=(*limits.rejected(rows), *undecided, *limits.open_rows(rows)),
        commands=commands_for(context, rows),
    )


def _rows_of(place: Place) -> Iterator[Comparison]:
    """Yield the rows to read first, and CPU times with another verdict than what is read first of their workload."""
    first = {(row.workload, row.verdict) for row in place.leads}
    yield from place.leads
    others = (row for row in place.deciding if place.leads and row not in place.leads)
    yield from (row for row in others if row.verdict in DECIDED and (row.workload, row.verdict) not in first)


def claims_of(places: Sequence[Place], margin: float) -> list[Claim]:
    """Return the claims of each place, one for each metric: what the user asked for, the time to read first, then what is decided.

    Where neither was measured, they are about everything else that is decided; without a difference in it, about the first metric.
    """
    found = [claim for place in places if place.leads for claim in _claims(place, margin)]
    if any(place.leads for place in places):
        return found
    every = [
        claim
        for place in places
        for name, rows in _by_metric(place.rows)
        if (claim := _claim(place, name, rows, margin))
    ]
    return [claim for claim in every if claim.decided] or every[:1]


def _by_metric(rows: Iterable[Comparison]) -> Iterable[tuple[str, list[Comparison]]]:
    return grouped(rows, lambda row: row.metric.name).items()


def _claims(place: Place, margin: float) -> Iterator[Claim]:
    """Yield a claim for each metric that an answer states about a place with rows to read first."""
    lead = place.lead
    # The first claim is about each workload's elapsed or CPU time, whichever is read first.
    times = [row for row in place.times if row not in place.asked]
    of_lead = [row for row in times if lead is None or row.metric.name in {*TIMES, lead.metric.name}]
    leading = lead.metric.name if lead else next((row.metric.name for row in of_lead), "")
    first = _claim(place, leading, of_lead, margin)
    named = {row.metric.name for row in (*place.asked, *times)}
    means = (mean for mean in (place.mean(P99), place.memory, place.size) if mean and mean.metric.name not in named)
    stated: tuple[tuple[str, Sequence[Comparison], Callable[[Claim], bool]], ...] = (
        *((name, rows, lambda _: True) for name, rows in _by_metric(place.asked)),
        (leading, of_lead, lambda _: True),
        *(
            (name, rows, lambda claim: claim.decided or claim.standing is Standing.SAME)
            for name, rows in _by_metric(row for row in times if row not in of_lead)
        ),
        *(
            (name, rows, lambda claim: claim.decided and not (first is not None and _repeats(claim, first)))
            for name, rows in _by_metric(row for row in place.deciding if row.metric.name not in named)
        ),
        *(
            (mean.metric.name, mean.rows, lambda _: True)
            for mean in means
            if mean.standing(margin) in _DIFFERENT
            if mean is not place.size or not 1 / _LARGE < mean.effect < _LARGE
        ),
    )
    for name, rows, holds in stated:
        claim = _claim(place, name, rows, margin)
        if claim is not None and holds(claim):
            yield claim


def _repeats(claim: Claim, first: Claim) -> bool:
    """Return whether a claim adds nothing to the first one: it has its direction, or none, and the verdicts of the same workloads."""
    known = {(row.workload, row.verdict) for row in first.rows}
    decided = {(row.workload, row.verdict) for row in claim.rows if row.verdict in DECIDED}
    return decided <= known and (claim.standing is first.standing or not claim.differs)


def _claim(place: Place, name: str, rows: Sequence[Comparison], margin: float) -> Claim | None:
    """Return the result of one candidate in one metric; None where no row has a number.

    For example: musl takes 2.5 times as long as glibc on 27 workloads of libc; the cost is in regex, strings and threads.

    Args:
        place: the candidate.
        name: of the metric.
        rows: which the claim is about: of this metric, or of another time of a workload that has none of this one.
        margin: ratios within it are no difference.
    """
    usable = tuple(row for row in rows if row.verdict not in NO_NUMBERS)
    if not have_numbers(rows):
        return None
    mean = place.mean(name) or mean_of([row for row in rows if row.metric.name == name])
    candidate, baseline = place.names
    alone = len({row.workload for row in usable}) == 1
    found = _without_ratio(usable) if mean is None else mean.standing(margin)
    workloads = len({row.workload for row in usable}) if mean is None else mean.workloads
    scope = place.scope(workloads, usable if mean is None else mean.rows)
    of_each = found is Standing.SAME and not alone and all(row.verdict in SAME_CENTRE for row in rows)
    where = f" on {'each of ' * of_each}{scope}"
    phrases = [_phrase(usable, mean, found, margin, each) for each in (baseline, "")]
    claim = Claim(
        suite=place.suite,
        load=place.load,
        subject=candidate,
        against=baseline,
        scope=scope,
        text=_special(place, mean, rows, found, scope) or f"{candidate} {phrases[0]}{where}",
        brief=phrases[1],
        seen=_past(mean) if mean is not None and found is Standing.UNKNOWN else "",
        details=tuple(_details(place, rows, mean, found)),
        rows=usable if alone else tuple(rows),
        names_rows=alone,
        metric=name,
        quantity=rows[0].metric.quantity,
        standing=found,
        floor=margin,
    )
    return claim if mean is None else claim.of_mean(mean)


def _special(place: Place, mean: Mean | None, rows: Sequence[Comparison], found: Standing, scope: str) -> str:
    """Return the text of a single row whose median and mean differ in opposite directions, or of too few runs; empty for another."""
    candidate, baseline = place.names
    usable = [row for row in rows if row.verdict not in NO_NUMBERS]
    if mean is not None and len(usable) == 1 and usable[0].verdict is Verdict.MIXED:
        return (
            f"no verdict on {formatting.safe(mean.name)} of {candidate} against {baseline} on {scope}: its median is "
            f"{tails.average_text(usable[0], 'median') or f'{formatting.digits(mean.effect)} times'}"
        )
    if (
        mean is not None
        and found is Standing.UNKNOWN
        and all(row.low is None and row.verdict not in DECIDED for row in rows)
    ):
        runs = max(len(row.baseline_values) for row in rows)
        pairs = formatting.count(runs, "pair")
        return f"too few runs to compare {candidate} with {baseline} on {scope}: {pairs} of runs, in which it {_past(mean)}"
    return ""


def _without_ratio(rows: Sequence[Comparison]) -> Standing:
    """Return where rows without a ratio stand: a single one as its verdict has it, several are open."""
    row = rows[0]
    if len(rows) > 1 or row.verdict not in MEDIAN_DIFFERS | SAME_CENTRE:
        return Standing.OPEN
    same = row.verdict in SAME_CENTRE and row.verdict is not Verdict.BELOW_MARGIN
    return Standing.SAME if same else Standing.MORE if (row.effect or 0.0) > 0 else Standing.LESS


def _details(place: Place, rows: Sequence[Comparison], mean: Mean | None, found: Standing) -> Iterator[str]:
    """Yield which change undecided rows would show, or which groups of workloads have a difference."""
    if all(row.verdict in {Verdict.INCONCLUSIVE, *NO_NUMBERS} for row in rows):
        seen = [row.smallest_visible for row in rows if row.smallest_visible is not None and row.scale is Scale.RATIO]
        if seen and mean is not None and found is Standing.OPEN:
            yield f"changes under {wording.percent(max(seen) - 1)} would not be detected"
    if mean is None or mean is not place.lead or mean.workloads == 1 or found not in _DIFFERENT:
        return
    more, better = found is Standing.MORE, mean.metric.better
    groups = cost_groups([row for row in rows if row.metric.name == mean.metric.name], more=more)
    what = "difference" if better is Direction.NEITHER else "gain" if more == (better is Direction.HIGHER) else "cost"
    if groups:
        yield f"the {what} is in {wording.listed(list(map(formatting.safe, groups)))}"


def _phrase(usable: Sequence[Comparison], mean: Mean | None, found: Standing, margin: float, other: str) -> str:
    """Return a result as a phrase with its verb: ``takes 2.5 times as long as glibc``, ``has errors 3 instead of 0 with glibc``.

    Args:
        usable: the rows with a number.
        mean: their ratio; None where none of them has one.
        found: where that stands, or the rows without a ratio.
        margin: ratios within it are no difference.
        other: what it is compared with; empty if the sentence has named it.
    """
    rows = usable if mean is None else mean.rows
    name, elapsed = formatting.safe(name_of(rows[0].metric)), mean is not None and mean.metric.name == "wall"
    median = "median " * tails.median_only(rows)
    if mean is None and len(rows) > 1:
        return f"has no common ratio{wording.after('to', other)} in {name}"
    if found is Standing.SAME and mean is not None and [row.verdict for row in usable] == [Verdict.BELOW_MARGIN]:
        return f"{changed(mean.metric, mean.effect, other)}, below the margin of {wording.percent(margin)}"
    if found is Standing.SAME:
        same = f"has the same {median}{name}" if median or not elapsed else "takes as long"
        within = "" if mean is None else f" (within {wording.percent(margin)})"
        return f"{same}{wording.after('as', other)}{within}"
    if mean is None and found is Standing.OPEN:
        return f"may differ{wording.after('from', other)} in {median}{name} (not decided)"
    if mean is None:
        before, after = limits.values(rows[0])
        return f"has {name} {after} instead of {before}{wording.after('with', other)}"
    if found in _DIFFERENT:
        return changed(mean.metric, mean.effect, other)
    if found is Standing.UNKNOWN:
        return f"ran too few times for an interval; in these runs it {_past(mean)}"
    low, high = mean.low or mean.effect, mean.high or mean.effect
    ends = map(formatting.exact_effect, (low, high)) if mean.exact else map(formatting.digits, (low, high))
    times = "" if mean.exact else " times"
    between = wording.between(low, high) if elapsed else f"between {' and '.join(ends)}{times}"
    if found is Standing.SLIGHT:
        word = ("slower" if mean.effect > 1 else "faster") if elapsed else f"different in {name}"
        joint = wording.after("than" if elapsed else "from", other)
        return f"is {word}{joint}, perhaps by less than {wording.percent(margin)} ({between})"
    return f"may differ{wording.after('from', other)} in {median}{name} (not decided: {between})"


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
