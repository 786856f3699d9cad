# SPDX-License-Identifier: MIT OR Apache-2.0
"""The machine of a trial: what workload, factors and load need together."""

from __future__ import annotations

from swapstone.factors import Recipe
from swapstone.model import IDLE, Load, MachineNeeds, Metric, Source, Workload
from swapstone.subjects.machine_config import machine_config_for
from swapstone.targets import DEFAULT_MACHINE, MachineConfig

WORK = Workload(name="w", origin=Source(file="w.c"), description="works", metrics=tuple[Metric, ...]())


def test_a_plain_trial_takes_the_machine_as_it_is() -> None:
    assert machine_config_for(WORK, Recipe(), IDLE) == DEFAULT_MACHINE


def test_a_machine_has_what_workload_factors_and_load_ask_for() -> None:
    needs = MachineNeeds(memory_bytes=64 << 20, prepare=("first",))
    load = Load(name="l", description="l", beside=("run",), settle_ms=7, machine=MachineNeeds(prepare=("last",)))
    work = Workload(name="w", origin=Source(file="w.c"), description="works", metrics=(), machine=needs)
    assert machine_config_for(work, Recipe(kernel="rt", swap="flash"), load) == MachineConfig(
        kernel="rt",
        memory_bytes=(64 + 256) << 20,  # the flash's content lies in memory too
        prepare=("first", "/swapstone/swap.sh flash 26 256", "last"),
        beside=("run",),
        settle_ms=7,
    )
