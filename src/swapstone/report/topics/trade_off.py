# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a candidate costs and what it saves: time against memory, with the program's size, one point for each variant. For pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swapstone.model import Analysis, Comparison, FrozenStruct, Quantity, Scale
from swapstone.report import formatting, svg
from swapstone.report.answer.means import Mean
from swapstone.report.answer.places import IDLE, Place, places_of
from swapstone.report.context import ReportContext
from swapstone.report.document import Drawing, Section
from swapstone.report.topics.topic import Topic
from swapstone.report.verdict_groups import NO_NUMBERS

NAME = "trade-off"
_MOST = 12
"""Number of variants in a drawing: the further ones are in the tables."""
_FARTHEST = 32.0
"""Dots of workloads with a larger ratio, or a smaller one than its inverse, stand at the edge."""


class _Point(FrozenStruct, frozen=True, kw_only=True):
    """A variant, as ratios to the baseline: (effect, low, high) of time and memory, and the effect of size."""

    name: str
    time: tuple[float, float, float]
    memory: tuple[float, float, float]
    size: float | None


class _Dot(FrozenStruct, frozen=True, kw_only=True):
    """A workload of a single candidate."""

    name: str
    time: float
    memory: float


class _Plot(FrozenStruct, frozen=True, kw_only=True):
    """A suite under a load: its variants, and what the axes are."""

    title: str
    baseline: str
    time_name: str
    memory_name: str
    points: tuple[_Point, ...]
    dots: tuple[_Dot, ...]
    left_out: int


