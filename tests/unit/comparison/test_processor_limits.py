# SPDX-License-Identifier: MIT OR Apache-2.0
"""Limits and sums of the check for processors, at exact numbers: facts without the error of ticks, on both sides of each limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from swapstone.core import plan
from swapstone.core.comparison import processors
from swapstone.core.comparison.processors import (
    TRUNCATION_S,
    Disturbance,
    ProcessorUse,
    disturbances,
    lacks_processors,
    neighbours,
    undisturbed,
    without_disturbed_blocks,
)
from swapstone.core.comparison.run_table import ABSENT, as_table
from swapstone.core.model import (
    ALL_PROCESSORS,
    CURRENT_RULES,
    UNKNOWN_THREADS,
    CaveatKind,
    Cpus,
    Direction,
    Quantity,
    Sample,
    Status,
    Verdict,
)
from tests.unit.comparison.conftest import BASE, CANDIDATE, METRICS, Bench, metric

IDLE = "idle"


def facts_of(others: float = 0.0, *, seconds: int = 2, processors_of: int = 2, **changes: int) -> dict[str, int]:
    """Return the facts of a run that uses all processors that others leave: whole ticks, without an error."""
    found = {
        "wall_ns": seconds * 10**9,
        "user_us": round((processors_of - others) * seconds * 1e6),
        "system_us": 0,
        "trial_cpu_us": round((processors_of - others) * seconds * 1e6),
        "cpu_ticks": 100 * processors_of * seconds,
        "idle_ticks": 0,
        "steal_ticks": 0,
        "ticks_ns": seconds * 10**9,
        "cpus_allowed": processors_of,
        **changes,
    }
    return {name: value for name, value in found.items() if value != ABSENT}


def laid_out(
    workloads: Mapping[str, Callable[[int], dict[str, int]]], blocks: int, *, threads: int = 2, cpus: Cpus = Cpus.ALL
) -> Bench:
    """Return a bench of workloads with the facts of each block; the candidate takes 1.3 times as long."""
    bench = Bench(rules=CURRENT_RULES)
    for name, facts in workloads.items():
        bench.workload(name, "wall", "res", cpus=cpus)
        bench.workloads[name] = msgspec.structs.replace(bench.workloads[name], threads=threads)
        for block in range(blocks + 1):
            for variant, ratio in ((BASE, 1.0), (CANDIDATE, 1.3)):
                noise = 1 + 0.001 * (block % 7)
                bench.run(name, variant, block, wall=1e8 * ratio * noise, res=1000.0)
                bench.runs[-1] = msgspec.structs.replace(bench.runs[-1], facts=tuple(facts(block).items()))
    return bench


def found_in(bench: Bench, workload: str = "w") -> Disturbance | None:
    return disturbances(bench.experiment, bench.workloads, as_table(bench.runs)).get(("s", workload, IDLE))


def one(facts: dict[str, int], **changes: Any) -> Disturbance | None:
    return found_in(laid_out({"w": lambda _: facts}, 8, **changes))


# Use of processors


def test_uses_are_added() -> None:
    assert ProcessorUse(1, 2.0, 3.0, 4.0) + ProcessorUse(10, 20.0, 30.0, 40.0) == ProcessorUse(11, 22.0, 33.0, 44.0)
    use = ProcessorUse(9, 2.0, 3.0, 4.0)
    assert use.usable == 1.5 and use.error == pytest.approx(3 * TRUNCATION_S / 2)


def test_a_share_is_lacking_above_the_limit_and_above_five_deviations() -> None:
    """Of five processors the limit is a quarter of one; of two a tenth."""
    exact = [ProcessorUse(0, 1.0, usable, 0.0) for usable in (4.75, 4.7499)]
    for known in (True, False):
        assert [lacks_processors(use, 5, known=known) for use in exact] == [False, True]
    deviations = 5 * 10 * TRUNCATION_S  # of 100 runs in a second: 0.204 of a processor
    for lacking, together, alone in ((0.15, False, False), (deviations - 0.001, False, False)):
        use = ProcessorUse(100, 1.0, 2 - lacking, 0.0)
        assert (lacks_processors(use, 2, known=True), lacks_processors(use, 2, known=False)) == (together, alone)
    beyond = [ProcessorUse(100, 1.0, 2 - deviations - more, 0.0) for more in (0.001, 0.099, 0.101)]
    assert [lacks_processors(use, 2, known=True) for use in beyond] == [True, True, True]
    assert [lacks_processors(use, 2, known=False) for use in beyond] == [False, False, True]


def test_neighbours_are_judged_together_until_five_deviations_are_below_the_limit() -> None:
    def groups(blocks: list[int], window_s: float = 0.1, needed: int = 2) -> list[list[int]]:
        return neighbours({block: ProcessorUse(1, window_s, 0.2, 0.0) for block in blocks}, needed)

    # 5 * 0.00408 / (0.1 * sqrt(k)) is below 0.1 from 5 blocks on.
    assert groups([*range(12, 0, -1)]) == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11, 12]]
    assert groups([*range(1, 11)]) == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    assert groups([4, 2, 3, 1]) == [[1, 2, 3, 4]] and groups([]) == []
    assert groups([1, 2], window_s=50 * TRUNCATION_S) == [[1], [2]]  # at the limit
    assert groups([1, 2], window_s=49.9 * TRUNCATION_S) == [[1, 2]]


# Facts


def found_from(
    facts: Sequence[tuple[int, dict[str, int]]], *, threads: int = 2, status: Status = Status.OK
) -> Disturbance | None:
    """Return the disturbance that follows from runs of one variant: block and facts."""
    bench = Bench(rules=CURRENT_RULES)
    bench.workload("w", "wall", cpus=Cpus.ALL)
    bench.workloads["w"] = msgspec.structs.replace(bench.workloads["w"], threads=threads)
    for block, each in facts:
        bench.run("w", BASE, block, status, wall=1.0)
        bench.runs[-1] = msgspec.structs.replace(bench.runs[-1], facts=tuple(each.items()))
    return found_in(bench)


@pytest.mark.parametrize("name", ["idle_ticks", "cpu_ticks", "trial_cpu_us", "ticks_ns", "wall_ns"])
def test_a_run_needs_facts_that_are_measurements(name: str) -> None:
    values = {ABSENT: False, -1: False, 0: name not in {"ticks_ns", "wall_ns"}, 1: True}
    for value, kept in {**values, 2**53 - 1: True, 2**53: False}.items():
        found = found_from([(1, facts_of()), (2, facts_of(**{name: value})), (3, facts_of())])
        assert found is not None and found.blocks == 2 + kept, value


def test_other_facts_may_be_absent_or_impossible_and_failed_runs_have_none() -> None:
    for value, stolen in ((ABSENT, False), (-1, False), (0, False), (90, True), (2**53 - 1, True), (2**53, False)):
        found = found_from([(1, facts_of(1.0, steal_ticks=value))])
        assert found is not None and found.disturbed == {1} and found.stolen == stolen, value
    found = found_from([(1, facts_of(1.0, steal_ticks=ABSENT)), (1, facts_of(1.0, steal_ticks=90))])
    assert found is not None and found.stolen
    assert found_from([(1, facts_of(1.0))], status=Status.FAILED) is None


def test_a_block_can_use_its_own_time_a_fifth_of_its_system_time_and_idle_time() -> None:
    run = facts_of(1.0, system_us=1_000_000, driver_system_us=500_000, idle_ticks=30)
    found = found_from([(7, run), (7, run), (3, facts_of())])
    assert found is not None and found.blocks == 2 and found.disturbed == {7}
    assert found.used == pytest.approx(2 - (2.0 + 0.2 * 1.5 + 0.3) / 2)


# Processors that are needed


def needs(used_us: int, wall_ns: int, *, system_us: int = ABSENT, processors_of: int = 4) -> int:
    return needed_by(facts_of(wall_ns=wall_ns, user_us=used_us, system_us=system_us, processors_of=processors_of))


def needed_by(*runs: dict[str, int]) -> int:
    """Return how many processors a program needs whose threads are not declared; work that needs one is not disturbed."""
    found = found_from([*enumerate(runs, 1)], threads=UNKNOWN_THREADS)
    return 1 if found is None else found.needed


def test_a_program_ran_on_several_processors_above_a_tenth_more_than_one() -> None:
    """5 ms of its processor time are its start and its end."""
    assert needs(5_011, 10_000) == 1  # 1.1 processors: 11 us in 10 us
    assert needs(5_001, 909) == 2  # 1 us in 0.909 us, which it is not with a start that is a nanosecond longer
    assert needs(5_011, 9_999) == 2
    assert needs(4_999, 1) == needs(5_000, 1) == 1
    assert needs(5_011, 9_999, processors_of=1) == 1
    assert [needs(5_000 + used, 10_000) for used in (20, 21, 22, 31, 32)] == [2, 2, 3, 3, 4]
    assert needs(2_500, 9_999, system_us=2_511) == 2  # user and system time together


def test_the_largest_use_of_any_run_decides() -> None:
    runs = [facts_of(wall_ns=10_000, user_us=5_000 + used, processors_of=4) for used in (1, 22, 1)]
    assert needed_by(*runs) == 3


def test_impossible_processor_times_are_cut() -> None:
    largest = 2**53 - 1
    assert needs(2**52, largest, processors_of=2000) == needs(2**53 - 1, largest, processors_of=2000) == 500
    assert needs(2**51, largest, processors_of=2000) == 250


# Disturbances


def test_a_process_of_one_processor_lacks_nothing() -> None:
    assert one(facts_of(1.0, cpus_allowed=ABSENT)) is None
    assert one(facts_of(1.0, cpus_allowed=0)) is None
    assert one(facts_of(1.0, cpus_allowed=1)) is None
    assert one(facts_of(1.0)) is not None


def test_of_pinned_work_the_others_have_the_load_generator() -> None:
    found = one(facts_of(1.0, processors_of=4, cpus_allowed=2), threads=ALL_PROCESSORS, cpus=Cpus.ONE)
    assert found is not None and (found.needed, found.processors) == (4, 4)
    found = one(facts_of(1.0, processors_of=4, cpus_allowed=2), threads=ALL_PROCESSORS)
    assert found is not None and (found.needed, found.processors) == (2, 4)


def test_only_values_of_disturbed_blocks_leave_and_only_of_their_workload() -> None:
    quiet, busy = facts_of(), facts_of(0.6)
    bench = laid_out({"a": lambda _: quiet, "b": lambda block: busy if block == 3 else quiet, "c": lambda _: busy}, 8)
    left = undisturbed(bench.experiment, bench.workloads, as_table(bench.runs))

    def blocks(workload: str, name: str) -> list[int]:
        rows = (left.group == left.groups.index(("s", workload, IDLE))) & ~np.isnan(left.metrics[name])
        return sorted(set(left.block[rows].tolist()))

    assert blocks("a", "wall") == blocks("a", "res") == blocks("b", "res") == blocks("c", "res") == [*range(9)]
    assert blocks("b", "wall") == [0, 1, 2, 4, 5, 6, 7, 8] and blocks("c", "wall") == []
    kept = without_disturbed_blocks(bench.experiment, bench.workloads, as_table(bench.runs))
    present = {
        name: sorted(set(kept.block[kept.group == kept.groups.index(("s", name, IDLE))].tolist())) for name in "abc"
    }
    assert present == {"a": [*range(9)], "b": [0, 1, 2, 4, 5, 6, 7, 8], "c": [0]}


def test_a_table_without_disturbed_blocks_is_kept_as_it_is() -> None:
    bench = laid_out({"w": lambda _: facts_of()}, 8)
    table = as_table(bench.runs)
    assert without_disturbed_blocks(bench.experiment, bench.workloads, table) is table


@pytest.mark.parametrize(("blocks", "judged"), [(9, False), (10, True)])
def test_six_undisturbed_blocks_are_enough_at_95_percent(blocks: int, judged: bool) -> None:
    bench = laid_out({"w": lambda block: facts_of(0.6 if block in {1, 2, 3, 4} else 0.0)}, blocks)
    row = bench.row("w", "wall")
    assert (row.verdict is not Verdict.DISTURBED) == judged
    if judged:
        assert len(row.baseline_values) == 6
    bench.confidence = 0.99  # ten pairs
    assert bench.row("w", "wall").verdict is Verdict.DISTURBED


def caveats(workloads: Mapping[str, frozenset[int]], blocks: int = 10) -> list[str]:
    def facts(disturbed: frozenset[int]) -> Callable[[int], dict[str, int]]:
        return lambda block: facts_of(0.6 if block in disturbed else 0.0)

    bench = laid_out({name: facts(disturbed) for name, disturbed in workloads.items()}, blocks)
    variants = plan.variants(bench.experiment)
    found = processors.check(bench.experiment, variants, bench.workloads, as_table(bench.runs))
    assert {each.kind for each in found.caveats} <= {CaveatKind.DISTURBED_RUNS}
    return [each.message for each in found.caveats]


def test_workloads_without_a_verdict_are_named_in_order_and_left_blocks_are_counted() -> None:
    every, one_block, none = frozenset(range(11)), frozenset({4}), frozenset[int]()
    assert caveats({"w": none}) == []
    (alone,) = caveats({"w": one_block})
    assert alone == "Work that needs several processors did not always have them. w: 1 disturbed block left out."
    (two,) = caveats({"w": one_block, "v": one_block, "u": none})
    assert two.endswith("them. w, v: 2 disturbed blocks left out.")
    lost = dict.fromkeys("gfedcba", every)
    (many,) = caveats({**lost, "w": one_block})
    assert many.endswith(
        "them. a, b, c, d and 3 more: no verdict, because in 10 of 10 blocks other processes used 0.6 of the 2 processors. "
        "w: 1 disturbed block left out."
    )


def test_metrics_that_depend_on_processors() -> None:
    own = [
        METRICS["wall"],
        METRICS["cpu"],
        METRICS["res"],
        METRICS["rate"],
        METRICS["nivcsw"],
        *(metric(name, Quantity.TIME, Direction.LOWER, "ns") for name in ("user_cpu", "system_cpu")),
        metric("requests_per_cpu_s", Quantity.RATE, Direction.HIGHER, "1/s"),
        metric("faults_per_request", Quantity.EVENTS, Direction.LOWER, "1"),
    ]
    every = [each.name for each in own if each.name != "res"]
    for cpus, names in ((Cpus.ALL, every), (Cpus.ONE, ["wall", "rate", "nivcsw"])):
        bench = laid_out({"w": lambda _: facts_of(0.6)}, 8, threads=ALL_PROCESSORS, cpus=cpus)
        bench.workloads["w"] = msgspec.structs.replace(bench.workloads["w"], metrics=tuple(own))
        samples = tuple(Sample(metric=each.name, values=(1.0,)) for each in own)
        runs = [msgspec.structs.replace(run, samples=samples) for run in bench.runs]
        left = undisturbed(bench.experiment, bench.workloads, as_table(runs)).metrics
        assert [each.name for each in own if np.isnan(left[each.name]).all()] == names
