# SPDX-License-Identifier: MIT OR Apache-2.0
"""Both sides of further limits of the analysis, and the words that exports print."""

from __future__ import annotations

import collections
import math
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from swapstone.core.comparison import carry_over, storage
from swapstone.core.comparison.analyse_runs import deciding, is_at_resolution
from swapstone.core.comparison.cells import Cell
from swapstone.core.comparison.conditions import FEWEST_RUNS, check
from swapstone.core.comparison.factor_effects import closed_share
from swapstone.core.comparison.failures import reason_of
from swapstone.core.comparison.row_judgements import Outcome, outcome_of, separation_p_value
from swapstone.core.comparison.rows import Row
from swapstone.core.comparison.run_table import EXACT, as_table, exact_sum, last_end, quotients, span_ns
from swapstone.core.comparison.side_by_side import spread
from swapstone.core.comparison.verdicts import comparison, mean_inside, verdict_of
from swapstone.core.model import (
    CURRENT_RULES,
    TAIL_RULES,
    Direction,
    FailureCounts,
    FailureRates,
    Metric,
    Presence,
    Status,
    Variant,
    Verdict,
)
from swapstone.core.stats import Interval, PredecessorTest
from tests.unit import builders
from tests.unit.comparison import crossing
from tests.unit.comparison.conftest import METRICS, Bench
from tests.unit.comparison.test_limits import row


def test_words_of_outcomes() -> None:
    assert {each.name: each.value for each in Outcome} == {
        "VERDICT": "verdict depends",
        "SIZE": "size depends",
        "OPPOSITE": "opposite signs",
        "DIFFER": "differ",
        "UNDECIDED": "undecided",
        "NOT_COMPARABLE": "not comparable",
        "AGREE": "agree",
    }


# Cells


def cell(**counts: int) -> Cell:
    kinds = {"ok": Status.OK, "failed": Status.FAILED, "refused": Status.REFUSED, "unavailable": Status.UNAVAILABLE}
    return Cell(
        counts=collections.Counter({kinds[name]: number for name, number in counts.items()}),
        reasons={status: f"why {name}" for name, status in kinds.items()},
    )


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, None),
        ({"ok": 9}, None),
        ({"ok": 9, "refused": 1}, (Verdict.INVALID, "side refused in 1 of 10 runs: why refused")),
        ({"unavailable": 1}, (Verdict.UNAVAILABLE, "side: why unavailable")),
        ({"unavailable": 1, "ok": 1}, None),
        ({"unavailable": 1, "refused": 1}, (Verdict.INVALID, "side refused in 1 of 2 runs: why refused")),
        ({"failed": 5, "ok": 5}, None),
        ({"failed": 6, "ok": 5}, (Verdict.INVALID, "side fails: why failed (6 of 11 runs)")),
        ({"failed": 1}, (Verdict.INVALID, "side fails: why failed (1 of 1 runs)")),
    ],
)
def test_a_side_that_can_not_be_compared(counts: dict[str, int], expected: tuple[Verdict, str] | None) -> None:
    assert cell(**counts).exclusion("side") == expected


