# SPDX-License-Identifier: MIT OR Apache-2.0
"""Crossed factors: each variant against the first, main effects, interactions, and what they mean in sentences.

A page has interaction plots too: levels of one factor along the axis, a line for each level of the other. Lines that are not parallel are
an interaction. On the logarithmic axis of ratios, factors that multiply give parallel lines.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from swapstone.core.model import Analysis, Comparison, FactorEffect, FactorLevels, Index, Interaction, Variant
from swapstone.core.report import formatting
from swapstone.core.report.answer.means import bounds_of, decided_bounds
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import (
    Block,
    BulletList,
    Cell,
    Column,
    Drawing,
    Fold,
    Heading,
    Item,
    Paragraph,
    Section,
    Table,
    Tone,
)
from swapstone.core.report.plot import Panel, Point, Scale, Series, plot, ratio_label
from swapstone.core.report.topics import factorial_tables as tables
from swapstone.core.report.topics import sentences
from swapstone.core.report.topics.comparison_groups import shown, shown_ratio
from swapstone.core.report.topics.factorial_answer import answer
from swapstone.core.report.topics.factorial_tables import CrossedMetric, EstimateTable
from swapstone.core.report.topics.topic import Topic
from swapstone.core.report.verdict_groups import PRESENCE_MARKS, VERDICT_MARKS

_MOST = 6
"""Number of interactions of workloads in a brief report."""


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return one section per suite, load and metric; none of an experiment with one factor."""
    return tuple(
        Section(
            title=f"{each.title}: {sentences.metric_name(each.metric.name)}, each variant against the first",
            blocks=tuple(_blocks(each)),
        )
        for each in tables.crossed_metrics(analysis, context.selection.metrics)
    )


def _blocks(each: CrossedMetric) -> Iterator[Block]:
    name = sentences.heading(each.metric.name)
    yield Paragraph(f"{sentences.upper_first(each.metric.meaning)}. Ratios to the first variant.", Tone.NOTE)
    yield _matrix_table(each)
    for text in each.rejected:
        yield Paragraph(text)
    folded = (
        ("main effects", each.main.lines, _main_effects),
        ("interactions", each.interactions.lines, _interactions),
    )
    for what, lines, blocks in folded:
        if lines:
            yield Fold(summary=f"{name}, {what}", blocks=tuple(blocks(each)), open=not each.brief, brief=not each.brief)


def _matrix_table(each: CrossedMetric) -> Table:
    factors, baseline = zip(*each.baseline.levels, strict=True)
    columns = (Column(factors), *(Column(levels, right=True) for levels in (baseline, *each.matrix.heads)))
    rows = tuple((_name(name), Cell(tables.baseline_text(line)), *map(_cell, line)) for name, line in each.matrix.lines)
    title = f"{each.title}, {sentences.metric_name(each.metric.name)}: the first variant, then the ratio of each other to it"
    return Table(title=title, columns=columns, rows=rows, dense=True)


def _name(workload: str) -> Cell:
    return Cell(workload or tables.INDEX, code=bool(workload))


def _main_effects(each: CrossedMetric) -> Iterator[Block]:
    yield Paragraph("Each is the mean over the other factors' levels.", Tone.NOTE)
    yield _estimates_table(each, "main effects", each.main)
    if dependences := tables.dependences(each.main):
        yield Paragraph(dependences, Tone.NOTE)
    if left_out := tables.left_out(each.main):
        yield Paragraph(left_out)


def _estimates_table(
    each: CrossedMetric, what: str, table: EstimateTable[FactorEffect] | EstimateTable[Interaction]
) -> Table:
    return Table(
        title=f"{each.title}, {what} on {sentences.metric_name(each.metric.name)}",
        columns=(Column(("workload",)), *map(Column, table.heads)),
        rows=tuple((_name(name), *map(_cell, cells)) for name, cells in table.lines),
        dense=True,
    )


def _cell(each: Comparison | Index | FactorEffect | Interaction | None) -> Cell:
    if each is None:
        return Cell()
    if isinstance(each, Index):
        bounds = decided_bounds(each)
        between = " to ".join(map(formatting.ratio, bounds)) if bounds else "no interval"
        return Cell(effect=formatting.ratio(each.effect), note=between)
    if isinstance(each, Comparison):
        effect = shown(each)
        return Cell(effect="" if effect is None else formatting.effect(effect, each), mark=VERDICT_MARKS[each.verdict])
    depends_on = each.depends_on if isinstance(each, FactorEffect) else ()
    return Cell(
        effect="" if each.effect is None else formatting.effect(each.effect, each),
        interval="" if each.effect is None else formatting.interval(each),
        mark=VERDICT_MARKS[each.verdict] if isinstance(each, FactorEffect) else PRESENCE_MARKS[each.presence],
        note=f"depends on {', '.join(depends_on)}" if depends_on else "",
        sign="*" if depends_on else "",
    )


def _interactions(each: CrossedMetric) -> Iterator[Block]:
    table = each.interactions
    yield Paragraph(
        "Each is the ratio of the first level with the second, over its ratio without: 1 for none.", Tone.NOTE
    )
    yield _estimates_table(each, "interactions", table)
    present = tables.present_interactions(table.cells)
    if present:
        of_index = sum(not one.workload for one in present)
        items = tuple(_interaction_item(one) for one in present)
        yield BulletList(items=items, most=of_index + _MOST, rest="more that are present")
    if counted := tables.counted(table):
        yield Paragraph(counted)
    if undecided := tables.undecided(table.cells):
        title = "Undecided, with the smallest interaction that would be detected:"
        yield BulletList(title=title, items=tuple(map(Item, undecided)), most=_MOST)


