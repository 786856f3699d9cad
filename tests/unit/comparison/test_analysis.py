# SPDX-License-Identifier: MIT OR Apache-2.0
"""The whole analysis: order, sizes, indices, nulls, noise and caveats."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from swapstone.core.model import CaveatKind, Cpus, Direction, Metric, Quantity, Verdict

BASE, CANDIDATE, AGAIN, RELINKED = "libc=glibc", "libc=musl", "libc=glibc (again)", "libc=glibc (relinked)"
QUIET = (("wall_ns", 10**8), ("psi_cpu_us", 1000), ("steal_ticks", 0), ("cpu_ticks", 200), ("load1_milli", 300))
BUSY = (("wall_ns", 10**8), ("psi_cpu_us", 60_000), ("steal_ticks", 10), ("cpu_ticks", 200), ("load1_milli", 4000))

TEXT = Metric(name="text", unit="B", quantity=Quantity.SIZE, better=Direction.LOWER, meaning="code")


def kinds(bench: Any) -> set[CaveatKind]:
    return {caveat.kind for caveat in bench.analysis().caveats}


def test_comparisons_come_in_the_experiments_order_sizes_last(bench: Any) -> None:
    bench.loads = ("idle", "cpu")
    bench.levels = ("glibc", "musl", "other")
    bench.workload("b", "wall", "res")
    bench.workload("a", "wall")
    sizes = {("s", name, f"libc={level}"): ((TEXT, 10.0),) for name in "ab" for level in ("glibc", "musl", "other")}
    found = [(c.workload, c.load, c.metric.name, c.candidate.short_label) for c in bench.analysis(sizes).comparisons]
    assert found == [
        ("b", "idle", "wall", "musl"),
        ("b", "idle", "wall", "other"),
        ("b", "idle", "res", "musl"),
        ("b", "idle", "res", "other"),
        ("b", "idle", "text", "musl"),
        ("b", "idle", "text", "other"),
        ("b", "cpu", "wall", "musl"),
        ("b", "cpu", "wall", "other"),
        ("b", "cpu", "res", "musl"),
        ("b", "cpu", "res", "other"),
        ("a", "idle", "wall", "musl"),
        ("a", "idle", "wall", "other"),
        ("a", "idle", "text", "musl"),
        ("a", "idle", "text", "other"),
        ("a", "cpu", "wall", "musl"),
        ("a", "cpu", "wall", "other"),
    ]


def test_sizes_are_exact(bench: Any) -> None:
    bench.noisy("w", 1.0, 15)
    sizes = {("s", "w", BASE): ((TEXT, 800.0),), ("s", "w", CANDIDATE): ((TEXT, 600.0),)}
    found = bench.analysis(sizes).comparisons[-1]
    assert (found.effect, found.low, found.high, found.verdict) == (0.75, 0.75, 0.75, Verdict.BETTER)
    assert found.exact and found.p_value is None


def test_all_candidates_are_corrected_together_and_quantities_apart(bench: Any) -> None:
    bench.levels = ("glibc", "musl", "other")
    for number in range(4):
        bench.workload(f"w{number}", "wall", "res")
        random = np.random.default_rng(number)
        for block in range(1, 21):
            for variant in (BASE, CANDIDATE, "libc=other"):
                slow = 2.0 if variant == "libc=other" else 1.0
                noise = np.exp(random.normal(0, 0.02, 2))
                bench.run(f"w{number}", variant, block, wall=100 * slow * noise[0], res=100 * noise[1])
    levels = {(c.metric.name, c.candidate.label): round(c.confidence, 6) for c in bench.analysis().comparisons}
    assert levels["wall", "libc=other"] == 0.975  # four of the eight rows of both candidates differ: 0.05 * 4 / 8
    assert levels["wall", CANDIDATE] == 0.975
    assert levels["res", "libc=other"] == levels["res", CANDIDATE] == 0.99375  # none of eight does: 0.05 / 8


def test_a_copy_of_the_baseline_is_corrected_alone_however_many_candidates_there_are(bench: Any) -> None:
    with_nulls(bench, 1.0)
    levels = {
        c.candidate.label: c.confidence for c in bench.analysis().comparisons if c.metric.quantity is Quantity.TIME
    }
    assert levels[CANDIDATE] == 0.95  # all six differ
    assert round(levels[AGAIN], 6) == round(levels[RELINKED], 6) == 0.991667  # none of the copy's own six does


def test_the_indices_of_several_candidates_are_corrected_for_their_number(bench: Any) -> None:
    bench.levels = ("glibc", "musl", "other")
    random = np.random.default_rng(8)
    bench.workload("w", "wall")
    for block in range(1, 21):
        for variant in (BASE, CANDIDATE, "libc=other"):
            bench.run("w", variant, block, wall=float(100 * np.exp(random.normal(0, 0.02))))
    assert [round(index.confidence, 6) for index in bench.analysis().indices] == [0.975, 0.975]  # 0.05 / 2


def test_the_index_is_the_geometric_mean_over_workloads(bench: Any) -> None:
    for name, ratio in (("a", 2.0), ("b", 0.5), ("c", 1.331)):
        bench.noisy(name, ratio, 20, seed=len(name))
    (index,) = bench.analysis().indices
    assert (index.metric, index.workloads, index.blocks, index.confidence) == ("wall", 3, 20, 0.95)
    assert index.effect == pytest.approx(1.1, rel=0.01)
    assert index.low < index.effect < index.high


def test_the_index_uses_the_blocks_that_all_workloads_have(bench: Any) -> None:
    bench.noisy("short", 1.0, 8)
    bench.noisy("long", 1.0, 20, seed=1)
    (index,) = bench.analysis().indices
    assert (index.workloads, index.blocks) == (2, 8)
    bench.workload("never ran", "wall")
    assert bench.analysis().indices == (index,)


def test_an_index_without_enough_blocks_has_no_interval(bench: Any) -> None:
    bench.noisy("w", 1.0, 4)
    (index,) = bench.analysis().indices
    assert (index.low, index.high) == (None, None)


def with_nulls(bench: Any, again: float, workloads: int = 3) -> None:
    bench.null = True
    for number in range(workloads):
        name, random = f"w{number}", np.random.default_rng(number)
        bench.workload(name, "wall", "cpu", "res")
        for block in range(1, 21):
            for variant, ratio in ((BASE, 1.0), (AGAIN, again), (RELINKED, 1.0), (CANDIDATE, 1.5)):
                a, b = 1000 * ratio * np.exp(random.normal(0, 0.01, 2))
                bench.run(name, variant, block, wall=a, cpu=b, res=4096.0 * ratio)


def test_honest_nulls_are_counted_and_raise_no_alarm(bench: Any) -> None:
    with_nulls(bench, 1.0)
    found = bench.analysis()
    assert [(null.copy.label, null.compared, null.different) for null in found.nulls] == [
        (AGAIN, 9, 0),
        (RELINKED, 9, 0),
    ]
    assert CaveatKind.NULL_DIFFERS not in kinds(bench)
    (index,) = found.nulls[0].index
    assert (index.metric, index.candidate.label) == ("wall", AGAIN)
    assert {index.candidate.label for index in found.indices} == {CANDIDATE}


def test_nulls_that_differ_are_named_and_raise_the_alarm(bench: Any) -> None:
    with_nulls(bench, 1.1)
    again, relinked = bench.analysis().nulls
    assert (again.different, relinked.different) == (9, 0)
    assert again.rows[:2] == ("w0 wall", "w0 cpu")
    assert CaveatKind.NULL_DIFFERS in kinds(bench)


def test_a_quiet_machine(bench: Any) -> None:
    bench.facts = QUIET
    bench.workload("w", "wall", "cpu")
    bench.noisy("w", 1.0, 20)
    noise = bench.analysis().noise
    assert (noise.cpu_pressure_percent, noise.steal_percent, noise.load1, noise.busy) == (1.0, 0.0, 0.3, False)
    assert bench.row("w", "wall").preferred and not bench.row("w", "cpu").preferred
    assert not kinds(bench) & {CaveatKind.BUSY_MACHINE, CaveatKind.STOLEN_TIME}


def test_a_busy_machine_leads_with_cpu_time_where_the_work_does_not_wait(bench: Any) -> None:
    bench.facts = BUSY
    bench.workload("w", "wall", "cpu")
    bench.workload("waits", "wall", "cpu", waits=True)
    bench.noisy("w", 1.0, 20)
    bench.noisy("waits", 1.0, 20)
    noise = bench.analysis().noise
    assert (noise.cpu_pressure_percent, noise.steal_percent, noise.busy) == (60.0, 5.0, True)
    assert bench.row("w", "cpu").preferred and not bench.row("w", "wall").preferred
    assert bench.row("waits", "wall").preferred
    assert kinds(bench) >= {CaveatKind.BUSY_MACHINE, CaveatKind.STOLEN_TIME}


def test_threads_that_wait_for_each_other_do_not_make_the_machine_busy(bench: Any) -> None:
    bench.workload("threads", "wall", cpus=Cpus.ALL)
    bench.facts = BUSY
    bench.noisy("threads", 1.0, 20)
    assert bench.analysis().noise.busy  # nothing else to go by
    bench.facts = QUIET
    bench.noisy("w", 1.0, 8)
    assert bench.analysis().noise.cpu_pressure_percent == 1.0


def test_a_busy_load_prefers_cpu_time_under_that_load_only(bench: Any) -> None:
    bench.loads = ("idle", "cpu")
    bench.workload("w", "wall", "cpu")
    for load, facts in (("idle", QUIET), ("cpu", BUSY)):
        bench.facts = facts
        for variant in (BASE, CANDIDATE):
            for block in range(1, 9):
                bench.run("w", variant, block, load=load, wall=100.0 + block, cpu=100.0 - block)
    found = bench.analysis()
    assert not found.noise.busy
    assert [(c.load, c.metric.name) for c in found.comparisons if c.preferred] == [("idle", "wall"), ("cpu", "cpu")]


def test_dependent_pairs_are_noticed(bench: Any) -> None:
    random, drift = np.random.default_rng(3), [0.0]
    for _ in range(59):
        drift.append(0.95 * drift[-1] + random.normal(0, 0.01))
    bench.pairs("w", "wall", [1000.0] * 60, list(1000 * np.exp(drift)))
    assert CaveatKind.DEPENDENT_RUNS in kinds(bench)


def test_only_rows_of_times_with_inference_are_tested_for_dependence(bench: Any) -> None:
    random, drift = np.random.default_rng(3), [0.0]
    for _ in range(59):
        drift.append(0.95 * drift[-1] + random.normal(0, 0.01))
    bench.pairs("w", "wall", [1000.0] * 60, list(1000 * np.exp(drift)))
    bench.pairs("constant", "wall", [1000.0] * 60, [1001.0] * 60)
    bench.pairs("memory", "res", [1000.0] * 60, list(1000 * np.exp(drift)))
    (caveat,) = [each for each in bench.analysis().caveats if each.kind is CaveatKind.DEPENDENT_RUNS]
    assert "correlated in 1 of 1 rows of times (w wall): " in caveat.message


def test_a_drift_that_both_sides_share_is_no_dependence(bench: Any) -> None:
    drift = np.linspace(1000, 2000, 60)
    noise = np.exp(np.random.default_rng(4).normal(0, 0.01, (2, 60)))
    bench.pairs("w", "wall", list(drift * noise[0]), list(drift * noise[1]))
    assert CaveatKind.DEPENDENT_RUNS not in kinds(bench)


def test_caveats_of_the_record_come_first(bench: Any) -> None:
    from swapstone.core.comparison.analyse_runs import analyse
    from swapstone.core.model import Caveat
    from swapstone.core.plan import variants

    known = Caveat(kind=CaveatKind.RESUMED, message="It was resumed.")
    bench.noisy("w", 1.0, 3)
    found = analyse(bench.experiment, variants(bench.experiment), bench.workloads, bench.runs, (known,))
    assert [c.kind for c in found.caveats] == [CaveatKind.RESUMED, CaveatKind.FEW_BLOCKS]


def test_failures_are_listed_with_their_reasons(bench: Any) -> None:
    from swapstone.core.model import Status

    bench.noisy("w", 1.0, 10)
    bench.runs[4] = msgspec.structs.replace(bench.runs[4], status=Status.FAILED, reason="crashed", samples=())
    found = bench.analysis()
    (failure,) = found.failures
    assert (failure.key, failure.status, failure.reason) == (bench.runs[4].trial.key, "failed", "crashed")
    assert (found.runs, found.blocks) == (22, 9)


def precision_of(bench: Any, name: str = "w") -> Any:
    return bench.precision()["s", name, "idle"]


def test_precision_is_that_of_the_interval_the_analysis_would_give(bench: Any) -> None:
    bench.workload("w", "wall", "cpu")
    bench.noisy("w", 1.0, 15, name="cpu")
    bench.noisy("v", 1.3, 15, name="cpu", seed=4)
    row, found = bench.row("w", "cpu"), precision_of(bench)
    assert found.pairs == 15
    assert found.half_width == pytest.approx((row.high / row.low) ** 0.5 - 1)


def test_precision_is_that_of_the_deciding_metric(bench: Any) -> None:
    bench.workload("w", "wall", "cpu")
    bench.noisy("w", 1.0, 15, name="wall", spread=0.5)
    runs = list(bench.runs)
    bench.runs = []
    bench.noisy("w", 1.0, 15, name="cpu", spread=0.001)
    bench.runs = [
        msgspec.structs.replace(a, samples=a.samples + b.samples) for a, b in zip(runs, bench.runs, strict=True)
    ]
    assert precision_of(bench).half_width < 0.01  # cpu leads
    wall, cpu = bench.workloads["w"].metrics
    swapped = msgspec.structs.replace(wall, leads=True), msgspec.structs.replace(cpu, leads=False)
    bench.workloads["w"] = msgspec.structs.replace(bench.workloads["w"], metrics=swapped, waits=True)
    assert precision_of(bench).half_width > 0.1


def test_precision_before_and_beyond_hope(bench: Any) -> None:
    from swapstone.core.model import Status

    bench.workload("w", "cpu")
    assert (precision_of(bench).pairs, precision_of(bench).half_width, precision_of(bench).lost) == (0, None, "")
    bench.noisy("w", 1.0, 5, name="cpu")
    assert (precision_of(bench).pairs, precision_of(bench).half_width, precision_of(bench).lost) == (5, None, "")
    bench.run("w", CANDIDATE, 6, Status.REFUSED)
    assert precision_of(bench).lost == "candidate refused in 1 of 7 runs: reason refused"
    bench.workload("memory only", "res")
    assert precision_of(bench, "memory only").lost == "none of its metrics decides"


def test_loads_are_corrected_apart(bench: Any) -> None:
    bench.loads = ("idle", "cpu")
    for number in range(4):
        bench.workload(f"w{number}", "wall")
        random = np.random.default_rng(number)
        for block in range(1, 21):
            for load, ratio in (("idle", 2.0), ("cpu", 1.0)):
                a, b = 100 * np.exp(random.normal(0, 0.02, 2))
                bench.run(f"w{number}", BASE, block, load=load, wall=a)
                bench.run(f"w{number}", CANDIDATE, block, load=load, wall=b * ratio)
    levels = {c.load: round(c.confidence, 6) for c in bench.analysis().comparisons}
    assert levels == {"idle": 0.95, "cpu": 0.9875}


def spread_over_candidates(bench: Any, *spreads: float, null: bool = False, blocks: tuple[int, ...] = (15, 15)) -> Any:
    """Lay out one workload with a candidate (or a null copy) per spread, and return its precision."""
    bench.workload("w", "cpu")
    bench.null = null
    labels = (CANDIDATE, AGAIN) if null else (CANDIDATE, "libc=other")
    bench.levels = ("glibc", "musl") if null else ("glibc", "musl", "other")
    random = np.random.default_rng(2)
    for block in range(1, 16):
        bench.run("w", BASE, block, cpu=1000.0)
        for label, spread, most in zip(labels, spreads, blocks, strict=True):
            if block <= most:
                bench.run("w", label, block, cpu=float(1000 * np.exp(random.normal(0, spread))))
    return precision_of(bench)


def test_the_least_precise_candidate_decides(bench: Any) -> None:
    found = spread_over_candidates(bench, 0.001, 0.2)
    assert found.half_width > 0.05


def test_the_nulls_do_not_decide(bench: Any) -> None:
    found = spread_over_candidates(bench, 0.001, 0.2, null=True)
    assert found.half_width < 0.005


def test_a_candidate_without_an_interval_keeps_its_workload_open(bench: Any) -> None:
    found = spread_over_candidates(bench, 0.001, 0.001, blocks=(15, 4))
    assert (found.half_width, found.pairs, found.lost) == (None, 4, "")


@pytest.mark.parametrize(
    ("facts", "waits", "widest"), [(QUIET, False, True), (BUSY, False, False), (QUIET, True, True), (BUSY, True, True)]
)
def test_if_both_times_lead_a_busy_machine_uses_cpu_time_and_waiting_work_wall_time(
    bench: Any, facts: Any, waits: bool, widest: bool
) -> None:
    """Wall time is the noisy metric here, so the width shows whether it was used."""
    bench.facts = facts
    bench.workload("w", "wall", "cpu", waits=waits)
    wall, cpu = bench.workloads["w"].metrics
    both = (msgspec.structs.replace(wall, leads=True), cpu)
    bench.workloads["w"] = msgspec.structs.replace(bench.workloads["w"], metrics=both)
    random = np.random.default_rng(5)
    for block in range(1, 16):
        for variant in (BASE, CANDIDATE):
            loud, still = 1000 * np.exp(random.normal(0, (0.2, 0.001)))
            bench.run("w", variant, block, wall=float(loud), cpu=float(still))
    assert (precision_of(bench).half_width > 0.05) == widest


def test_cpu_time_never_decides_for_waiting_work(bench: Any) -> None:
    bench.workload("w", "wall", "cpu", waits=True)
    wall, cpu = bench.workloads["w"].metrics
    both = (msgspec.structs.replace(wall, leads=True), cpu)
    bench.workloads["w"] = msgspec.structs.replace(bench.workloads["w"], metrics=both)
    random = np.random.default_rng(5)
    for block in range(1, 16):
        for variant in (BASE, CANDIDATE):
            still, loud = 1000 * np.exp(random.normal(0, (0.001, 0.2)))
            bench.run("w", variant, block, wall=float(still), cpu=float(loud))
    assert precision_of(bench).half_width < 0.005
