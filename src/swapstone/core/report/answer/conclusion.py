# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a record shows: claims in the order of their weight, the sentence made of them, and the exit status of a command.

The order does not depend on the topics that make the claims: decided before undecided, among them worse by more than the margin
first, then the metrics that the user asked for, then times and rates, CPU time, memory, counts, sizes, then the suite with the largest
ratio. Claims about one suite under one load stay together, and what weighs the same is in the order of the record.

A sentence contradicts no decided row: where a claim is no difference, the rows below it that differ are counted behind it. Claims that a
sentence has no room for are counted with their rows that differ.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence

from swapstone.core.model import (
    Analysis,
    Comparison,
    Direction,
    Experiment,
    FailureRates,
    FrozenStruct,
    Quantity,
    Scale,
    Variant,
    Verdict,
)
from swapstone.core.report import formatting
from swapstone.core.report.answer import limits, tails, wording
from swapstone.core.report.answer import limits as failing_runs
from swapstone.core.report.answer.answer import Answer
from swapstone.core.report.answer.claim import Claim
from swapstone.core.report.answer.limits import share, shown
from swapstone.core.report.answer.means import PROCESSOR_TIMES, Place, Standing, have_numbers, name_of, places_of
from swapstone.core.report.context import ReportContext
from swapstone.core.report.verdict_groups import DECIDED, NO_NUMBERS

EXIT_WORSE = 3
"""A candidate is worse by more than the margin of ``--fail-if``, or fails more often."""

EXIT_NO_RESULT = 4
"""A variant gave no result; with ``--fail-if`` also: a row that decides gave none."""

_WITHOUT_RESULT = (Verdict.INVALID, Verdict.UNAVAILABLE, Verdict.DISTURBED)
_MOST_ROWS = 5
_MOST_CANDIDATES = 3
_MOST_BESIDE = 2
"""Number of results for other suites or loads behind the first."""
_DIFFERENT = (Standing.MORE, Standing.LESS)
_QUANTITIES = {Quantity.TIME: 0, Quantity.RATE: 0, Quantity.MEMORY: 2, Quantity.EVENTS: 3, Quantity.SIZE: 4}
_PROCESSOR_TIME = 1
"""Places of quantities in the order of claims."""


class FailIf(FrozenStruct, frozen=True, kw_only=True):
    """A condition of ``--fail-if``.

    Attributes:
        metric: whose rows are judged; empty for those that an answer states: what the user asked for, times, CPU time.
        margin: how much worse a candidate may be, as a ratio, e.g. 0.05; None for the experiment's margin.
    """

    metric: str = ""
    margin: float | None = None


class Outcome(FrozenStruct, frozen=True, kw_only=True):
    """An exit status, and why.

    Attributes:
        status: 0, `EXIT_WORSE` or `EXIT_NO_RESULT`.
        reason: one line; empty for status 0. It contains names of the record unescaped.
    """

    status: int = 0
    reason: str = ""


def conclude(context: ReportContext, analysis: Analysis, answers: Sequence[Answer]) -> Answer:
    """Return the answer of a record: those of its topics as one, the parts of the claim that weighs most first.

    Args:
        context: gives the clock, and the metrics that the user selected.
        analysis: of the record.
        answers: of the topics, in any order.
    """
    groups = _ranked(context, analysis, (claim for answer in answers for claim in answer.claims))
    place = {claim: number for number, claims in enumerate(groups) for claim in claims}
    ordered = sorted(answers, key=lambda each: min((place[claim] for claim in each.claims), default=len(place)))
    return Answer(
        sentence=failing_runs.sentence(analysis) + _sentence(context, analysis, groups),
        claims=tuple(claim for claims in groups for claim in claims),
        figures=tuple(block for each in ordered for block in each.figures),
        rows=tuple(block for each in ordered for block in each.rows),
        rows_title=next((each.rows_title for each in ordered if each.rows), ""),
        unknown=tuple(item for each in ordered for item in each.unknown),
        commands=tuple(dict.fromkeys(command for each in ordered for command in each.commands)),
    )


def _weight(claim: Claim, asked: Sequence[str]) -> tuple[float, ...]:
    """Return the key by which claims are sorted, before their size."""
    quantity = _PROCESSOR_TIME if claim.metric in PROCESSOR_TIMES else _QUANTITIES[claim.quantity]
    worse = any(is_worse(row, claim.floor) for row in claim.rows)
    return (not claim.decided, not worse, claim.metric not in asked, quantity)