def _nothing(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return no section: a terminal prints these ratios as the table below the answer."""
    del context, analysis
    return ()


def page(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return one section with a drawing for each suite and load that has times and memory; none without any.

    Args:
        context: has the margin.
        analysis: holds comparisons and indices.
    """
    found: dict[tuple[str, str], list[Place]] = {}
    for place in places_of(analysis):
        if place.lead is not None and place.memory is not None:
            found.setdefault((place.suite, place.load), []).append(place)
    plots = [_plot(places) for places in found.values()]
    if not plots:
        return ()
    drawings = tuple(_drawing(plot, context.experiment.margin) for plot in plots)
    return (Section(name=NAME, title=f"Time against {plots[0].memory_name}", blocks=drawings),)


def _plot(places: Sequence[Place]) -> _Plot:
    first = places[0]
    points = [point for place in places if (point := _point(place)) is not None]
    lead, memory = first.lead, first.memory
    assert lead is not None
    assert memory is not None
    rate = lead.metric.quantity is Quantity.RATE
    return _Plot(
        title=first.suite if first.load == IDLE else f"{first.suite}, load {first.load}",
        baseline=first.baseline.short_label,
        time_name=f"1 / {lead.name}" if rate else lead.name,
        memory_name=memory.name,
        points=tuple(points[:_MOST]),
        dots=tuple(_dots(first)) if len(places) == 1 else (),
        left_out=max(0, len(points) - _MOST),
    )


def _point(place: Place) -> _Point | None:
    if place.lead is None or place.memory is None:
        return None
    return _Point(
        name=place.candidate.short_label,
        time=_ends(place.lead),
        memory=_ends(place.memory),
        size=None if place.size is None else place.size.effect,
    )


def _ends(mean: Mean) -> tuple[float, float, float]:
    """Return effect, low and high, of a rate their inverses; without an interval the effect three times."""
    known = mean.low is not None and mean.high is not None and mean.low > 0
    low, high = (mean.low or 1.0, mean.high or 1.0) if known else (mean.effect, mean.effect)
    if mean.metric.quantity is Quantity.RATE:
        return 1 / mean.effect, 1 / high, 1 / low
    return mean.effect, low, high


def _dots(place: Place) -> Iterator[_Dot]:
    """Yield the workloads that have both ratios, if there are several."""
    assert place.memory is not None
    memory = {row.workload: row for row in place.memory.rows}
    for row in place.leads if len(place.leads) > 1 else ():
        other = memory.get(row.workload)
        time, space = _ratio(row), _ratio(other) if other is not None else None
        if time is not None and space is not None:
            inverse = row.metric.quantity is Quantity.RATE
            yield _Dot(name=row.workload, time=1 / time if inverse else time, memory=space)


def _ratio(row: Comparison) -> float | None:
    usable = row.verdict not in NO_NUMBERS and row.scale is Scale.RATIO and row.effect is not None and row.effect > 0
    return row.effect if usable else None


def _drawing(plot: _Plot, margin: float) -> Drawing:
    caption = f"{plot.title}: each ratio is relative to {plot.baseline}, on logarithmic axes. Left is less time, below is less memory."
    if plot.dots:
        caption += f" Small dots are the {len(plot.dots)} workloads."
    if any(point.size is not None for point in plot.points):
        caption += " The area of a mark is the size of the program."
    if plot.left_out:
        caption += f" {formatting.count(plot.left_out, 'variant')} more: see the tables."
    return Drawing(
        title=f"Trade-off of {plot.title}",
        svg=_svg(plot, margin, svg.WIDE),
        narrow=_svg(plot, margin, svg.NARROW),
        caption=caption,
    )


def _svg(plot: _Plot, margin: float, width: float) -> str:
    narrow = width < svg.WIDE
    height = 320.0 if narrow else 360.0
    left, right, top, bottom = 58.0, width - 14, 12.0, height - 46
    held = [min(_FARTHEST, max(1 / _FARTHEST, value)) for dot in plot.dots for value in (dot.time,)]
    x = svg.LogAxis([*held, *(value for each in plot.points for value in each.time), 1.0], left, right, least=1.1)
    held = [min(_FARTHEST, max(1 / _FARTHEST, dot.memory)) for dot in plot.dots]
    y = svg.LogAxis([*held, *(value for each in plot.points for value in each.memory), 1.0], bottom, top, least=1.1)
    parts = [_better(x, y, left, bottom), *_axes(plot, x, y, (left, right, top, bottom), margin)]
    parts += [
        f'<circle cx="{x.at(dot.time):.1f}" cy="{y.at(dot.memory):.1f}" r="3" fill="var(--soft)" fill-opacity="0.45">'
        f"<title>{svg.safe(f'{dot.name}: time {formatting.ratio(dot.time)}, memory {formatting.ratio(dot.memory)}')}</title></circle>"
        for dot in plot.dots
    ]
    parts.append(
        f'<circle cx="{x.at(1):.1f}" cy="{y.at(1):.1f}" r="5" fill="var(--paper)" stroke="var(--ink)" stroke-width="2"/>'
    )
    for number, each in enumerate(plot.points):
        parts += _mark(number, each, x, y)
    parts += _labels(plot, x, y, (left, right, top, bottom), narrow=narrow)
    return svg.drawing(
        width, height, parts, title=f"Trade-off of {plot.title}", description=_described(plot), name=NAME
    )


def _better(x: svg.LogAxis, y: svg.LogAxis, left: float, bottom: float) -> str:
    """Shade the quarter in which a variant needs less of both."""
    wide, high = x.at(1) - left, bottom - y.at(1)
    box = f'<rect x="{left:.1f}" y="{y.at(1):.1f}" width="{wide:.1f}" height="{high:.1f}" fill="var(--good)" fill-opacity="0.07"/>'
    fits = wide > 12 * svg.LETTER and high > 40
    return box + (svg.text(left + 6, bottom - 8, "less of both") if fits else "")


def _axes(
    plot: _Plot, x: svg.LogAxis, y: svg.LogAxis, box: tuple[float, float, float, float], margin: float
) -> Iterator[str]:
    left, right, top, bottom = box
    edges = x.at(1 / (1 + margin)), x.at(1 + margin), y.at(1 + margin), y.at(1 / (1 + margin))
    yield f'<rect x="{edges[0]:.1f}" y="{top:.1f}" width="{edges[1] - edges[0]:.1f}" height="{bottom - top:.1f}" fill="var(--band)"/>'
    yield f'<rect x="{left:.1f}" y="{edges[2]:.1f}" width="{right - left:.1f}" height="{edges[3] - edges[2]:.1f}" fill="var(--band)"/>'
    for value, label in x.ratios(40):
        yield svg.line(x.at(value), top, x.at(value), bottom, "--none" if value == 1 else "--rule")
        yield svg.text(x.at(value), bottom + 16, label, anchor="middle")
    for value, label in y.ratios(26):
        yield svg.line(left, y.at(value), right, y.at(value), "--none" if value == 1 else "--rule")
        yield svg.text(left - 6, y.at(value) + 4, label, anchor="end")
    yield svg.text(
        (left + right) / 2, bottom + 36, f"{plot.time_name}, ratio to {_cut(plot.baseline)}", anchor="middle"
    )
    yield svg.upright(14, (top + bottom) / 2, f"{plot.memory_name}, ratio to {_cut(plot.baseline)}")


def _cut(name: str, most: int = 22) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _mark(number: int, each: _Point, x: svg.LogAxis, y: svg.LogAxis) -> Iterator[str]:
    at, height, colour = x.at(each.time[0]), y.at(each.memory[0]), svg.series(number)
    yield svg.line(x.at(each.time[1]), height, x.at(each.time[2]), height, colour, width=2)
    yield svg.line(at, y.at(each.memory[1]), at, y.at(each.memory[2]), colour, width=2)
    size = 1.0 if each.size is None else min(3.0, max(0.35, each.size))
    yield svg.marker(number, at, height, round(5.5 * size**0.5, 1))


def _labels(
    plot: _Plot, x: svg.LogAxis, y: svg.LogAxis, box: tuple[float, float, float, float], *, narrow: bool
) -> Iterator[str]:
    """Yield the names beside the marks, moved apart; on the side of a mark where there is more room."""
    left, right, top, bottom = box
    middle = (left + right) / 2
    marks = [(plot.baseline, 1.0, 1.0, "--ink")] + [
        (_words(each, narrow=narrow), each.time[0], each.memory[0], svg.series(number))
        for number, each in enumerate(plot.points)
    ]
    for on_right in (False, True):
        side = [mark for mark in marks if (x.at(mark[1]) > middle) == on_right]
        heights = svg.spread([y.at(mark[2]) - 9 for mark in side], 15, top + 10, bottom - 4)
        for (words, time, memory, colour), height in zip(side, heights, strict=True):
            at = x.at(time) + (-10 if on_right else 10)
            if abs(height - y.at(memory)) > 22:
                yield svg.line(x.at(time), y.at(memory), at, height - 4, colour)
            room = int((at - left if on_right else right - at) / svg.LETTER)
            yield svg.text(
                at, height, _cut(words, max(8, room)), anchor="end" if on_right else "start", colour=colour, bold=True
            )


def _words(each: _Point, *, narrow: bool) -> str:
    if narrow:
        return each.name
    size = "" if each.size is None else f", size {formatting.ratio(each.size)}"
    return f"{each.name}: time {formatting.ratio(each.time[0])}, memory {formatting.ratio(each.memory[0])}{size}"


def _described(plot: _Plot) -> str:
    return "; ".join(_words(each, narrow=False) for each in plot.points) + f", all relative to {plot.baseline}"


TRADE_OFF = Topic(NAME, _nothing, page=page)