# Columns


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_sums_near_the_largest_integer_are_exact(size: int) -> None:
    for each in (2**63 // size - 1, 2**63 // size if size > 1 else 2**63 - 1, -(2**63 // size) + 1):
        assert exact_sum(np.full(size, each, dtype=np.int64)) == size * each


@pytest.mark.parametrize("factor", [1, 3, 100_000])
def test_quotients_near_the_largest_exact_product(factor: int) -> None:
    for number in (EXACT // factor - 1, EXACT // factor, EXACT // factor + 1):
        for below in (3, EXACT - 1, EXACT, EXACT + 1):
            found = quotients(np.array([number, 7], dtype=np.int64), below, factor)
            assert found.tolist() == [factor * number / below, factor * 7 / below]


def test_the_span_of_runs_is_from_the_first_start_to_the_last_end() -> None:
    starts, lengths = (0, 50, 20, 30), (10**6, 5, 100, 1)
    (trial, *_) = (run.trial for run in builders.runs(builders.experiment(), 0))
    runs = [
        builders.run(trial, started_unix_ns=start, elapsed_ns=length)
        for start, length in zip(starts, lengths, strict=True)
    ]
    assert span_ns(as_table(runs)) == (20, 120)
    assert span_ns(as_table(runs[:1])) == (0, 0)
    assert span_ns(as_table(runs[3:])) == (30, 31)
    largest = np.array([2**63 - 1], dtype=np.int64)
    assert last_end(largest, largest) == 2**64 - 2


# Conditions


def slow(runs: int, *, wall_ns: int = 20_000_000_000) -> int:
    """Return the number of caveats where the last of some runs of a variant takes long."""
    bench = Bench(rules=CURRENT_RULES)
    bench.workload("w", "wall")
    for block in range(runs):
        bench.run("w", "libc=glibc", block, wall=1e8)
        last = wall_ns if block == runs - 1 else 100_000_000
        facts = (("wall_ns", last), ("user_us", 90_000), ("system_us", 0), ("run_delay_ns", 0))
        bench.runs[-1] = msgspec.structs.replace(bench.runs[-1], facts=facts)
    return len(check(bench.experiment, (), bench.workloads, as_table(bench.runs)).caveats)


def test_five_runs_have_a_median() -> None:
    assert (FEWEST_RUNS, slow(4), slow(5)) == (5, 0, 1)


def test_time_without_work_must_exceed_the_median_by_a_second() -> None:
    assert slow(9, wall_ns=1_100_000_000) == 0
    assert slow(9, wall_ns=1_100_000_001) == 1


def test_three_variants_with_other_values_are_named() -> None:
    bench = Bench(rules=CURRENT_RULES, levels=("glibc", "musl", "a", "b"))
    bench.workload("w", "wall")
    for number, level in enumerate(bench.levels):
        bench.run("w", f"libc={level}", 1, wall=1e8)
        bench.runs[-1] = msgspec.structs.replace(bench.runs[-1], facts=(("nice", number),))
    (found,) = check(bench.experiment, (), bench.workloads, as_table(bench.runs)).caveats
    assert found.message.endswith("the nice value: 0 (libc=glibc), 1 (libc=musl), 2 (libc=a).")


# Storage


def used(read: int, written: int, **run: Any) -> list[str]:
    bench = Bench(rules=CURRENT_RULES, own=True)
    bench.workload("w", "wall")
    for block in (0, 1, 2):
        for variant in ("libc=glibc", "libc=musl"):
            bench.run("w", variant, block, wall=1e8)
            facts = (("read_bytes", read), ("write_bytes", written if block else 10**9))
            bench.runs[-1] = msgspec.structs.replace(bench.runs[-1], facts=facts, **run)
    variants = tuple(Variant(levels=(("libc", level),)) for level in bench.levels)
    return [
        each.message
        for each in storage.check(bench.experiment, variants, bench.workloads, as_table(bench.runs)).caveats
    ]


def test_storage_is_named_from_64_kib_a_run() -> None:
    assert used(65535, 65535) == []
    (message,) = used(65536, 0)
    assert "on average, its variants read 0.0625 (libc=glibc), 0.0625 (libc=musl) MiB a run. What" in message
    (message,) = used(65535, 65536)
    assert "its variants write 0.0625 (libc=glibc), 0.0625 (libc=musl) MiB a run. What" in message
    (message,) = used(1 << 20, 3 << 20)
    assert "read 1 (libc=glibc), 1 (libc=musl) MiB a run and write 3 (libc=glibc), 3 (libc=musl) MiB a run." in message


def test_files_that_are_left_are_named_to_80_characters() -> None:
    (message,) = used(0, 0, found_files=("a" * 81, "..."))
    assert message.endswith(f"which later runs of all variants find: {'a' * 80!r}, ....")


# Sizes and separations


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (-0.02, 0.02, Outcome.AGREE),
        (-0.0201, 0.02, Outcome.UNDECIDED),
        (-0.02, 0.0201, Outcome.UNDECIDED),
        (0.01, 0.0201, Outcome.DIFFER),
        (-0.0201, -0.01, Outcome.DIFFER),
        (0.0, 0.0201, Outcome.UNDECIDED),
    ],
)
def test_an_interval_of_a_ratio_of_effects(low: float, high: float, outcome: Outcome) -> None:
    assert outcome_of(Interval(low, high), 0.02) is outcome


def test_samples_are_separate_beyond_the_limit() -> None:
    assert separation_p_value([1.0, 2.0], [2.5, 3.0], 0.5) == 1.0
    assert separation_p_value([1.0, 2.0], [2.5, 3.0], 0.49) == 2 / math.comb(4, 2)
    assert separation_p_value([2.5, 3.0], [1.0, 2.0, 1.5], 0.49) == 2 / math.comb(5, 2)
    assert separation_p_value([1.0], [5.0], 0.5) == 1.0
    assert separation_p_value([], [5.0], 0.5) == separation_p_value([5.0], [], 0.5) == 1.0


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.1, 0.1, Verdict.EQUIVALENT),
        (-0.11, 0.1, Verdict.INCONCLUSIVE),
        (-0.1, 0.11, Verdict.INCONCLUSIVE),
        (0.0, 0.11, Verdict.INCONCLUSIVE),
        (1e-9, 0.11, Verdict.WORSE),
        (-0.11, -1e-9, Verdict.BETTER),
        (0.05, 0.1, Verdict.EQUIVALENT),
    ],
)
def test_a_verdict_at_its_limits(low: float, high: float, verdict: Verdict) -> None:
    assert verdict_of(Interval(low, high), 0.1, Direction.LOWER) is verdict


