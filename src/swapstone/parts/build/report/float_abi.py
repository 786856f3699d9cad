# SPDX-License-Identifier: MIT OR Apache-2.0
"""Floating-point ABIs: instructions of an operation with each, how many times fewer the hardware's are, and what the operands decide.

On the wall clock, the page's program has a drawing of time against loops.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from swapstone.core.model import Analysis, Comparison, Variant
from swapstone.core.model.metric import TIMES
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Section
from swapstone.core.report.plot import Panel, Point, Scale, Series, plot
from swapstone.core.report.ratios import Column, Ratio, Ratios, ratio_fields
from swapstone.core.report.tables import Datum, Field, item, section_of, unit
from swapstone.core.report.topics.topic import Topic
from swapstone.core.report.variant_values import sides

SUITE, FACTOR = "float", "float"
SECTION = "float-abi"
PAGE_WORKLOAD = "float_calls"
_EXACT, _INEXACT = "exact", "inexact"

_LIBRARY = (
    "soft and softfp are linked with armel's glibc, which does its own arithmetic in software, and hard with armhf's, which is compiled "
    "for Thumb-2. Rows of printf compare these two libraries; in the other rows no library function is called."
)
LOOPS = "float-loops"
_ROUNDS = 1000
"""Of a loop of the page's program."""
_SECOND_NS = 1e9


class _Line(NamedTuple):
    """A row of the table: a workload with one kind of operands, and its value with each variant."""

    name: str
    work: str
    operands: str
    values: dict[Variant, float]


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the table of an analysis of the suite in which the ABI is varied; none for another.

    Args:
        context: has the workloads' parameters, and names the published study.
        analysis: holds the comparisons.
    """
    lines = _lines(context, analysis)
    variants = tuple(dict.fromkeys(variant for line in lines for variant in line.values))
    if len(variants) < 2:
        return ()
    first, counted = variants[0], context.experiment.virtual

    def value(variant: Variant) -> Field[_Line]:
        key = f"{_name(variant)} {'instructions' if counted else 'ns'}"
        return Field(_name(variant), key, lambda line: line.values.get(variant), unit("1" if counted else "ns"))

    ratios, load = Ratios(analysis), context.experiment.loads[0]

    def ratio(variant: Variant) -> Iterable[Field[_Line]]:
        name = f"{_name(first)} / {_name(variant)}"

        def of(line: _Line) -> Ratio | None:
            return ratios.ratio((SUITE, line.name), Column(load, variant), Column(load, first))

        return ratio_fields(name, name, of, "")

    return (
        section_of(
            SECTION,
            "Instructions of an operation" if counted else "Time of an operation",
            (
                Field("operation", "workload", lambda line: line.work, formatting.safe, right=False),
                Field("operands", "operands", lambda line: line.operands, formatting.safe, right=False),
                *map(value, variants),
                *itertools.chain.from_iterable(map(ratio, variants[1:])),
            ),
            lines,
            keys=2,
            notes=_notes(context, lines, variants),
        ),
    )


def loop_sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the drawing of time against loops, the published page's; none on the virtual clock, or without several numbers of loops."""
    curves: dict[Variant, list[Point]] = {}
    for each in () if context.experiment.virtual else sides(analysis, _is_shown):
        if loops := float(context.parameters(SUITE, each.workload).get("loops", 0)):
            seconds = each.median * loops * _ROUNDS / _SECOND_NS
            curves.setdefault(each.variant, []).append(Point(loops, seconds, size=2.5))
    lines = tuple(
        Series(_name(variant), colour, tuple(sorted(points, key=lambda point: point.x)))
        for colour, (variant, points) in enumerate(curves.items())
    )
    if max((len(line.points) for line in lines), default=0) < 2:
        return ()
    rows: list[Datum] = [{"level": line.name, "loops": at.x, "seconds": at.y} for line in lines for at in line.points]
    title = "Time against loops of the page's program"
    drawn = plot(
        title,
        Scale("loops, 1000 rounds of four operations each", reach=(0.0,)),
        [Panel(Scale("time, seconds", reach=(0.0,)), lines)],
        (f"{line.name}: {line.points[-1].y:.3g} s for {line.points[-1].x:g} loops" for line in lines),
        name=LOOPS,
    )
    note = "Medians of the runs, of the time to read first, without the start of the program."
    fields = (item("", "level"), item("", "loops"), item("", "seconds"))
    return (section_of(LOOPS, title, fields, rows, notes=(note,), drawing=drawn),)


def _lines(context: ReportContext, analysis: Analysis) -> list[_Line]:
    scale = context.experiment.ns_per_instruction if context.experiment.virtual else 1
    values: dict[str, dict[Variant, float]] = {}
    load = context.experiment.loads[0]
    for each in sides(analysis, lambda row: row.load == load and _is_shown(row)):
        values.setdefault(each.workload, {})[each.variant] = each.median / scale
    return [
        _Line(name, name.partition("(")[0], operands, found)
        for name, found in values.items()
        if (operands := context.parameters(SUITE, name).get("operands", ""))
    ]


def _is_shown(row: Comparison) -> bool:
    varied = FACTOR in dict(row.baseline.levels)
    return row.suite == SUITE and varied and row.metric.name in TIMES and row.preferred


def _name(variant: Variant) -> str:
    """Return the column's name: the level where nothing else is varied, else the variant's label."""
    return formatting.safe(variant.level(FACTOR) if len(variant.levels) == 1 else variant.label)


def _on_page(line: _Line) -> bool:
    return (line.work, line.operands) == (PAGE_WORKLOAD, _EXACT)


def _notes(context: ReportContext, lines: Sequence[_Line], variants: Sequence[Variant]) -> Iterable[str]:
    if context.experiment.virtual:
        yield (
            "An instruction takes the same time on the virtual clock, so its time is their number, with the kernel's share. It is no time "
            "of a processor, on which a division takes longer than a sum."
        )
        # Without noise, two workloads can be compared.
        yield from filter(None, (_operands(lines, variant) for variant in variants))
    yield _LIBRARY
    if context.experiment.virtual and context.explain and any(map(_on_page, lines)):
        chosen = shlex.quote(variants[1].label)
        yield (
            "Instructions by kind, and the range of cycles on a Cortex-A8 and a Cortex-A9 by a model: "
            f"{context.explain} wall --only '{PAGE_WORKLOAD}({_EXACT})' --candidate {chosen}"
        )


def _operands(lines: Sequence[_Line], variant: Variant) -> str:
    """Return what inexact operands cost with a variant; empty where nothing was measured with both kinds."""
    by_kind = {(line.work, line.operands): line.values.get(variant) for line in lines}
    ratios = [
        (other / value, work)
        for (work, operands), value in by_kind.items()
        if operands == _EXACT and value and (other := by_kind.get((work, _INEXACT)))
    ]
    if not ratios:
        return ""
    (low, first), (high, last) = min(ratios), max(ratios)
    lowest = f"{formatting.ratio(low)} ({formatting.safe(first)}) to " if first != last else ""
    span = f"{lowest}{formatting.ratio(high)} times ({formatting.safe(last)})"
    return f"{_name(variant)}: inexact operands take {span} what exact ones take."


FLOAT_ABI = Topic("float-abi", 110, sections)
FLOAT_LOOPS = Topic("float-loops", 111, loop_sections)
