# SPDX-License-Identifier: MIT OR Apache-2.0
"""Servers: requests a second, latencies and cost of a request for each variant, beside the published figures."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from swapstone import published
from swapstone.model import Analysis, Comparison, FrozenStruct, Variant
from swapstone.report import formatting
from swapstone.report.context import ReportContext
from swapstone.report.document import Section, data_section
from swapstone.report.topics.comparison_groups import shown
from swapstone.report.topics.topic import Topic

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

Place = tuple[str, str, Variant]
"""(workload, metric, variant)"""

Levels = frozenset[tuple[str, str]]
"""Pairs (factor, level)."""


class _Row(FrozenStruct, frozen=True, kw_only=True):
    """One variant of one workload: medians over the blocks, None without values.

    Attributes:
        against_first: its requests a second over the baseline's, of the medians; None at a constant rate.
        against_musl: over those of musl with its own malloc.
        shown_against_first: the comparison's effect with its interval, as text: the number that other tables of the page have.
        shown_against_musl: the quotient of two such effects, as text.
        page: the published ratio; None without one.
    """

    workload: str
    variant: Variant
    values: tuple[float | None, ...]
    against_first: float | None
    against_musl: float | None
    shown_against_first: str
    shown_against_musl: str
    page: float | None


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the table of servers of an analysis that has some; none for another.

    Args:
        context: names the published study, and has the workloads' parameters.
        analysis: holds the comparisons.
    """
    values, workloads, variants = _values(analysis)
    if not workloads:
        return ()
    musl = _plain_musl(context)
    # At a constant rate the schedule sets the requests a second, so their ratio is no result.
    free = {each.workload for each in analysis.comparisons if each.metric.name == "requests" and each.metric.leads}
    effects = {
        (each.workload, each.candidate): each
        for each in analysis.comparisons
        if each.metric.name == "requests" and each.workload in free and shown(each) is not None
    }
    rows = [
        _row(
            values,
            workload,
            variant,
            variants[0],
            musl,
            page=_page_rates(workload) if context.published == STUDY else {},
            free=workload in free,
            effects=effects,
        )
        for workload in workloads
        for variant in variants
        if (workload, SIGN, variant) in values or (workload, "requests", variant) in values
    ]
    with_musl, with_page = any(row.against_musl for row in rows), any(row.page for row in rows)
    head = (
        "server",
        "level",
        *(name for _, name, _ in _COLUMNS),
        "x",
        *(("x of musl",) if with_musl else ()),
        *(("page: x of musl",) if with_page else ()),
    )
    found = data_section(
        name="servers",
        title="Servers: requests a second, and the cost of a request",
        head=head,
        rows=tuple(_cells(row, musl=with_musl, page=with_page) for row in rows),
        right=(False, False, *(True,) * (len(head) - 2)),
        keys=2,
        data=tuple(map(_data, rows)),
        notes=tuple(_notes(variants[0].label, musl=with_musl, page=with_page)),
    )
    page = _page_table(context)
    return (found, page) if page else (found,)


def _values(analysis: Analysis) -> tuple[dict[Place, float], list[str], list[Variant]]:
    """Return medians by place, and servers and variants in order, without copies of the baseline."""
    servers = {found.workload for found in analysis.comparisons if found.metric.name == SIGN}
    copies = {null.copy for null in analysis.nulls}
    lists: dict[Place, Sequence[float]] = {}
    workloads: dict[str, None] = {}
    variants: dict[Variant, None] = {}
    for found in analysis.comparisons:
        if found.workload not in servers or found.candidate in copies:
            continue
        workloads[found.workload] = None
        for variant, numbers in (
            (found.baseline, found.baseline_values),
            (found.candidate, found.candidate_values),
        ):
            variants[variant] = None
            place = (found.workload, found.metric.name, variant)
            # A baseline has a number for each of its partners' runs: the longest list is of the most blocks.
            if len(numbers) > len(lists.get(place, ())):
                lists[place] = numbers
    return {place: statistics.median(numbers) for place, numbers in lists.items()}, list(workloads), list(variants)


def _plain_musl(context: ReportContext) -> Variant | None:
    """Return the variant that is musl with its own malloc and else the baseline; None where there is none."""
    levels = {choice.factor: choice.levels for choice in context.experiment.factors}
    if "musl" not in levels.get("libc", ()) or "default" not in levels.get("allocator", ("default",)):
        return None
    chosen = {"libc": "musl", "allocator": "default"}
    return Variant(levels=tuple((factor, chosen.get(factor, known[0])) for factor, known in levels.items()))


