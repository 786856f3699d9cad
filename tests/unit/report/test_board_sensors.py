# SPDX-License-Identifier: MIT OR Apache-2.0
"""Temperature and clock rate of a board in the report of a stored record: a table, a drawing, and nothing without sensors."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.unit import builders

from swapstone.core import plan
from swapstone.core.model import VIRTUAL_CLOCK
from swapstone.core.record import Manifest, RecordWriter
from swapstone.core.report import svg
from swapstone.core.session.record_handle import Record
from swapstone.parts.boards.comparison.boards import MOST_POINTS, board_sensors
from swapstone.parts.boards.report.board_sensors import TITLE

HEAT = tuple(45_000 + 2_000 * number for number in range(20))
"""Of 20 trials, in 0.001 degrees Celsius."""


def heating(number: int) -> dict[str, int]:
    """Return the facts of a trial on a board that gets hot and is then throttled."""
    slow = number >= 15
    return {
        "board_temperature_before": HEAT[number],
        "board_temperature_after": HEAT[number] + 1_500,
        "board_frequency_before": 1_500_000,
        "board_frequency_after": 600_000 if slow else 1_500_000,
        "board_throttled_before": 3,
        "board_throttled_after": 4 if slow else 3,
    }


def record(path: Path, facts: Callable[[int], Mapping[str, int]], *, governor: str = "", **changes: object) -> Record:
    """Write a record of 20 trials with these facts."""
    subject = builders.experiment(**{"target": "ssh:pi@board", "rules": 2, **changes})
    with RecordWriter.create(path, subject) as writer:
        if governor:
            writer.write_manifest(Manifest(machine=(("governor", governor),), tools=(), artifacts=(), passes=()))
        for number, made in enumerate(list(builders.runs(subject, 4))[:20]):
            writer.append(
                builders.run(made.trial, facts=tuple(facts(number).items()), started_unix_ns=10**18 + number * 10**9)
            )
        writer.seal("complete", "test", "")
    return Record(path)


def drawings(made: Record) -> list[str]:
    """Return the drawings of the board on the record's page."""
    page = made.report("html")
    return re.findall(rf"<svg[^>]*><title>{TITLE}</title>.*?</svg>", page, re.DOTALL)


def exhibit(made: Record) -> list[dict[str, float]]:
    """Return the data of the section for programs."""
    found = {each["name"]: each["data"] for each in json.loads(made.report("json")).get("exhibits", ())}
    return list(found.get("board-sensors", ()))


def test_a_page_draws_temperature_and_clock_rate_over_the_trials(tmp_path: Path) -> None:
    found = drawings(record(tmp_path / "r", heating, governor="ondemand"))
    assert len(found) == 2, "one for wide pages, and one for narrow ones"
    for drawn, width in zip(found, (svg.WIDE, svg.NARROW), strict=True):
        root = ET.fromstring(drawn)
        assert root.get("role") == "img" and float(root.get("viewBox", "").split()[2]) == width
        assert root.findtext("desc") == (
            "Over 20 trials: temperature from 45 to 84.5 degrees Celsius; clock rate from 600 to 1500 MHz; "
            "throttled in 5 of 20 trials."
        )
        texts = ["".join(each.itertext()) for each in root.iter("text")]
        assert {"temperature, degrees Celsius", "clock rate, MHz", "trial, in the order of time"} <= set(texts)
        areas = [each.get("d", "") for each in root.iter("path") if each.get("fill-opacity")]
        assert len(areas) == 2, "one for each sensor"
        assert sum(each.get("fill") == "var(--bad)" for each in root.iter("path")) == 5
        points = [tuple(map(float, pair.split())) for area in areas for pair in re.findall(r"[0-9.-]+ [0-9.-]+", area)]
        height = float(root.get("viewBox", "").split()[3])
        assert all(0 <= x <= width and 0 <= y <= height for x, y in points)


