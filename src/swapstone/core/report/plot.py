# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plots of a page, declared as scales and series: points with intervals, lines and areas, in one panel or several above each other.

Every plot has the same layout: names of the series, then the panels, each with its title and axis, and the title of the common axis.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from swapstone.core.report import svg
from swapstone.core.report.document import Drawing

_LEFT, _RIGHT = 70.0, 16.0
_TITLE, _GAP = 22.0, 38.0
_APART, _UPRIGHT = 26.0, 26.0
"""Between two labels of a vertical axis, and for its title."""
_ROWS = 4
"""Names along an axis stand on at most so many rows."""


class Scale(NamedTuple):
    """An axis.

    Attributes:
        title: beside it, with the unit.
        kind: ``linear``, ``log``, ``log1p`` (the logarithm of 1 and a value), ``ratio`` (logarithmic around 1), or ``names``.
        show: prints a tick's value.
        reach: values that it holds besides those of the series.
        ticks: where its ticks are; empty for round numbers.
        names: of an axis of names: value 0 has the first one.
        pad: share of a logarithmic axis that stays free at both ends.
    """

    title: str
    kind: Literal["linear", "log", "log1p", "ratio", "names"] = "linear"
    show: Callable[[float], str] = "{:.10g}".format
    reach: tuple[float, ...] = ()
    ticks: tuple[float, ...] = ()
    names: tuple[str, ...] = ()
    pad: float = 0.08

    def axis(self, values: Iterable[float], start: float, end: float) -> svg.LinearAxis:
        """Return the axis of values, between two coordinates."""
        held = (-0.5, len(self.names) - 0.5) if self.kind == "names" else (*values, *self.reach)
        if self.kind in {"linear", "names"}:
            return svg.LinearAxis(min(held), max(held), start, end)
        least, shift = (1.1 if self.kind == "ratio" else 1.0), (1.0 if self.kind == "log1p" else 0.0)
        return svg.LogAxis(held, start, end, least=least, pad=self.pad, shift=shift)

    def labels(self, axis: svg.LinearAxis, apart: float) -> list[tuple[float, str]]:
        """Return pairs (value, label) of the ticks of its axis, at least `apart` points from each other."""
        if self.names:
            return list(enumerate(self.names))
        found = axis.ratios(apart) if self.kind == "ratio" and isinstance(axis, svg.LogAxis) else axis.ticks(apart)
        return [(value, self.show(value)) for value in self.ticks or found]


def ratio_label(value: float) -> str:
    """Return the label of a tick of an axis of ratios."""
    return f"{value:.{3 if 0.9 < value < 1.1 else 2}g}"


class Point(NamedTuple):
    """A point, with an interval on each axis or none, and the size of its mark."""

    x: float
    y: float
    around_y: tuple[float, float] | None = None
    around_x: tuple[float, float] | None = None
    size: float = 4.0


class Span(NamedTuple):
    """A part of an area: from `left` to `right`, and from `low` to `high`."""

    left: float
    right: float
    low: float
    high: float


class Series(NamedTuple):
    """Points joined by a line, or spans that make an area.

    Attributes:
        name: above the plot; once for several series of the same colour.
        colour: its number.
    """

    name: str
    colour: int
    points: tuple[Point, ...] = ()
    dashed: bool = False
    spans: tuple[Span, ...] = ()


class Panel(NamedTuple):
    """Series on one axis.

    Attributes:
        title: above it; empty for none.
        y: its axis.
        height: of the axis.
        under, over: parts of its own below and above the series, from the axes.
    """

    y: Scale
    series: tuple[Series, ...]
    title: str = ""
    height: float = 230.0
    under: Callable[[svg.LinearAxis, svg.LinearAxis], Iterable[str]] = lambda _x, _y: ()
    over: Callable[[svg.LinearAxis, svg.LinearAxis], Iterable[str]] = lambda _x, _y: ()


def plot(
    title: str,
    x: Scale,
    panels: Sequence[Panel],
    description: Iterable[str],
    *,
    name: str,
    caption: str = "",
    compact: bool = False,
) -> Drawing:
    """Return a plot.

    Args:
        title: what it shows.
        x: the axis of all panels.
        panels: from top to bottom.
        description: its content in sentences, for screen readers.
        name: letters and hyphens, for a page's styles.
        caption: sentences below it.
        compact: whether a page sets several such plots side by side.
    """
    described = "; ".join(description)
    widths = (320.0,) if compact else (svg.WIDE, svg.NARROW)
    drawn = [
        svg.drawing(width, *_drawn(x, panels, width), title=title, description=described, name=name) for width in widths
    ]
    return Drawing(title=title, svg=drawn[0], narrow="".join(drawn[1:]), caption=caption, compact=compact)


def _drawn(x: Scale, panels: Sequence[Panel], width: float) -> tuple[float, list[str]]:
    """Return the height of a plot, and its parts."""
    every = [series for panel in panels for series in panel.series]
    parts, top = _legend(every, width)
    spans = (end for series in every for span in series.spans for end in span[:2])
    points = (end for series in every for each in series.points for end in (each.x, *(each.around_x or ())))
    left = max(_LEFT, *map(_room, panels))
    across = x.axis((*points, *spans), left, width - _RIGHT)
    for panel in panels:
        if panel.title:
            parts.append(
                svg.text(0, top + 10, svg.cut(panel.title, int(width / svg.LETTER)), colour="--ink", bold=True)
            )
            top += _TITLE
        bottom = top + panel.height
        parts += _panel(x, panel, across, top, bottom)
        top = bottom + _GAP + 13.0 * (_rows(x.labels(across, 40), across) - 1)
    parts.append(svg.text((left + width - _RIGHT) / 2, top, x.title, anchor="middle"))
    return top + 10, parts


