# SPDX-License-Identifier: MIT OR Apache-2.0
"""How busy the machine was: medians over runs, limits, and which of the runs count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from swapstone.core.comparison.caveats import caveats_of
from swapstone.core.comparison.machine_noise import busy_loads, noise_of, preferred_time
from swapstone.core.comparison.run_table import as_table
from swapstone.core.model import (
    DIRECTION_RULES,
    TAIL_RULES,
    CaveatKind,
    Cpus,
    Noise,
    Run,
    Sample,
    Status,
    Trial,
    Workload,
)
from swapstone.core.workloads.metrics import COMPUTING
from tests.unit.comparison.conftest import BASE, CANDIDATE, METRICS, Bench

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
    found = noise_of(as_table([pressed(0.01), pressed(0.05, 200), pressed(0.9)]), WORKLOADS)
    assert found == Noise(
        cpu_pressure_percent=5.0, cpu_pressure_max_percent=90.0, steal_percent=None, load1=None, busy=False
    )


@pytest.mark.parametrize(("share", "busy"), [(0.2, False), (0.2001, True)])
def test_a_machine_is_busy_above_a_fifth(share: float, busy: bool) -> None:
    assert noise_of(as_table([pressed(share)]), WORKLOADS).busy == busy
    assert not noise_of(as_table([pressed(share)]), WORKLOADS, virtual=True).busy


def test_pressure_is_cut_at_the_whole_and_unknown_without_its_facts() -> None:
    assert noise_of(as_table([pressed(1.3)]), WORKLOADS).cpu_pressure_max_percent == 100.0
    for facts in ({"wall_ns": MS}, {"psi_cpu_us": 5}, {"psi_cpu_us": 5, "wall_ns": 0}, {}):
        found = noise_of(as_table([made(**facts)]), WORKLOADS)
        assert (found.cpu_pressure_percent, found.cpu_pressure_max_percent, found.busy) == (None, None, False)
    assert (
        noise_of(as_table([made(psi_cpu_us=500, wall_ns=MS), made(wall_ns=MS)]), WORKLOADS).cpu_pressure_percent == 50.0
    )


def test_pressure_is_that_of_idle_runs_on_one_processor_if_there_are_any() -> None:
    runs = [pressed(0.01), of(pressed(0.5), "all"), of(pressed(0.9), load="cpu")]
    assert noise_of(as_table(runs), WORKLOADS).cpu_pressure_percent == 1.0
    assert noise_of(as_table(runs[1:]), WORKLOADS).cpu_pressure_percent == 50.0
    assert noise_of(as_table(runs[2:]), WORKLOADS).cpu_pressure_percent == 90.0


def test_steal_is_a_share_of_all_processor_time_and_load_a_median() -> None:
    runs = [
        made(steal_ticks=1, cpu_ticks=100, load1_milli=500),
        made(steal_ticks=5, cpu_ticks=300, load1_milli=700),
        made(steal_ticks=50, load1_milli=4000),
        made(cpu_ticks=50),
    ]
    found = noise_of(as_table(runs), WORKLOADS)
    assert (found.steal_percent, found.load1) == (1.5, 0.7)
    assert noise_of(as_table([made(steal_ticks=0, cpu_ticks=0)]), WORKLOADS).steal_percent is None


def test_each_load_is_busy_by_its_own_runs() -> None:
    bench = Bench(loads=("idle", "cpu"))
    bench.workload("one", "wall")
    runs = [pressed(0.01), of(pressed(0.9), load="cpu")]
    assert busy_loads(bench.experiment, as_table(runs), WORKLOADS) == frozenset({"cpu"})
    bench.clock = "virtual"
    assert busy_loads(bench.experiment, as_table(runs), WORKLOADS) == frozenset()


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
    found = caveats_of(bench.experiment, as_table(()), (), (), noise)
    assert [each.kind for each in found] == ([CaveatKind.STOLEN_TIME] if reported else [])


def of_own(facts: Mapping[str, int], switches: float = 3.0, **experiment: Any) -> tuple[str, str]:
    """Return which time of an own program is read first on a busy machine, and what the caveat states about waiting.

    The runs have these facts, in ms; the candidate's elapsed time scatters, and its CPU time is twice the baseline's.
    """
    bench = Bench(own=True, **{"rules": DIRECTION_RULES, **experiment})
    bench.workload("w", "wall", "cpu", waits=True)
    metrics = (*bench.workloads["w"].metrics, next(each for each in COMPUTING if each.name == "nvcsw"))
    bench.workloads["w"] = msgspec.structs.replace(bench.workloads["w"], metrics=metrics)
    units = {"user_us": 1000, "psi_cpu_us": 1000, "wall_ns": MS, "run_delay_ns": MS}
    known = {"system_us": 0, **{name: value * units.get(name, 1) for name, value in facts.items()}}
    bench.facts = tuple(known.items())
    for block in range(1, 30):
        for variant, times in ((BASE, 1), (CANDIDATE, 2)):
            wall = 84.0 * (1 + (block * 7 % 13) / 6)
            bench.run("w", variant, block, wall=wall, cpu=times * (10.0 + block / 100), nvcsw=switches)
    found = bench.analysis()
    (first,) = {row.metric.name for row in found.comparisons if row.preferred}
    (text,) = [each.message for each in found.caveats if each.kind is CaveatKind.BUSY_MACHINE]
    return first, text.partition("time. ")[2].removeprefix(
        "Read CPU time first, except for workloads that wait or need several processors."
    )


UNKNOWN_WAIT, WAITS = "Whether w waits, or lacked a processor, is not known.", "w waits."


@pytest.mark.parametrize(
    ("facts", "switches", "first", "text"),
    [
        # A loop of additions beside other programs: all that is not processor time is time in the run queue.
        ({"wall_ns": 84, "user_us": 15, "run_delay_ns": 69, "psi_cpu_us": 84}, 3, "cpu", ""),
        ({"wall_ns": 84, "user_us": 80, "run_delay_ns": 0, "psi_cpu_us": 84}, 0, "cpu", ""),
        ({"wall_ns": 84, "user_us": 10, "run_delay_ns": 69, "psi_cpu_us": 84}, 900, "cpu", ""),
        # It sleeps for longer than any task lacked a processor.
        ({"wall_ns": 100, "user_us": 10, "run_delay_ns": 5, "psi_cpu_us": 30}, 3, "wall", WAITS),
        ({"wall_ns": 100, "user_us": 10, "run_delay_ns": 5, "psi_cpu_us": 30}, 0, "wall", UNKNOWN_WAIT),
        # Children or other threads may have lacked the processor: the main thread's time in the run queue is not theirs.
        ({"wall_ns": 84, "user_us": 15, "run_delay_ns": 1, "psi_cpu_us": 84}, 3, "wall", UNKNOWN_WAIT),
        # Several threads at once, a quota, a hypervisor, and a kernel that does not count.
        ({"wall_ns": 84, "user_us": 150, "run_delay_ns": 1, "psi_cpu_us": 84}, 3, "wall", UNKNOWN_WAIT),
        (
            {"wall_ns": 84, "user_us": 42, "run_delay_ns": 0, "psi_cpu_us": 20, "cpu_quota_milli": 500},
            3,
            "wall",
            UNKNOWN_WAIT,
        ),
        (
            {"wall_ns": 100, "user_us": 10, "run_delay_ns": 5, "psi_cpu_us": 30, "steal_ticks": 6},
            3,
            "wall",
            UNKNOWN_WAIT,
        ),
        ({"wall_ns": 84, "user_us": 15, "psi_cpu_us": 84}, 3, "wall", UNKNOWN_WAIT),
    ],
)
def test_whether_an_own_program_waits_follows_from_what_its_threads_did(
    facts: dict[str, int], switches: float, first: str, text: str
) -> None:
    assert of_own(facts, switches) == (first, text)
    # Old records keep the time that they read first.
    assert of_own(facts, switches, rules=TAIL_RULES)[0] == "wall"
