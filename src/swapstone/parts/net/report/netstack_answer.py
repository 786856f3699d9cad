# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer of network stacks: copies and allocations of a request, as counted."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from swapstone.core.model import Analysis, Comparison, Variant, Verdict
from swapstone.core.report import formatting
from swapstone.core.report.answer import limits, tails
from swapstone.core.report.answer.answer import Answer
from swapstone.core.report.answer.claim import Claim
from swapstone.core.report.answer.commands import commands_for
from swapstone.core.report.answer.means import mean_of
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Block, Cell
from swapstone.core.report.sides import without_copies
from swapstone.core.report.tables import Field, short_table
from swapstone.core.report.verdict_groups import MEDIAN_DIFFERS, NO_NUMBERS, SAME_CENTRE
from swapstone.core.report.verdict_marks import VERDICT_MARKS

SUITE = "netstack-counts"
CLIENT, _SERVER = "counts-client-", "counts-"
"""How the names of workloads begin whose client, or whose server, is counted."""
_COPIES, _COPIED = "copies", "copied"
_METRICS = (
    (_COPIES, "copies"),
    (_COPIED, "bytes copied"),
    ("heap_calls", "allocations from the heap"),
    ("store_calls", "allocations from pools"),
)
_MOST_WHOLE = 2
"""Number of clauses that name all differences."""
_MOST_CLAUSES = 4
"""Number of clauses; more are replaced by one for each candidate, of its copies and their bytes."""


def answer(context: ReportContext, analysis: Analysis) -> Answer | None:
    """Return the answer about the suite that counts copies and allocations; None without any of its counts."""
    rows = [row for row in without_copies(analysis) if row.suite == SUITE]
    counted = [row for row in rows if row.metric.name in dict(_METRICS)]
    if not counted:
        return None
    usable = [row for row in counted if row.verdict not in NO_NUMBERS and row.baseline_values]
    return Answer(
        claims=tuple(_claims(usable, context.experiment.margin)),
        suites=(SUITE,),
        figures=(_table(usable),) if usable else (),
        unknown=(*limits.rejected(counted), *limits.open_rows(counted)),
        commands=commands_for(context, ()),
    )


def _claims(rows: Sequence[Comparison], margin: float) -> Iterator[Claim]:
    """Yield a claim for each workload and candidate.

    Of more than two, each names one difference. Of more than four, there is one for each candidate. The table has the others.
    """
    parts: dict[tuple[str, Variant], list[Comparison]] = {}
    for row in rows:
        parts.setdefault((row.workload, row.candidate), []).append(row)
    copies = {(row.workload, row.candidate) for row in rows if row.metric.name == _COPIES}
    if len(parts) > _MOST_CLAUSES and copies == set(parts) and any(row.low is not None or row.exact for row in rows):
        for candidate in dict.fromkeys(row.candidate for row in rows):
            mine = [row for row in rows if row.candidate == candidate]
            yield _claim(mine, _summary(mine), margin)
        return
    most = len(_METRICS) if len(parts) <= _MOST_WHOLE else 1
    for (work, _), mine in parts.items():
        yield _claim(mine, _clause(work, mine, most), margin)


def _claim(rows: Sequence[Comparison], text: str, margin: float) -> Claim:
    """Return a claim about counts of a candidate; its numbers are those of the first count that differs."""
    first = next((row for row in rows if row.verdict in MEDIAN_DIFFERS), rows[0])
    claim = Claim(
        suite=SUITE,
        load=first.load,
        subject=_name(first.candidate),
        against=_name(first.baseline),
        text=text,
        rows=tuple(rows),
        names_rows=True,
        quantity=first.metric.quantity,
        floor=margin,
    )
    mean = mean_of([first])
    return claim if mean is None else claim.of_mean(mean)


