# SPDX-License-Identifier: MIT OR Apache-2.0
"""The sensors of a board: temperature, clock rate and throttling over the trials, as a small table and, on a page, a drawing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from swapstone.core.model import Analysis
from swapstone.core.record import Description, RecordView
from swapstone.core.report import formatting, svg
from swapstone.core.report.context import PartContext, ReportContext
from swapstone.core.report.document import Drawing, Section
from swapstone.core.report.plot import Panel, Scale, Series, Span, plot
from swapstone.core.report.tables import Field, section_of
from swapstone.core.report.topics.topic import Topic
from swapstone.parts.boards.comparison.boards import BoardSensors, Readings, SensorPoint, board_sensors

TITLE = "Temperature and clock rate of the board"
_PIECE = "board-sensors"


class _Sensor(NamedTuple):
    """A sensor: its name in `SensorPoint`, its name for readers, its unit, the decimals of its readings, and the least range of an axis."""

    name: str
    title: str
    unit: str
    decimals: int
    least: float


_SENSORS = (
    _Sensor("temperature", "temperature", "degrees Celsius", 1, 5.0),
    _Sensor("frequency", "clock rate", "MHz", 0, 20.0),
)


def sensor_context(view: RecordView, _description: Description) -> PartContext:
    """Return what a board's sensors showed, and the lowest and highest clock rate in MHz; nothing of a record on the virtual clock."""
    found = None if view.experiment.virtual else board_sensors(view.runs)
    pieces = {_PIECE: found, "clock-rate": found and found.range_of("frequency")}
    return PartContext(pieces={name: piece for name, piece in pieces.items() if piece is not None})


def sections(context: ReportContext, _analysis: Analysis) -> tuple[Section, ...]:
    """Return a section where a board's sensors were read; none for other records. A brief report leaves it out."""
    if (sensors := context.piece(_PIECE, BoardSensors)) is None:
        return ()
    points = sensors.points
    found = [
        (sensor, readings)
        for sensor in _SENSORS
        if (readings := tuple(each for point in points if (each := getattr(point, sensor.name)) is not None))
    ]
    section = section_of(
        "board-sensors",
        TITLE,
        (
            Field("sensor", "", lambda row: row[0].title, right=False),
            Field("unit", "", lambda row: row[0].unit, right=False),
            Field("first trial", "", lambda row: _range(row[1][0], row[0].decimals)),
            Field("lowest", "", lambda row: formatting.fixed(min(row[1])[0], row[0].decimals)),
            Field("highest", "", lambda row: formatting.fixed(max(high for _, high in row[1]), row[0].decimals)),
            Field("last trial", "", lambda row: _range(row[1][-1], row[0].decimals)),
        ),
        found,
        keys=2,
        notes=(_note(context, sensors),),
        drawing=_plot(sensors, [sensor for sensor, _ in found]),
    )
    return (msgspec.structs.replace(section, brief=False, data=tuple(map(_datum, points))),)


def _range(found: Readings, decimals: int) -> str:
    low, high = (formatting.fixed(value, decimals) for value in found)
    return low if low == high else f"{low} to {high}"


def _plot(sensors: BoardSensors, shown: Sequence[_Sensor]) -> Drawing | None:
    """Return a panel for each sensor, with the range of the readings over the trials; None without any."""
    if not shown:
        return None
    caption = (
        "From the lowest to the highest reading of neighbouring trials."
        if len(sensors.points) < sensors.trials
        else "From the lower to the higher of the two readings of each trial."
    )
    throttled = " Triangles: trials during which the board was throttled." if sensors.throttled else ""
    ends = [map(formatting.fixed, sensors.range_of(each.name) or (), (1, 1)) for each in shown]
    described = [
        f"{each.title} from {' to '.join(map(formatting.trimmed, pair))} {each.unit}"
        for each, pair in zip(shown, ends, strict=True)
    ]
    if sensors.observed:
        described.append(f"throttled in {sensors.throttled} of {sensors.observed} trials")
    described[0] = f"Over {formatting.count(sensors.trials, 'trial')}: {described[0]}"
    described[-1] += "."
    return plot(
        TITLE,
        Scale("trial, in the order of time", reach=(0.5, sensors.trials + 0.5)),
        [_panel(sensors, each, colour, last=each is shown[-1]) for colour, each in enumerate(shown)],
        described,
        name="board-sensors",
        caption=caption + throttled,
    )


def _panel(sensors: BoardSensors, sensor: _Sensor, colour: int, *, last: bool) -> Panel:
    low, high = sensors.range_of(sensor.name) or (0.0, 0.0)
    middle, half = (low + high) / 2, max(sensor.least, (high - low) * 1.15) / 2
    spans = tuple(
        Span(point.first - 0.5, point.last + 0.5, *readings)
        for point in sensors.points
        if (readings := getattr(point, sensor.name)) is not None
    )

    def triangles(x: svg.LinearAxis, y: svg.LinearAxis) -> Iterator[str]:
        for point in sensors.points if last else ():
            if point.throttled:
                yield f'<path d="M{x.at((point.first + point.last) / 2):.1f} {y.start - 9:.1f}l4 8h-8Z" fill="var(--bad)"/>'

    scale = Scale("", reach=(middle - half, middle + half))
    return Panel(scale, (Series("", colour, spans=spans),), f"{sensor.title}, {sensor.unit}", 96.0, over=triangles)


def _note(context: ReportContext, sensors: BoardSensors) -> str:
    text = "Read before each trial and at the end of its process: the hottest zone and the fastest processor."
    throttled = f"Throttled in {sensors.throttled} of {formatting.count(sensors.observed, 'trial')}."
    text += f" {throttled if sensors.observed else 'The board does not report throttling.'}"
    if governor := dict(context.facts).get("governor"):
        text += f" Frequency governor: {formatting.safe(governor)}; a run with another one is refused."
    return text


def _datum(point: SensorPoint) -> dict[str, str | float | None]:
    temperature, frequency = point.temperature or (None, None), point.frequency or (None, None)
    return {
        "first_trial": float(point.first),
        "last_trial": float(point.last),
        "lowest_celsius": temperature[0],
        "highest_celsius": temperature[1],
        "lowest_mhz": frequency[0],
        "highest_mhz": frequency[1],
        "throttled_trials": float(point.throttled),
    }


BOARD_SENSORS = Topic("board-sensors", 210, sections)
