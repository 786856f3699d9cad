# SPDX-License-Identifier: MIT OR Apache-2.0
"""Network stacks: copies and allocations for each request, beside the published figures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from swapstone.core.model import Analysis, Variant
from swapstone.core.model.references import references
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Section
from swapstone.core.report.sides import sides
from swapstone.core.report.tables import Field, section_of
from swapstone.core.report.topics.topic import Topic
from swapstone.core.report.verdict_groups import NO_NUMBERS
from swapstone.parts.net.report.netstack_answer import CLIENT, answer, counted_program

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
        qualified: how the page states them, by column.
        work: workload; empty for the page.
    """

    measured: str
    program: str
    numbers: dict[str, float]
    qualified: dict[str, str]
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
_AFFIXES = {"about": ("~", ""), "at least": ("", "+")}


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
        Field(head, "", lambda row: _shown(row.numbers.get(name), row.qualified.get(name, ""))),
        Field("", name, lambda row: row.numbers.get(name)),
    )


def _measured(analysis: Analysis) -> Iterator[Row]:
    """Yield a row for each workload and variant, servers first, with the columns whose metrics were all measured."""
    values: dict[tuple[str, Variant], dict[str, float]] = {}
    for each in sides(analysis, lambda c: c.suite == SUITE and c.verdict not in NO_NUMBERS):
        values.setdefault((each.workload, each.variant), {})[each.metric.name] = each.median
    for (work, variant), known in sorted(values.items(), key=lambda item: (item[0][0].startswith(CLIENT), item[0][0])):
        numbers = {column: known[metric] for column, metric, _ in _COLUMNS if metric in known}
        if numbers:
            stack = variant.level("netstack") if len(variant.levels) == 1 else variant.label
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
            words[column] = figure.qualified
    for (program, level), (numbers, words) in found.items():
        yield Row(_PAGE, f"{level}, {program}", numbers, words)


def _shown(value: float | None, qualified: str = "") -> str:
    """Return a count with three significant digits, and a large one with all of its digits; ``~`` for about, ``+`` for at least."""
    if value is None:
        return ""
    before, after = _AFFIXES.get(qualified, ("", ""))
    number = formatting.fixed(value, 0) if value >= 1000 else formatting.trimmed(formatting.digits(value))
    return f"{before}{number}{after}"


NETSTACK = Topic("netstack", 90, sections, answer=answer)
