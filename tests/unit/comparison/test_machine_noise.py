# SPDX-License-Identifier: MIT OR Apache-2.0
"""How busy the machine was: medians over runs, limits, and which of the runs count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from swapstone.core.comparison.caveats import caveats_of
from swapstone.core.comparison.machine_noise import (
    busy_loads,
    noise_of,
    observed_turns,
    preferred_time,
    several_at_once,
)
from swapstone.core.comparison.run_table import as_table
from swapstone.core.model import (
    CONTRAST_RULES,
    DIRECTION_RULES,
    EQUAL_EXTRA_RULES,
    TAIL_RULES,
    UNKNOWN_THREADS,
    VIRTUAL_CLOCK,
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


def noise(runs: Sequence[Run], **experiment: Any) -> Noise:
    bench = Bench(**experiment)
    return noise_of(bench.experiment, as_table(runs), WORKLOADS)


def test_pressure_is_the_median_share_of_the_wall_time() -> None:
    found = noise([pressed(0.01), pressed(0.05, 200), pressed(0.9)])
    assert found == Noise(
        cpu_pressure_percent=5.0, cpu_pressure_max_percent=90.0, steal_percent=None, load1=None, busy=False
    )


@pytest.mark.parametrize(("share", "busy"), [(0.2, False), (0.2001, True)])
def test_a_machine_is_busy_above_a_fifth(share: float, busy: bool) -> None:
    assert noise([pressed(share)]).busy == busy
    assert not noise([pressed(share)], clock=VIRTUAL_CLOCK).busy


def test_pressure_is_cut_at_the_whole_and_unknown_without_its_facts() -> None:
    assert noise([pressed(1.3)]).cpu_pressure_max_percent == 100.0
    for facts in ({"wall_ns": MS}, {"psi_cpu_us": 5}, {"psi_cpu_us": 5, "wall_ns": 0}, {}):
        found = noise([made(**facts)])
        assert (found.cpu_pressure_percent, found.cpu_pressure_max_percent, found.busy) == (None, None, False)
    assert noise([made(psi_cpu_us=500, wall_ns=MS), made(wall_ns=MS)]).cpu_pressure_percent == 50.0


def test_pressure_is_that_of_idle_runs_on_one_processor_if_there_are_any() -> None:
    runs = [pressed(0.01), of(pressed(0.5), "all"), of(pressed(0.9), load="cpu")]
    assert noise(runs).cpu_pressure_percent == 1.0
    assert noise(runs[1:]).cpu_pressure_percent == 50.0
    assert noise(runs[2:]).cpu_pressure_percent == 90.0


def test_pressure_is_a_share_of_the_time_between_its_readings() -> None:
    """They enclose the start and the end of a process, which take longer than a short run."""
    run = made(wall_ns=MS, psi_cpu_us=1500, ticks_ns=10 * MS)
    assert noise([run], rules=CONTRAST_RULES).cpu_pressure_percent == 15.0
    assert noise([run], rules=EQUAL_EXTRA_RULES).cpu_pressure_percent == 100.0
    assert noise([made(wall_ns=MS, psi_cpu_us=150)], rules=CONTRAST_RULES).cpu_pressure_percent == 15.0


@pytest.mark.parametrize(
    ("runs", "facts", "busy"),
    [
        # Four threads of the program itself on two processors.
        (40, {"cpu_ticks": 20, "idle_ticks": 0, "trial_cpu_us": 200_000}, False),
        # One thread, stopped by a quota: PSI counts it.
        (40, {"cpu_ticks": 20, "idle_ticks": 15, "trial_cpu_us": 50_000}, False),
        (40, {"cpu_ticks": 20, "idle_ticks": 10, "trial_cpu_us": 98_000}, False),
        # Others use the rest, or the hypervisor does.
        (40, {"cpu_ticks": 20, "idle_ticks": 0, "trial_cpu_us": 100_000}, True),
        (40, {"cpu_ticks": 20, "idle_ticks": 10, "trial_cpu_us": 90_000}, True),
        # By the ticks of so few runs that is not known.
        (1, {"cpu_ticks": 20, "idle_ticks": 10, "trial_cpu_us": 98_000}, True),
        (40, {"cpu_ticks": 20, "idle_ticks": 10}, True),
        (40, {"trial_cpu_us": 98_000}, True),
    ],
)
def test_a_machine_is_busy_only_if_others_use_processors(runs: int, facts: Mapping[str, int], busy: bool) -> None:
    every = [made(wall_ns=100 * MS, ticks_ns=100 * MS, psi_cpu_us=100_000, **facts)] * runs
    found = noise(every, rules=CONTRAST_RULES)
    assert (found.cpu_pressure_percent, found.busy) == (100.0, busy)
    assert noise(every, rules=EQUAL_EXTRA_RULES).busy


def test_steal_is_a_share_of_all_processor_time_and_load_a_median() -> None:
    runs = [
        made(steal_ticks=1, cpu_ticks=100, load1_milli=500),
        made(steal_ticks=5, cpu_ticks=300, load1_milli=700),
        made(steal_ticks=50, load1_milli=4000),
        made(cpu_ticks=50),
    ]
    found = noise(runs)
    assert (found.steal_percent, found.load1) == (1.5, 0.7)
    assert noise([made(steal_ticks=0, cpu_ticks=0)]).steal_percent is None


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
    units = {
        "user_us": 1000,
        "system_us": 1000,
        "psi_cpu_us": 1000,
        "wall_ns": MS,
        "run_delay_ns": MS,
        "main_cpu_ns": MS,
    }
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


ASLEEP = {"wall_ns": 100, "user_us": 10, "main_cpu_ns": 10, "run_delay_ns": 5, "created_tasks": 0}
"""A program of one thread that sleeps for most of its time."""

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


@pytest.mark.parametrize(
    ("facts", "switches", "first", "text"),
    [
        # A loop of additions beside other programs; also beside ones that start processes.
        ({"wall_ns": 84, "user_us": 15, "main_cpu_ns": 15, "run_delay_ns": 69, "created_tasks": 0}, 3, "cpu", ""),
        ({"wall_ns": 84, "user_us": 15, "main_cpu_ns": 15, "run_delay_ns": 69, "created_tasks": 500}, 3, "cpu", ""),
        ({"wall_ns": 84, "user_us": 80, "main_cpu_ns": 80, "run_delay_ns": 0, "created_tasks": 0}, 0, "cpu", ""),
        # It frees much memory after the last reading of its main thread.
        (
            {"wall_ns": 100, "user_us": 60, "system_us": 38, "main_cpu_ns": 70, "run_delay_ns": 0, "created_tasks": 0},
            3,
            "cpu",
            "",
        ),
        # The main thread computes, a helper now and then.
        ({"wall_ns": 100, "user_us": 60, "main_cpu_ns": 50, "run_delay_ns": 45, "created_tasks": 1}, 3, "cpu", ""),
        # One thread that sleeps; unless others create processes, which may be its own.
        ({**ASLEEP, "psi_cpu_us": 30}, 3, "wall", WAITS),
        ({**ASLEEP, "psi_cpu_us": 74}, 1, "wall", WAITS),
        ({**ASLEEP, "psi_cpu_us": 30, "created_tasks": 9}, 3, "wall", UNKNOWN_WAIT),
        # Where all tasks lack processors, the agent observes the end late: measured, 11 of 61 ms of a loop of additions.
        (
            {"wall_ns": 61, "user_us": 14, "main_cpu_ns": 14, "run_delay_ns": 36, "created_tasks": 0, "psi_cpu_us": 61},
            3,
            "wall",
            UNKNOWN_WAIT,
        ),
        ({**ASLEEP, "psi_cpu_us": 76}, 3, "wall", UNKNOWN_WAIT),
        (
            {"wall_ns": 100, "user_us": 10, "main_cpu_ns": 10, "run_delay_ns": 5, "created_tasks": 9},
            3,
            "wall",
            UNKNOWN_WAIT,
        ),
        # The main thread sleeps in pthread_join() while its worker lacks a processor: by PSI of two processors, half of it.
        (
            {"wall_ns": 100, "user_us": 25, "main_cpu_ns": 1, "run_delay_ns": 0, "created_tasks": 1, "psi_cpu_us": 50},
            3,
            "wall",
            UNKNOWN_WAIT,
        ),
        ({"wall_ns": 100, "user_us": 25, "main_cpu_ns": 1, "run_delay_ns": 0}, 3, "wall", UNKNOWN_WAIT),
        # Two workers compute at once for half of the time, and all of them sleep for the other half.
        (
            {"wall_ns": 100, "user_us": 95, "main_cpu_ns": 1, "run_delay_ns": 0, "created_tasks": 2},
            3,
            "wall",
            UNKNOWN_WAIT,
        ),
        # Several threads at once have no elapsed time in their CPU time.
        (
            {"wall_ns": 84, "user_us": 150, "main_cpu_ns": 80, "run_delay_ns": 1, "created_tasks": 3},
            3,
            "wall",
            UNKNOWN_WAIT,
        ),
        # Under a quota, which the kernel counts as time on the run queue; a hypervisor; a stopped program; no schedstat.
        (
            {
                "wall_ns": 84,
                "user_us": 42,
                "main_cpu_ns": 42,
                "run_delay_ns": 42,
                "created_tasks": 0,
                "cpu_quota_milli": 500,
            },
            3,
            "wall",
            UNKNOWN_WAIT,
        ),
        (
            {
                "wall_ns": 84,
                "user_us": 9,
                "main_cpu_ns": 9,
                "run_delay_ns": 0,
                "created_tasks": 0,
                "cpu_quota_milli": 500,
            },
            3,
            "wall",
            UNKNOWN_WAIT,
        ),
        (
            {
                "wall_ns": 100,
                "user_us": 10,
                "main_cpu_ns": 10,
                "run_delay_ns": 5,
                "created_tasks": 0,
                "steal_ticks": 5,
                "psi_cpu_us": 30,
            },
            3,
            "wall",
            UNKNOWN_WAIT,
        ),
        ({**ASLEEP, "psi_cpu_us": 30}, 0, "wall", UNKNOWN_WAIT),
        ({"wall_ns": 84, "user_us": 15, "created_tasks": 0}, 3, "wall", UNKNOWN_WAIT),
        # A quota that stopped no process has no time.
        *(
            (
                {
                    "wall_ns": 84,
                    "user_us": 40,
                    "main_cpu_ns": 40,
                    "run_delay_ns": 44,
                    "created_tasks": 0,
                    "cpu_quota_milli": 1500,
                    "quota_throttled": times,
                },
                3,
                first,
                text,
            )
            for times, first, text in ((0, "cpu", ""), (1, "wall", UNKNOWN_WAIT))
        ),
        (
            {
                "wall_ns": 100,
                "user_us": 10,
                "main_cpu_ns": 10,
                "run_delay_ns": 5,
                "created_tasks": 0,
                "cpu_quota_milli": 1500,
                "quota_throttled": 0,
                "psi_cpu_us": 30,
            },
            3,
            "wall",
            WAITS,
        ),
    ],
)
def test_it_waits_only_if_no_thread_ran_or_lacked_a_processor(
    facts: Mapping[str, int], switches: float, first: str, text: str
) -> None:
    assert of_own({"psi_cpu_us": 84, **facts}, switches, rules=CONTRAST_RULES) == (first, text)


@pytest.mark.parametrize(
    ("facts", "before"),
    [
        (
            {"wall_ns": 100, "user_us": 25, "main_cpu_ns": 1, "run_delay_ns": 0, "created_tasks": 1, "psi_cpu_us": 50},
            WAITS,
        ),
        (
            {"wall_ns": 100, "user_us": 95, "main_cpu_ns": 1, "run_delay_ns": 0, "created_tasks": 2, "psi_cpu_us": 50},
            "",
        ),
    ],
)
def test_by_earlier_rules_a_worker_without_a_processor_was_waiting(facts: Mapping[str, int], before: str) -> None:
    assert of_own(facts, rules=EQUAL_EXTRA_RULES)[1] == before
    assert of_own(facts, rules=CONTRAST_RULES)[1] == UNKNOWN_WAIT


def threads_of(
    runs: list[dict[str, int]],
    *,
    threads: int = UNKNOWN_THREADS,
    cpus: Cpus = Cpus.ALL,
    load: str = "idle",
    **changes: Any,
) -> tuple[dict[str, bool | None], dict[str, float | None]]:
    """Return whether a work with these facts runs at once, and how long its tasks wait for the processor."""
    works = {"one": workload("one", "wall", threads=threads, cpus=cpus)}
    experiment = msgspec.structs.replace(Bench().experiment, **changes)
    table = as_table([of(made(**facts), load=load) for facts in runs])
    return several_at_once(experiment, works, table), observed_turns(experiment, works, table)


def used(wall_ms: int, used_ms: int, waited_ms: int = 0) -> dict[str, int]:
    return {"wall_ns": wall_ms * MS, "user_us": used_ms * 1000, "system_us": 0, "psi_cpu_us": waited_ms * 1000}


VIRTUAL: dict[str, Any] = {"clock": "virtual", "target": "vm"}


@pytest.mark.parametrize(
    ("runs", "changes", "found"),
    [
        ([used(100, 100)], {}, False),
        ([used(100, 100), used(100, 180)], {}, True),
        ([used(2, 6)], {}, False),  # its start and its end
        ([{"wall_ns": MS}], {}, None),
        ([], {}, None),
        ([used(100, 100)], {"threads": 1, "cpus": Cpus.ONE}, "pinned"),
        ([used(100, 100)], {"threads": 2}, True),  # declared
        ([used(100, 100)], {"threads": 2, "cpus": Cpus.ONE}, True),  # a load generator is on the other
        ([used(100, 98, 97)], VIRTUAL, True),
        ([used(100, 99, 3)], VIRTUAL, False),
        ([used(100, 98, 97)], {**VIRTUAL, "load": "cpu"}, None),  # the load waits too
        ([{"wall_ns": MS}], VIRTUAL, None),
        ([used(100, 98, 97)], {**VIRTUAL, "processors": 2}, None),
    ],
)
def test_whether_threads_run_at_once_is_observed(
    runs: list[dict[str, int]], changes: dict[str, Any], found: bool | str | None
) -> None:
    assert threads_of(runs, **changes)[0] == ({} if found == "pinned" else {"one": found})


def test_that_threads_take_turns_is_a_caveat_where_it_is_observed() -> None:
    bench = Bench(clock="virtual")
    bench.workload("one", "wall", cpus=Cpus.ALL)
    assert threads_of([used(100, 98, 97), used(100, 98, 95), used(100, 98, 12)], **VIRTUAL)[1] == {"one": 95}
    for turns, words in (
        (
            {"one": 95.2},
            "one: threads or processes take turns on the machine's one processor. One that could run waited for it in 95 % of",
        ),
        ({"one": 95.0, "two": 12.0, "three": 1.0}, "one, two: threads or processes take turns"),
        (
            {"one": None},
            "one: whether threads or processes take turns on the machine's one processor is not known, because its kernel",
        ),
        ({"one": 10.0}, ""),
        ({}, ""),
    ):
        found = caveats_of(
            bench.experiment, as_table(()), (), (), noise_of(bench.experiment, as_table(()), {}), turns=turns
        )
        texts = [each.message for each in found if each.kind is CaveatKind.NOT_MEASURED]
        assert len(texts) == bool(words) and all(words in each for each in texts)
    bench.facts = (("wall_ns", 100 * MS), ("psi_cpu_us", 97_000))
    bench.pairs("one", "wall", [100.0] * 6, [150.0] * 6)
    assert [each.message for each in bench.analysis().caveats if "in 97 % of a run's time" in each.message]
    bench.clock = "wall"
    assert not [each for each in bench.analysis().caveats if "turns" in each.message]
