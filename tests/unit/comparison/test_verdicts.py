# SPDX-License-Identifier: MIT OR Apache-2.0
"""The verdict of one comparison, and its absence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swapstone.core.model import Analysis, Direction, Scale, Status, Verdict
from swapstone.core.stats import Interval

BASE, CANDIDATE, AGAIN, RELINKED = "libc=glibc", "libc=musl", "libc=glibc (again)", "libc=glibc (relinked)"
SAYING_DIFFERENT = {Verdict.BETTER, Verdict.WORSE, Verdict.CHANGED}


@pytest.mark.parametrize(
    ("low", "high", "better", "verdict"),
    [
        (0.03, 0.05, Direction.LOWER, Verdict.WORSE),
        (0.03, 0.05, Direction.HIGHER, Verdict.BETTER),
        (0.03, 0.05, Direction.NEITHER, Verdict.CHANGED),
        (-0.05, -0.03, Direction.LOWER, Verdict.BETTER),
        (-0.05, -0.03, Direction.HIGHER, Verdict.WORSE),
        (0.01, 0.05, Direction.LOWER, Verdict.WORSE),  # excludes 0, reaches beyond the margin
        (0.01, 0.02, Direction.LOWER, Verdict.EQUIVALENT),  # real, and of no interest
        (-0.02, 0.02, Direction.LOWER, Verdict.EQUIVALENT),
        (-0.02, 0.0201, Direction.LOWER, Verdict.INCONCLUSIVE),
        (0.0, 0.05, Direction.LOWER, Verdict.INCONCLUSIVE),  # the ends belong to the interval
    ],
)
def test_an_interval_and_a_limit_make_a_verdict(low: float, high: float, better: Direction, verdict: Verdict) -> None:
    from swapstone.core.comparison.verdicts import verdict_of

    assert verdict_of(Interval(low, high), 0.02, better) is verdict


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(1.10, Verdict.WORSE), (0.90, Verdict.BETTER), (1.0, Verdict.EQUIVALENT)]
)
def test_a_known_ratio_is_found_under_a_drift_far_larger(bench: Any, ratio: float, verdict: Verdict) -> None:
    bench.noisy("w", ratio, 40)
    found = bench.row("w", "wall")
    assert found.verdict is verdict
    assert found.effect == pytest.approx(ratio, rel=0.01)
    assert found.low < ratio < found.high
    assert found.scale is Scale.RATIO and not found.exact


def test_the_margin_is_symmetric_in_ratio(bench: Any) -> None:
    """1 / 1.02 is as far from 1 as 1.02 is, so both are within a margin of 2 per cent."""
    n = 20
    for name, ratio in (("up", 1.0199), ("down", 1 / 1.0199), ("above", 1.0201), ("below", 1 / 1.0201)):
        before = np.linspace(1000, 2000, n)
        bench.pairs(name, "wall", before, before * ratio)
    verdicts = {c.workload: c.verdict for c in bench.analysis().comparisons}
    assert verdicts == {
        "up": Verdict.EQUIVALENT,
        "down": Verdict.EQUIVALENT,
        "above": Verdict.WORSE,
        "below": Verdict.BETTER,
    }


def test_the_warm_up_is_excluded(bench: Any, new_bench: Callable[[], Any]) -> None:
    bench.noisy("w", 1.05, 20)
    other = new_bench()
    other.noisy("w", 1.05, 20)
    other.runs = [run for run in other.runs if run.trial.block > 0]
    assert len(other.runs) == len(bench.runs) - 2
    assert other.row("w", "wall") == bench.row("w", "wall")


def test_a_run_without_its_partner_is_left_out_of_both_sides(bench: Any) -> None:
    bench.noisy("w", 1.0, 20)
    bench.runs = [run for run in bench.runs if (run.trial.variant, run.trial.block) not in {(BASE, 3), (CANDIDATE, 7)}]
    found = bench.row("w", "wall")
    assert len(found.baseline_values) == len(found.candidate_values) == 18


def test_large_noise_is_inconclusive_with_the_smallest_visible_effect(bench: Any) -> None:
    bench.noisy("w", 1.0, 20, spread=0.2, seed=5)
    found = bench.row("w", "wall")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "no difference" in found.reason
    assert 1.05 < found.smallest_visible < 1.6


def test_too_few_blocks_are_inconclusive_however_far_apart(bench: Any) -> None:
    bench.noisy("w", 3.0, 5)
    found = bench.row("w", "wall")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert (found.low, found.high, found.smallest_visible) == (None, None, None)
    assert found.reason == "few blocks: an interval at 95 % needs 6 pairs, and there are 5"
    assert found.effect == pytest.approx(3.0, rel=0.05)


def test_a_larger_family_needs_more_blocks(bench: Any) -> None:
    """6 pairs are enough for one row at 95 %; among many nulls one row's level is out of their reach."""
    for number in range(12):
        bench.noisy(f"w{number}", 1.0, 6, seed=number)
    assert {c.low for c in bench.analysis().comparisons} == {None}
    assert "needs 9 pairs" in bench.row("w0", "wall").reason


