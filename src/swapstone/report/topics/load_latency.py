# SPDX-License-Identifier: MIT OR Apache-2.0
"""Latency against load: p50 and p99 of servers by connections or requests a second, a line for each variant. For pages."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from swapstone.model import Analysis, FrozenStruct, Variant
from swapstone.report import formatting, svg
from swapstone.report.context import ReportContext
from swapstone.report.document import Drawing, Section
from swapstone.report.topics.topic import Topic
from swapstone.report.verdict_groups import NO_NUMBERS

NAME = "load-latency"
_SHOWN = ("latency_p50", "latency_p99")
_TITLES = {"connections": "connections", "requests_per_s": "requests a second, offered"}
_FIRST = ("requests_per_s", "connections")


class LoadSeries(FrozenStruct, frozen=True, kw_only=True):
    """Workloads that differ in one number.

    Attributes:
        suite: of the workloads.
        parameter: the number's name.
        others: their other parameters, which are equal.
        workloads: pairs (number, workload), ascending.
    """

    suite: str
    parameter: str
    others: tuple[tuple[str, str], ...]
    workloads: tuple[tuple[float, str], ...]


Values = Mapping[tuple[str, str, str, Variant], float]
"""Median over the blocks, in ns, by (suite, workload, metric, variant)."""


def _nothing(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return no section: a terminal prints these latencies in the table of servers."""
    del context, analysis
    return ()


def page(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return one section with a drawing for each series of loads; none where no server ran under two loads.

    Args:
        context: has the workloads' parameters.
        analysis: holds the latencies.
    """
    values, variants = _values(analysis)
    drawings = tuple(_drawing(each, values, variants) for each in load_series(context, values))
    return (Section(name=NAME, title="Latency against load", blocks=drawings),) if drawings else ()


def _values(analysis: Analysis) -> tuple[Values, tuple[Variant, ...]]:
    copies = {null.copy for null in analysis.nulls}
    lists: dict[tuple[str, str, str, Variant], Sequence[float]] = {}
    variants: dict[Variant, None] = {}
    for c in analysis.comparisons:
        rejected = c.candidate in copies or c.verdict in NO_NUMBERS
        if c.metric.name not in _SHOWN or rejected:
            continue
        for variant, numbers in ((c.baseline, c.baseline_values), (c.candidate, c.candidate_values)):
            variants[variant] = None
            place = (c.suite, c.workload, c.metric.name, variant)
            # A baseline has a number for each of its partners' runs: the longest list is of the most blocks.
            if len(numbers) > len(lists.get(place, ())):
                lists[place] = numbers
    return {place: statistics.median(numbers) for place, numbers in lists.items()}, tuple(variants)


def load_series(context: ReportContext, values: Values) -> tuple[LoadSeries, ...]:
    """Return the series of workloads that differ in one numeric parameter and have latencies: of requests a second, else of connections.

    Args:
        context: has the workloads' parameters.
        values: names the workloads that have latencies.
    """
    workloads = list(dict.fromkeys(place[:2] for place in values))
    known = {place: context.parameters(*place) for place in workloads}
    names = dict.fromkeys((*_FIRST, *(name for each in known.values() for name in each)))
    found = []
    for parameter in names:
        groups: dict[tuple[str, tuple[tuple[str, str], ...]], dict[float, str]] = {}
        for (suite, workload), parameters in known.items():
            number = _number(parameters.get(parameter, ""))
            if number is not None:
                others = tuple((name, value) for name, value in parameters.items() if name != parameter)
                groups.setdefault((suite, others), {})[number] = workload
        found += [
            LoadSeries(suite=suite, parameter=parameter, others=others, workloads=tuple(sorted(each.items())))
            for (suite, others), each in groups.items()
            if len(each) > 1
        ]
    return tuple(found)


def _number(text: str) -> float | None:
    """Return a parameter's number above 0; None for anything else."""
    return float(text) if text.isascii() and text.isdigit() and len(text) < 16 and int(text) > 0 else None


def _drawing(each: LoadSeries, values: Values, variants: Sequence[Variant]) -> Drawing:
    others = ", ".join(f"{name} {value}" for name, value in each.others)
    title = f"Latency by {_TITLES.get(each.parameter, each.parameter)}, {each.suite}" + (
        f", {others}" if others else ""
    )
    shown = [variant for variant in variants if any(place[3] == variant for place in values)]
    return Drawing(
        title=title,
        svg=_svg(each, values, shown, title, svg.WIDE),
        narrow=_svg(each, values, shown, title, svg.NARROW),
        caption=f"{title}. Medians over the blocks on logarithmic axes. Solid lines: p50, half of the requests are faster. Dashed lines: "
        "p99, one request in a hundred is slower.",
    )


def _svg(each: LoadSeries, values: Values, variants: Sequence[Variant], title: str, width: float) -> str:
    left, right = 70.0, width - 26
    parts, top = _legend(variants, width)
    bottom = top + 230
    x = svg.LogAxis((number for number, _ in each.workloads), left, right)
    lines = [
        (
            number,
            metric,
            [
                (load, values[key])
                for load, name in each.workloads
                if (key := (each.suite, name, metric, variant)) in values
            ],
        )
        for number, variant in enumerate(variants)
        for metric in _SHOWN
    ]
    y = svg.LogAxis((value for _, _, points in lines for _, value in points), bottom, top)
    for value in y.decades(30):
        parts.append(svg.line(left, y.at(value), right, y.at(value)))
        parts.append(svg.text(left - 6, y.at(value) + 4, formatting.quantity(value, "ns"), anchor="end"))
    for load, _ in each.workloads:
        parts.append(svg.line(x.at(load), bottom, x.at(load), bottom + 5, "--soft"))
        parts.append(svg.text(x.at(load), bottom + 18, f"{load:g}", anchor="middle"))
    parts.append(svg.line(left, bottom, right, bottom, "--soft"))
    parts.append(
        svg.text((left + right) / 2, bottom + 38, _TITLES.get(each.parameter, each.parameter), anchor="middle")
    )
    parts.append(svg.upright(12, (top + bottom) / 2, "latency of a request"))
    described = []
    for number, metric, points in lines:
        parts += _line(number, metric, [(x.at(load), y.at(value)) for load, value in points])
        described += [
            f"{variants[number].short_label} {metric.removeprefix('latency_')} at {load:g}: {formatting.quantity(value, 'ns')}"
            for load, value in points
        ]
    return svg.drawing(width, bottom + 48, parts, title=title, description="; ".join(described), name=NAME)


def _line(number: int, metric: str, points: Sequence[tuple[float, float]]) -> Iterator[str]:
    if len(points) > 1:
        yield svg.path(points, svg.series(number), dash="" if metric == _SHOWN[0] else "6 4")
    for at, height in points:
        yield svg.marker(number, at, height, 3.5)


def _legend(variants: Sequence[Variant], width: float) -> tuple[list[str], float]:
    """Return the variants' names with their marks, and where the drawing begins below them."""
    parts: list[str] = []
    x, y = 8.0, 14.0
    for number, variant in enumerate(variants):
        room = 22 + svg.LETTER * len(variant.short_label)
        if x > 8 and x + room > width:
            x, y = 8.0, y + 18
        parts += [svg.marker(number, x + 4, y - 4), svg.text(x + 14, y, variant.short_label, colour="--ink")]
        x += room
    return parts, y + 16


LOAD_LATENCY = Topic(NAME, _nothing, page=page)
