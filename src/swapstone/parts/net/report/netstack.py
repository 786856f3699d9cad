# SPDX-License-Identifier: MIT OR Apache-2.0
"""Network stacks: copies and allocations for each request, beside the published figures."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from swapstone.core.model import NO_NUMBERS, SAME_CENTRE, Analysis, Comparison, Variant, Verdict
from swapstone.core.model.references import references
from swapstone.core.report import formatting
from swapstone.core.report.answer import limits, tails
from swapstone.core.report.answer.claim import Answer, Claim
from swapstone.core.report.answer.commands import commands_for
from swapstone.core.report.answer.means import mean_of
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Block, Cell, Section
from swapstone.core.report.tables import Field, section_of, short_table
from swapstone.core.report.topics.comparison_groups import sign
from swapstone.core.report.topics.topic import Topic
from swapstone.core.report.variant_values import sides, without_copies
from swapstone.core.report.verdict_groups import DIFFERS, VERDICT_MARKS

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
    if len(parts) > _MOST_CLAUSES and copies == set(parts) and any(row.low is not None for row in rows):
        for candidate in dict.fromkeys(row.candidate for row in rows):
            mine = [row for row in rows if row.candidate == candidate]
            yield _claim(mine, _summary(mine), margin)
        return
    most = len(_METRICS) if len(parts) <= _MOST_WHOLE else 1
    for (work, _), mine in parts.items():
        yield _claim(mine, _clause(work, mine, most), margin)


def _claim(rows: Sequence[Comparison], text: str, margin: float) -> Claim:
    """Return a claim about counts of a candidate; its numbers are those of the first count that differs."""
    first = next((row for row in rows if row.verdict in DIFFERS), rows[0])
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
    signs = Counter("fewer" if sign(row) == -1 else "more" for row in rows if row.verdict in DIFFERS)
    parts = [f"{word} in {signs[word]}" for word in ("fewer", "more") if signs[word]]
    return (
        f"{verb} {_range([row.candidate_values for row in rows])} {unit} where {_name(rows[0].baseline)} {verb} "
        f"{_range([row.baseline_values for row in rows])} ({' and '.join(parts) or 'a difference decided in none'} of {len(rows)} counts)"
    )


def _range(values: Sequence[Sequence[float]]) -> str:
    medians = [statistics.median(each) for each in values]
    low, high = _number(min(medians)), _number(max(medians))
    return low if low == high else f"{low} to {high}"


def _clause(work: str, rows: Sequence[Comparison], most: int) -> str:
    candidate, baseline = (_name(variant) for variant in (rows[0].candidate, rows[0].baseline))
    names = dict(_METRICS)
    alone = all(row.metric.name == _COPIED for row in rows if row.verdict in DIFFERS)
    parts = [
        f"{_number(statistics.median(row.candidate_values))} {names[row.metric.name]} instead of "
        f"{_number(statistics.median(row.baseline_values))}"
        for row in rows
        if row.verdict in DIFFERS and (row.metric.name != _COPIED or alone)
    ][:most]
    where = f"for a request ({formatting.safe(counted_program(work))})"
    same = f"{candidate} and {baseline} copy and allocate equally often"
    cases = (
        (parts, f"{candidate} makes {', '.join(parts)} with {baseline}"),
        (tails.clauses(rows), f"whether the medians of {baseline} and {candidate} differ is not decided"),
        (all(row.verdict is Verdict.EQUIVALENT for row in rows), same),
        (all(row.verdict in SAME_CENTRE for row in rows), f"{same} in the median"),
        (
            any(row.low is not None for row in rows),
            f"whether {candidate} copies or allocates more or less than {baseline} is not decided",
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


SUITE = "netstack-counts"
STUDY = "lwip-vs-smoltcp"

SECTION = "netstack-counts"

_HERE, _PAGE = "here", "the page"
_COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("copies", "copies", "copies"),
    ("copied_bytes", "copied", "bytes copied"),
    ("allocations", "heap_calls", "from the heap"),
    ("allocated_bytes", "heap_bytes", "bytes"),
    ("store_allocations", "store_calls", "from lwIP's store"),
    ("store_bytes", "store_bytes", "bytes"),
)
"""(column, metric, heading). The page counts allocations from the heap only, so those from lwIP's own store are apart."""