def baseline_values(values: list[float]) -> tuple[float, ...]:
    return comparison(row(values, values), alpha=0.05, margin=0.02, preferred=True).baseline_values


def test_equal_values_are_one_object_and_zeros_keep_their_signs() -> None:
    for values in ([5.0] * 3, [0.0] * 3, [-5.0] * 3):
        found = baseline_values(values)
        assert found == tuple(values) and len({id(each) for each in found}) == 1
    assert [math.copysign(1, each) for each in baseline_values([-0.0, 0.0, -0.0])] == [-1, 1, -1]
    assert [math.copysign(1, each) for each in baseline_values([-0.0, -0.0])] == [-1, -1]
    assert baseline_values([0.0, 5.0]) == (0.0, 5.0) and baseline_values([5.0]) == (5.0,)


def test_a_mean_is_inside_the_margin_at_its_ends() -> None:
    ratios = row([1.0, 2.0], [1.0, 2.0])
    assert mean_inside(ratios, Interval(1 / 1.25, 1.25), 0.25)
    assert not mean_inside(ratios, Interval(1 / 1.25 - 1e-9, 1.25), 0.25)
    assert not mean_inside(ratios, Interval(1 / 1.25, 1.25 + 1e-9), 0.25)
    differences = row([0.0, 8.0, 8.0], [0.0, 8.0, 8.0])
    assert mean_inside(differences, Interval(-2.0, 2.0), 0.25)
    assert not mean_inside(differences, Interval(-2.001, 2.0), 0.25)
    assert not mean_inside(differences, Interval(-2.0, 2.001), 0.25)


# Precision


@pytest.mark.parametrize(
    ("width", "resolution", "rules", "at"),
    [
        (0.02, 10.0, CURRENT_RULES, False),  # it is as narrow as the margin anyway
        (0.05, 5.0, CURRENT_RULES, True),
        (0.05, 4.999, CURRENT_RULES, False),
        (0.0201, 10.0, CURRENT_RULES, True),
        (0.05, 0.0, CURRENT_RULES, False),
        (0.05, 5.0, TAIL_RULES - 1, False),
        (None, 5.0, CURRENT_RULES, False),
    ],
)
def test_a_width_at_the_resolution_of_a_tool(width: float | None, resolution: float, rules: int, at: bool) -> None:
    metric = msgspec.structs.replace(METRICS["wall"], resolution=resolution)
    for before, after in (([100.0] * 3, [200.0] * 3), ([200.0] * 3, [100.0] * 3)):
        one = row_of(before, after, metric)
        assert is_at_resolution(builders.experiment(rules=rules), one, width) == at
    difference = row_of([0.0, 100.0, 100.0], [0.0, 10.0, 10.0], metric)
    assert is_at_resolution(builders.experiment(rules=rules), difference, width) == at


def row_of(before: list[float], after: list[float], metric: Metric) -> Row:
    return msgspec.structs.replace(row(before, after), metric=metric)


def test_which_rows_decide() -> None:
    def chosen(names: str, *, waits: bool = False, busy: bool = False) -> list[str]:
        bench = Bench()
        bench.workload("w", *names.split(), waits=waits)
        rows = []
        for name in names.split():
            metric = msgspec.structs.replace(METRICS[name], leads=True)
            rows.append(msgspec.structs.replace(row_of([1.0], [2.0], metric), workload=bench.workloads["w"]))
        return [each.metric.name for each in deciding(rows, busy)]

    assert chosen("wall cpu res") == ["wall", "cpu", "res"]
    assert chosen("wall cpu res", busy=True) == ["cpu", "res"]
    assert chosen("wall cpu res", waits=True) == ["wall", "res"]
    assert chosen("wall cpu res", waits=True, busy=True) == ["wall", "res"]
    assert chosen("wall", busy=True) == ["wall"]
    assert chosen("cpu", waits=True) == ["cpu"]
    assert deciding([row_of([1.0], [2.0], METRICS["wall"])], False) == []


# Effects and failures


