# SPDX-License-Identifier: MIT OR Apache-2.0
"""Did work that needs several processors have them?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from swapstone.core.comparison.machine_noise import preferred_time
from swapstone.core.comparison.processors import (
    LIMIT,
    OF_ONE_PROCESSOR,
    TICK_S,
    TRUNCATION_S,
    disturbances,
    undisturbed,
)
from swapstone.core.comparison.run_table import as_table
from swapstone.core.model import (
    ALL_PROCESSORS,
    CURRENT_RULES,
    UNKNOWN_THREADS,
    VIRTUAL_CLOCK,
    CaveatKind,
    Cpus,
    Direction,
    Metric,
    Quantity,
    Status,
    Verdict,
)
from swapstone.core.workloads import all_suites
from tests.unit.comparison.processor_facts import machine_facts

BASE, CANDIDATE = "libc=glibc", "libc=musl"
BLOCKS = 40
GROUP = ("s", "w", "idle")

Facts = Callable[[int, str], dict[str, int]]
"""From block and variant."""


def fill(bench: Any, facts: Facts, *, threads: int = 2, cpus: Cpus = Cpus.ALL, blocks: int = BLOCKS) -> Any:
    """Lay out runs of 100 ms; the candidate takes 1.3 times as long."""
    random = np.random.default_rng(5)
    bench.rules = CURRENT_RULES
    bench.workload("w", "wall", "cpu", "res", "rate", "nivcsw", waits=True, cpus=cpus)
    bench.workloads["w"] = msgspec.structs.replace(bench.workloads["w"], threads=threads)
    for block in range(blocks + 1):
        for variant, ratio in ((BASE, 1.0), (CANDIDATE, 1.3)):
            noise = float(np.exp(random.normal(0, 0.01)))
            numbers = {"wall": 1e8, "cpu": 1.9e8, "res": 1000.0, "rate": 10.0, "nivcsw": 5.0}
            bench.run("w", variant, block, **{name: value * ratio * noise for name, value in numbers.items()})
            last = bench.runs[-1]
            found = facts(block, variant)
            bench.runs[-1] = msgspec.structs.replace(last, facts=tuple(found.items()), elapsed_ns=found["wall_ns"])
    return bench


def steady(**uses: Any) -> Facts:
    random = np.random.default_rng(7)
    return lambda _block, _variant: machine_facts(random, **uses)


def found_in(bench: Any) -> Any:
    return disturbances(bench.experiment, bench.workloads, as_table(bench.runs)).get(GROUP)


def verdicts(bench: Any) -> dict[str, Verdict]:
    return {each.metric.name: each.verdict for each in bench.analysis().comparisons}


def test_the_error_of_a_difference_of_two_counts_of_ticks() -> None:
    steps = 400
    truncated = np.floor(np.arange(steps) / steps + np.arange(steps)[:, None] / steps)
    errors = (truncated - np.arange(steps)[:, None] / steps).ravel()
    assert np.std(errors) * TICK_S == pytest.approx(TRUNCATION_S, rel=0.01)


def test_a_row_that_mostly_lacked_processors_is_not_judged(bench: Any) -> None:
    fill(bench, steady(own=1.4, others=0.6))
    row = bench.row("w", "wall")
    assert row.verdict is Verdict.DISTURBED
    assert row.reason == "in 40 of 40 blocks other processes used 0.6 of the 2 processors"
    assert (row.effect, row.low, row.high, row.p_value) == (None, None, None, None)
    assert len(row.baseline_values) == len(row.candidate_values) == BLOCKS  # they are printed
    assert {name for name, verdict in verdicts(bench).items() if verdict is Verdict.DISTURBED} == {
        "wall",
        "cpu",
        "rate",
        "nivcsw",
    }
    assert bench.row("w", "res").verdict is Verdict.WORSE
    (caveat,) = [each for each in bench.analysis().caveats if each.kind is CaveatKind.DISTURBED_RUNS]
    assert caveat.message.endswith(f"w: no verdict, because {row.reason}.")
    assert "swapstone rerun" in caveat.hint


def test_a_variant_that_was_not_built_keeps_its_reason(bench: Any) -> None:
    fill(bench, steady(own=1.4, others=0.6))
    changes = {"status": Status.UNAVAILABLE, "reason": "there is no such library", "samples": ()}
    bench.runs = [
        msgspec.structs.replace(run, **(changes if run.trial.variant == CANDIDATE else {})) for run in bench.runs
    ]
    row = bench.row("w", "wall")
    assert (row.verdict, row.reason) == (Verdict.UNAVAILABLE, "candidate: there is no such library")


def test_disturbed_blocks_leave_with_both_sides(bench: Any) -> None:
    random = np.random.default_rng(3)

    def facts(block: int, variant: str) -> dict[str, int]:
        busy = 21 <= block <= 30 and variant == BASE  # one side alone
        return machine_facts(random, own=1.2 if busy else 1.95, others=0.8 if busy else 0.0)

    fill(bench, facts)
    row = bench.row("w", "wall")
    assert row.verdict is Verdict.WORSE
    disturbed = found_in(bench).disturbed
    assert disturbed >= set(range(21, 31))
    assert len(disturbed) < 18  # neighbours that are judged together with them
    assert len(row.baseline_values) == len(row.candidate_values) == BLOCKS - len(disturbed)
    assert len(bench.row("w", "res").baseline_values) == BLOCKS
    (caveat,) = [each for each in bench.analysis().caveats if each.kind is CaveatKind.DISTURBED_RUNS]
    assert f"w: {len(disturbed)} disturbed blocks left out." in caveat.message


def test_a_row_with_too_few_undisturbed_blocks_is_not_judged(bench: Any) -> None:
    random = np.random.default_rng(3)
    fill(
        bench,
        lambda block, _variant: machine_facts(random, wall_s=2.0, own=1.4, others=0.6 if block <= 4 else 0.0),
        blocks=9,
    )
    row = bench.row("w", "wall")
    assert row.verdict is Verdict.DISTURBED
    assert row.reason == (
        "in 4 of 9 blocks other processes used 0.6 of the 2 processors, and 5 undisturbed blocks are too few"
    )


@pytest.mark.parametrize("wall_s", [0.05, 0.1, 0.15, 1.0])
@pytest.mark.parametrize("own", [0.7, 1.3, 1.98])
@pytest.mark.parametrize("seed", range(3))
def test_no_false_alarm_where_only_the_work_runs(new_bench: Any, wall_s: float, own: float, seed: int) -> None:
    """Nor from its own pressure, nor from the counters, which are truncated to ticks."""
    random = np.random.default_rng([seed, round(1000 * wall_s), round(100 * own)])

    def facts(_block: int, _variant: str) -> dict[str, int]:
        return {**machine_facts(random, wall_s=wall_s, own=own, others=0.02), "psi_cpu_us": round(wall_s * 9e5)}

    bench = fill(new_bench(), facts)
    found = found_in(bench)
    assert found.blocks == BLOCKS
    assert not found.disturbed
    analysis = bench.analysis()
    assert [each.verdict for each in analysis.comparisons if each.metric.name == "wall"] == [Verdict.WORSE]
    assert [each for each in analysis.caveats if each.kind is CaveatKind.DISTURBED_RUNS] == []


def test_threads_of_the_kernel_that_work_for_the_program_are_no_disturbance(bench: Any, new_bench: Any) -> None:
    """Creating threads: 1.2 of 1.3 processors are system time, and ksoftirqd uses 15 % of that."""
    kernel = 0.15 * 1.2
    assert not found_in(fill(bench, steady(own=1.3, system=1.2, others=kernel + 0.02))).disturbed
    assert found_in(fill(new_bench(), steady(own=1.1, system=1.0, others=0.15 + 0.4))).mostly


@pytest.mark.parametrize(("others", "mostly"), [(0.0, False), (0.03, False), (0.2, True), (0.6, True), (1.5, True)])
def test_the_limit_is_a_share_of_the_processors_that_are_needed(bench: Any, others: float, mostly: bool) -> None:
    fill(bench, steady(own=min(1.9, 2 - others), others=others))
    assert pytest.approx(0.1) == LIMIT * 2
    assert found_in(bench).mostly is mostly


@pytest.mark.parametrize(
    ("threads", "processors", "others", "lacks"),
    [
        (2, 8, 4.0, False),  # other processes have the other six
        (2, 8, 6.5, True),
        (8, 8, 0.2, False),  # the limit is 0.4 of a processor
        (8, 8, 1.0, True),
        (ALL_PROCESSORS, 8, 1.0, True),
        (16, 8, 1.0, True),  # more threads than processors need all
        (2, 1, 0.5, False),  # on one processor there is nothing to lack
    ],
)
def test_only_processors_that_the_work_needs_are_missed(
    bench: Any, threads: int, processors: int, others: float, lacks: bool
) -> None:
    own = min(processors - others, 1.0)
    fill(bench, steady(own=own, others=others, processors=processors), threads=threads)
    found = found_in(bench)
    assert (found is not None and found.mostly) is lacks
    if lacks and threads == 2:
        assert (
            found.reason
            == f"in 40 of 40 blocks other processes used {found.used:.1f} of the 8 processors, of which the work needs 2"
        )


@pytest.mark.parametrize(("others", "lacks"), [(40.0, False), (63.0, True)])
def test_of_a_part_of_the_processors_others_use_the_rest_first(bench: Any, others: float, lacks: bool) -> None:
    random = np.random.default_rng(2)

    def facts(_block: int, _variant: str) -> dict[str, int]:
        return {**machine_facts(random, own=1.0, others=others, processors=64), "cpus_allowed": 2}

    found = found_in(fill(bench, facts, threads=ALL_PROCESSORS))
    assert (found.needed, found.processors, found.mostly) == (2, 64, lacks)


def test_one_block_of_many_can_be_disturbed(bench: Any) -> None:
    random = np.random.default_rng(2)

    def facts(block: int, _variant: str) -> dict[str, int]:
        return machine_facts(random, wall_s=0.05, own=1.4 if block == 20 else 1.95, others=0.6 if block == 20 else 0.0)

    assert found_in(fill(bench, facts)).disturbed == {20}


def test_short_runs_are_judged_together(bench: Any) -> None:
    """Ticks hide a fifth of a processor in a block of 40 ms, and don't in all of them."""
    assert found_in(fill(bench, steady(wall_s=0.02, own=1.8, others=0.25), blocks=200)).mostly