def _ranked(context: ReportContext, analysis: Analysis, claims: Iterable[Claim]) -> list[list[Claim]]:
    """Return the claims of each suite and load, those first of which one weighs most."""
    groups: dict[tuple[str, str], list[Claim]] = {}
    sizes: dict[str, float] = {}
    for claim in claims:
        groups.setdefault((claim.suite, claim.load), []).append(claim)
        sizes[claim.suite] = max(claim.size, sizes.get(claim.suite, 0.0))
    order = list(dict.fromkeys((row.suite, row.load) for row in analysis.comparisons))

    def key(group: tuple[str, str]) -> tuple[object, ...]:
        position = order.index(group) if group in order else len(order)
        weight = min(_weight(claim, context.asked) for claim in groups[group])
        return weight, -sizes[group[0]], position, group

    return [groups[group] for group in sorted(groups, key=key)]


def _sentence(context: ReportContext, analysis: Analysis, groups: Sequence[Sequence[Claim]]) -> str:
    places = places_of(analysis, context.asked)
    if not groups:
        return limits.missing(places) or limits.nothing_measured(analysis)
    first, *others = groups
    text = group_text(first) + _beside(first, others)
    same = [row for claim in first if claim.brief and claim.standing is Standing.SAME for row in claim.rows]
    if limit := tails.limit_of(same, first[0].floor):
        text += f"; {limit}"
    timed = any(claim.quantity in {Quantity.TIME, Quantity.RATE} for claims in groups for claim in claims)
    text += " (virtual clock)" if context.experiment.virtual and timed else ""
    return f"{limits.opening(analysis)}{wording.sentence_case(text)}.{limits.closing(analysis, places)}"


def group_text(claims: Sequence[Claim]) -> str:
    """Return the claims about one suite under one load as clauses, without a full stop.

    Of several candidates, the first clause names the baseline and the workloads. Of more than three, those with the smallest and the
    largest ratio are named.
    """
    brief = [claim for claim in claims if claim.brief]
    texts = [clause for claim in claims if not claim.brief for clause in (claim.text, *_counted(claim))]
    by_subject = _by_subject(brief)
    if len(by_subject) == 1:
        texts.append(_results(brief, brief[0].text))
    elif by_subject:
        texts.append(_of_several(by_subject))
    return "; ".join(texts)


def _by_subject(claims: Sequence[Claim]) -> list[list[Claim]]:
    """Return the claims of each candidate."""
    found: dict[str, list[Claim]] = {}
    for claim in claims:
        found.setdefault(claim.subject, []).append(claim)
    return list(found.values())


def _results(claims: Sequence[Claim], start: str = "") -> str:
    """Return the results of one candidate: ``takes twice as long, and uses a third of the memory; 1 of 6 is faster``.

    Args:
        claims: in the order in which they are stated.
        start: what stands for the first one; empty for its brief text.
    """
    known = {*_DIFFERENT, Standing.SAME}
    text, behind = start or claims[0].brief, _counted(claims[0])
    for before, claim in itertools.pairwise(claims):
        joined = {before.standing, claim.standing} <= known
        verb = f"{before.brief.partition(' ')[0]} "
        text += f", and {claim.brief.removeprefix(verb)}" if joined else f"; {claim.subject} {claim.brief}"
        name = formatting.safe(name_of(claim.rows[0].metric)) if claim.rows else claim.metric
        behind += [f"in {name}, {each}" for each in _counted(claim)]
    return "; ".join((text, *behind))


def _of_several(candidates: Sequence[Sequence[Claim]]) -> str:
    """Return the results of several candidates, the baseline and the workloads before them."""
    ordered = sorted(candidates, key=lambda each: math.inf if each[0].value is None else each[0].value)
    named = candidates if len(candidates) <= _MOST_CANDIDATES else [ordered[0], ordered[-1]]
    first, rest = candidates[0][0], [each for each in candidates if each not in named]
    against, where = first.against, f" on {first.scope}" if first.scope else ""
    if all(claim.standing is Standing.UNKNOWN for each in candidates for claim in each):
        who = (
            formatting.count(len(candidates), "variant")
            if rest
            else wording.listed([each[0].subject for each in named])
        )
        return f"too few runs to compare {who} with {against}{where}"
    clauses = "; ".join(f"{each[0].subject} {', and '.join(c.brief + _in_brackets(c) for c in each)}" for each in named)
    more = f"; {len(rest)} more are between these{_rows_of(rest)}" if rest else ""
    return f"against {against}{where}: {clauses}{more}"