def _summary(rows: Sequence[Comparison]) -> str:
    """Return how often, and how many bytes, a candidate copies for a request, over several workloads."""
    parts = [
        _ranges([row for row in rows if row.metric.name == metric], verb, unit)
        for metric, verb, unit in ((_COPIES, "makes", "copies for a request"), (_COPIED, "copies", "bytes"))
        if any(row.metric.name == metric for row in rows)
    ]
    return f"{_name(rows[0].candidate)} {', and '.join(parts)}"


def _ranges(rows: Sequence[Comparison], verb: str, unit: str) -> str:
    """Return the medians of both sides: ``makes 6 to 9 copies for a request where lwip makes 6.01 to 13 (fewer in 3 of 4 counts)``."""
    signs = Counter(
        "fewer" if statistics.median(row.candidate_values) < statistics.median(row.baseline_values) else "more"
        for row in rows
        if row.verdict in MEDIAN_DIFFERS
    )
    parts = [f"{word} in {signs[word]}" for word in ("fewer", "more") if signs[word]]
    return (
        f"{verb} {_range([row.candidate_values for row in rows])} {unit} where {_name(rows[0].baseline)} {verb} "
        f"{_range([row.baseline_values for row in rows])} ({' and '.join(parts) or 'a difference shown in none'} of {len(rows)} counts)"
    )


def _range(values: Sequence[Sequence[float]]) -> str:
    medians = [statistics.median(each) for each in values]
    low, high = _number(min(medians)), _number(max(medians))
    return low if low == high else f"{low} to {high}"


def _clause(work: str, rows: Sequence[Comparison], most: int) -> str:
    candidate, baseline = (_name(variant) for variant in (rows[0].candidate, rows[0].baseline))
    names = dict(_METRICS)
    alone = all(row.metric.name == _COPIED for row in rows if row.verdict in MEDIAN_DIFFERS)
    parts = [
        f"{_number(statistics.median(row.candidate_values))} {names[row.metric.name]} instead of "
        f"{_number(statistics.median(row.baseline_values))}"
        for row in rows
        if row.verdict in MEDIAN_DIFFERS and (row.metric.name != _COPIED or alone)
    ][:most]
    where = f"for a request ({formatting.safe(counted_program(work))})"
    same = f"{candidate} and {baseline} copy and allocate equally often"
    cases = (
        (parts, f"{candidate} makes {', '.join(parts)} with {baseline}"),
        (tails.clauses(rows), f"no difference in the median found between {baseline} and {candidate}"),
        (all(row.verdict is Verdict.EQUIVALENT for row in rows), same),
        (all(row.verdict in SAME_CENTRE for row in rows), f"{same} in the median"),
        (
            any(row.low is not None or row.exact for row in rows),
            f"no difference found between {baseline} and {candidate}",
        ),
        (True, f"too few runs to compare {candidate} with {baseline}"),
    )
    return f"{next(text for holds, text in cases if holds)} {where}"


def counted_program(work: str) -> str:
    """Return what a workload counts and how it copies, such as ``server, plain``."""
    side = "client" if work.startswith(CLIENT) else "server"
    return f"{side}, {work.removeprefix(CLIENT).removeprefix(_SERVER)}"


def _name(variant: Variant) -> str:
    return formatting.safe(variant.short_label)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 or value == int(value) else formatting.digits(value)


def _table(rows: Sequence[Comparison]) -> Block:
    names = dict(_METRICS)
    fields: tuple[Field[Comparison], ...] = (
        Field(
            "of a request",
            "",
            lambda row: f"{names[row.metric.name]}, {formatting.safe(counted_program(row.workload))}",
            right=False,
        ),
        Field("variant", "", lambda row: _name(row.candidate), right=False),
        Field("baseline", "", lambda row: statistics.median(row.baseline_values), _number),
        Field("candidate", "", lambda row: statistics.median(row.candidate_values), _number),
        Field("verdict", "", lambda row: Cell(mark=VERDICT_MARKS[row.verdict]), right=False),
    )
    return short_table("Copies and allocations of a request", fields, rows, 12, keys=2)