def test_the_drawing_rises_with_the_temperature(tmp_path: Path) -> None:
    root = ET.fromstring(drawings(record(tmp_path / "r", heating))[0])
    area = next(each.get("d", "") for each in root.iter("path") if each.get("fill-opacity"))
    pairs = [tuple(map(float, pair.split())) for pair in re.findall(r"[0-9.]+ [0-9.]+", area)]
    upper = pairs[: len(pairs) // 2]
    assert [x for x, _ in upper] == sorted(x for x, _ in upper)
    assert [y for _, y in upper] == sorted((y for _, y in upper), reverse=True) and upper[0][1] > upper[-1][1]


def test_all_rows_of_a_text_report_have_a_table(tmp_path: Path) -> None:
    made = record(tmp_path / "r", heating, governor="ondemand\x1b[31m")
    text = made.report("text", every=True)
    assert re.search(r"temperature.*degrees Celsius.*45\.0 to 46\.5.*45\.0.*84\.5.*83\.0 to 84\.5", text)
    assert re.search(r"clock rate.*MHz.*1500.*600.*1500.*600 to 1500", text)
    words = " ".join(text.split())
    assert "Throttled in 5 of 20 trials." in words and "Frequency governor: ondemand" in words and "\x1b" not in text


def test_programs_get_each_point(tmp_path: Path) -> None:
    data = exhibit(record(tmp_path / "r", heating))
    assert len(data) == 20
    assert data[0] == {
        "first_trial": 1.0,
        "last_trial": 1.0,
        "lowest_celsius": 45.0,
        "highest_celsius": 46.5,
        "lowest_mhz": 1500.0,
        "highest_mhz": 1500.0,
        "throttled_trials": 0.0,
    }
    assert data[-1]["throttled_trials"] == 1.0 and data[-1]["lowest_mhz"] == 600.0


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"reconnects": 1, "board_emulated": 1},
        {"board_temperature_after": -(2**62), "board_frequency_after": 2**62},
    ],
)
def test_without_sensors_there_is_no_section(tmp_path: Path, facts: dict[str, int]) -> None:
    made = record(tmp_path / "r", lambda _: facts)
    assert drawings(made) == [] and exhibit(made) == []


def test_a_virtual_clock_has_none_either(tmp_path: Path) -> None:
    assert exhibit(record(tmp_path / "r", heating, target="vm", clock=VIRTUAL_CLOCK)) == []


def test_one_sensor_has_one_panel_and_a_gap_stays_one(tmp_path: Path) -> None:
    def facts(number: int) -> dict[str, int]:
        return {} if 5 <= number < 8 else {"board_temperature_after": 50_000}

    (drawn, _) = drawings(record(tmp_path / "r", facts))
    root = ET.fromstring(drawn)
    assert sum(bool(each.get("fill-opacity")) for each in root.iter("path")) == 2
    assert "clock rate, MHz" not in drawn and "throttled" not in drawn


def test_a_board_that_reports_throttling_alone_has_no_drawing(tmp_path: Path) -> None:
    made = record(tmp_path / "r", lambda _: {"board_throttled_before": 1, "board_throttled_after": 2})
    assert drawings(made) == [] and sum(each["throttled_trials"] for each in exhibit(made)) == 20


def test_many_trials_share_points_and_lose_no_extreme() -> None:
    subject = builders.experiment()
    count = 3 * MOST_POINTS + 7
    trials = [trial for block in range(count // 4 + 1) for trial in plan.block(subject, block, plan.groups(subject))]
    runs = [
        builders.run(
            trial,
            facts=(("board_temperature_after", 90_000 if number == 500 else 50_000),),
            started_unix_ns=10**18 + number,
        )
        for number, trial in enumerate(trials[:count])
    ]
    found = board_sensors(runs[::-1])
    assert found is not None and found.trials == count and len(found.points) == MOST_POINTS
    assert found.points[0].first == 1 and found.points[-1].last == count
    assert all(a.last + 1 == b.first for a, b in zip(found.points, found.points[1:], strict=False))
    assert [point.first <= 501 <= point.last for point in found.points if (point.temperature or (0, 0))[1] == 90] == [
        True
    ]
