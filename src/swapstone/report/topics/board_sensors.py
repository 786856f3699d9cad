# SPDX-License-Identifier: MIT OR Apache-2.0
"""The sensors of a board: temperature, clock rate and throttling over the trials, as a small table and, on a page, a drawing."""

from __future__ import annotations

import msgspec

from swapstone.model import Analysis
from swapstone.model.board_sensors import BoardSensors, Readings, SensorPoint
from swapstone.report import formatting
from swapstone.report.context import ReportContext
from swapstone.report.document import Section, data_section
from swapstone.report.topics.board_sensors_plot import drawing
from swapstone.report.topics.topic import Topic

TITLE = "Temperature and clock rate of the board"
_ROWS = (("temperature", "degrees Celsius", 1), ("frequency", "MHz", 0))
_NAMES = {"temperature": "temperature", "frequency": "clock rate"}


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return a section where a board's sensors were read; none for other records. A brief report leaves it out."""
    del analysis
    sensors = context.sensors
    if sensors is None:
        return ()
    section = data_section(
        name="board-sensors",
        title=TITLE,
        head=("sensor", "unit", "first trial", "lowest", "highest", "last trial"),
        rows=tuple(_cells(sensors, *row) for row in _ROWS if sensors.range_of(row[0]) is not None),
        right=(False, False, True, True, True, True),
        keys=2,
        data=tuple(map(_datum, sensors.points)),
        notes=(_note(context, sensors),),
        drawing=drawing(sensors, TITLE, _caption(sensors)),
    )
    return (msgspec.structs.replace(section, brief=False),)


def _cells(sensors: BoardSensors, name: str, unit: str, decimals: int) -> tuple[str, ...]:
    known = [found for point in sensors.points if (found := getattr(point, name)) is not None]
    low, high = min(each[0] for each in known), max(each[1] for each in known)
    first, last = (_range(found, decimals) for found in (known[0], known[-1]))
    return (_NAMES[name], unit, first, formatting.fixed(low, decimals), formatting.fixed(high, decimals), last)


def _range(found: Readings, decimals: int) -> str:
    low, high = (formatting.fixed(value, decimals) for value in found)
    return low if low == high else f"{low} to {high}"


def _note(context: ReportContext, sensors: BoardSensors) -> str:
    texts = ["Read before each trial and at the end of its process: the hottest zone and the fastest processor."]
    if sensors.observed:
        texts.append(f"Throttled in {sensors.throttled} of {formatting.count(sensors.observed, 'trial')}.")
    else:
        texts.append("The board does not report throttling.")
    if governor := dict(context.facts).get("governor"):
        texts.append(f"Frequency governor: {formatting.safe(governor)}; a run with another one is refused.")
    return " ".join(texts)


def _caption(sensors: BoardSensors) -> str:
    together = len(sensors.points) < sensors.trials
    texts = [
        "From the lowest to the highest reading of neighbouring trials."
        if together
        else "From the lower to the higher of the two readings of each trial.",
    ]
    if sensors.throttled:
        texts.append("Triangles: trials during which the board was throttled.")
    return " ".join(texts)


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


BOARD_SENSORS = Topic("board-sensors", sections)