def _interaction_item(each: Interaction) -> Item:
    text = f"{tables.sentence(each)}."
    if each.workload:
        return Item(text, label=each.workload, code=True)
    return Item(text, label=sentences.upper_first(tables.INDEX), tone=Tone.STRONG)


def page(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the sections of a page: those of `sections`, each with its interaction plots below the matrix."""
    metrics = tables.crossed_metrics(analysis, context.selection.metrics)
    return tuple(
        Section(title=section.title, blocks=(*section.blocks[:2], *_plots(context, each), *section.blocks[2:]))
        for each, section in zip(metrics, sections(context, analysis), strict=True)
    )


def _plots(context: ReportContext, each: CrossedMetric) -> Iterator[Block]:
    drawings = _drawings(context, each)
    if drawings:
        yield Heading("Interaction plots")
        yield Paragraph(
            "Each point is a variant's ratio to the first, with its interval, on a logarithmic axis. Parallel lines: the factors multiply, "
            "there is no interaction. After the index, the workloads with the largest interactions.",
            Tone.NOTE,
        )
        yield from drawings


_WORKLOADS = 5
"""Number of workloads with a drawing of their own: those with the largest interactions."""

_Estimate = tuple[float, float | None, float | None]
"""(ratio to the baseline, low, high)"""


def _drawings(context: ReportContext, each: CrossedMetric) -> tuple[Drawing, ...]:
    """Return the interaction plots of one metric: of the index, then of the workloads with the largest interactions.

    Args:
        context: names the factors and their levels; the first level of each is the baseline's.
        each: the metric, with its indices, comparisons and interactions.

    Returns:
        None where a pair of factors has no line of two points.
    """
    factors = context.experiment.factors
    found = []
    for one, other in itertools.combinations(factors, 2):
        across, lines = (one, other) if len(one.levels) > len(other.levels) else (other, one)
        held = {factor.factor: factor.levels[0] for factor in factors if factor not in (one, other)}
        where = "".join(f", {factor}={level}" for factor, level in held.items())
        drawn = ((title, _cells(factors, across, lines, held, values)) for title, values in _estimates(each))
        found += [_drawing(each, title + where, across, lines, cells) for title, cells in drawn if len(cells) > 2]
    return tuple(found)


def _estimates(each: CrossedMetric) -> Iterator[tuple[str, dict[Variant, _Estimate]]]:
    """Yield (title, ratio to the baseline of each variant, and of the baseline itself)."""
    itself: dict[Variant, _Estimate] = {each.baseline: (1.0, 1.0, 1.0)}
    indices = [index for index in each.matrix.cells if isinstance(index, Index)]
    if indices:
        number = max(i.workloads for i in indices)
        yield (
            f"index of {number} workloads",
            itself | {i.candidate: (i.effect, *(decided_bounds(i) or (None, None))) for i in indices},
        )
    names = list(dict.fromkeys(i.workload for i in tables.present_interactions(each.interactions.cells) if i.workload))
    if not indices:
        names += [name for name, _ in each.matrix.lines if name not in names]
    for name in names[:_WORKLOADS]:
        line = (c for c in each.matrix.cells if isinstance(c, Comparison) and c.workload == name)
        yield (
            name,
            itself | {c.candidate: (c.effect or 1.0, *(bounds_of(c) or (None, None))) for c in line if shown_ratio(c)},
        )


def _cells(
    factors: Sequence[FactorLevels],
    across: FactorLevels,
    lines: FactorLevels,
    held: Mapping[str, str],
    values: Mapping[Variant, _Estimate],
) -> dict[tuple[str, str], _Estimate]:
    found: dict[tuple[str, str], _Estimate] = {}
    of_levels = {variant.levels: estimate for variant, estimate in values.items()}
    for level, line in itertools.product(across.levels, lines.levels):
        chosen = {**held, across.factor: level, lines.factor: line}
        levels = tuple((factor.factor, chosen[factor.factor]) for factor in factors)
        if levels in of_levels:
            found[level, line] = of_levels[levels]
    return found


def _drawing(
    each: CrossedMetric,
    title: str,
    across: FactorLevels,
    lines: FactorLevels,
    values: Mapping[tuple[str, str], _Estimate],
) -> Drawing:
    metric = sentences.metric_name(each.metric.name)
    drawn = [line for line in lines.levels if any((level, line) in values for level in across.levels)]
    series = tuple(
        Series(
            line,
            colour,
            tuple(
                Point(place, effect, (low, high) if low and high and low < high else None)
                for place, level in enumerate(across.levels)
                if (level, line) in values
                for effect, low, high in [values[level, line]]
            ),
        )
        for colour, line in enumerate(drawn)
    )
    return plot(
        f"Interaction of {lines.factor} and {across.factor} on {metric}, {each.title}: {title}",
        Scale(across.factor, "names", names=across.levels),
        [Panel(Scale(f"{metric}, ratio", "ratio", ratio_label), series, title, 164.0)],
        (
            f"{across.factor}={level}, {lines.factor}={line}: {formatting.ratio_interval(*value)}"
            for (level, line), value in values.items()
        ),
        name="interaction",
        compact=True,
    )


FACTORIAL = Topic("factorial", 120, sections, selective=True, answer=answer, remaining=True, page=page)
