# SPDX-License-Identifier: MIT OR Apache-2.0
"""How busy the machine was: medians over runs, limits, and which of the runs count."""

from __future__ import annotations

import msgspec
import pytest

from swapstone.core.comparison.caveats import caveats_of
from swapstone.core.comparison.machine_noise import busy_loads, noise_of, preferred_time
from swapstone.core.model import CaveatKind, Cpus, Noise, Run, Sample, Status, Trial, Workload
from tests.unit.comparison.conftest import METRICS, Bench

MS = 10**6


def made(**facts: int) -> Run:
    """Return a run of the workload "one" with these facts."""
    trial = Trial(suite="s", workload="one", load="idle", variant="libc=glibc", block=1, position=0)
    return Run(
        trial=trial, status=Status.OK, samples=(Sample(metric="wall", values=(1.0,)),), facts=tuple(facts.items())
    )


def of(run: Run, workload: str = "one", load: str = "idle") -> Run:
    return msgspec.structs.replace(run, trial=msgspec.structs.replace(run.trial, workload=workload, load=load))


def workload(name: str, *metrics: str, cpus: Cpus = Cpus.ONE, threads: int = 1, waits: bool = False) -> Workload:
    bench = Bench()
    bench.workload(name, *metrics, waits=waits, cpus=cpus)
    return msgspec.structs.replace(bench.workloads[name], threads=threads)


WORKLOADS = {"one": workload("one", "wall", "cpu"), "all": workload("all", "wall", cpus=Cpus.ALL, threads=0)}


def pressed(share: float, wall_ms: int = 100) -> Run:
    return made(wall_ns=wall_ms * MS, psi_cpu_us=round(share * wall_ms * 1000))


def test_pressure_is_the_median_share_of_the_wall_time() -> None:
    found = noise_of([pressed(0.01), pressed(0.05, 200), pressed(0.9)], WORKLOADS)
    assert found == Noise(
        cpu_pressure_percent=5.0, cpu_pressure_max_percent=90.0, steal_percent=None, load1=None, busy=False
    )


@pytest.mark.parametrize(("share", "busy"), [(0.2, False), (0.2001, True)])
def test_a_machine_is_busy_above_a_fifth(share: float, busy: bool) -> None:
    assert noise_of([pressed(share)], WORKLOADS).busy == busy
    assert not noise_of([pressed(share)], WORKLOADS, virtual=True).busy


def test_pressure_is_cut_at_the_whole_and_unknown_without_its_facts() -> None:
    assert noise_of([pressed(1.3)], WORKLOADS).cpu_pressure_max_percent == 100.0
    for facts in ({"wall_ns": MS}, {"psi_cpu_us": 5}, {"psi_cpu_us": 5, "wall_ns": 0}, {}):
        found = noise_of([made(**facts)], WORKLOADS)
        assert (found.cpu_pressure_percent, found.cpu_pressure_max_percent, found.busy) == (None, None, False)
    assert noise_of([made(psi_cpu_us=500, wall_ns=MS), made(wall_ns=MS)], WORKLOADS).cpu_pressure_percent == 50.0


def test_pressure_is_that_of_idle_runs_on_one_processor_if_there_are_any() -> None:
    runs = [pressed(0.01), of(pressed(0.5), "all"), of(pressed(0.9), load="cpu")]
    assert noise_of(runs, WORKLOADS).cpu_pressure_percent == 1.0
    assert noise_of(runs[1:], WORKLOADS).cpu_pressure_percent == 50.0
    assert noise_of(runs[2:], WORKLOADS).cpu_pressure_percent == 90.0


def test_steal_is_a_share_of_all_processor_time_and_load_a_median() -> None:
    runs = [
        made(steal_ticks=1, cpu_ticks=100, load1_milli=500),
        made(steal_ticks=5, cpu_ticks=300, load1_milli=700),
        made(steal_ticks=50, load1_milli=4000),
        made(cpu_ticks=50),
    ]
    found = noise_of(runs, WORKLOADS)
    assert (found.steal_percent, found.load1) == (1.5, 0.7)
    assert noise_of([made(steal_ticks=0, cpu_ticks=0)], WORKLOADS).steal_percent is None


def test_each_load_is_busy_by_its_own_runs() -> None:
    bench = Bench(loads=("idle", "cpu"))
    bench.workload("one", "wall")
    runs = [pressed(0.01), of(pressed(0.9), load="cpu")]
    assert busy_loads(bench.experiment, runs, WORKLOADS) == frozenset({"cpu"})
    bench.clock = "virtual"
    assert busy_loads(bench.experiment, runs, WORKLOADS) == frozenset()


@pytest.mark.parametrize(
    ("metrics", "busy", "threads", "waits", "name"),
    [
        (("wall", "cpu"), False, 1, False, "wall"),
        (("wall", "cpu"), True, 1, False, "cpu"),
        (("wall", "cpu"), True, -1, False, "cpu"),  # unknown
        (("wall", "cpu"), True, 0, False, "wall"),  # as many as there are processors
        (("wall", "cpu"), True, 2, False, "wall"),
        (("wall", "cpu"), True, 1, True, "wall"),
        (("res", "rate"), True, 1, False, "res"),
        (("res", "cpu"), False, 1, False, "cpu"),  # it leads
        ((), False, 1, False, "wall"),
    ],
)
def test_the_time_to_read_first(metrics: tuple[str, ...], busy: bool, threads: int, waits: bool, name: str) -> None:
    assert METRICS["cpu"].leads and not METRICS["wall"].leads
    assert preferred_time(workload("w", *metrics, threads=threads, waits=waits), busy) == name


@pytest.mark.parametrize(("percent", "reported"), [(None, False), (0.99, False), (1.0, True)])
def test_stolen_time_is_reported_from_1_percent_on(percent: float | None, reported: bool) -> None:
    noise = Noise(
        cpu_pressure_percent=None, cpu_pressure_max_percent=None, steal_percent=percent, load1=None, busy=False
    )
    bench = Bench()
    bench.workload("one", "wall")
    found = caveats_of(bench.experiment, (), (), (), noise)
    assert [each.kind for each in found] == ([CaveatKind.STOLEN_TIME] if reported else [])
