# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goodput over an emulated link: a table and curves of every stack against loss, reordering and delay."""

from __future__ import annotations

import statistics

from swapstone.model import Analysis, FrozenStruct, Variant
from swapstone.report import formatting
from swapstone.report.context import ReportContext
from swapstone.report.document import Section, data_section
from swapstone.report.topics.goodput_plot import curves
from swapstone.report.topics.topic import Topic
from swapstone.report.verdict_groups import NO_NUMBERS

SUITE = "netstack-link"
FACTOR = "link"
METRIC = "rate"
_MBIT = 8e-6
"""Megabits per second of a byte per second."""
_TITLES = {"link-out": "out of the server", "link-in": "into the server"}

Goodputs = dict[str, tuple[float, ...]]
"""Goodput of each run in Mbit/s, by the level of the link."""


class Curve(FrozenStruct, frozen=True, kw_only=True):
    """A workload on one stack.

    Attributes:
        workload: ``link-out`` or ``link-in``.
        stack: the level of ``netstack``, or the levels of all factors but ``link``.
        values: by the level of the link, in the order of the experiment.
    """

    workload: str
    stack: str
    values: Goodputs


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return a section for each workload of the suite that was measured; none for other analyses.

    Args:
        context: has the order of the levels.
        analysis: holds the values of all runs.
    """
    found = _curves(context, analysis)
    return tuple(
        _section(work, [curve for curve in found if curve.workload == work])
        for work in _TITLES
        if any(curve.workload == work for curve in found)
    )


def _curves(context: ReportContext, analysis: Analysis) -> list[Curve]:
    copies = {null.copy for null in analysis.nulls}
    values: dict[tuple[str, Variant], tuple[float, ...]] = {}
    for each in analysis.comparisons:
        if each.suite != SUITE or each.metric.name != METRIC or each.verdict in NO_NUMBERS:
            continue
        for variant, side in ((each.baseline, each.baseline_values), (each.candidate, each.candidate_values)):
            # The baseline is in several comparisons, in each with the blocks of its candidate. Take the longest list.
            if variant not in copies and len(side) > len(values.get((each.workload, variant), ())):
                values[each.workload, variant] = side
    order = {
        choice.factor: {level: number for number, level in enumerate(choice.levels)}
        for choice in context.experiment.factors
    }
    places = sorted(values, key=lambda place: [order.get(name, {}).get(level, 0) for name, level in place[1].levels])
    found: dict[tuple[str, str], Goodputs] = {}
    for work, variant in places:
        others = [level for name, level in variant.levels if name != FACTOR]
        level = dict(variant.levels).get(FACTOR, "one link")
        mine = found.setdefault((work, ", ".join(others) or "kernel"), {})
        mine[level] = tuple(value * _MBIT for value in values[work, variant])
    links = list(order.get(FACTOR, {"one link": 0}))
    return [
        Curve(workload=work, stack=stack, values={link: mine[link] for link in links if link in mine})
        for (work, stack), mine in found.items()
    ]


def _section(work: str, found: list[Curve]) -> Section:
    links = list(dict.fromkeys(link for curve in found for link in curve.values))
    way = _TITLES[work]
    return data_section(
        name=f"goodput-{work}",
        title=f"Goodput {way}, Mbit/s",
        head=("stack", *links),
        rows=tuple(
            (formatting.safe(curve.stack), *(_shown(curve.values.get(link, ())) for link in links)) for curve in found
        ),
        right=(False, *(True for _ in links)),
        data=tuple(
            {
                "stack": curve.stack,
                "link": link,
                "goodput_mbit": statistics.median(values),
                "lowest_mbit": min(values),
                "highest_mbit": max(values),
                "runs": float(len(values)),
            }
            for curve in found
            for link, values in curve.values.items()
        ),
        notes=(
            "Median (lowest to highest) over runs of 2 s: bytes that the receiver's application read. Each run has another seed. "
            "Where loss, reordering or delay bound it, goodput is a property of the stack; on a clean link it is the speed of "
            "this machine and of the emulator.",
        ),
        drawing=curves(
            f"Goodput {way}",
            {
                curve.stack: {link: (statistics.median(v), min(v), max(v)) for link, v in curve.values.items()}
                for curve in found
            },
        ),
    )


def _shown(values: tuple[float, ...]) -> str:
    if not values:
        return "-"
    middle, low, high = (formatting.digits(value) for value in (statistics.median(values), min(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"


GOODPUT = Topic("goodput", sections)