def _rows_of(groups: Iterable[Sequence[Claim]]) -> str:
    """Return how many rows differ of claims that a sentence has no room for: `` (rows: 2 worse, 1 better)``; empty without any."""
    rows = dict.fromkeys(row for claims in groups for claim in claims for row in claim.rows)
    numbers = Counter(row.verdict for row in rows if row.verdict in DECIDED)
    words = [f"{numbers[verdict]} {verdict.value}" for verdict in Verdict if numbers[verdict]]
    return f" (rows: {', '.join(words)})" if words else ""


def _beside(first: Sequence[Claim], others: Sequence[Sequence[Claim]]) -> str:
    """Return the results for other suites or loads, behind those of the first; several candidates leave no room for them."""
    found: list[tuple[str, list[Claim]]] = []
    for claims in others:
        found += [("; ".join((claim.text, *_counted(claim))), [claim]) for claim in claims if not claim.brief]
        for each in _by_subject([claim for claim in claims if claim.brief]):
            who = "it" if each[0].subject == first[0].subject else each[0].subject
            start = f"on {each[0].scope} {who} {each[0].brief}" if each[0].scope else each[0].text
            found.append((_results(each, start), each))
    most = 0 if len(_by_subject([claim for claim in first if claim.brief])) > 1 else _MOST_BESIDE
    text = "".join(f"; {clause}" for clause, _ in found[:most])
    rest = [claims for _, claims in found[most:]]
    more = f"; {formatting.count(len(rest), 'more result')} for other suites or loads{_rows_of(rest)}" if rest else ""
    return text + more


def _counted(claim: Claim) -> list[str]:
    """Return a claim's details, and how many rows differ against it, or in the tail; of a single row, its bound and its tail."""
    bound = filter(None, map(tails.bound, claim.rows)) if len(claim.rows) == 1 else ()
    return [*claim.details, *bound, *_against(claim), *(tails.clauses(claim.rows) if claim.rows else [])]


def _against(claim: Claim) -> list[str]:
    """Return how many rows differ against a claim: always, where it is no difference."""
    denies = claim.standing in {Standing.SAME, Standing.OPEN}
    return counts(claim.rows, claim.standing) if denies or not claim.names_rows else []


def _in_brackets(claim: Claim) -> str:
    """Return the same behind a brief claim of one of several candidates."""
    usable = [row for row in claim.rows if row.verdict not in NO_NUMBERS]
    found = _against(claim) + tails.clauses(usable)
    return f" ({', '.join(found)})" if found else ""


def counts(rows: Sequence[Comparison], standing: Standing) -> list[str]:
    """Return how many workloads differ against the direction of the mean; of a mean without direction, in both directions."""
    times = all(row.metric.quantity is Quantity.TIME and row.metric.better is Direction.LOWER for row in rows)
    words = {
        Verdict.WORSE: "slower" if times else "worse",
        Verdict.BETTER: "faster" if times else "better",
        Verdict.CHANGED: "different",
    }
    numbers = {verdict: sum(row.verdict is verdict for row in rows) for verdict in words}
    decided = standing in _DIFFERENT
    lower = all(row.metric.better is not Direction.HIGHER for row in rows)
    against = Verdict.BETTER if (standing is Standing.MORE) == lower else Verdict.WORSE
    found = [verdict for verdict in ([against] if decided else words) if numbers[verdict]]
    of = {found[0]: f" of {len(rows)} {'is' if numbers[found[0]] == 1 else 'are'}"} if found else {}
    counted = [f"{numbers[verdict]}{of.get(verdict, '')} {words[verdict]}" for verdict in found]
    return [" and ".join(counted)] if counted else []


def worse_rows(
    analysis: Analysis, experiment: Experiment, conditions: Sequence[FailIf] = (FailIf(),)
) -> tuple[Comparison, ...]:
    """Return the rows that show a candidate to be worse by more than a margin, in the order of the analysis.

    A row counts if its verdict is worse, worse tail, or mixed, and if the whole interval of its ratio is beyond the margin: that of
    the medians, or, where the tail or the mean is worse, that of the means. Copies of the baseline never count.

    Args:
        analysis: of a record.
        experiment: gives the default margin.
        conditions: which rows, and which margins.
    """
    judged = (
        (row, experiment.margin if each.margin is None else each.margin)
        for place, each in itertools.product(places_of(analysis, experiment.printed_metrics), conditions)
        for row in _judged(place, each, place.deciding)
    )
    return tuple(dict.fromkeys(row for row, margin in judged if is_worse(row, margin)))


