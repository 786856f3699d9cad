# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a candidate costs and what it saves: time against memory, with the program's size, one point for each variant. For pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swapstone.core.model import Analysis, Quantity, grouped
from swapstone.core.report import formatting, svg
from swapstone.core.report.answer.means import Mean, Place, mean_of, places_of
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Drawing, Section
from swapstone.core.report.plot import Panel, Point, Scale, Series, plot, ratio_label
from swapstone.core.report.topics.topic import Topic, nothing

NAME = "trade-off"
_MOST = 12
"""Number of variants in a drawing: the further ones are in the tables."""
_FARTHEST = 32.0
"""Dots of workloads with a larger ratio, or a smaller one than its inverse, stand at the edge."""


_Costs = tuple[Place, Mean, Mean]
"""What a variant of a place needs: time and memory."""


def page(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return one section with a drawing for each suite and load that has times and memory; none without any.

    Args:
        context: has the margin.
        analysis: holds comparisons and indices.
    """
    shown = [
        (place, time, memory)
        for place in places_of(analysis)
        if (time := place.lead) is not None and (memory := place.memory) is not None
    ]
    if not shown:
        return ()
    found = grouped(shown, lambda each: (each[0].suite, each[0].load))
    drawings = tuple(_plot(costs, context.experiment.margin) for costs in found.values())
    return (Section(name=NAME, title=f"Time against {shown[0][2].name}", blocks=drawings),)


def _plot(costs: Sequence[_Costs], margin: float) -> Drawing:
    """Return the drawing of a suite under a load."""
    (first, time, memory), shown = costs[0], costs[:_MOST]
    title = formatting.place(first.suite, first.load)
    baseline = first.baseline.short_label
    dots = tuple(_dots(costs[0])) if len(costs) == 1 else ()
    series = tuple(_series(colour, each) for colour, each in enumerate(shown))
    caption = (
        f"{title}: each ratio is relative to {baseline}, on logarithmic axes. Left is less time, below is less memory."
    )
    caption += f" Small dots are the {len(dots)} workloads." if dots else ""
    caption += " The area of a mark is the size of the program." if any(place.size for place, _, _ in shown) else ""
    more = len(costs) - len(shown)
    caption += f" {formatting.count(more, 'variant')} more: see the tables." if more else ""
    named = f"ratio to {svg.cut(baseline, 22)}"
    rate = "1 / " if time.metric.quantity is Quantity.RATE else ""
    near = (1.0, *(min(_FARTHEST, max(1 / _FARTHEST, needed[0])) for _, needed, _ in dots))
    below = (1.0, *(min(_FARTHEST, max(1 / _FARTHEST, space[0])) for _, _, space in dots))

    def under(x: svg.LinearAxis, y: svg.LinearAxis) -> Iterator[str]:
        """Shade the quarter in which a variant needs less of both, and the margin; draw the workloads."""
        yield _box((x.start, x.at(1)), (y.at(1), y.start), 'fill="var(--good)" fill-opacity="0.07"')
        yield _box((x.at(1 / (1 + margin)), x.at(1 + margin)), (y.end, y.start), 'fill="var(--band)"')
        yield _box((x.start, x.end), (y.at(1 + margin), y.at(1 / (1 + margin))), 'fill="var(--band)"')
        if x.at(1) - x.start > 12 * svg.LETTER and y.start - y.at(1) > 40:
            yield svg.text(x.start + 6, y.start - 8, "less of both")
        for name, needed, space in dots:
            words = f"time {formatting.ratio_interval(*needed)}, memory {formatting.ratio_interval(*space)}"
            hint = svg.safe(f"{name}: {words}")
            place = f'cx="{x.at(needed[0]):.1f}" cy="{y.at(space[0]):.1f}"'
            yield f'<circle {place} r="3" fill="var(--soft)" fill-opacity="0.45"><title>{hint}</title></circle>'

    def over(x: svg.LinearAxis, y: svg.LinearAxis) -> Iterator[str]:
        yield f'<circle cx="{x.at(1):.1f}" cy="{y.at(1):.1f}" r="5" fill="var(--paper)" stroke="var(--ink)" stroke-width="2"/>'
        yield svg.text(x.at(1) + 10, y.at(1) - 9, svg.cut(baseline, 22), colour="--ink", bold=True)

    memory_scale = Scale(f"{memory.name}, {named}", "ratio", ratio_label, below)
    return plot(
        f"Trade-off of {title}",
        Scale(f"{rate}{time.name}, {named}", "ratio", ratio_label, near),
        [Panel(memory_scale, series, height=302.0, under=under, over=over)],
        (*(each.name for each in series), f"all relative to {baseline}"),
        name=NAME,
        caption=caption,
    )


def _box(across: tuple[float, float], down: tuple[float, float], fill: str) -> str:
    (left, right), (top, bottom) = across, down
    return f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}" {fill}/>'


def _series(colour: int, costs: _Costs) -> Series:
    """Return a variant as one point: ratios of time and memory with their intervals."""
    place, *means = costs
    time, memory = map(_ends, means)
    size = "" if place.size is None else f", size {formatting.ratio_interval(*_ends(place.size))}"
    wide = 1.0 if place.size is None else min(3.0, max(0.35, place.size.effect))
    around_time, around_memory = ((low, high) if low and high else None for _, low, high in (time, memory))
    point = Point(time[0], memory[0], around_memory, around_time, round(5.5 * wide**0.5, 1))
    words = f"time {formatting.ratio_interval(*time)}, memory {formatting.ratio_interval(*memory)}{size}"
    return Series(f"{place.candidate.short_label}: {words}", colour, (point,))


_Ends = tuple[float, float | None, float | None]
"""(ratio, low, high)"""


def _ends(mean: Mean) -> _Ends:
    """Return effect and interval, of a rate their inverses; None without an interval."""
    effect, low, high = mean.effect, mean.low or None, mean.high
    if mean.metric.quantity is Quantity.RATE:
        effect, low, high = 1 / effect, high and 1 / high, low and 1 / low
    return effect, low, high


def _dots(costs: _Costs) -> Iterator[tuple[str, _Ends, _Ends]]:
    """Yield name, time and memory of the workloads that have both ratios, if there are several."""
    memory, leads = {row.workload: mean_of([row]) for row in costs[2].rows}, costs[0].leads
    for row in leads if len(leads) > 1 else ():
        time, space = mean_of([row]), memory.get(row.workload)
        if time is not None and space is not None:
            yield row.workload, _ends(time), _ends(space)


TRADE_OFF = Topic(NAME, 10, nothing, page=page)
