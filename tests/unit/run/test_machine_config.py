# SPDX-License-Identifier: MIT OR Apache-2.0
"""The machine of a trial: what workload, factors and load need together."""

from __future__ import annotations

import pytest

from swapstone.core import workloads
from swapstone.core.factors import PRIORITY_VARIABLE, Recipe
from swapstone.core.model import IDLE, Load, MachineNeeds, Metric, Source, Workload
from swapstone.core.run.machine_config import machine_config_for
from swapstone.core.targets import DEFAULT_MACHINE, MachineConfig
from swapstone.core.workloads.shared_machine_loads import LOADS
from swapstone.parts.vm.factors.swap import SWAP

WORK = Workload(name="w", origin=Source(file="w.c"), description="works", metrics=tuple[Metric, ...]())


def test_a_plain_trial_takes_the_machine_as_it_is() -> None:
    assert machine_config_for(WORK, Recipe(), IDLE) == DEFAULT_MACHINE


def test_a_machine_has_what_workload_factors_and_load_ask_for() -> None:
    needs = MachineNeeds(memory_bytes=64 << 20, prepare=("first",))
    load = Load(name="l", description="l", beside=("run",), settle_ms=7, machine=MachineNeeds(prepare=("last",)))
    work = Workload(name="w", origin=Source(file="w.c"), description="works", metrics=(), machine=needs)
    assert machine_config_for(work, SWAP.apply("flash", Recipe(kernel="rt")), load) == MachineConfig(
        kernel="rt",
        memory_bytes=(64 + 256) << 20,  # the flash's content lies in memory too
        prepare=("first", "/swapstone/swap.sh flash 26 256", "last"),
        beside=("run",),
        settle_ms=7,
    )


@pytest.mark.parametrize(
    ("priority", "real_time"), [("", True), ("fifo:99", True), ("fifo:01", True), ("other:0", False)]
)
@pytest.mark.parametrize("name", ["cyclictest", "wakeup"])
def test_threads_that_measure_wake_ups_are_real_time_unless_their_level_is_not(
    name: str, priority: str, real_time: bool
) -> None:
    work = workloads.find_workload("latency", name)
    recipe = Recipe(environment=((PRIORITY_VARIABLE, priority),) if priority else ())
    assert machine_config_for(work, recipe, IDLE).real_time is real_time


def test_a_load_may_be_real_time_too() -> None:
    assert [load.name for load in LOADS if machine_config_for(WORK, Recipe(), load).real_time] == ["cyclictest"]
