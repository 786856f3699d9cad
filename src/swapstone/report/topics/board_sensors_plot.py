# SPDX-License-Identifier: MIT OR Apache-2.0
"""Temperature and clock rate of a board over its trials: SVG for a page, one panel for each sensor above a common axis."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from swapstone.model.board_sensors import BoardSensors, Readings, SensorPoint
from swapstone.report import formatting, svg
from swapstone.report.document import Drawing

_LEFT, _RIGHT, _TOP, _PLOT, _GAP, _BOTTOM = 58.0, 14.0, 24.0, 96.0, 34.0, 40.0
_BAND = 'fill-opacity="0.3" stroke-width="2" stroke-linejoin="round"'


class _Panel(NamedTuple):
    """A sensor: the name of its readings, its title, its unit, and the least range of its axis."""

    name: str
    title: str
    unit: str
    least: float


_PANELS = (
    _Panel("temperature", "temperature, degrees Celsius", "degrees Celsius", 5.0),
    _Panel("frequency", "clock rate, MHz", "MHz", 20.0),
)


class _Axis:
    """A linear axis with ticks at multiples of 1, 2 or 5 times a power of ten."""

    def __init__(self, low: float, high: float, start: float, end: float, most: int) -> None:
        self._low, self._high = low, max(high, low + 1e-9)
        self._start, self.end = start, end
        step = 10.0 ** math.floor(math.log10((self._high - self._low) / most))
        self.step = next(step * each for each in (1, 2, 5, 10) if (self._high - self._low) / (step * each) <= most)

    def at(self, value: float) -> float:
        return self._start + (self.end - self._start) * (value - self._low) / (self._high - self._low)

    def ticks(self, least: float = 0.0) -> Iterator[float]:
        """Yield the ticks' values; `least` is the smallest distance between two."""
        step = max(self.step, least)
        for number in range(math.ceil(self._low / step - 1e-9), math.floor(self._high / step + 1e-9) + 1):
            yield number * step


def drawing(sensors: BoardSensors, title: str, caption: str) -> Drawing | None:
    """Draw the readings; None of sensors that neither show a temperature nor a frequency.

    Args:
        sensors: what to draw.
        title: for screen readers.
        caption: below the drawing.
    """
    panels = [(panel, found) for panel in _PANELS if (found := sensors.range_of(panel.name)) is not None]
    if not panels:
        return None
    described = [f"{panel.title.partition(',')[0]} from {_text(found)} {panel.unit}" for panel, found in panels]
    if sensors.observed:
        described.append(f"throttled in {sensors.throttled} of {sensors.observed} trials")
    description = f"Over {formatting.count(sensors.trials, 'trial')}: {'; '.join(described)}."
    height = _TOP + len(panels) * (_PLOT + _GAP) - _GAP + _BOTTOM
    wide, narrow = (
        svg.drawing(width, height, _parts(sensors, panels, width), title=title, description=description)
        for width in (svg.WIDE, svg.NARROW)
    )
    return Drawing(title=title, svg=wide, narrow=narrow, caption=caption)


def _text(found: Readings) -> str:
    low, high = (formatting.trimmed(formatting.fixed(value, 1)) for value in found)
    return f"{low} to {high}"


def _parts(sensors: BoardSensors, panels: list[tuple[_Panel, Readings]], width: float) -> Iterator[str]:
    x = _Axis(0.5, sensors.trials + 0.5, _LEFT, width - _RIGHT, 10 if width == svg.WIDE else 5)
    top = _TOP
    for number, (panel, found) in enumerate(panels):
        yield from _panel(sensors, panel, _y(panel, found, top), x, svg.series(number))
        top += _PLOT + _GAP
    bottom = top - _GAP
    for point in sensors.points:
        if point.throttled:
            at = x.at((point.first + point.last) / 2)
            yield f'<path d="M{at:.1f} {bottom - 9:.1f}l4 8h-8Z" fill="var(--bad)"/>'
    for trial in x.ticks(1.0):
        if trial >= 1:
            yield svg.text(x.at(trial), bottom + 16, f"{trial:.0f}", anchor="middle")
    yield svg.text((_LEFT + width - _RIGHT) / 2, bottom + 34, "trial, in the order of time", anchor="middle")


def _y(panel: _Panel, found: Readings, top: float) -> _Axis:
    """Return a panel's vertical axis, which has room around the readings."""
    middle, half = (found[0] + found[1]) / 2, max(panel.least, (found[1] - found[0]) * 1.15) / 2
    return _Axis(middle - half, middle + half, top + _PLOT, top, 4)


def _panel(sensors: BoardSensors, panel: _Panel, y: _Axis, x: _Axis, colour: str) -> Iterator[str]:
    left, right = x.at(0.5), x.at(sensors.trials + 0.5)
    yield svg.text(left, y.end - 9, panel.title, colour="--ink")
    for value in y.ticks():
        yield svg.line(left, y.at(value), right, y.at(value))
        yield svg.text(left - 6, y.at(value) + 4, f"{value:.10g}", anchor="end")
    for line in _lines(sensors.points, panel.name):
        lower, upper = [], []
        for point, (low, high) in line:
            for trial in (point.first - 0.5, point.last + 0.5):
                lower.append((x.at(trial), y.at(low)))
                upper.append((x.at(trial), y.at(high)))
        around = "L".join(f"{each[0]:.1f} {each[1]:.1f}" for each in (*upper, *reversed(lower)))
        yield f'<path d="M{around}Z" fill="var({colour})" stroke="var({colour})" {_BAND}/>'


def _lines(points: tuple[SensorPoint, ...], name: str) -> Iterator[list[tuple[SensorPoint, Readings]]]:
    """Yield the parts without a gap: neighbours that have readings."""
    part: list[tuple[SensorPoint, Readings]] = []
    for point in points:
        found: Readings | None = getattr(point, name)
        if found is not None:
            part.append((point, found))
        elif part:
            yield part
            part = []
    if part:
        yield part