@pytest.mark.parametrize("side", [BASE, CANDIDATE])
@pytest.mark.parametrize("block", [0, 4])
def test_one_refused_run_makes_the_comparison_invalid_and_gives_no_number(bench: Any, side: str, block: int) -> None:
    bench.noisy("w", 1.2, 20)
    place = next(i for i, r in enumerate(bench.runs) if (r.trial.variant, r.trial.block) == (side, block))
    bench.runs[place] = msgspec.structs.replace(
        bench.runs[place], status=Status.REFUSED, reason="libc=glibc was in force", samples=()
    )
    found = bench.row("w", "wall")
    name = "baseline" if side == BASE else "candidate"
    assert found.verdict is Verdict.INVALID
    assert found.reason == f"{name} refused in 1 of 21 runs: libc=glibc was in force"
    assert (found.effect, found.low, found.p_value, found.baseline_values) == (None, None, None, ())


@pytest.mark.parametrize("side", [BASE, CANDIDATE])
def test_a_side_that_fails_in_most_blocks_is_invalid_and_in_few_a_caveat(bench: Any, side: str) -> None:
    bench.noisy("w", 1.2, 20)
    mine = [i for i, r in enumerate(bench.runs) if r.trial.variant == side]

    def fail(count: int) -> None:
        for i in mine[:count]:
            bench.runs[i] = msgspec.structs.replace(bench.runs[i], status=Status.FAILED, reason="crashed", samples=())

    fail(10)
    assert bench.row("w", "wall").verdict is Verdict.WORSE
    fail(11)
    found = bench.row("w", "wall")
    name = "baseline" if side == BASE else "candidate"
    assert found.verdict is Verdict.INVALID
    assert found.reason == f"{name} fails: crashed (11 of 21 runs)"
    kinds = [c.kind.value for c in bench.analysis().caveats]
    assert "failed-trials" in kinds


def test_what_a_side_can_not_do_is_unavailable(bench: Any) -> None:
    bench.workload("w", "wall")
    for variant in (BASE, CANDIDATE):
        bench.run("w", variant, 1, Status.UNAVAILABLE)
    found = bench.row("w", "wall")
    assert (found.verdict, found.reason) == (Verdict.UNAVAILABLE, "baseline: reason unavailable")


def test_no_runs_at_all_are_no_exception_and_no_number(bench: Any) -> None:
    bench.workload("w", "wall", "res")
    bench.workload("v", "wall")
    bench.run("v", BASE, 1, wall=5.0)
    found = bench.analysis()
    assert [(c.verdict, c.reason, c.effect) for c in found.comparisons] == [
        (Verdict.INCONCLUSIVE, "no complete pair of runs", None)
    ] * 3
    assert found.noise.cpu_pressure_percent is None and found.noise.load1 is None
    assert [c.kind.value for c in found.caveats] == ["few-blocks"]


def test_a_metric_that_no_run_gave_is_unavailable(bench: Any) -> None:
    bench.workload("w", "wall", "res")
    bench.noisy("w", 1.0, 15)
    found = bench.row("w", "res")
    assert (found.verdict, found.reason) == (Verdict.UNAVAILABLE, "no pair of runs gave a value of res")


def test_one_number_throughout_is_exact(bench: Any) -> None:
    bench.pairs("larger", "res", [4096] * 8, [8192] * 8)
    bench.pairs("same", "res", [4096] * 8, [4097] * 8)
    larger, same = bench.row("larger", "res"), bench.row("same", "res")
    assert (larger.effect, larger.low, larger.high, larger.exact) == (2.0, 2.0, 2.0, True)
    assert (larger.verdict, same.verdict) == (Verdict.WORSE, Verdict.EQUIVALENT)
    assert larger.p_value is None and larger.smallest_visible is None


def test_one_number_in_few_runs_is_not_exact(bench: Any) -> None:
    bench.pairs("w", "res", [4096] * 5, [8192] * 5)
    found = bench.row("w", "res")
    assert not found.exact
    assert found.verdict is Verdict.INCONCLUSIVE


