# SPDX-License-Identifier: MIT OR Apache-2.0
"""Readings of a board's sensors and wake-ups of an overloaded machine, on both sides of each limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from swapstone.core.comparison import conditions
from swapstone.core.comparison.means import tail_p_value
from swapstone.core.comparison.outputs import check as check_outputs
from swapstone.core.comparison.run_table import as_table
from swapstone.core.model import CURRENT_RULES, Run, Status
from swapstone.core.plan import variants
from swapstone.core.wire.own_program_output import STDOUT
from swapstone.parts.boards.comparison.boards import SensorPoint, board_sensors, throttled_runs
from tests.unit.comparison.conftest import Bench
from tests.unit.comparison.test_outputs import experiment as outputs_of
from tests.unit.comparison.test_outputs import side

BASE = "libc=glibc"
ABSENT = -(2**63)


def runs_of(facts: Sequence[Mapping[str, int]], workload: str = "w", **changes: Any) -> list[Run]:
    """Return a run for each of these facts, in the order of time; a fact that is `ABSENT` is left out."""
    bench = Bench(rules=CURRENT_RULES)
    bench.workload(workload, "wall")
    for block, each in enumerate(facts, start=1):
        bench.run(workload, BASE, block, wall=1e9)
        known = tuple((name, value) for name, value in each.items() if value != ABSENT)
        bench.runs[-1] = msgspec.structs.replace(bench.runs[-1], facts=known, started_unix_ns=block * 10**9, **changes)
    return bench.runs


# Sensors


def temperatures(*values: int) -> list[dict[str, int]]:
    return [{"board_temperature_before": value, "board_temperature_after": value + 1} for value in values]


@pytest.mark.parametrize(
    ("trials", "points"),
    [
        (1, [(1, 1)]),
        (239, [(1, 1), (2, 2), (239, 239)]),
        (240, [(1, 1), (2, 2), (240, 240)]),
        (241, [(1, 2), (3, 3), (241, 241)]),
        (480, [(1, 2), (3, 4), (479, 480)]),
    ],
)
def test_a_drawing_has_240_points(trials: int, points: list[tuple[int, int]]) -> None:
    runs = runs_of(temperatures(*range(0, 1000 * trials, 1000)))
    found = board_sensors(runs[::-1])  # in any order
    assert found is not None and found.trials == trials and len(found.points) == min(trials, 240)
    places = [(each.first, each.last) for each in found.points]
    assert [*places[:2], *places[2:][-1:]] == points
    first = found.points[0]
    assert first.temperature == (0.0, first.last - 1 + 0.001)


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("temperature", -273_150, -273.15),
        ("temperature", -273_151, None),
        ("temperature", 0, 0.0),
        ("temperature", 1_000_000, 1000.0),
        ("temperature", 1_000_001, None),
        ("frequency", 0, None),
        ("frequency", 1, 0.001),
        ("frequency", 10**9, 1e6),
        ("frequency", 10**9 + 1, None),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_readings_that_no_sensor_has_are_left_out(name: str, value: int, read: float | None, when: str) -> None:
    found = board_sensors(runs_of([{f"board_{name}_{when}": value}, {}]))
    if read is None:
        assert found is None
        return
    assert found is not None
    one: dict[str, Any] = {name: (read, read)}
    assert found.points == (SensorPoint(first=1, last=1, **one), SensorPoint(first=2, last=2))
    assert (found.trials, found.observed, found.throttled) == (2, 0, 0)


@pytest.mark.parametrize(
    ("count", "bits", "throttled", "known"),
    [
        ((ABSENT, ABSENT), (ABSENT, ABSENT), False, False),
        ((3, 3), (ABSENT, ABSENT), False, True),
        ((3, 4), (ABSENT, ABSENT), True, True),
        ((4, 3), (ABSENT, ABSENT), False, True),
        ((ABSENT, 4), (ABSENT, ABSENT), False, False),
        ((3, ABSENT), (ABSENT, ABSENT), False, False),
        ((ABSENT, ABSENT), (0, 0), False, True),
        ((ABSENT, ABSENT), (1, 0), True, True),
        ((ABSENT, ABSENT), (0, 1), True, True),
        ((ABSENT, ABSENT), (ABSENT, 1), False, False),
        ((ABSENT, ABSENT), (1, ABSENT), False, False),
        ((3, 3), (0, 1), True, True),
        ((3, 4), (0, 0), True, True),
        ((3, 3), (0, 0), False, True),
    ],
)
def test_a_trial_is_throttled_by_a_count_that_grows_or_by_a_bit(
    count: tuple[int, int], bits: tuple[int, int], throttled: bool, known: bool
) -> None:
    names = ("throttled", "throttle_bits")
    facts = {
        f"board_{name}_{when}": value
        for name, pair in zip(names, (count, bits), strict=True)
        for when, value in zip(("before", "after"), pair, strict=True)
    }
    runs = runs_of([facts, {}, facts])
    one, other = throttled_runs(as_table(runs))
    assert (one.tolist(), other.tolist()) == ([throttled, False, throttled], [known, False, known])
    found = board_sensors(runs)
    assert (found is not None) == known
    if found is not None:
        assert (found.observed, [each.throttled for each in found.points]) == (2, [int(throttled), 0, int(throttled)])


def test_points_of_several_trials_have_their_lowest_and_highest_readings_and_count_throttled_ones() -> None:
    facts = [
        {
            "board_temperature_before": 1000 * number,
            "board_frequency_after": 10_000 - number,
            "board_throttled_before": 0,
            "board_throttled_after": 1,
        }
        for number in range(481)
    ]
    found = board_sensors(runs_of(facts))
    assert found is not None and len(found.points) == 240
    assert found.points[0] == SensorPoint(first=1, last=3, temperature=(0.0, 2.0), frequency=(9.998, 10.0), throttled=3)
    assert found.points[1].first == 4 and found.points[-1].last == 481
    assert (found.throttled, found.observed) == (481, 481)


def test_no_runs_have_no_sensors() -> None:
    assert board_sensors([]) is None


# Wake-ups


def busy(*facts: Mapping[str, int], workload: str = "wakeup") -> list[str]:
    runs = runs_of(facts, workload, histogram=((3, 10),))
    bench = Bench(rules=CURRENT_RULES)
    return [each.message for each in conditions.overloaded(bench.experiment, (), {}, as_table(runs)).caveats]


def used(user_us: int, system_us: int = 0, **changes: int) -> dict[str, int]:
    return {"wall_ns": 1_000_000_000, "user_us": user_us, "system_us": system_us, **changes}


@pytest.mark.parametrize(
    ("user_us", "system_us", "percent"),
    [(260_000, 0, None), (500_000, 0, None), (250_000, 250_000, None), (250_000, 251_000, 50), (900_000, 600_000, 100)],
)
def test_wake_ups_are_many_above_half_of_the_time(user_us: int, system_us: int, percent: int | None) -> None:
    found = busy(used(user_us, system_us))
    assert len(found) == (percent is not None)
    assert (
        percent is None
        or f"in 1 of 1 runs of the suite latency they took more than half of the processors' time, up to {percent} %"
        in found[0]
    )


@pytest.mark.parametrize(
    ("cpus", "user_us", "named"),
    [
        (ABSENT, 510_000, True),
        (0, 510_000, True),
        (1, 510_000, True),
        (2, 1_000_000, False),
        (2, 1_010_000, True),
        (4, 2_000_000, False),
        (4, 2_010_000, True),
    ],
)
def test_cyclictest_has_the_time_of_all_processors(cpus: int, user_us: int, *, named: bool) -> None:
    assert bool(busy(used(user_us, agent_cpus=cpus), workload="cyclictest")) == named
    assert bool(busy(used(user_us, agent_cpus=cpus))) == (user_us > 500_000)


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("wall_ns", 0, False),
        ("wall_ns", 1, True),
        ("wall_ns", 2**53, False),
        ("user_us", -1, False),
        ("system_us", -1, False),
        ("system_us", 0, True),
        ("user_us", 2**53 - 1, True),
        ("user_us", 2**53, False),
        ("system_us", 2**53, False),
        ("user_us", ABSENT, False),
        ("system_us", ABSENT, False),
    ],
)
def test_times_that_are_no_measurements_are_left_out(name: str, value: int, *, named: bool) -> None:
    assert bool(busy({**used(900_000), name: value})) == named


# The clock


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((9_999_999, -9_999_999, 0), None),
        ((0, 10_000_000), "during one run, as NTP does: in block 2 of w with libc=glibc by 0.01 s forward."),
        ((0, -10_000_000), "during one run, as NTP does: in block 2 of w with libc=glibc by 0.01 s back."),
        (
            (20_000_000, -3_000_000_000, 1_000_000_000),
            "during 3 runs, as NTP does: in block 2 of w with libc=glibc by 3 s back.",
        ),
        ((ABSENT, ABSENT), None),
        ((0, 2**63 - 1), "by 9.22e+09 s forward."),
        ((0, 1 - 2**63), "by 9.22e+09 s back."),
    ],
)
def test_a_clock_that_is_set_by_10_ms_is_named(steps: tuple[int, ...], message: str | None) -> None:
    runs = runs_of([{"clock_step_ns": step} for step in steps])
    bench = Bench()
    bench.workload("w", "wall")
    found = [each.message for each in conditions.check(bench.experiment, (), bench.workloads, as_table(runs)).caveats]
    assert len(found) == (message is not None)
    assert message is None or message in found[0]


# Means and outputs


def test_equal_means_have_no_larger_one() -> None:
    values = np.linspace(1.0, 2.0, 10)
    assert tail_p_value(values, values, values) == (1.0, False)
    zeros = np.zeros(10)
    assert tail_p_value(zeros, zeros, zeros) == (1.0, False)


@pytest.mark.parametrize(
    ("count", "text"), [(1, "a:"), (3, "a, b, c:"), (4, "a, b, c and 1 more:"), (6, "a, b, c and 3 more:")]
)
@pytest.mark.parametrize(("name", "what"), [(STDOUT, "standard output"), ("out", "the file 'out'")])
def test_three_workloads_whose_outputs_vary_are_named(count: int, text: str, name: str, what: str) -> None:
    subject = outputs_of(artifacts=() if name == STDOUT else (name,))
    runs = []
    for workload in "abcdef"[:count]:
        for label in ("command=a", "command=b"):
            words = [f"{label}{workload}{'x' * block}".encode() for block in range(4)]
            constant = [b"1"] * 4
            made = side(label, words, 1e6) if name == STDOUT else side(label, constant, 1e6, words)
            trials = [msgspec.structs.replace(run.trial, workload=workload) for run in made]
            runs += [msgspec.structs.replace(run, trial=trial) for run, trial in zip(made, trials, strict=True)]
    (found,) = check_outputs(subject, variants(subject), {}, as_table(runs)).caveats
    assert f"is not known for {text} {what} varies" in found.message


def test_failed_runs_show_the_sensors_too() -> None:
    runs = runs_of(temperatures(40_000), status=Status.FAILED, reason="x")
    found = board_sensors(runs)
    assert found is not None and found.points[0].temperature == (40.0, 40.001)
