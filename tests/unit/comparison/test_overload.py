# SPDX-License-Identifier: MIT OR Apache-2.0
"""A machine that can hardly keep up with the wake-ups of the suite latency has a caveat."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swapstone.core.comparison.conditions import overloaded as check
from swapstone.core.comparison.run_table import as_table
from swapstone.core.model import CURRENT_RULES, VIRTUAL_CLOCK, Status

IDLE = {"wall_ns": 1_000_000_000, "user_us": 20_000, "system_us": 30_000, "agent_cpus": 2}
BUSY = {**IDLE, "system_us": 880_000}


def messages(
    bench: Any, *facts: dict[str, int], workload: str = "wakeup", status: Status = Status.OK, **changes: Any
) -> list[str]:
    bench.rules = CURRENT_RULES
    bench.workload(workload, "wall")
    for block, each in enumerate(facts, start=1):
        bench.run(workload, "libc=glibc", block, wall=1e9)
        histogram = ((3, 10),) if changes.get("histogram", True) else ()
        bench.runs[-1] = msgspec.structs.replace(
            bench.runs[-1], facts=tuple(each.items()), histogram=histogram, status=status
        )
    experiment = msgspec.structs.replace(bench.experiment, clock=changes.get("clock", "wall"))
    return [caveat.message for caveat in check(experiment, (), {}, as_table(bench.runs)).caveats]


def test_wake_ups_that_take_most_of_the_time_are_reported(bench: Any) -> None:
    (message,) = messages(bench, IDLE, BUSY, {**BUSY, "user_us": 70_000})
    assert message.startswith(
        "The machine can hardly keep up with the wake-ups: in 2 of 3 runs of the suite latency they took more than half of the "
        "processors' time, up to 95 %."
    )


def test_it_is_among_the_caveats_of_an_analysis(bench: Any) -> None:
    messages(bench, BUSY, BUSY)
    assert sum("hardly keep up" in caveat.message for caveat in bench.analysis().caveats) == 1


@pytest.mark.parametrize(
    ("facts", "changes"),
    [
        (IDLE, {}),
        (BUSY, {"histogram": False}),
        (BUSY, {"status": Status.FAILED}),
        (BUSY, {"clock": VIRTUAL_CLOCK}),
        ({**BUSY, "wall_ns": 0}, {}),
        ({**BUSY, "system_us": 2**62}, {}),
        ({"wall_ns": 10}, {}),
        ({**BUSY, "system_us": 880_000}, {"workload": "cyclictest"}),
    ],
)
def test_other_runs_are_not(bench: Any, facts: dict[str, int], changes: dict[str, Any]) -> None:
    assert messages(bench, facts, **changes) == []


def test_cyclictest_has_a_thread_on_each_processor(bench: Any) -> None:
    (message,) = messages(bench, {**BUSY, "system_us": 1_480_000}, workload="cyclictest")
    assert "up to 75 %" in message