_REQUESTS = re.compile(r"(?<![0-9])([0-9]{1,15}) requests")


class Row(NamedTuple):
    """A row of the table.

    Attributes:
        measured: where.
        program: what was counted.
        numbers: by column.
        printed: as the page prints them, by column.
        work: workload; empty for the page.
    """

    measured: str
    program: str
    numbers: dict[str, float]
    printed: dict[str, str]
    work: str = ""


_CLIENTS = (
    "The page's figures are of HTTP clients, so they stand below the client's rows; the server's are another quantity. "
    "The page counted two other clients on another system, one for copies and one for allocations, which copy what they "
    "send and receive, as client, plain. The threads of the second take their stacks from the heap. The page does not "
    "name the machine. Its figures are divided by its requests. ~ is about, + is at least. "
    "It counted allocations from the heap, not those from lwIP's pools. Only the order of magnitude can be compared."
)
_SERVERS = (
    "The page's figures are of HTTP clients. These rows are of servers, so no published figure stands beside them."
)


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the table of an analysis that has workloads of the suite; none for another.

    Args:
        context: names the published study.
        analysis: holds the counts.
    """
    measured = list(_measured(analysis))
    if not measured:
        return ()
    clients = any(row.work.startswith(CLIENT) for row in measured)
    pages = list(_pages()) if context.published == STUDY and clients else []
    rows = [*measured, *pages]
    notes = [
        "Medians over runs, for each request. Allocations from the heap are those of Rust code. lwIP allocates from its own store, too."
    ]
    notes += [_CLIENTS if pages else _SERVERS] if context.published == STUDY else []
    return (
        section_of(
            SECTION,
            "Copies and allocations for each request",
            (
                Field("measured", "measured", lambda row: row.measured, right=False),
                Field("program", "program", lambda row: row.program, right=False),
                *(field for name, _, head in _COLUMNS for field in _column(name, head)),
            ),
            rows,
            keys=2,
            notes=notes,
        ),
    )


def _column(name: str, head: str) -> tuple[Field[Row], ...]:
    return (
        Field(head, "", lambda row: _shown(row.numbers.get(name), row.printed.get(name, ""))),
        Field("", name, lambda row: row.numbers.get(name)),
    )


def _measured(analysis: Analysis) -> Iterator[Row]:
    """Yield a row for each workload and variant, servers first, with the columns whose metrics were all measured."""
    values: dict[tuple[str, Variant], dict[str, float]] = {}
    for each in sides(analysis, lambda c: c.suite == SUITE):
        values.setdefault((each.workload, each.variant), {})[each.metric.name] = each.median
    for (work, variant), known in sorted(values.items(), key=lambda item: (item[0][0].startswith(CLIENT), item[0][0])):
        numbers = {column: known[metric] for column, metric, _ in _COLUMNS if metric in known}
        if numbers:
            stack = variant.short_label if len(variant.levels) == 1 else variant.label
            yield Row(_HERE, f"{stack}, {counted_program(work)}", numbers, {}, work)


def _pages() -> Iterator[Row]:
    """Yield the published rows, divided by their number of requests. The page counted copies and allocations of two programs."""
    columns = {metric: column for column, metric, _ in _COLUMNS}
    found: dict[tuple[str, str], tuple[dict[str, float], dict[str, str]]] = {}
    for each in references(STUDY, SECTION):
        figure, column = each.figure, columns.get(each.place.metric)
        program, _, condition = figure.condition.partition(", ")
        requests = _REQUESTS.search(condition)
        if column and requests:
            numbers, words = found.setdefault((program, figure.level), ({}, {}))
            numbers[column] = figure.value / int(requests[1])
            words[column] = figure.printed
    for (program, level), (numbers, words) in found.items():
        yield Row(_PAGE, f"{level}, {program}", numbers, words)


def _shown(value: float | None, printed: str = "") -> str:
    """Return a count with three significant digits, and a large one with all of its digits; ``~`` for about, ``+`` for at least."""
    if value is None:
        return ""
    before = "~" if printed.startswith("about ") else ""
    after = "+" if printed.endswith("+") else ""
    number = formatting.fixed(value, 0) if value >= 1000 else formatting.trimmed(formatting.digits(value))
    return f"{before}{number}{after}"


NETSTACK = Topic("netstack", 90, sections, answer=answer)