def _row(
    values: dict[Place, float],
    workload: str,
    variant: Variant,
    first: Variant,
    musl: Variant | None,
    *,
    page: Mapping[Levels, float],
    free: bool,
    effects: Mapping[tuple[str, Variant], Comparison],
) -> _Row:
    requests = values.get((workload, "requests", variant)) if free else None
    return _Row(
        workload=workload,
        variant=variant,
        values=tuple(values.get((workload, metric, variant)) for metric, _, _ in _COLUMNS),
        against_first=_over(requests, values.get((workload, "requests", first))),
        against_musl=_over(requests, values.get((workload, "requests", musl))) if musl else None,
        shown_against_first=_effect_text(effects, workload, variant, first) if free else "-",
        shown_against_musl=_quotient_text(effects, workload, variant, musl, first) if free and musl else "-",
        page=_over(page.get(frozenset(variant.levels)), page.get(frozenset(musl.levels)))
        if musl and variant != musl
        else None,
    )


def _effect_text(
    effects: Mapping[tuple[str, Variant], Comparison], workload: str, variant: Variant, first: Variant
) -> str:
    """Return the effect of a comparison against the baseline with its interval; ``-`` where there is none."""
    found = effects.get((workload, variant))
    return "1" if variant == first else "-" if found is None else formatting.estimate(found)


def _quotient_text(
    effects: Mapping[tuple[str, Variant], Comparison], workload: str, variant: Variant, musl: Variant, first: Variant
) -> str:
    """Return a variant's effect over that of musl with its own malloc, both against the baseline; ``-`` where one is missing."""

    def effect(which: Variant) -> float | None:
        found = effects.get((workload, which))
        return 1.0 if which == first else None if found is None else found.effect

    quotient = _over(effect(variant), effect(musl))
    return "-" if quotient is None else "1" if variant == musl else formatting.ratio(quotient)


def _over(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base else None


def _page_rates(workload: str) -> dict[Levels, float]:
    """Return the published requests a second of a server with as many connections, by levels here; empty where the page has none."""
    return {
        frozenset(each.place.side.levels): each.figure.value
        for each in published.joined(SECTION, STUDY)
        if (each.place.workload, each.place.metric) == (workload, "requests")
    }


def _cells(row: _Row, *, musl: bool, page: bool) -> tuple[str, ...]:
    values = (
        "-" if value is None else formatting.digits(value) if unit == "1" else formatting.quantity(value, unit)
        for value, (_, _, unit) in zip(row.values, _COLUMNS, strict=True)
    )
    page_ratio = "-" if row.page is None else formatting.ratio(row.page)
    return (
        row.workload,
        row.variant.short_label,
        *values,
        row.shown_against_first,
        *((row.shown_against_musl,) if musl else ()),
        *((page_ratio,) if page else ()),
    )


def _data(row: _Row) -> dict[str, str | float | None]:
    return {
        "server": row.workload,
        "variant": row.variant.label,
        **{metric: value for (metric, _, _), value in zip(_COLUMNS, row.values, strict=True)},
        "requests_against_first": row.against_first,
        "requests_against_musl_default": row.against_musl,
        "published_against_musl_default": row.page,
    }


def _notes(first: str, *, musl: bool, page: bool) -> Iterator[str]:
    yield (
        f"Medians over the blocks. x: requests a second over those of {first}, with the interval: the same estimate as below, and not the "
        "quotient of the medians. CPU, faults and waits are the server's own, for each "
        "request: user and system time, minor page faults, voluntary context switches."
    )
    yield (
        "Where server and load generator share processors, requests a second depend on both. Read the processor time of a request first: "
        "it is the server's alone."
    )
    if musl:
        yield "x of musl: the quotient of two x, that of the row and that of musl with its own malloc."
    if page:
        yield (
            "The published ratio is of another server on another machine with as many connections: 10 on a Pentium T4500, 250 on "
            "an AMD Zen 3 (where wrk had two threads; here it has one). The page does not state how many threads its server had, so the "
            "rows of a number of connections have the same ratio: t is the threads of the server, not wrk's -t."
        )


def _page_table(context: ReportContext) -> Section | None:
    """Return the published figures as a table."""
    if context.published != STUDY:
        return None
    rows: dict[tuple[str, str, str], dict[str, float]] = {}
    for each in published.joined(SECTION, STUDY):
        figure = each.figure
        scaled = figure.value * (1000.0 if figure.unit == "us" else 1.0)
        rows.setdefault((figure.platform, figure.condition, figure.level), {})[each.place.metric] = scaled
    return data_section(
        name="servers-published",
        title="Published figures",
        head=("machine", "load generator", "malloc", *(head for _, head, _ in _PAGE_COLUMNS)),
        rows=tuple(
            (
                *key,
                *("-" if name not in row else formatting.quantity(row[name], unit) for name, _, unit in _PAGE_COLUMNS),
            )
            for key, row in rows.items()
        ),
        right=(False, False, False, *[True] * len(_PAGE_COLUMNS)),
        keys=3,
        data=tuple(
            {
                "machine": key[0],
                "driver": key[1],
                "malloc": key[2],
                **{name: row.get(name) for name, _, _ in _PAGE_COLUMNS},
            }
            for key, row in rows.items()
        ),
        notes=(
            "An HTTP server on musl under wrk, with musl's own malloc and with mimalloc. Only ratios can be compared with the rows above.",
        ),
    )


SERVERS = Topic("servers", sections)
