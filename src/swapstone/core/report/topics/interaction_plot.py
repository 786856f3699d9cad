# SPDX-License-Identifier: MIT OR Apache-2.0
"""Interaction plots of crossed factors: levels of one factor along the axis, a line for each level of the other. For pages.

Lines that are not parallel are an interaction. On the logarithmic axis of ratios, factors that multiply give parallel lines.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from swapstone.core.model import FactorLevels, Variant
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Drawing
from swapstone.core.report.plot import Panel, Point, Scale, Series, plot, ratio_label
from swapstone.core.report.topics import sentences
from swapstone.core.report.topics.comparison_groups import shown_ratio
from swapstone.core.report.topics.factorial_tables import CrossedMetric, present_interactions

_WORKLOADS = 5
"""Number of workloads with a drawing of their own: those with the largest interactions."""

Estimate = tuple[float, float | None, float | None]
"""(ratio to the baseline, low, high)"""


def drawings(context: ReportContext, each: CrossedMetric) -> tuple[Drawing, ...]:
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


def _estimates(each: CrossedMetric) -> Iterator[tuple[str, dict[Variant, Estimate]]]:
    """Yield (title, ratio to the baseline of each variant)."""
    indices = [index for index in each.matrix.indices if index is not None]
    if indices:
        number = max(i.workloads for i in indices)
        yield f"index of {number} workloads", {i.candidate: (i.effect, i.low, i.high) for i in indices}
    names = list(dict.fromkeys(i.workload for i in present_interactions(each.interactions.cells) if i.workload))
    if not each.matrix.indices:
        names += [name for name, _ in each.matrix.lines if name not in names]
    for name in names[:_WORKLOADS]:
        line = next((line for workload, line in each.matrix.lines if workload == name), ())
        yield name, {c.candidate: (c.effect or 1.0, c.low, c.high) for c in line if c is not None and shown_ratio(c)}


def _cells(
    factors: Sequence[FactorLevels],
    across: FactorLevels,
    lines: FactorLevels,
    held: Mapping[str, str],
    values: Mapping[Variant, Estimate],
) -> dict[tuple[str, str], Estimate]:
    found: dict[tuple[str, str], Estimate] = {}
    for level, line in itertools.product(across.levels, lines.levels):
        chosen = {**held, across.factor: level, lines.factor: line}
        variant = Variant(levels=tuple((factor.factor, chosen[factor.factor]) for factor in factors))
        if (level, line) == (across.levels[0], lines.levels[0]):
            found[level, line] = (1.0, None, None)
        elif variant in values:
            found[level, line] = values[variant]
    return found


def _drawing(
    each: CrossedMetric,
    title: str,
    across: FactorLevels,
    lines: FactorLevels,
    values: Mapping[tuple[str, str], Estimate],
) -> Drawing:
    metric = sentences.metric_name(each.metric.name)
    drawn = [line for line in lines.levels if any((level, line) in values for level in across.levels)]
    series = tuple(
        Series(
            line,
            colour,
            tuple(
                Point(place, effect, None if low is None or high is None or low <= 0 else (low, high))
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
        (f"{across.factor}={level}, {lines.factor}={line}: {value[0]:.3g}" for (level, line), value in values.items()),
        name="interaction",
        compact=True,
    )