def test_exact_rows_do_not_weaken_the_others(bench: Any) -> None:
    bench.noisy("w", 1.0, 15, name="res")
    alone = bench.row("w", "res").confidence
    for number in range(20):
        bench.pairs(f"exact {number}", "res", [4096] * 15, [8192] * 15)
    assert bench.row("w", "res").confidence == alone == pytest.approx(0.95)


def test_zeros_are_compared_as_differences(bench: Any) -> None:
    before, after = [0, 1, 0, 2, 1, 0, 1, 0, 2, 1] * 2, [7, 9, 8, 7, 8, 9, 7, 8, 8, 9] * 2
    bench.pairs("w", "nivcsw", before, after)
    found = bench.row("w", "nivcsw")
    assert found.scale is Scale.DIFFERENCE
    assert found.verdict is Verdict.CHANGED
    assert found.low <= found.effect <= found.high and 6 < found.effect < 9


def test_zero_on_both_sides_is_equivalent_and_zero_on_one_is_not(bench: Any) -> None:
    bench.pairs("none", "res", [0] * 10, [0] * 10)
    bench.pairs("some", "res", [0] * 10, [1] * 10)
    none, some = bench.row("none", "res"), bench.row("some", "res")
    assert (none.verdict, none.effect, none.scale) == (Verdict.EQUIVALENT, 0.0, Scale.DIFFERENCE)
    assert (some.verdict, some.effect, some.exact) == (Verdict.WORSE, 1.0, True)


def test_the_metric_defines_which_direction_is_better(bench: Any) -> None:
    bench.noisy("w", 1.2, 20, name="rate")
    assert bench.row("w", "rate").verdict is Verdict.BETTER


ratios = st.lists(st.floats(0.7, 1.4), min_size=1, max_size=6)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ratios, st.integers(4, 20), st.sampled_from([0.8, 0.95, 0.99]), st.integers(0, 999))
def test_the_table_never_contradicts_itself(
    new_bench: Callable[[], Any], effects: list[float], n: int, confidence: float, seed: int
) -> None:
    """In every family exactly the rows that the correction rejects have an interval without 1, at one common level."""
    import scipy.stats

    bench = new_bench()
    bench.confidence = confidence
    for number, ratio in enumerate(effects):
        bench.noisy(f"w{number}", ratio, n, seed=seed + number, spread=0.1)
    found = bench.analysis().comparisons
    adjusted = scipy.stats.false_discovery_control([c.p_value for c in found])
    if np.isclose(adjusted, 1 - confidence, rtol=1e-9).any():
        return  # scipy rounds the other way there
    assert len({c.confidence for c in found}) == 1
    for row, p in zip(found, adjusted, strict=True):
        excludes = row.low is not None and (row.low > 1 or row.high < 1)
        assert excludes == (p <= 1 - confidence)
        if row.verdict in SAYING_DIFFERENT:
            assert excludes
        if row.verdict is Verdict.EQUIVALENT:
            assert 1 / 1.02 * 0.999999 <= row.low <= row.high <= 1.02 * 1.000001
        if row.verdict is Verdict.INCONCLUSIVE:
            assert not excludes


def test_every_number_survives_json(bench: Any) -> None:
    bench.null = True
    bench.noisy("w", 1.0, 8)
    bench.pairs("tiny", "res", [5e-324, 1.0] * 8, [1e308, 2.0] * 8)
    bench.workload("none", "wall")
    found = bench.analysis()
    again = msgspec.json.decode(found.encoded(), type=Analysis)
    assert again == found
    numbers = [
        x for c in found.comparisons for x in (c.effect, c.low, c.high, c.p_value, c.confidence, c.smallest_visible)
    ]
    assert all(x is None or math.isfinite(x) for x in numbers)


def test_order_of_runs_changes_nothing(bench: Any) -> None:
    bench.noisy("w", 1.03, 20)
    bench.noisy("v", 1.0, 20, seed=3)
    first = bench.analysis()
    np.random.default_rng(1).shuffle(bench.runs)
    assert bench.analysis() == first


def test_the_margin_of_a_difference_is_a_share_of_the_baseline(bench: Any) -> None:
    before = [0, *range(100, 130)]
    bench.pairs("little", "nivcsw", before, [b + 1 for b in before])
    bench.pairs("much", "nivcsw", before, [b + 4 for b in before])
    little, much = bench.row("little", "nivcsw"), bench.row("much", "nivcsw")
    assert (little.scale, little.effect, little.verdict) == (Scale.DIFFERENCE, 1.0, Verdict.EQUIVALENT)
    assert (much.scale, much.effect, much.verdict) == (Scale.DIFFERENCE, 4.0, Verdict.CHANGED)