def test_the_share_of_a_gap_that_is_closed() -> None:
    bench = Bench()
    bench.noisy("w", 1.5, 12)
    gap: Any = bench.analysis().comparisons[0]
    assert gap.verdict is Verdict.WORSE
    assert closed_share(Presence.PRESENT, gap, 0.4, 0.1) == pytest.approx(0.75)
    assert closed_share(Presence.PRESENT, gap, 0.4, 0.0) == 1.0
    assert closed_share(Presence.ABSENT, gap, 0.4, 0.1) is None
    assert closed_share(Presence.PRESENT, None, 0.4, 0.1) is None
    assert closed_share(Presence.PRESENT, gap, 0.0, 0.1) is closed_share(Presence.PRESENT, gap, None, 0.1) is None
    assert closed_share(Presence.PRESENT, gap, 0.4, None) is None
    same = msgspec.structs.replace(gap, verdict=Verdict.EQUIVALENT)
    assert closed_share(Presence.PRESENT, same, 0.4, 0.1) is None


def test_rates_in_words() -> None:
    counts = FailureCounts(
        runs=60, failed=2, timed_out=0, crashed=0, others=2, refused=0, share=2 / 60, low=0.009, high=0.11
    )
    rates = FailureRates(
        suite="s",
        workload="w",
        load="idle",
        baseline=builders.variant("libc=glibc"),
        candidate=builders.variant("libc=musl"),
        baseline_runs=counts,
        candidate_runs=counts,
        confidence=0.95,
        discordant=0,
        p_value=1.0,
        fails_more="",
    )
    for side, other in (("baseline", "candidate"), ("candidate", "baseline")):
        text = reason_of(msgspec.structs.replace(rates, unfit=(side,)))
        assert text.startswith(f"{side} fails in 2 of 60 runs, 3.3 % (0.9")
        assert f"11 %), and {other} in 2 of 60, 3.3 % (0.9" in text


def test_the_spread_of_a_record_is_that_of_the_side_with_the_largest_range() -> None:
    bench = Bench()
    bench.pairs("w", "wall", [100.0, 100.0], [200.0, 300.0])
    bench.pairs("v", "wall", [100.0, 170.0], [200.0, 200.0])
    bench.pairs("u", "wall", [5.0, 5.0], [7.0, 7.0])
    found = spread(bench.analysis().comparisons)
    assert (found.rows, found.exact, found.where) == (3, 1, "v libc=glibc")
    assert found.largest == pytest.approx(0.7)
    bench.pairs("t", "res", [0.0, 1.0], [1.0, 1.0])
    found = spread(bench.analysis().comparisons)
    assert (found.rows, found.largest, found.where) == (4, None, "")


# Carry-over by discarded runs


def step_of(known: int, *, follows: bool, blocks: int = 12) -> carry_over.Evidence | None:
    """Return the test of discarded runs: of the baseline they are known in some blocks, in which they followed another variant or not."""
    order = np.tile([0, 1], (blocks, 1))
    previous = np.tile([1, 0], (blocks, 1))
    earlier = np.tile(np.linspace(1.0, 2.0, blocks)[:, None] ** 2, (1, 2)) + np.array([0.0, 0.5])
    earlier[known:, 0] = np.nan
    if not follows:
        previous[:known, 0] = 0
    measured = np.tile(np.linspace(1.0, 2.0, blocks)[:, None], (1, 2))
    group: Any = SimpleNamespace(
        labels=("libc=glibc", "libc=musl"),
        runs=SimpleNamespace(order=order, previous=previous, test=lambda *_: None),
        logarithms=lambda _, discarded: earlier if discarded else measured,
        discarded=1,
    )
    found = carry_over.tests_of(group, row([1.0], [2.0]))
    assert found is None or (found.discarded, found.remaining) == (1, (found.first,))
    return None if found is None else found.first


def test_discarded_runs_must_follow_another_variant_in_six_blocks() -> None:
    found = step_of(6, follows=True)
    assert found is not None and found.bias == pytest.approx(0.5)
    assert found.means[0] == found.means[2] == pytest.approx(1.5)
    known = np.linspace(1.0, 2.0, 12)
    assert found.means[1] - found.means[0] == pytest.approx(float((known**2 - known)[:6].mean()))
    assert found.means[3] - found.means[2] == pytest.approx(float((known**2 - known).mean()) + 0.5)
    assert step_of(5, follows=True) is None
    assert step_of(6, follows=False) is None, "no known one followed another variant"
    half = step_of(6, follows=True, blocks=6)
    assert half is not None and half.half_width == math.inf  # six pairs have no interval at 99 %
    assert step_of(12, follows=True).half_width == 0.0  # type: ignore[union-attr] # it is not None


