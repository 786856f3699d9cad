# SPDX-License-Identifier: MIT OR Apache-2.0
"""Verdicts by the current rules: medians, means, tails, and what the runs could have shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from swapstone.core import plan
from swapstone.core.comparison.means import rarest_mode, runs_needed, summary
from swapstone.core.comparison.verdicts import SEPARATION
from swapstone.core.model import (
    CURRENT_RULES,
    DIRECTION_RULES,
    EQUAL_EXTRA_RULES,
    REPORT_CORRECTION,
    TAIL_RULES,
    VIRTUAL_CLOCK,
    Comparison,
    FactorLevels,
    Scale,
    Verdict,
)
from swapstone.core.stats import sign_flip_p_value
from tests.unit.comparison.conftest import BASE, CANDIDATE, Bench
from tests.unit.comparison.crossing import analysed


def current(**changes: Any) -> Bench:
    return Bench(**{"rules": CURRENT_RULES, "correction": REPORT_CORRECTION, "confidence": 0.99, **changes})


def judged(
    before: Any, after: Any, name: str = "wall", *, own: bool = False, run_s: float = 0.1, clock: str = "wall"
) -> Comparison:
    """Judge a row; on the virtual clock by the last rules that judged replicates as a sample."""
    bench = current(own=own, run_s=run_s, clock=clock, rules=CURRENT_RULES if clock == "wall" else EQUAL_EXTRA_RULES)
    bench.pairs("w", name, list(before), list(after))
    return bench.row("w", name)


def noise(n: int, seed: int = 0, spread: float = 0.005) -> Any:
    return 1000 * np.exp(np.random.default_rng(seed).normal(0, spread, (2, n)))


def slow_mode(n: int, slow: int, times: float, seed: int = 0) -> Any:
    """Return both sides; the candidate is slow in so many runs."""
    before, after = noise(n, seed)
    after[np.linspace(0, n - 1, slow).round().astype(int)] *= times
    return before, after


def test_equal_sides_are_equivalent_with_enough_runs() -> None:
    found = judged(*noise(90))
    assert (found.verdict, found.reason) == (Verdict.EQUIVALENT, "")
    assert found.mean_effect == pytest.approx(1, abs=0.003)
    assert found.mean_low is not None and found.mean_high is not None and found.mean_low < 1 < found.mean_high
    assert found.rarest_mode == pytest.approx(0.0499, abs=1e-4)
    assert found.tail_p_value is not None and found.tail_p_value > 0.01
    assert found.observed_s == pytest.approx(18, abs=0.5)


def test_with_fewer_runs_the_median_alone_is_the_same() -> None:
    found = judged(*noise(89))
    assert found.verdict is Verdict.SAME_MEDIAN
    assert found.reason == "same median; 89 runs would miss a slow mode of up to 5 % of the runs: 90 are needed"
    few = judged(*noise(15))
    assert few.verdict is Verdict.SAME_MEDIAN
    assert few.reason == "same median; 15 runs would miss a slow mode of up to 26 % of the runs: 90 are needed"


def test_the_number_of_runs_needed_follows_from_the_rarest_mode() -> None:
    assert runs_needed() == 90
    assert 1 - (1 - rarest_mode(15)) ** 15 == pytest.approx(0.99)


def test_an_own_program_must_have_been_observed_for_10_s() -> None:
    short, unknown, long = (judged(*noise(90), own=True, run_s=s) for s in (0.01, 0.0, 0.06))
    assert (short.verdict, unknown.verdict, long.verdict) == (
        Verdict.SAME_MEDIAN,
        Verdict.SAME_MEDIAN,
        Verdict.EQUIVALENT,
    )
    assert short.reason == "same median; the runs span 1.8 s: 10 s are needed"
    assert short.observed_s is not None
    almost = judged(*noise(90), own=True, run_s=0.01 * 9.97 / short.observed_s)
    assert almost.reason == "same median; the runs span 9.9 s: 10 s are needed"
    assert (
        unknown.reason == "same median; the runs span an unknown time: 10 s are needed" and unknown.observed_s is None
    )
    assert judged(*noise(90), run_s=0.01).verdict is Verdict.EQUIVALENT  # not an own program


def test_a_rare_slow_mode_is_never_equivalent() -> None:
    found = judged(*slow_mode(90, 1, 10.0))
    assert found.verdict is Verdict.SAME_MEDIAN
    assert found.reason.startswith(
        "same median; the mean is 1.099 times the baseline's (0.8"
    ) and found.reason.endswith("), which reaches beyond the margin")


def test_enough_slow_runs_are_a_worse_tail_and_their_inverse_a_better_one() -> None:
    before, after = slow_mode(90, 14, 10.0)
    worse, better = judged(before, after), judged(after, before)
    assert (worse.verdict, better.verdict) == (Verdict.WORSE_TAIL, Verdict.BETTER_TAIL)
    assert worse.reason.startswith("the same median, and the mean is 2.397 times the baseline's (1.")
    assert worse.tail_p_value == better.tail_p_value == pytest.approx(2.0**-13, rel=0.05)
    assert worse.candidate_runs is not None and worse.baseline_runs is not None
    assert worse.candidate_runs.maximum > 9000 > worse.baseline_runs.maximum


def test_a_higher_mean_is_a_better_tail_of_a_rate() -> None:
    before, after = slow_mode(90, 14, 10.0)
    assert judged(before, after, "rate").verdict is Verdict.BETTER_TAIL
    assert judged(after, before, "rate").verdict is Verdict.WORSE_TAIL


def test_an_undecided_median_with_a_worse_tail() -> None:
    before, after = slow_mode(60, 11, 10.0)
    random = np.random.default_rng(8)
    found = judged(before * np.exp(random.normal(0, 0.15, 60)), after * np.exp(random.normal(0, 0.15, 60)))
    assert found.low is not None and found.high is not None and found.low < 1 < found.high
    assert found.verdict is Verdict.WORSE_TAIL
    assert found.reason.startswith("the median is undecided, and the mean is")


def test_a_better_median_with_a_worse_mean_is_mixed() -> None:
    before, after = slow_mode(90, 16, 10.0)
    found = judged(before, 0.9 * after)
    assert found.verdict is Verdict.MIXED
    assert found.reason.startswith("the median is better, and the mean is 2.") and found.high is not None
    assert found.high < 1
    weaker = judged(*(side[:90] for side in (before, 0.9 * slow_mode(90, 6, 10.0)[1])))
    assert weaker.tail_p_value is not None and 0.001 < weaker.tail_p_value < 0.05
    assert weaker.verdict is Verdict.MIXED, "a mean that only probably is the opposite"
    same_direction = judged(before, 1.1 * after)
    assert same_direction.verdict is Verdict.WORSE and same_direction.reason == ""


@pytest.mark.parametrize("seed", range(6))
def test_a_small_shift_of_all_runs_is_no_tail(seed: int) -> None:
    """1 % slower throughout, with little noise: the means differ exactly as the medians do."""
    before, after = noise(90, seed, spread=0.0005)
    found = judged(before, 1.01 * after)
    assert found.verdict is Verdict.EQUIVALENT
    assert sign_flip_p_value(1.01 * after - before) < 1e-9
    assert found.tail_p_value is not None and found.tail_p_value > 0.2


def test_a_tail_must_make_the_mean_worse_not_only_less_good() -> None:
    """The median is 10 % better and the mean 1 % worse: relative to the median the tail is long, but the means hardly differ."""
    before, after = slow_mode(90, 14, 1.8)
    found = judged(before, 0.9 * after)
    assert found.mean_effect == pytest.approx(1.012, abs=0.005)
    assert found.tail_p_value is not None and found.tail_p_value > 0.2
    assert found.verdict is Verdict.BETTER


def test_slow_runs_on_both_sides_are_no_tail() -> None:
    before, after = slow_mode(90, 9, 10.0)
    before[::10] *= 10
    found = judged(before, after)
    assert found.tail_p_value is not None and found.tail_p_value > 0.1
    assert found.verdict is Verdict.SAME_MEDIAN and "reaches beyond the margin" in found.reason


def test_a_metric_without_a_better_direction_has_no_tail_verdict() -> None:
    before, after = slow_mode(90, 14, 10.0)
    found = judged(before, after, "nivcsw")
    assert (found.verdict, found.tail_p_value) == (Verdict.SAME_MEDIAN, None)
    assert "reaches beyond the margin" in found.reason


def test_differences_are_judged_by_the_difference_of_means() -> None:
    base = np.tile([0.0, 100.0, 200.0], 30)
    same = judged(base, np.roll(base, 3), "res")
    assert same.scale is Scale.DIFFERENCE and same.mean_effect == 0.0
    after = base.copy()
    after[:14] += 5000
    worse = judged(base, after, "res")
    assert worse.scale is Scale.DIFFERENCE
    assert worse.mean_effect == pytest.approx(5000 * 14 / 90)
    assert worse.verdict is Verdict.WORSE_TAIL
    assert "the mean differs by 777.8" in worse.reason


def test_exact_rows_need_as_many_runs_and_sizes_need_none() -> None:
    assert judged([4096] * 15, [4096] * 15, "res").verdict is Verdict.SAME_MEDIAN
    exact = judged([4096] * 90, [4097] * 90, "res")
    assert exact.exact and exact.verdict is Verdict.EQUIVALENT
    assert (exact.mean_effect, exact.mean_low, exact.mean_high) == (4097 / 4096,) * 3
    assert judged([4096] * 15, [8192] * 15, "res").verdict is Verdict.WORSE
    bench = current()
    bench.workload("w", "wall")
    metric = bench.workloads["w"].metrics[0]
    sizes = {("s", "w", label): [(metric, 100.0)] for label in (BASE, CANDIDATE)}
    (size,) = [row for row in bench.analysis(sizes).comparisons if row.exact]
    assert (size.verdict, size.rarest_mode, size.baseline_runs) == (Verdict.EQUIVALENT, None, None)


def test_on_the_virtual_clock_replicates_are_counted_and_no_time_is_needed() -> None:
    few = judged(*noise(15), clock=VIRTUAL_CLOCK, own=True)
    assert few.verdict is Verdict.SAME_MEDIAN and few.observed_s is None
    assert "15 replicates would miss a slow mode of up to 26 % of the replicates: 90 are needed" in few.reason
    assert judged(*noise(90), clock=VIRTUAL_CLOCK, own=True, run_s=0.0).verdict is Verdict.EQUIVALENT


def test_with_layouts_the_links_are_counted_and_runs_are_summarised() -> None:
    bench = current(layouts=30)
    before, after = noise(90)
    bench.pairs("w", "wall", list(before), list(after))
    found = bench.row("w", "wall")
    assert found.verdict is Verdict.SAME_MEDIAN
    assert "30 layouts would miss a slow mode of up to 14 % of the layouts" in found.reason
    assert found.baseline_runs is not None and found.baseline_runs.runs == 90
    assert found.mean_effect == pytest.approx(1, abs=0.01) and len(found.baseline_values) == 30


def test_by_the_first_rules_nothing_of_this_is_computed() -> None:
    bench = Bench(confidence=0.99)
    before, after = slow_mode(90, 1, 10.0)
    bench.pairs("w", "wall", list(before), list(after))
    found = bench.row("w", "wall")
    assert found.verdict is Verdict.EQUIVALENT
    assert {found.mean_effect, found.tail_p_value, found.baseline_runs, found.rarest_mode, found.observed_s} == {None}


def test_by_families_tails_change_no_level_of_a_median() -> None:
    levels = {}
    for rules in (1, CURRENT_RULES):
        bench = Bench(rules=rules)
        for number in range(4):
            bench.noisy(f"w{number}", 1.5 if number else 1.0, 15, seed=number)
        levels[rules] = {row.confidence for row in bench.analysis().comparisons}
    assert levels[1] == levels[CURRENT_RULES]


def test_tails_of_a_report_are_hypotheses() -> None:
    bench = current()
    for number in range(4):
        bench.noisy(f"w{number}", 1.0, 20, seed=number, spread=0.1)
    (level,) = {row.confidence for row in bench.analysis().comparisons}
    assert 1 - level == pytest.approx(0.01 / (4 + 4 + 1))  # medians, means, the index


def test_a_summary_of_runs() -> None:
    found = summary(np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 100]))
    assert (found.runs, found.p90, found.maximum) == (10, 9.0, 100.0)
    assert found.mean == pytest.approx(14.5)
    large = summary(np.full(3, 1.7e308))
    assert (large.mean, large.p90) == (1.7e308, 1.7e308)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ([1, 2, 1.5], [484, 480, 500], Verdict.WORSE),
        ([484, 480, 500], [1, 2, 1.5], Verdict.BETTER),
        ([1, 1, 1], [19, 19, 19], Verdict.INCONCLUSIVE),  # 3 pairs must be 20 times apart
        ([1, 1, 1, 1], [6, 6, 7, 6], Verdict.WORSE),
        ([1, 1, 1, 2], [6, 6, 7, 6], Verdict.INCONCLUSIVE),  # 2 and 6
        ([1, 1, 1, 1, 1.4], [3, 4, 3, 3, 5], Verdict.WORSE),
        ([1, 1, 1, 1, 1.6], [3, 4, 3, 3, 5], Verdict.INCONCLUSIVE),
        ([1, 1], [500, 500], Verdict.INCONCLUSIVE),
    ],
)
def test_few_pairs_far_apart_are_a_bound(before: list[float], after: list[float], verdict: Verdict) -> None:
    found = judged(before, after)
    assert found.verdict is verdict
    if verdict is Verdict.INCONCLUSIVE:
        assert (found.low, found.bounded) == (None, False) and found.reason.startswith("few blocks")
        return
    ratios = [b / a for a, b in zip(before, after, strict=True)]
    assert found.low == pytest.approx(min(ratios))
    assert found.high == pytest.approx(max(ratios))
    assert found.bounded and found.confidence == 1 - 2 / 2 ** len(before) and found.reason == ""


def test_on_the_virtual_clock_a_bound_needs_less_distance() -> None:
    exact = judged([1.0, 1.1, 1.0], [13.8, 13.9, 13.7], clock=VIRTUAL_CLOCK)
    assert exact.verdict is Verdict.WORSE and exact.bounded and exact.confidence == 0.75
    five = judged([1.0, 1.001, 1, 1, 1], [1.05, 1.05, 1.06, 1.07, 1.05], clock=VIRTUAL_CLOCK)
    assert five.verdict is Verdict.WORSE and five.bounded
    inside = judged([1.0, 1.001, 1, 1, 1], [1.01, 1.02, 1.01, 1.01, 1.02], clock=VIRTUAL_CLOCK)
    assert inside.verdict is Verdict.INCONCLUSIVE


def test_a_neutral_metric_is_changed_by_a_bound() -> None:
    assert judged([1, 2, 1.5], [484, 480, 500], "nivcsw").verdict is Verdict.CHANGED


@pytest.mark.parametrize("pairs", [3, 4, 5, 6])
def test_heavy_tails_give_no_bound(pairs: int) -> None:
    """2000 rows without difference, in which a fifth of the runs of both sides take ten times as long: fewer than 1 % are bounds."""
    from swapstone.core.comparison.rows import Row
    from swapstone.core.comparison.verdicts import bounds

    bench = current()
    bench.workload("w", "wall")
    variants = plan.variants(bench.experiment)
    random = np.random.default_rng(pairs)
    hits = 0
    for _ in range(2000):
        runs = np.exp(random.normal(0, 0.05, (2, pairs))) * np.where(random.random((2, pairs)) < 0.2, 10, 1)
        row = Row(
            group=("s", "w", "idle"),
            workload=bench.workloads["w"],
            metric=bench.workloads["w"].metrics[0],
            baseline=variants[0],
            candidate=variants[1],
            null=False,
            blocks=np.arange(pairs),
            before=runs[0],
            after=runs[1],
            constant=False,
            exclusion=None,
            rules=CURRENT_RULES,
        )
        hits += bounds(row, 0.02) is not None
    assert hits < 20
    assert SEPARATION[3] > 10


def test_effects_of_crossed_factors_are_no_more_than_the_same_median() -> None:
    random = np.random.default_rng(3)

    def value(workload: str, levels: Any, block: int) -> float:
        del workload, levels, block
        return float(100 * np.exp(random.normal(0, 0.001)))

    found = analysed(value, blocks=100, rules=CURRENT_RULES)
    assert {effect.verdict for effect in found.effects} == {Verdict.SAME_MEDIAN}
    assert {effect.verdict for effect in analysed(value, blocks=30).effects} == {Verdict.EQUIVALENT}


def own_bench(blocks: int, ratio: float = 1.0) -> Bench:
    bench = current(own=True, run_s=0.2)
    bench.workload("w", "cpu")
    before, after = noise(blocks)
    bench.pairs("w", "cpu", list(before), list(after * ratio))
    return bench


def test_an_own_program_stays_open_until_it_can_be_equivalent() -> None:
    def missing(bench: Bench) -> int:
        return bench.precision()["s", "w", "idle"].missing_runs

    assert [missing(own_bench(n)) for n in (15, 40, 89, 90)] == [75, 50, 1, 0]
    bundled = own_bench(40)
    bundled.own = False
    assert missing(bundled) == 0
    assert bundled.precision()["s", "w", "idle"].half_width == own_bench(40).precision()["s", "w", "idle"].half_width


def test_an_own_program_with_a_difference_stays_open_until_a_mode_of_a_tenth_would_show() -> None:
    def missing(bench: Bench) -> int:
        return bench.precision()["s", "w", "idle"].missing_runs

    # 0.9^44 = 1 %
    assert [missing(own_bench(n, ratio=1.3)) for n in (15, 43, 44)] == [29, 1, 0]
    assert [missing(own_bench(n, ratio=1 / 1.3)) for n in (15, 43, 44)] == [29, 1, 0]
    assert [missing(own_bench(15, ratio=ratio)) for ratio in (1.99, 2.01, 0.51, 0.49)] == [29, 0, 29, 0]


@pytest.mark.parametrize("side", [0, 1])
def test_an_own_program_whose_mean_contradicts_its_median_stays_open(side: int) -> None:
    """The other side has one slow run, so that the means are equal or reversed."""
    for slow, expected in ((1.0, 0), (10.0, 30), (40.0, 30)):
        bench = current(own=True, run_s=0.2)
        bench.workload("w", "cpu")
        sides = list(noise(60, 1, 0.005))
        sides[side] = sides[side] * 1.1
        sides[1 - side][7] *= slow
        bench.pairs("w", "cpu", list(sides[0]), list(sides[1]))
        assert bench.row("w", "cpu").verdict is (Verdict.WORSE if side else Verdict.BETTER)
        assert bench.precision()["s", "w", "idle"].missing_runs == expected


def test_an_undecided_own_program_with_its_median_inside_the_margin_stays_open() -> None:
    """And so does one with a small significant difference: significance must not stop an experiment."""

    def missing(ratio: float, spread: float, blocks: int) -> int:
        bench = current(own=True, run_s=0.2)
        bench.workload("w", "cpu")
        before, after = noise(blocks, 1, spread)
        bench.pairs("w", "cpu", list(before), list(after * ratio))
        assert bench.row("w", "cpu").verdict is (Verdict.INCONCLUSIVE if ratio == 1 else Verdict.WORSE)
        return bench.precision()["s", "w", "idle"].missing_runs

    assert missing(1.0, 0.06, 60) == 30
    assert missing(1.018, 0.005, 60) == 30
    assert missing(1.05, 0.005, 60) == 0


def test_a_slow_mode_keeps_an_own_program_open() -> None:
    bench = current(own=True, run_s=0.2)
    bench.workload("w", "cpu")
    before, after = slow_mode(120, 1, 10.0)
    bench.pairs("w", "cpu", list(before), list(after))
    assert bench.precision()["s", "w", "idle"].missing_runs == 1


def of_shapes(
    blocks: int, shares: Sequence[tuple[float, float]], seed: int, rules: int = DIRECTION_RULES
) -> Comparison:
    """Return a row whose candidate takes, in these shares of its runs, so many times as long."""
    bench = current(own=True, run_s=0.2, confidence=0.95)
    bench.rules = rules
    bench.workload("w", "wall")
    random = np.random.default_rng(seed)
    before, after = random.normal(1000, 5, (2, blocks))
    factors = random.permutation(
        np.repeat([each for _, each in shares], [round(blocks * share) for share, _ in shares])
    )
    bench.pairs("w", "wall", list(before), list(after * factors))
    return bench.row("w", "wall")


FEW_FASTER = ((0.4, 0.6), (0.5, 1.0), (0.1, 2.6))
"""Neither the median nor the mean differs."""


@pytest.mark.parametrize(
    "shares", [FEW_FASTER, ((0.45, 0.7), (0.45, 1.0), (0.1, 2.35)), ((0.4, 1.4), (0.5, 1.0), (0.1, 0.1))]
)
def test_a_direction_of_pairs_alone_is_none(shares: Sequence[tuple[float, float]]) -> None:
    for seed in range(5):
        found = of_shapes(200, shares, seed)
        worse = shares[0][1] > 1
        assert found.effect is not None and (found.effect > 1.05 if worse else found.effect < 0.95)
        assert found.median_effect == pytest.approx(1, abs=0.02)
        assert found.verdict is (Verdict.WORSE_TAIL if worse else Verdict.INCONCLUSIVE), (
            seed,
            found.verdict,
            found.reason,
        )
        assert "ratio of medians is 0.99" in found.reason or worse


def test_by_earlier_rules_it_was_one() -> None:
    assert of_shapes(200, FEW_FASTER, 0, rules=2).verdict is Verdict.BETTER


def test_the_ratio_of_medians_is_that_of_the_printed_medians() -> None:
    found = of_shapes(40, FEW_FASTER, 1)
    before, after = (float(np.median(side)) for side in (found.baseline_values, found.candidate_values))
    assert found.median_effect is not None and found.median_effect == pytest.approx(after / before, rel=1e-12)
    assert found.median_low is not None and found.median_high is not None
    assert found.median_low < found.median_effect < found.median_high


@pytest.mark.parametrize(("ratio", "spread"), [(1.018, 0.005), (1.03, 0.02), (1.1, 0.05), (0.95, 0.02)])
def test_a_shift_of_all_runs_keeps_its_direction(ratio: float, spread: float) -> None:
    """The ratio of medians has a wider interval than the signed-rank estimate; that costs no effect."""
    for seed in range(20):
        bench = current(own=True, run_s=0.2)
        bench.workload("w", "wall")
        before, after = noise(40, seed, spread)
        bench.pairs("w", "wall", list(before), list(after * ratio))
        found = bench.row("w", "wall")
        bench.rules = TAIL_RULES
        assert found.verdict is bench.row("w", "wall").verdict, (seed, found.reason)


def test_the_experiment_type_encodes_the_rules() -> None:
    experiment = current().experiment
    assert msgspec.json.decode(experiment.encoded(), type=type(experiment)) == experiment
    assert experiment.factors == (FactorLevels(factor="libc", levels=("glibc", "musl")),)