def is_worse(row: Comparison, margin: float) -> bool:
    """Return whether the whole interval of a row is beyond a margin, on the worse side.

    Args:
        row: judged.
        margin: as a ratio, e.g. 0.05.
    """
    median = [(row.low, row.high)] if row.verdict in {Verdict.WORSE, Verdict.MIXED} else []
    mean = [(row.mean_low, row.mean_high)] if row.verdict in {Verdict.WORSE_TAIL, Verdict.MIXED} else []
    return any(
        _beyond(row, low, high, margin) for low, high in (*median, *mean) if low is not None and high is not None
    )


def _beyond(row: Comparison, low: float, high: float, margin: float) -> bool:
    most, least = 1 + margin, 1 / (1 + margin)
    if row.scale is not Scale.RATIO:
        ordered = sorted(row.baseline_values)
        most = margin * abs(ordered[len(ordered) // 2]) if ordered else 0.0
        least = -most
    return {Direction.LOWER: low > most, Direction.HIGHER: high < least}.get(row.metric.better, False)


def _judged(place: Place, condition: FailIf, rows: Sequence[Comparison]) -> Sequence[Comparison]:
    """Return the rows of a place that a condition judges: of its metric, or without one these rows."""
    return [row for row in place.rows if row.metric.name == condition.metric] if condition.metric else rows


def without_result(analysis: Analysis) -> tuple[Comparison, ...]:
    """Return a row of each candidate that has no usable row at all, with the reason. Sizes of programs are no result of a run."""
    found: dict[Variant, list[Comparison]] = {}
    for place in places_of(analysis):
        rows = [row for row in place.rows if row.metric.quantity is not Quantity.SIZE]
        found.setdefault(place.candidate, []).extend(rows)
    return tuple(
        next((row for row in rows if row.verdict in _WITHOUT_RESULT), rows[0])
        for rows in found.values()
        if rows and not have_numbers(rows)
    )


def failing(analysis: Analysis) -> tuple[FailureRates, ...]:
    """Return the failure rates of candidates that fail significantly more often than the baseline, without copies of the baseline."""
    return tuple(each for each in shown(analysis) if each.fails_more == "candidate")


def outcome_of(analysis: Analysis, experiment: Experiment, conditions: Sequence[FailIf] = ()) -> Outcome:
    """Return the exit status of a comparison. A worse row decides before rows without a result: it is a finding.

    A candidate that fails significantly more often than the baseline is worse, whatever the margin, unless each condition names a metric.

    Args:
        analysis: of a record.
        experiment: of the record.
        conditions: of ``--fail-if``; without any, no row can be too bad.
    """
    worse = [
        f"{_row(row)}: {row.metric.name} {formatting.estimate(row)} is {row.verdict.value}"
        for row in worse_rows(analysis, experiment, conditions)
    ]
    if any(not each.metric for each in conditions):
        worse += [
            f"{_row(each)}: {share(each.candidate_runs)} of its runs fail, and {share(each.baseline_runs)} of the baseline's"
            for each in failing(analysis)
        ]
    if worse:
        return Outcome(status=EXIT_WORSE, reason=f"--fail-if: {_listed(worse)}")
    if lost := without_result(analysis):
        texts = [f"{row.candidate.label} has no result: {row.verdict.value}: {row.reason}" for row in lost]
        return Outcome(status=EXIT_NO_RESULT, reason=_listed(texts))
    if conditions:
        places = places_of(analysis, experiment.printed_metrics)
        rows = [row for at in places for each in conditions for row in _judged(at, each, at.leads or at.rows)]
        bad = tuple(dict.fromkeys(row for row in rows if row.verdict in _WITHOUT_RESULT))
        if bad:
            texts = [f"{row.workload}, {row.candidate.label}: {row.verdict.value}: {row.reason}" for row in bad]
            return Outcome(status=EXIT_NO_RESULT, reason=f"--fail-if: {_listed(texts)}")
    return Outcome()


def _row(each: Comparison | FailureRates) -> str:
    load = f" under {each.load}" if each.load != "idle" else ""
    return f"{each.workload}{load}, {each.candidate.label}"


def _listed(texts: Sequence[str]) -> str:
    more = [f"and {len(texts) - _MOST_ROWS} more"] if len(texts) > _MOST_ROWS else []
    return "; ".join([*texts[:_MOST_ROWS], *more])