def test_stolen_time_counts_as_use_of_others(bench: Any) -> None:
    fill(bench, steady(own=1.5, others=0.0, steal=0.4))
    assert bench.row("w", "wall").reason == (
        "in 40 of 40 blocks other processes and the hypervisor used 0.4 of the 2 processors"
    )


def test_the_criterion_is_blind_to_which_side_is_slower(bench: Any, new_bench: Any) -> None:
    """Exchanged times leave the same blocks."""

    def facts() -> Facts:
        random = np.random.default_rng(9)
        return lambda block, _variant: machine_facts(random, own=1.5, others=0.3 if block % 20 < 8 else 0.0)

    found = found_in(fill(bench, facts()))
    other = fill(new_bench(), facts())
    exchanged = {(run.trial.block, run.trial.variant): run.samples for run in other.runs}
    opposite = {BASE: CANDIDATE, CANDIDATE: BASE}
    other.runs = [
        msgspec.structs.replace(run, samples=exchanged[run.trial.block, opposite[run.trial.variant]])
        for run in other.runs
    ]
    assert found.disturbed == found_in(other).disturbed
    assert bench.row("w", "wall").verdict is Verdict.WORSE
    assert other.row("w", "wall").verdict is Verdict.BETTER


def test_work_on_one_processor_is_unaffected(bench: Any) -> None:
    fill(bench, steady(own=1.0, others=1.0), threads=1, cpus=Cpus.ONE)
    assert found_in(bench) is None
    assert bench.row("w", "wall").verdict is Verdict.WORSE


