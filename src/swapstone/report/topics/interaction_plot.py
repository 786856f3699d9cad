# SPDX-License-Identifier: MIT OR Apache-2.0
"""Interaction plots of crossed factors: levels of one factor along the axis, a line for each level of the other. For pages.

Lines that are not parallel are an interaction. On the logarithmic axis of ratios, factors that multiply give parallel lines.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from swapstone.model import Analysis, Comparison, FactorLevels, FrozenStruct, Scale, Variant
from swapstone.report import svg
from swapstone.report.context import ReportContext
from swapstone.report.document import Drawing
from swapstone.report.topics import sentences
from swapstone.report.topics.factorial_tables import CrossedMetric, present_interactions
from swapstone.report.verdict_groups import NO_NUMBERS

_WORKLOADS = 5
"""Number of workloads with a drawing of their own: those with the largest interactions."""
_WIDTH, _HEIGHT = 320.0, 250.0
_LEFT, _TOP, _BOTTOM = 50.0, 34.0, 198.0
_NAME = 34

Estimate = tuple[float, float | None, float | None]
"""(ratio to the baseline, low, high)"""


class Panel(FrozenStruct, frozen=True, kw_only=True):
    """One drawing.

    Attributes:
        title: the workload, or the index.
        across, lines: the factor along the axis and the factor with a line for each level.
        held: other factors and the level of each that the drawing holds.
        values: by (level along the axis, level of the line).
    """

    title: str
    across: FactorLevels
    lines: FactorLevels
    held: tuple[tuple[str, str], ...]
    values: Mapping[tuple[str, str], Estimate]


def drawings(context: ReportContext, analysis: Analysis, each: CrossedMetric) -> tuple[Drawing, ...]:
    """Return the interaction plots of one metric: of the index, then of the workloads with the largest interactions.

    Args:
        context: names the factors and their levels; the first level of each is the baseline's.
        analysis: holds indices and comparisons.
        each: the metric, with its interactions.

    Returns:
        None where a pair of factors has no line of two points.
    """
    factors = context.experiment.factors
    found = []
    for one, other in itertools.combinations(factors, 2):
        across, lines = (one, other) if len(one.levels) > len(other.levels) else (other, one)
        held = tuple((factor.factor, factor.levels[0]) for factor in factors if factor not in (one, other))
        for title, values in _estimates(analysis, each):
            panel = Panel(
                title=title, across=across, lines=lines, held=held, values=_cells(factors, across, lines, held, values)
            )
            if len(panel.values) > 2:
                found.append(_drawing(panel, each))
    return tuple(found)


def _estimates(analysis: Analysis, each: CrossedMetric) -> Iterator[tuple[str, dict[Variant, Estimate]]]:
    """Yield (title, ratio to the baseline of each variant)."""
    rows = [c for _, line in each.matrix.lines for c in line if c is not None]
    if not rows:
        return
    place = rows[0].suite, rows[0].load, each.metric.name
    indices = {i.candidate: i for i in analysis.indices if (i.suite, i.load, i.metric) == place}
    if each.matrix.indices and indices:
        number = max(i.workloads for i in indices.values())
        yield f"index of {number} workloads", {v: (i.effect, i.low, i.high) for v, i in indices.items()}
    names = list(dict.fromkeys(i.workload for i in present_interactions(each.interactions) if i.workload))
    if not each.matrix.indices:
        names += [name for name, _ in each.matrix.lines if name not in names]
    for name in names[:_WORKLOADS]:
        line = next((line for workload, line in each.matrix.lines if workload == name), ())
        values = {c.candidate: (c.effect or 1.0, c.low, c.high) for c in line if c is not None and _has_ratio(c)}
        yield name, values


def _has_ratio(c: Comparison) -> bool:
    known = c.effect is not None and c.effect > 0 and c.scale is Scale.RATIO
    return known and c.verdict not in NO_NUMBERS


def _cells(
    factors: Sequence[FactorLevels],
    across: FactorLevels,
    lines: FactorLevels,
    held: tuple[tuple[str, str], ...],
    values: Mapping[Variant, Estimate],
) -> dict[tuple[str, str], Estimate]:
    found: dict[tuple[str, str], Estimate] = {}
    for level, line in itertools.product(across.levels, lines.levels):
        chosen = {**dict(held), across.factor: level, lines.factor: line}
        variant = Variant(levels=tuple((factor.factor, chosen[factor.factor]) for factor in factors))
        if (level, line) == (across.levels[0], lines.levels[0]):
            found[level, line] = (1.0, None, None)
        elif variant in values:
            found[level, line] = values[variant]
    return found


def _drawing(panel: Panel, each: CrossedMetric) -> Drawing:
    metric = sentences.metric_name(each.metric.name)
    held = "".join(f", {factor}={level}" for factor, level in panel.held)
    title = (
        f"Interaction of {panel.lines.factor} and {panel.across.factor} on {metric}, {each.title}: {panel.title}{held}"
    )
    return Drawing(title=title, svg=_svg(panel, title, f"{metric}, ratio"), compact=True)


def _svg(panel: Panel, title: str, axis: str) -> str:
    drawn = [line for line in panel.lines.levels if any((level, line) in panel.values for level in panel.across.levels)]
    right = _WIDTH - 14 - svg.LETTER * min(11, max(len(line) for line in drawn))
    y = svg.LogAxis((v for found in panel.values.values() for v in found if v is not None), _BOTTOM, _TOP, least=1.05)
    step = (right - _LEFT) / max(1, len(panel.across.levels))
    places = {level: _LEFT + step * (number + 0.5) for number, level in enumerate(panel.across.levels)}
    parts = [svg.text(0, 14, _cut(panel.title, _NAME), colour="--ink", bold=True)]
    for value, label in y.ratios(24):
        parts.append(svg.line(_LEFT, y.at(value), right, y.at(value), "--none" if value == 1 else "--rule"))
        parts.append(svg.text(_LEFT - 6, y.at(value) + 4, label, anchor="end"))
    parts += _categories(places, step)
    parts.append(svg.text((_LEFT + right) / 2, _HEIGHT - 6, panel.across.factor, anchor="middle"))
    parts.append(svg.upright(11, (_TOP + _BOTTOM) / 2, _cut(axis, 28)))
    shift = {line: 4.0 * (number - (len(drawn) - 1) / 2) for number, line in enumerate(drawn)}
    for number, line in enumerate(drawn):
        parts += _line(panel, number, line, {level: at + shift[line] for level, at in places.items()}, y)
    parts += _names(panel, drawn, right, y)
    description = "; ".join(
        f"{panel.across.factor}={level}, {panel.lines.factor}={line}: {value[0]:.3g}"
        for (level, line), value in panel.values.items()
    )
    return svg.drawing(_WIDTH, _HEIGHT, parts, title=title, description=description, name="interaction")


def _categories(places: Mapping[str, float], step: float) -> Iterator[str]:
    """Yield the names of the levels along the axis, on two rows where they are too long for one."""
    two = max(len(level) for level in places) * svg.LETTER > step - 6
    letters = max(4, int((2 * step if two else step) / svg.LETTER) - 1)
    for number, (level, at) in enumerate(places.items()):
        yield svg.line(at, _BOTTOM, at, _BOTTOM + 4, "--soft")
        yield svg.text(
            at, _BOTTOM + 17 + (13 if two and number % 2 else 0), _cut(level, letters), anchor="middle", colour="--ink"
        )


def _line(panel: Panel, number: int, line: str, places: Mapping[str, float], y: svg.LogAxis) -> Iterator[str]:
    found = [(at, panel.values[level, line]) for level, at in places.items() if (level, line) in panel.values]
    colour = svg.series(number)
    if len(found) > 1:
        yield svg.path([(at, y.at(value[0])) for at, value in found], colour, dash="" if number < svg.SERIES else "4 3")
    for at, (effect, low, high) in found:
        if low is not None and high is not None and low > 0:
            yield svg.line(at, y.at(low), at, y.at(high), colour, width=2)
        yield svg.marker(number, at, y.at(effect), 4)


def _names(panel: Panel, drawn: Sequence[str], right: float, y: svg.LogAxis) -> Iterator[str]:
    """Yield the name of each line at its right end."""
    ends = []
    for line in drawn:
        last = [level for level in panel.across.levels if (level, line) in panel.values][-1]
        ends.append(y.at(panel.values[last, line][0]) + 4)
    for number, (line, at) in enumerate(zip(drawn, svg.spread(ends, 14, _TOP, _BOTTOM), strict=True)):
        yield svg.text(right + 4, at, _cut(line, 11), colour=svg.series(number), bold=True)


def _cut(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