def _legend(every: Iterable[Series], width: float) -> tuple[list[str], float]:
    """Return the names of the series with their marks, and where the panels begin below them."""
    parts: list[str] = []
    left, y = 8.0, 14.0
    for name, colour in dict.fromkeys((series.name, series.colour) for series in every if series.name):
        shown = svg.cut(name, int((width - 30) / svg.LETTER))
        room = 22 + svg.LETTER * len(shown)
        if left > 8 and left + room > width:
            left, y = 8.0, y + 18
        parts += [svg.marker(colour, left + 4, y - 4), svg.text(left + 14, y, shown, colour="--ink")]
        left += room
    return parts, y + 16 if parts else 12.0


def _rows(labels: Sequence[tuple[float, str]], across: svg.LinearAxis) -> int:
    """Return on how many rows the labels of the horizontal axis have to stand."""
    places = [across.at(value) for value, _ in labels]
    step = min((abs(b - a) for a, b in itertools.pairwise(places)), default=math.inf)
    return min(_ROWS, max(1, math.ceil((max((len(text) for _, text in labels), default=0) * svg.LETTER + 6) / step)))


def _upward(panel: Panel, bottom: float, top: float) -> svg.LinearAxis:
    spans = (end for series in panel.series for span in series.spans for end in span[2:])
    points = (end for series in panel.series for each in series.points for end in (each.y, *(each.around_y or ())))
    return panel.y.axis((*points, *spans), bottom, top)


def _room(panel: Panel) -> float:
    """Return the width left of a panel that its axis' title and longest label need."""
    labels = panel.y.labels(_upward(panel, panel.height, 0.0), _APART)
    return _UPRIGHT + max((len(text) for _, text in labels), default=0) * svg.LETTER


def _panel(x: Scale, panel: Panel, across: svg.LinearAxis, top: float, bottom: float) -> Iterator[str]:
    y = _upward(panel, bottom, top)
    left, right = across.start, across.end
    yield from panel.under(across, y)
    for value, label in panel.y.labels(y, _APART):
        at = y.at(value)
        yield svg.line(left, at, right, at, "--none" if panel.y.kind == "ratio" and value == 1 else "--rule")
        yield svg.text(left - 6, at + 4, label, anchor="end")
    yield svg.upright(12, (top + bottom) / 2, svg.cut(panel.y.title, int(panel.height / svg.LETTER)))
    yield svg.line(left, bottom, right, bottom, "--soft")
    labels = x.labels(across, 40)
    rows = _rows(labels, across)
    for number, (value, label) in enumerate(labels):
        at, ratio = across.at(value), x.kind == "ratio"
        yield svg.line(at, top if ratio else bottom, at, bottom + 4, "--none" if ratio and value == 1 else "--rule")
        yield svg.text(at, bottom + 17 + 13 * (number % rows), svg.cut(label, 24), anchor="middle")
    for number, series in enumerate(panel.series):
        # Lines over names stand beside each other, so that their intervals do not overlap.
        shift = 3.0 * (number - (len(panel.series) - 1) / 2) if x.names else 0.0
        yield from area(series, across, y)
        yield from _points(series, across, y, shift)
    yield from panel.over(across, y)


def _points(series: Series, across: svg.LinearAxis, y: svg.LinearAxis, shift: float) -> Iterator[str]:
    colour = svg.series(series.colour)
    places = [(across.at(each.x) + shift, y.at(each.y)) for each in series.points]
    if len(places) > 1:
        yield svg.path(places, colour, dash="6 4" if series.dashed or series.colour >= svg.SERIES else "")
    for each, (left, top) in zip(series.points, places, strict=True):
        if each.around_y is not None:
            yield svg.line(left, y.at(each.around_y[0]), left, y.at(each.around_y[1]), colour, width=2)
        if each.around_x is not None:
            yield svg.line(across.at(each.around_x[0]), top, across.at(each.around_x[1]), top, colour, width=2)
        yield svg.marker(series.colour, left, top, each.size)


def area(series: Series, across: svg.LinearAxis, y: svg.LinearAxis) -> Iterator[str]:
    """Yield the outlines of a series' spans: those that touch have one. Spans narrower than a point share one, with all their extremes."""
    found: dict[tuple[float, float], tuple[float, float]] = {}
    for span in series.spans:
        left, right = across.at(span.left), across.at(span.right)
        if right - left < 1:
            left, right = float(math.floor(left)), math.floor(left) + 1.0
        low, high = found.get((left, right), (span.low, span.high))
        found[left, right] = min(low, span.low), max(high, span.high)
    parts: list[list[tuple[float, float, float, float]]] = []
    for (left, right), (low, high) in found.items():
        if not parts or abs(left - parts[-1][-1][1]) > 0.05:
            parts.append([])
        parts[-1].append((left, right, y.at(low), y.at(high)))
    colour, dash = svg.series(series.colour), ' stroke-dasharray="4 2"' if series.colour >= svg.SERIES else ""
    for part in parts:
        upper = [(x, high) for left, right, _, high in part for x in (left, right)]
        lower = [(x, low) for left, right, low, _ in reversed(part) for x in (right, left)]
        around = "L".join(f"{x:.1f} {at:.1f}" for x, at in (*upper, *lower))
        yield f'<path d="M{around}Z" fill="var({colour})" fill-opacity="0.28" stroke="var({colour})" stroke-width="1.3"{dash}/>'
