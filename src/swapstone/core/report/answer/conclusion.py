# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a record shows: claims in the order of their weight, and the sentence made of them.

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

from swapstone.core.model import DECIDED, NO_NUMBERS, Analysis, Comparison, Direction, Quantity, Verdict, grouped
from swapstone.core.report import formatting
from swapstone.core.report.answer import limits, tails, wording
from swapstone.core.report.answer.claim import Answer, Claim
from swapstone.core.report.answer.means import PROCESSOR_TIMES, Standing, name_of, places_of
from swapstone.core.report.answer.outcome import is_worse
from swapstone.core.report.context import ReportContext

_MOST_CANDIDATES = 3
_MOST_BESIDE = 2
"""Number of results for other suites or loads behind the first."""
_DIFFERENT = (Standing.MORE, Standing.LESS)
_QUANTITIES = {Quantity.TIME: 0, Quantity.RATE: 0, Quantity.MEMORY: 2, Quantity.EVENTS: 3, Quantity.SIZE: 4}
_PROCESSOR_TIME = 1
"""Places of quantities in the order of claims."""


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
        sentence=limits.sentence(analysis) + _sentence(context, analysis, groups),
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
    groups = grouped(claims, lambda claim: (claim.suite, claim.load))
    order = list(dict.fromkeys((row.suite, row.load) for row in analysis.comparisons))

    def key(group: tuple[str, str]) -> tuple[object, ...]:
        position = order.index(group) if group in order else len(order)
        weight = min(_weight(claim, context.asked) for claim in groups[group])
        largest = max(claim.size for each, same in groups.items() if each[0] == group[0] for claim in same)
        return weight, -largest, position, group

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
    by_subject = list(grouped(brief, lambda claim: claim.subject).values())
    if len(by_subject) == 1:
        texts.append(_results(brief, brief[0].text))
    elif by_subject:
        texts.append(_of_several(by_subject))
    return "; ".join(texts)


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
        shown = [f"{each[0].subject} {each[0].seen}" for each in named if each[0].seen]
        seen = f": in these runs, {wording.listed(shown)}" if shown else ""
        return f"too few runs to compare {who} with {against}{where}{seen}"
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
        for each in grouped((claim for claim in claims if claim.brief), lambda claim: claim.subject).values():
            who = "it" if each[0].subject == first[0].subject else each[0].subject
            start = f"on {each[0].scope} {who} {each[0].brief}" if each[0].scope else each[0].text
            found.append((_results(each, start), each))
    most = 0 if len({claim.subject for claim in first if claim.brief}) > 1 else _MOST_BESIDE
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
