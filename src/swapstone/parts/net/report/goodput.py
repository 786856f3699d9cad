# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goodput over an emulated link: a table and curves of every stack against loss, reordering and delay."""

from __future__ import annotations

import statistics

import msgspec

from swapstone.core.model import Analysis
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Drawing, Section
from swapstone.core.report.plot import Panel, Point, Scale, Series, plot
from swapstone.core.report.tables import Datum, Field, section_of
from swapstone.core.report.topics.topic import Topic
from swapstone.core.report.variant_values import sides

SUITE = "netstack-link"
FACTOR = "link"
METRIC = "rate"
_MBIT = 8e-6
"""Megabits per second of a byte per second."""
_TITLES = {"link-out": "out of the server", "link-in": "into the server"}

Goodputs = dict[str, tuple[float, ...]]
"""Goodput of each run in Mbit/s, by the level of the link."""


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return a section for each workload of the suite that was measured; none for other analyses.

    Args:
        context: has the order of the levels.
        analysis: holds the values of all runs.
    """
    found = _curves(context, analysis)
    return tuple(_section(way, work, found[work]) for work, way in _TITLES.items() if work in found)


def _curves(context: ReportContext, analysis: Analysis) -> dict[str, dict[str, Goodputs]]:
    """Return by workload, and by the level of ``netstack`` or the levels of all factors but ``link``, in the order of the experiment."""
    order = {choice.factor: list(choice.levels) for choice in context.experiment.factors}
    rates = sides(analysis, lambda c: c.suite == SUITE and c.metric.name == METRIC)
    found: dict[str, dict[str, Goodputs]] = {}
    for each in sorted(
        rates, key=lambda each: [order[name].index(level) for name, level in each.variant.levels if name in order]
    ):
        stack = ", ".join(level for name, level in each.variant.levels if name != FACTOR) or "kernel"
        found.setdefault(each.workload, {}).setdefault(stack, {})[dict(each.variant.levels).get(FACTOR, "one link")] = (
            tuple(value * _MBIT for value in each.values)
        )
    return found


def _section(way: str, work: str, found: dict[str, Goodputs]) -> Section:
    links = list(dict.fromkeys(link for mine in found.values() for link in mine))
    table = section_of(
        f"goodput-{work}",
        f"Goodput {way}, Mbit/s",
        (
            Field("stack", "", formatting.safe, right=False),
            *(_column(found, link) for link in links),
        ),
        found,
        notes=(
            "Median (lowest to highest) over runs of 2 s: bytes that the receiver's application read. Each run has another seed. "
            "Where loss, reordering or delay bound it, goodput is a property of the stack; on a clean link it is the speed of "
            "this machine and of the emulator.",
        ),
        drawing=_plot(f"Goodput {way}", links, found),
    )
    data: tuple[Datum, ...] = tuple(
        {
            "stack": stack,
            "link": link,
            "goodput_mbit": statistics.median(values),
            "lowest_mbit": min(values),
            "highest_mbit": max(values),
            "runs": float(len(values)),
        }
        for stack, mine in found.items()
        for link, values in mine.items()
    )
    return msgspec.structs.replace(table, data=data)


def _column(found: dict[str, Goodputs], link: str) -> Field[str]:
    return Field(link, "", lambda stack: _shown(found[stack].get(link, ())))


def _shown(values: tuple[float, ...]) -> str:
    if not values:
        return "-"
    middle, low, high = (formatting.digits(each) for each in (statistics.median(values), min(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"


def _plot(title: str, links: list[str], found: dict[str, Goodputs]) -> Drawing | None:
    """Return levels of the link along the axis, a line for each stack; None with fewer than two levels, or without a value above 0."""
    series = tuple(
        Series(
            stack,
            colour,
            tuple(
                Point(
                    links.index(link),
                    statistics.median(values),
                    (min(values), max(values)) if min(values) > 0 else None,
                )
                for link, values in mine.items()
                if statistics.median(values) > 0
            ),
        )
        for colour, (stack, mine) in enumerate(found.items())
    )
    if len(links) < 2 or not any(each.points for each in series):
        return None
    return plot(
        title,
        Scale("", "names", names=tuple(links)),
        [Panel(Scale("Mbit/s", "log", formatting.digits), series)],
        (
            f"{each.name}, {links[int(point.x)]}: {formatting.digits(point.y)} Mbit/s"
            for each in series
            for point in each.points
        ),
        name="goodput",
        caption="Medians, with the lowest and the highest run. The axis is logarithmic.",
    )


GOODPUT = Topic("goodput", 100, sections)