def test_the_half_width_of_a_bias_by_predecessors_is_that_of_99_percent_of_the_normal_distribution() -> None:
    result = PredecessorTest(0.01, 0.5, 0.2, (1.0, 2.0, 3.0, 4.0), 0.75)
    group: Any = SimpleNamespace(
        labels=("libc=glibc", "libc=musl"),
        logarithms=lambda *_: None,
        runs=SimpleNamespace(test=lambda *_: result),
        discarded=0,
    )
    tested = carry_over.tests_of(group, row([1.0], [2.0]))
    assert tested is not None and tested.remaining == (tested.first,)
    found = tested.first
    assert (found.p_value, found.bias, found.means) == (0.01, 0.5 * 0.75, (1.0, 2.0, 3.0, 4.0))
    assert found.half_width == pytest.approx(NormalDist().inv_cdf(0.995) * 0.2 * 0.75, rel=1e-4)


def test_the_figures_of_carry_over() -> None:
    assert (carry_over.FAMILY_RATE, carry_over.FEWEST_BLOCKS, carry_over.NEGLIGIBLE) == (0.005, 6, 0.1)
    assert carry_over.MORE == {0: 1, 1: 2, 2: 4}
    evidence = carry_over.Evidence(0.5, 0.0, 0.0, (700.0, 701.0, 0.5, 0.0))
    one = carry_over.Tested(row([1.0], [2.0]), 0, evidence, (evidence,))
    (found,) = carry_over.findings(builders.experiment(), [one], 2).carry_overs.values()
    assert found.baseline_after_itself == found.baseline_after_other == math.exp(700.0)
    assert found.candidate_after_itself == math.exp(0.5)


@pytest.mark.parametrize(("rules", "means"), [(CURRENT_RULES, True), (TAIL_RULES - 1, False), (1, False)])
def test_means_are_of_the_current_rules(rules: int, *, means: bool) -> None:
    values = np.linspace(1.0, 2.0, 20)
    found = comparison(row(values, 1.5 * values, rules=rules), alpha=0.05, margin=0.02, preferred=True)
    assert (found.mean_effect is not None, found.baseline_runs is not None) == (means, means)
    for changes in ({"means": None}, {"exclusion": (Verdict.INVALID, "why")}):
        left = comparison(row(values, values, **changes), alpha=0.05, margin=0.02, preferred=True)
        assert left.mean_effect is None and left.baseline_runs is None


@pytest.mark.parametrize(("glibc", "musl", "exact"), [(False, False, True), (True, False, False), (False, True, False)])
def test_an_effect_is_exact_if_each_variant_is_constant(glibc: bool, musl: bool, exact: bool) -> None:
    def value(_: str, levels: Any, block: int) -> float:
        varies = musl if levels["libc"] == "musl" else glibc
        return (150.0 if levels["libc"] == "musl" else 100.0) + varies * block

    found = crossing.main_effect(crossing.analysed(value), "libc=musl")
    assert found.exact == exact


def test_with_layouts_and_without_runs_there_is_no_pair() -> None:
    bench = Bench(layouts=2, rules=CURRENT_RULES)
    bench.workload("w", "wall")
    bench.run("w", "libc=glibc", 1, wall=5.0)
    (found,) = bench.analysis().comparisons
    assert (found.verdict, found.baseline_values, found.reason) == (
        Verdict.INCONCLUSIVE,
        (),
        "no complete pair of runs",
    )


@pytest.mark.parametrize("missing", [None, 1, 2])
def test_both_tests_of_discarded_runs_are_needed(missing: int | None) -> None:
    """The first of two discarded runs shows whether a run depends on another variant, the second whether that lasts."""
    order = np.tile([0, 1], (12, 1))
    values = np.tile(np.linspace(1.0, 2.0, 12)[:, None], (1, 2))
    discarded = {0: values, 1: values + np.array([0.0, 0.25]), 2: values + np.array([0.0, 0.5])}
    if missing is not None:
        discarded[3 - missing] = np.full(values.shape, math.nan)
    group: Any = SimpleNamespace(
        labels=("libc=glibc", "libc=musl"),
        runs=SimpleNamespace(order=order, previous=1 - order, test=lambda *_: None),
        logarithms=lambda _, before: discarded[before],
        discarded=2,
    )
    found = carry_over.tests_of(group, row([1.0], [2.0]))
    assert (found is None) == (missing is not None)
    if found is not None:
        assert found.discarded == 2 and found.first.bias == pytest.approx(0.5)
        assert [each.bias for each in found.remaining] == [pytest.approx(0.25)]
    group.labels = ("libc=glibc", "libc=other")
    assert carry_over.tests_of(group, row([1.0], [2.0])) is None
