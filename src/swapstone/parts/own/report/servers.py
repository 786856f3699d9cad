# SPDX-License-Identifier: MIT OR Apache-2.0
"""Servers: requests a second, latencies and cost of a request for each variant, beside the published figures."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

from swapstone.core.model import Analysis, Variant
from swapstone.core.model.references import references
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Section
from swapstone.core.report.ratios import Column, Ratio, Ratios, ratio_fields
from swapstone.core.report.tables import Datum, Field, item, known, quotient, section_of, unit
from swapstone.core.report.topics.topic import Topic
from swapstone.core.report.variant_values import sides, variants_of

SIGN = "cpu_per_request"
"""A metric that only servers have."""

STUDY = "musl-malloc"
SECTION = "servers"

_PAGE_COLUMNS = (
    ("requests", "requests/s", "1/s"),
    *((f"latency_{name}", name, "ns") for name in ("p50", "p75", "p90", "p99", "max")),
)
_COLUMNS = (
    ("requests", "requests/s", "1/s"),
    ("latency_p50", "p50", "ns"),
    ("latency_p99", "p99", "ns"),
    (SIGN, "CPU/request", "ns"),
    ("minflt_per_request", "faults/request", "1"),
    ("nvcsw_per_request", "waits/request", "1"),
)


class _Row(NamedTuple):
    """A variant of a workload under a load."""

    suite: str
    workload: str
    load: str
    variant: Variant


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the table of servers of an analysis that has some; none for another.

    Args:
        context: names the published study, and has the workloads' parameters.
        analysis: holds the comparisons.
    """
    servers = {each.workload for each in analysis.comparisons if each.metric.name == SIGN}
    found = sides(analysis, lambda each: each.workload in servers)
    values = {(each.suite, each.workload, each.load, each.metric.name, each.variant): each.median for each in found}
    variants = variants_of(analysis, lambda each: each.workload in servers)
    rows = [
        _Row(*place, variant)
        for place in dict.fromkeys((each.suite, each.workload, each.load) for each in found)
        for variant in variants
        if any((*place, metric, variant) in values for metric in (SIGN, "requests"))
    ]
    if not rows:
        return ()
    first, musl = variants[0], _plain_musl(context)
    # At a constant rate the schedule sets the requests a second, so their ratio is no result.
    free = {each.workload for each in analysis.comparisons if each.metric.name == "requests" and each.metric.leads}
    ratios = Ratios(analysis)

    def column(metric: str, head: str, unit_name: str) -> Field[_Row]:
        show = known(formatting.digits, "-") if unit_name == "1" else unit(unit_name, "-")
        return Field(head, metric, lambda row: values.get((*row[:3], metric, row.variant)), show)

    def over(base: Variant | None) -> Callable[[_Row], Ratio | None]:
        def against(row: _Row) -> Ratio | None:
            if base is None or row.workload not in free:
                return None
            columns = Column(row.load, base), Column(row.load, row.variant)
            return ratios.ratio((row.suite, row.workload), *columns, "requests")

        return against

    def page(row: _Row) -> float | None:
        if musl is None or row.variant == musl or context.published != STUDY:
            return None
        # The published requests a second of a server with as many connections, by levels here.
        rates = {
            frozenset(each.place.side.levels): each.figure.value
            for each in references(STUDY, SECTION)
            if (each.place.workload, each.place.metric) == (row.workload, "requests")
        }
        return quotient(rates.get(frozenset(row.variant.levels)), rates.get(frozenset(musl.levels)))

    with_musl, with_page = any(map(over(musl), rows)), any(map(page, rows))
    table = section_of(
        "servers",
        "Servers: requests a second, and the cost of a request",
        (
            Field("server", "server", lambda row: row.workload, right=False),
            Field("level", "", lambda row: row.variant.short_label, right=False),
            Field("", "variant", lambda row: row.variant.label),
            *itertools.starmap(column, _COLUMNS),
            *ratio_fields("x", "requests_against_first", over(first)),
            *ratio_fields("x of musl" if with_musl else "", "requests_against_musl_default", over(musl)),
            Field(
                "page: x of musl" if with_page else "",
                "published_against_musl_default",
                page,
                known(formatting.ratio, "-"),
            ),
        ),
        rows,
        keys=2,
        notes=_notes(first.label, musl=with_musl, page=with_page),
    )
    return (table, *_page_table(context))


def _plain_musl(context: ReportContext) -> Variant | None:
    """Return the variant that is musl with its own malloc and else the baseline; None where there is none."""
    levels = {choice.factor: choice.levels for choice in context.experiment.factors}
    if "musl" not in levels.get("libc", ()) or "default" not in levels.get("allocator", ("default",)):
        return None
    chosen = {"libc": "musl", "allocator": "default"}
    return Variant(levels=tuple((factor, chosen.get(factor, known[0])) for factor, known in levels.items()))


def _notes(first: str, *, musl: bool, page: bool) -> Iterator[str]:
    texts = (
        (
            True,
            f"Medians over the blocks. x: requests a second over those of {first}, with the interval: the same estimate as below, and not "
            "the quotient of the medians. CPU, faults and waits are the server's own, for each "
            "request: user and system time, minor page faults, voluntary context switches.",
        ),
        (
            True,
            "Where server and load generator share processors, requests a second depend on both. Read the processor time of a request "
            "first: it is the server's alone.",
        ),
        (
            musl,
            "x of musl: the quotient of two x, that of the row and that of musl with its own malloc, and of their intervals' bounds.",
        ),
        (
            page,
            "The published ratio is of another server on another machine with as many connections: 10 on a Pentium T4500, 250 on "
            "an AMD Zen 3 (where wrk had two threads; here it has one). The page does not state how many threads its server had, so the "
            "rows of a number of connections have the same ratio: t is the threads of the server, not wrk's -t.",
        ),
    )
    return (text for holds, text in texts if holds)


def _page_table(context: ReportContext) -> Iterator[Section]:
    """Yield the published figures as a table."""
    if context.published != STUDY:
        return
    rows: dict[tuple[str, str, str], Datum] = {}
    for each in references(STUDY, SECTION):
        figure = each.figure
        key = (figure.platform, figure.condition, figure.level)
        row = rows.setdefault(key, dict(zip(("machine", "driver", "malloc"), key, strict=True)))
        row[each.place.metric] = figure.value * (1000.0 if figure.unit == "us" else 1.0)
    yield section_of(
        "servers-published",
        "Published figures",
        (
            item("machine", "machine", right=False),
            item("load generator", "driver", right=False),
            item("malloc", "malloc", right=False),
            *(item(head, name, unit(unit_name, "-")) for name, head, unit_name in _PAGE_COLUMNS),
        ),
        rows.values(),
        keys=3,
        notes=(
            "An HTTP server on musl under wrk, with musl's own malloc and with mimalloc. Only ratios can be compared with the rows above.",
        ),
    )


SERVERS = Topic("servers", 70, sections)
