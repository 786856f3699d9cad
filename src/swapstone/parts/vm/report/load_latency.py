# SPDX-License-Identifier: MIT OR Apache-2.0
"""Latency against load: p50 and p99 of servers by connections or requests a second, a line for each variant. For pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from swapstone.core.model import Analysis, Variant
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Drawing, Section
from swapstone.core.report.plot import Panel, Point, Scale, Series, plot
from swapstone.core.report.topics.topic import Topic, nothing
from swapstone.core.report.variant_values import sides

NAME = "load-latency"
_SHOWN = ("latency_p50", "latency_p99")
_TITLES = {"connections": "connections", "requests_per_s": "requests a second, offered"}
_FIRST = ("requests_per_s", "connections")


Values = Mapping[tuple[str, str, str, Variant], float]
"""Median over the blocks, in ns, by (suite, workload, metric, variant)."""


def page(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return one section with a drawing for each series of loads; none where no server ran under two loads.

    Args:
        context: has the workloads' parameters.
        analysis: holds the latencies.
    """
    found = sides(analysis, lambda c: c.metric.name in _SHOWN)
    values = {(each.suite, each.workload, each.metric.name, each.variant): each.median for each in found}
    drawings = tuple(_drawings(context, values))
    return (Section(name=NAME, title="Latency against load", blocks=drawings),) if drawings else ()


def _drawings(context: ReportContext, values: Values) -> Iterator[Drawing]:
    """Draw each series of workloads that differ in one numeric parameter and have latencies: of requests a second, else of connections.

    Args:
        context: has the workloads' parameters.
        values: of the workloads that have latencies.
    """
    known = {place: context.parameters(*place) for place in dict.fromkeys(place[:2] for place in values)}
    names = dict.fromkeys((*_FIRST, *(name for each in known.values() for name in each)))
    for parameter in names:
        groups: dict[tuple[str, tuple[tuple[str, str], ...]], dict[float, str]] = {}
        for (suite, workload), parameters in known.items():
            # A number above 0.
            if re.fullmatch(r"0*[1-9][0-9]{0,14}", parameters.get(parameter, ""), re.ASCII):
                others = tuple((name, value) for name, value in parameters.items() if name != parameter)
                groups.setdefault((suite, others), {})[float(parameters[parameter])] = workload
        yield from (
            _drawing(suite, parameter, others, sorted(each.items()), values)
            for (suite, others), each in groups.items()
            if len(each) > 1
        )


def _drawing(
    suite: str,
    parameter: str,
    others: Iterable[tuple[str, str]],
    workloads: Sequence[tuple[float, str]],
    values: Values,
) -> Drawing:
    """Draw the latencies of workloads that differ in one number.

    Args:
        suite: of the workloads.
        parameter: the number's name.
        others: their other parameters, which are equal.
        workloads: pairs (number, workload), ascending.
        values: by place.
    """
    axis = _TITLES.get(parameter, parameter)
    title = f"Latency by {axis}, {suite}{''.join(f', {name} {value}' for name, value in others)}"
    series = tuple(
        Series(
            variant.short_label,
            colour,
            tuple(
                Point(load, values[key], size=3.5)
                for load, name in workloads
                if values.get(key := (suite, name, metric, variant), 0.0) > 0
            ),
            dashed=metric != _SHOWN[0],
        )
        for colour, variant in enumerate(dict.fromkeys(place[3] for place in values))
        for metric in _SHOWN
    )
    return plot(
        title,
        Scale(axis, "log", ticks=tuple(load for load, _ in workloads)),
        [Panel(Scale("latency of a request", "log", lambda value: formatting.quantity(value, "ns")), series)],
        (
            f"{line.name} {'p99' if line.dashed else 'p50'} at {point.x:g}: {formatting.quantity(point.y, 'ns')}"
            for line in series
            for point in line.points
        ),
        name=NAME,
        caption=f"{title}. Medians over the blocks on logarithmic axes. Solid lines: p50, half of the requests are faster. Dashed lines: "
        "p99, one request in a hundred is slower.",
    )


LOAD_LATENCY = Topic(NAME, 80, nothing, page=page)