def test_processor_time_of_a_pinned_server_stays(bench: Any) -> None:
    fill(bench, steady(own=1.0, others=1.0), cpus=Cpus.ONE)
    found = verdicts(bench)
    assert (found["rate"], found["cpu"]) == (Verdict.DISTURBED, Verdict.WORSE)


def test_metrics_of_one_processor_exist() -> None:
    names = {metric.name for suite in all_suites() for workload in suite.workloads for metric in workload.metrics}
    assert set(OF_ONE_PROCESSOR) <= names


@pytest.mark.parametrize(
    ("rules", "load", "clock"),
    [(1, "idle", "wall"), (CURRENT_RULES, "cyclictest", "wall"), (CURRENT_RULES, "idle", VIRTUAL_CLOCK)],
)
def test_what_is_not_checked(bench: Any, rules: int, load: str, clock: str) -> None:
    """Records by the first rules, loads that belong to what is measured, and the virtual clock."""
    fill(bench, steady(own=1.0, others=1.0))
    assert found_in(bench).mostly
    bench.rules, bench.clock, bench.loads = rules, clock, (load,)
    bench.runs = [
        msgspec.structs.replace(run, trial=msgspec.structs.replace(run.trial, load=load)) for run in bench.runs
    ]
    assert disturbances(bench.experiment, bench.workloads, as_table(bench.runs)) == {}


@pytest.mark.parametrize("missing", ["trial_cpu_us", "idle_ticks", "cpu_ticks", "ticks_ns", "wall_ns"])
def test_runs_without_the_facts_are_judged_like_others(bench: Any, missing: str) -> None:
    fill(bench, steady(own=1.0, others=1.0))
    bench.runs = [
        msgspec.structs.replace(run, facts=tuple(fact for fact in run.facts if fact[0] != missing))
        for run in bench.runs
    ]
    assert found_in(bench) is None
    assert bench.row("w", "wall").verdict is Verdict.WORSE


