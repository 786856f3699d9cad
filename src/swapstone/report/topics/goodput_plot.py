# SPDX-License-Identifier: MIT OR Apache-2.0
"""Curves of goodput: levels of the link along the axis, a line for each stack, goodput on a logarithmic axis. For pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from swapstone.report import formatting, svg
from swapstone.report.document import Drawing

_HEIGHT = 330.0
_LEFT, _TOP, _BOTTOM = 62.0, 30.0, 262.0
_LETTERS = 18
"""Of the name of a stack at the end of its line."""

Estimate = tuple[float, float, float]
"""(median, lowest, highest) in Mbit/s"""


def curves(title: str, values: Mapping[str, Mapping[str, Estimate]]) -> Drawing | None:
    """Return the curves.

    Args:
        title: of the drawing.
        values: by stack and level of the link, in order.

    Returns:
        None with fewer than two levels, or without a value above 0.
    """
    links = list(dict.fromkeys(link for line in values.values() for link in line))
    if len(links) < 2 or not any(each[0] > 0 for line in values.values() for each in line.values()):
        return None
    description = "; ".join(
        f"{stack}, {link}: {formatting.digits(each[0])} Mbit/s"
        for stack, line in values.items()
        for link, each in line.items()
    )
    wide, narrow = (
        svg.drawing(width, _HEIGHT, _parts(width, links, values), title=title, description=description)
        for width in (svg.WIDE, svg.NARROW)
    )
    return Drawing(
        title=title,
        svg=wide,
        narrow=narrow,
        caption="Medians, with the lowest and the highest run. The axis is logarithmic.",
    )


def _parts(width: float, links: list[str], values: Mapping[str, Mapping[str, Estimate]]) -> Iterator[str]:
    right = width - 8 - svg.LETTER * min(_LETTERS, max(len(stack) for stack in values))
    y = svg.LogAxis((each for line in values.values() for found in line.values() for each in found), _BOTTOM, _TOP)
    for value in y.decades(26):
        yield svg.line(_LEFT, y.at(value), right, y.at(value))
        yield svg.text(_LEFT - 6, y.at(value) + 4, formatting.digits(value), anchor="end")
    yield svg.upright(12, (_TOP + _BOTTOM) / 2, "Mbit/s")
    step = (right - _LEFT) / len(links)
    places = {link: _LEFT + step * (number + 0.5) for number, link in enumerate(links)}
    rows = max(1, -(-int(max(len(link) for link in links) * svg.LETTER + 8) // max(1, int(step))))
    for number, (link, x) in enumerate(places.items()):
        yield svg.line(x, _BOTTOM, x, _BOTTOM + 4, "--soft")
        below = _BOTTOM + 18 + 14 * (number % min(rows, 4))
        yield svg.text(x, below, _cut(link, 24), anchor="middle", colour="--ink")
    ends = []
    for number, line in enumerate(values.values()):
        shift = 3.0 * (number - (len(values) - 1) / 2)
        points = [(places[link] + shift, each) for link, each in line.items() if each[0] > 0]
        colour = svg.series(number)
        if len(points) > 1:
            yield svg.path(
                [(x, y.at(each[0])) for x, each in points], colour, dash="" if number < svg.SERIES else "4 3"
            )
        for x, (middle, low, high) in points:
            if low > 0:
                yield svg.line(x, y.at(low), x, y.at(high), colour, width=2)
            yield svg.marker(number, x, y.at(middle), 4)
        ends.append(y.at(points[-1][1][0]) + 4 if points else _BOTTOM)
    for number, (stack, at) in enumerate(zip(values, svg.spread(ends, 14, _TOP, _BOTTOM), strict=True)):
        yield svg.text(right + 4, at, _cut(stack, _LETTERS), colour=svg.series(number), bold=True)


def _cut(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