@pytest.mark.parametrize("number", [0, -1, 2**53 - 1, 2**62])
@pytest.mark.parametrize(
    "name", ["trial_cpu_us", "idle_ticks", "cpu_ticks", "ticks_ns", "steal_ticks", "wall_ns", "cpus_allowed"]
)
def test_impossible_facts_are_no_error(bench: Any, name: str, number: int) -> None:
    fill(bench, steady(own=1.0, others=1.0), threads=UNKNOWN_THREADS)
    bench.runs = [
        msgspec.structs.replace(run, facts=tuple({**dict(run.facts), name: number}.items()), elapsed_ns=number)
        for run in bench.runs
    ]
    assert bench.row("w", "wall").verdict in (Verdict.WORSE, Verdict.DISTURBED)


def own_program(own: float, others: float, **facts: int) -> Facts:
    random = np.random.default_rng(4)
    return lambda _block, _variant: {**machine_facts(random, own=own, others=others), **facts}


@pytest.mark.parametrize(
    ("facts", "needed"),
    [
        (own_program(1.9, 0.0), 2),  # two threads on a quiet machine
        (own_program(1.3, 0.7), 2),  # two threads that compete with a third
        (own_program(1.0, 1.0, psi_cpu_us=95_000), 2),  # two threads that compete with two others all the time
        (own_program(1.0, 1.0, psi_cpu_us=0), 1),  # one thread, and another process on the other processor
        (own_program(0.67, 1.33, psi_cpu_us=95_000), 1),  # one thread that competes with two others
        (own_program(0.99, 0.0), 1),
    ],
)
def test_an_own_program_needs_the_processors_that_it_used_at_once(bench: Any, facts: Facts, needed: int) -> None:
    fill(bench, facts, threads=UNKNOWN_THREADS)
    found = found_in(bench)
    assert (1 if found is None else found.needed) == needed


def test_a_short_program_s_start_is_no_second_thread(bench: Any) -> None:
    fill(bench, steady(wall_s=0.003, own=1.0, known=2.0), threads=UNKNOWN_THREADS)
    assert found_in(bench) is None


def test_an_unfinished_experiment_goes_on_while_it_is_disturbed(bench: Any) -> None:
    fill(bench, steady(own=1.4, others=0.6))
    bench.workloads["w"] = msgspec.structs.replace(
        bench.workloads["w"],
        metrics=tuple(
            msgspec.structs.replace(each, leads=each.name == "wall") for each in bench.workloads["w"].metrics
        ),
    )
    found = bench.precision()[GROUP]
    assert (found.pairs, found.lost, found.half_width) == (0, "", None)
    assert not found.decided


def test_runs_keep_what_does_not_depend_on_processors(bench: Any) -> None:
    fill(bench, steady(own=1.4, others=0.6))
    kept = undisturbed(bench.experiment, bench.workloads, as_table(bench.runs))
    assert len(kept) == len(bench.runs)
    assert {name for name, values in kept.metrics.items() if not np.isnan(values).all()} == {"res"}


@pytest.mark.parametrize(("threads", "time"), [(1, "cpu"), (2, "wall"), (ALL_PROCESSORS, "wall")])
def test_processor_time_is_read_first_for_work_on_one_processor_only(bench: Any, threads: int, time: str) -> None:
    bench.workload("w", "wall", "cpu")
    workload = msgspec.structs.replace(bench.workloads["w"], threads=threads)
    assert preferred_time(workload, busy=True) == time
    assert preferred_time(workload, busy=False) == "wall"


def test_no_caveat_recommends_processor_time_for_threads(bench: Any, new_bench: Any) -> None:
    pressed = {"psi_cpu_us": 90_000}
    random = np.random.default_rng(1)

    def facts(_block: int, _variant: str) -> dict[str, int]:
        return {**machine_facts(random, own=1.9), **pressed}

    bench.workload("empty")  # built for its size alone
    text = Metric(name="text", unit="B", quantity=Quantity.SIZE, better=Direction.LOWER, meaning="code")
    quiet = fill(bench, facts).analysis({("s", "empty", label): [(text, 1000.0)] for label in (BASE, CANDIDATE)})
    assert {each.workload for each in quiet.comparisons} == {"empty", "w"}
    assert quiet.noise.cpu_pressure_percent == pytest.approx(89.1, abs=0.1) and not quiet.noise.busy  # its own pressure
    assert [each.kind for each in quiet.caveats] == []
    disturbed = fill(new_bench(), own_program(1.0, 1.0, **pressed)).analysis()
    assert [each.kind for each in disturbed.caveats] == [CaveatKind.DISTURBED_RUNS]
    assert "CPU time depends on the other processes too." in disturbed.caveats[0].hint
