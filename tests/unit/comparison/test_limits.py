# SPDX-License-Identifier: MIT OR Apache-2.0
"""Limits of the analysis at their documented values: each figure is written here once more, on both sides of its limit."""

from __future__ import annotations

import itertools
import math
from typing import Any

import msgspec
import numpy as np
import pytest

from swapstone.core import plan
from swapstone.core.comparison import carry_over
from swapstone.core.comparison.carry_over import Evidence, group_runs
from swapstone.core.comparison.conditions import check as check_conditions
from swapstone.core.comparison.latencies import latencies, time_series
from swapstone.core.comparison.means import rarest_mode, runs_needed, summary, tail_p_value, unit_means
from swapstone.core.comparison.outputs import agreement
from swapstone.core.comparison.rows import Row, scale_of
from swapstone.core.comparison.run_table import as_table
from swapstone.core.comparison.side_by_side import spread
from swapstone.core.comparison.verdicts import bounds, comparison, separation_needed, verdict_with_tail
from swapstone.core.model import BALANCED_ORDER, CURRENT_RULES, Caveat, Experiment, OwnProgram, Sample, Scale, Verdict
from swapstone.core.stats import AverageEffect, Interval, median
from tests.unit import builders
from tests.unit.comparison.conftest import METRICS, Bench


def row(before: Any, after: Any, metric: str = "wall", **changes: Any) -> Row:
    """Return a row of the current rules."""
    sides = np.array(before, dtype=np.float64), np.array(after, dtype=np.float64)
    bench = Bench()
    bench.workload("w", metric)
    baseline, candidate = (builders.variant(f"libc={level}") for level in ("glibc", "musl"))
    fields: dict[str, Any] = {
        "group": ("s", "w", "idle"),
        "workload": bench.workloads["w"],
        "metric": METRICS[metric],
        "baseline": baseline,
        "candidate": candidate,
        "null": False,
        "blocks": np.arange(1, sides[0].size + 1),
        "before": sides[0],
        "after": sides[1],
        "constant": False,
        "exclusion": None,
        "rules": CURRENT_RULES,
        "runs": sides,
        "means": sides,
        **changes,
    }
    return Row(**fields)


# The bound of few pairs (docs/statistics.md, "One error rate for a report")


@pytest.mark.parametrize(
    ("pairs", "unit", "margin", "factor"),
    [
        (3, "runs", 0.02, 20.0),
        (4, "runs", 0.02, 5.0),
        (5, "runs", 0.02, 2.0),
        (9, "runs", 0.02, 2.0),
        (3, "replicates", 0.02, 5.0),
        (4, "replicates", 0.02, 2.0),
        (5, "replicates", 0.02, 1.02),
        (5, "replicates", 0.25, 1.25),
    ],
)
def test_few_pairs_have_a_bound_where_the_sides_are_a_factor_apart(
    pairs: int, unit: str, margin: float, factor: float
) -> None:
    for sign in (1, -1):
        near, far = ((factor * (1 + error)) ** sign for error in (-1e-9, 1e-9))
        assert bounds(row([1.0] * pairs, [near] * pairs, unit=unit), margin) is None
        found = bounds(row([1.0] * pairs, [far] * pairs, unit=unit), margin)
        assert found is not None and found.low == found.high == pytest.approx(sign * math.log(factor))


def test_a_bound_is_the_range_of_the_pairs_and_the_nearest_values_decide() -> None:
    found = bounds(row([1.0, 2.0, 3.0], [600.0, 100.0, 61.0]), 0.02)
    assert found is not None
    assert [found.low, found.high] == pytest.approx([math.log(61 / 3), math.log(600)])
    assert bounds(row([1.0, 2.0, 3.1], [600.0, 100.0, 61.0]), 0.02) is None


def test_two_pairs_and_a_margin_of_0_and_differences_have_no_bound() -> None:
    assert bounds(row([1.0] * 2, [1e9] * 2), 0.02) is None
    assert bounds(row([1.0] * 5, [2.0] * 5, unit="replicates"), 0.0) is None
    assert bounds(row([0.0] * 5, [2.0] * 5), 0.02) is None
    assert [separation_needed(pairs) for pairs in (0, 2, 3, 4, 5, 6, 100)] == [math.inf, math.inf, 20, 5, 2, 2, 2]


def test_a_bound_has_the_confidence_of_equal_signs() -> None:
    found = comparison(row([1.0, 1.1, 1.2], [60.0, 61.0, 62.0]), alpha=0.05, margin=0.02, preferred=True)
    assert (found.bounded, found.confidence, found.verdict, found.reason) == (True, 0.75, Verdict.WORSE, "")
    assert [found.low, found.high] == pytest.approx([62 / 1.2, 60.0])
    better = comparison(row([60.0, 61.0, 62.0, 63.0], [1.0, 1.1, 1.2, 1.3]), alpha=0.05, margin=0.02, preferred=True)
    assert (better.bounded, better.confidence, better.verdict) == (True, 0.875, Verdict.BETTER)


# Equivalence


EQUAL_MEANS = AverageEffect(1.0, Interval(1.0, 1.0))


def missing(one: Row, mean: AverageEffect = EQUAL_MEANS) -> str:
    """Return what a row with the same median lacks to be equivalent."""
    found = msgspec.structs.replace(
        comparison(one, alpha=0.05, margin=0.02, preferred=True), verdict=Verdict.EQUIVALENT, reason=""
    )
    verdict, reason = verdict_with_tail(one, found, mean, 0.02, 0.0)
    assert verdict is (Verdict.SAME_MEDIAN if reason else Verdict.EQUIVALENT)
    return reason.removeprefix("same median; ")


@pytest.mark.parametrize(("observed_s", "text"), [(9.99, "9.9 s"), (None, "an unknown time"), (0.5, "0.5 s")])
def test_the_runs_of_an_own_program_must_span_10_s(observed_s: float | None, text: str) -> None:
    values = np.linspace(1.0, 2.0, 100)
    lasting = row(values, values, must_last=True, observed_s=observed_s)
    assert missing(lasting) == f"the runs span {text}: 10 s are needed"
    assert missing(row(values, values, must_last=True, observed_s=10.0)) == ""
    assert missing(row(values, values, must_last=False, observed_s=observed_s)) == ""


@pytest.mark.parametrize(("metric", "mode"), [("wall", "slow"), ("rate", "slow"), ("res", "separate")])
def test_90_runs_show_a_mode_of_5_percent(metric: str, mode: str) -> None:
    few, enough = (np.linspace(1.0, 2.0, count) for count in (89, 90))
    assert missing(row(few, few, metric)) == f"89 runs would miss a {mode} mode of up to 5 % of the runs: 90 are needed"
    assert missing(row(enough, enough, metric)) == ""


def test_a_mode_shows_with_a_probability_of_99_percent() -> None:
    assert [rarest_mode(runs) for runs in (1, 2, 90)] == pytest.approx([0.99, 0.9, 1 - 0.01 ** (1 / 90)], rel=1e-12)
    assert (runs_needed(), runs_needed(0.5), runs_needed(0.01)) == (90, 7, 459)


def test_a_mean_beyond_the_margin_is_named() -> None:
    values = np.linspace(1.0, 2.0, 100)
    found = missing(row(values, values), AverageEffect(1.5, Interval(0.9, 1.75)))
    assert found == "the mean is 1.5 times the baseline's (0.9 to 1.75), which reaches beyond the margin"
    zeros = missing(row(values - 1, values), AverageEffect(-0.25, Interval(-1.0, 0.5)))
    assert zeros == "the mean differs by -0.25 (-1 to 0.5), which reaches beyond the margin"
    unknown = missing(row(values, values), AverageEffect(1.5, None))
    assert unknown == "the mean is too uncertain for an interval, which reaches beyond the margin"


@pytest.mark.parametrize(
    ("p_value", "larger", "tail_alpha", "verdict"),
    [
        (0.05, False, 0.01, Verdict.MIXED),  # the means contradict the median at 5 %, whatever the corrected level is
        (0.0501, False, 0.01, Verdict.WORSE),
        (0.08, False, 0.08, Verdict.MIXED),
        (0.001, True, 0.01, Verdict.WORSE),  # the means agree with the median
    ],
)
def test_means_contradict_a_median_at_5_percent(
    p_value: float, larger: bool, tail_alpha: float, verdict: Verdict
) -> None:
    values = np.linspace(1.0, 2.0, 100)
    one = row(values, 1.5 * values)
    found = comparison(one, alpha=0.05, margin=0.02, preferred=True)
    assert found.verdict is Verdict.WORSE
    one.__dict__["tail"] = p_value, larger
    assert verdict_with_tail(one, found, AverageEffect(0.9, Interval(0.8, 1.1)), 0.02, tail_alpha)[0] is verdict


# Means and tails


@pytest.mark.parametrize("scale", [2.0**-900, 2.0**-40, 1.0, 2.0**40, 2.0**1000])
def test_the_test_of_the_tail_does_not_depend_on_the_unit(scale: float) -> None:
    random = np.random.default_rng(3)
    baseline, candidate = random.lognormal(0, 1, 30), random.lognormal(0.2, 1, 30)
    baseline[0] = 0.0
    expected = tail_p_value(baseline, candidate, candidate / 1.1)
    assert tail_p_value(scale * baseline, scale * candidate, scale * candidate / 1.1) == expected
    assert 0.0 < expected[0] < 1.0


@pytest.mark.parametrize("side", [0, 1, 2])
def test_the_test_of_the_tail_has_no_overflow(side: int) -> None:
    """Each side once has the largest values of all, whose sum exceeds the largest number."""
    sides = [np.linspace(0.0, 1.0, 20) for _ in range(3)]
    sides[side] = np.linspace(0.5, 1.7e308, 20)
    p_value, larger = tail_p_value(*sides)
    assert larger == (side == 1)
    assert p_value == (1.0 if side in {1, 2} else 2.0**-18)


@pytest.mark.parametrize(("runs", "place"), [(1, 1), (2, 2), (9, 9), (10, 9), (11, 10), (20, 18), (21, 19)])
def test_the_90th_percentile_is_the_smallest_value_that_so_many_do_not_exceed(runs: int, place: int) -> None:
    values = np.random.default_rng(1).permutation(np.arange(1.0, runs + 1))
    found = summary(values)
    assert (found.runs, found.p90, found.maximum) == (runs, place, runs)
    assert found.mean == pytest.approx((runs + 1) / 2)


def test_means_of_units_are_finite_and_inside_the_values() -> None:
    values = np.array([1.7e308, 1.7e308, 1.0, 3.0, 0.1, 0.1, 0.1])
    assert unit_means(values, [5, 5, 2, 2, 7, 7, 7]).tolist() == [2.0, 1.7e308, 0.1]
    assert unit_means(np.array([-2.0, 0.0, 0.0]), [0, 0, 1]).tolist() == [-1.0, 0.0]


@pytest.mark.parametrize("count", [*range(1, 12), 40, 61])
def test_the_median_of_a_column_is_that_of_the_sorted_values(count: int) -> None:
    for seed in range(20):
        values = np.random.default_rng(seed).permutation(2 ** np.arange(count, dtype=np.int64))
        ordered = sorted(values.tolist())
        assert median(values) == (ordered[(count - 1) // 2] + ordered[count // 2]) / 2


def test_ratios_beyond_e_to_the_300_are_differences() -> None:
    assert scale_of(np.array([1.0, math.exp(299.9)])) is Scale.RATIO
    assert scale_of(np.array([1.0, math.exp(300.1)])) is Scale.DIFFERENCE
    assert scale_of(np.array([])) is Scale.RATIO
    assert scale_of(np.array([0.0, 1.0])) is Scale.DIFFERENCE
    assert scale_of(np.array([5e-324, 1e-200])) is Scale.RATIO


# Conditions


def test_idle_time_is_what_no_processor_and_no_queue_explains() -> None:
    def named(wall_ns: int, used_us: int, delay_ns: int) -> int:
        bench = Bench(rules=CURRENT_RULES)
        bench.workload("w", "wall")
        for block in range(1, 10):
            bench.run("w", "libc=glibc", block, wall=1e9)
            facts = {"wall_ns": 10_000_000, "user_us": 4_000, "system_us": 5_000, "run_delay_ns": 1_000_000}
            if block == 9:
                facts = {"wall_ns": wall_ns, "user_us": used_us, "system_us": used_us, "run_delay_ns": delay_ns}
            bench.runs[-1] = msgspec.structs.replace(bench.runs[-1], facts=tuple(facts.items()))
        return len(check_conditions(bench.experiment, (), bench.workloads, as_table(bench.runs)).caveats)

    assert (named(1_011_000_000, 5_000, 1_000_000), named(1_011_000_001, 5_000, 1_000_000)) == (0, 1)
    assert (named(1_011_000_001, 5_001, 1_000_000), named(1_011_000_001, 5_000, 1_000_001)) == (0, 0)
    assert named(2**53 - 1, 2**53 - 1, 2**53 - 1) == 0


# Carry-over


def judged(discarded: int, bias: float = 0.1) -> carry_over.Tested:
    evidence = Evidence(1e-9, bias, 0.01, (0.0, 0.0, 0.0, 0.1))
    return carry_over.Tested(row([1.0], [1.0]), discarded, evidence, (evidence,), True, evidence, True)


def settled(rows: list[carry_over.Tested]) -> tuple[Caveat, ...]:
    return carry_over.findings(builders.experiment(), rows, 2).caveats


def remedy(experiment: Experiment, one: carry_over.Tested) -> str:
    """Return the end of the reason why a row is invalid."""
    ((_, reason),) = carry_over.findings(experiment, [one], 2).excluded.values()
    return reason.rpartition("; ")[2]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (1, "in the only row (w wall)."),
        (4, "in 4 of 4 rows (w wall, w wall, w wall, w wall)."),
        (5, "in 5 of 5 rows (w wall, w wall, w wall, w wall and 1 more)."),
    ],
)
@pytest.mark.parametrize("discarded", [0, 1])
def test_carry_over_that_does_not_matter_names_four_rows(rows: int, text: str, discarded: int) -> None:
    one = msgspec.structs.replace(judged(discarded), matters=False)
    (found,) = settled([one] * rows)
    assert found.message.startswith(
        f"A run depends on what ran before it {text} In w wall, musl takes 1 ns after musl and "
    )
    assert found.message.endswith("same variant." if discarded else "It is too small to change their verdicts.")
    assert found.hint.startswith("If the programs never" if discarded else "--prime 1 discards")
    assert not settled([judged(discarded)] * rows)
    silent = msgspec.structs.replace(one, fires=False, found=None)
    assert not settled([silent])


def test_a_bias_of_discarded_runs_is_named_above_half_the_margin() -> None:
    half = math.log(1.02) / 2
    for bias, named in ((0.99 * half, False), (1.01 * half, True), (-1.01 * half, True)):
        one = msgspec.structs.replace(judged(1, bias), matters=False)
        assert bool(settled([one])) == named


PRIME, BUDGET, PREPARE = "measure with --prime {}", "give it a longer --budget", "reset the state with --prepare CMD"


@pytest.mark.parametrize(
    ("discarded", "prime"), [(0, 2), (1, 2), (2, 4), (4, 8), (7, 14), (8, 16), (12, 16), (15, 16), (16, 0), (20, 0)]
)
def test_the_remedy_of_carry_over_is_twice_as_many_discarded_runs_and_16_at_most(discarded: int, prime: int) -> None:
    plain = remedy(builders.experiment(), judged(discarded))
    assert plain == (PRIME.format(prime) if prime else "it lasts longer than the discarded runs")
    own = OwnProgram(name="w", arguments=("w",))
    found = remedy(builders.experiment(own=own), judged(discarded))
    assert found == ", or ".join([*([PRIME.format(prime)] if prime else []), PREPARE])


@pytest.mark.parametrize(("discarded", "helps"), [(0, True), (3, True), (4, False), (8, False)])
def test_a_longer_budget_helps_where_more_runs_may_be_discarded(discarded: int, helps: bool) -> None:
    growing = remedy(builders.experiment(prime_more=True), judged(discarded))
    assert (BUDGET in growing) == helps
    assert BUDGET not in remedy(builders.experiment(prime_more=True, blocks=60), judged(discarded))
    assert BUDGET not in remedy(builders.experiment(), judged(discarded))


def matters_in(one: Row, evidence: Evidence) -> bool:
    (found,) = carry_over.judge(builders.experiment(), [carry_over.Tested(one, 0, evidence, (evidence,))])
    return found.matters


def matters(ratio: float, bias: float, *, half_width: float = 0.0, spread_of: float = 0.0, pairs: int = 20) -> bool:
    noise = np.exp(spread_of * np.linspace(-1, 1, pairs))
    values = np.linspace(100.0, 200.0, pairs)
    evidence = Evidence(1e-9, bias, half_width, (0.0, 0.0, 0.0, 0.0))
    return matters_in(row(values, ratio * values * noise), evidence)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_bias_matters_above_half_the_margin_and_a_tenth_of_the_ratio(sign: int) -> None:
    half = math.log(1.02) / 2
    assert matters(1.0, sign * half * 1.001) and not matters(1.0, sign * half * 0.999)
    ratio = math.exp(sign * 1.0)
    assert matters(ratio, 0.1001) and not matters(ratio, 0.0999)
    assert matters(ratio, -0.1001) and not matters(ratio, -0.0999)


def test_a_bias_matters_if_the_verdict_would_be_another_without_it() -> None:
    # The row is worse by 2.5 %; without a bias of 0.6 % or with the lower end of its interval it would be equivalent.
    assert not matters(1.025, 0.004)
    assert matters(1.025, 0.006)
    assert matters(1.025, 0.004, half_width=0.002)
    assert matters(1.025, -0.001, half_width=0.007)
    # Equivalent, and worse without a bias that made it smaller.
    assert matters(1.018, -0.004) and not matters(1.018, 0.004)


def test_no_interval_and_no_verdict_have_nothing_to_lose() -> None:
    assert not matters(1.025, 0.006, pairs=5)
    assert not matters(1.0, 0.009, spread_of=0.5)
    constant = row([1.0] * 20, [1.01] * 20, constant=True)
    assert not matters_in(constant, Evidence(0.0, 1.0, 0.0, (0.0,) * 4))


# Names and texts


def test_digests_of_a_strange_record_are_not_printed() -> None:
    subject = builders.experiment(own=OwnProgram(name="w", arguments=("w",)))

    def shown(digest: str) -> str:
        made = [msgspec.structs.replace(run, digests=(("stdout", digest),)) for run in builders.runs(subject, 5)]
        (suite, workload), *_ = subject.workloads
        labels = [variant.label for variant in plan.variants(subject)]
        return agreement(subject, (suite, workload, "idle"), labels[0], labels[1], as_table(made))["stdout"].text

    digest = "0123456789abcdef" * 4
    assert shown(digest).startswith("sha256 0123") and digest.startswith(shown(digest).removeprefix("sha256 "))
    assert shown("ä" * 64) == shown("a b" * 20) == shown("") == "sha256 of another form"


# Repeated runs of a record


def test_the_spread_of_a_record_ignores_rows_without_runs() -> None:
    bench = Bench()
    bench.pairs("w", "wall", [100.0, 102.0, 101.0], [50.0, 50.0, 55.0])
    bench.workload("none", "wall")
    (measured,) = (each for each in bench.analysis().comparisons if each.workload == "w")
    found = spread(bench.analysis().comparisons)
    assert (found.rows, found.exact, found.where) == (1, 0, "w libc=musl")
    assert found.largest == pytest.approx(0.1)
    for side in ("baseline_values", "candidate_values"):
        half = msgspec.structs.replace(measured, **{side: ()})
        assert spread([half]).rows == 0


# Latencies


def test_latencies_and_series_have_the_names_of_their_runs() -> None:
    subject = builders.experiment(loads=("idle", "cpu"))
    variants = plan.variants(subject)
    runs = [
        msgspec.structs.replace(
            run,
            histogram=((run.trial.block + 1, 10),),
            series=(Sample(metric="wall", values=(float(run.trial.block), 2.0)),),
            samples=(
                Sample(metric="max", values=(100.0 + run.trial.block,)),
                Sample(metric="avg", values=(10.0 + run.trial.block,)),
            ),
        )
        for run in reversed(list(builders.runs(subject, 3)))
    ]
    places = list(itertools.product(subject.workloads, subject.loads, variants))
    for found in (latencies(subject, variants, as_table(runs)), time_series(subject, variants, as_table(runs))):
        assert [((each.suite, each.workload), each.load, each.variant) for each in found] == places
    first = latencies(subject, variants, as_table(runs))[0]
    assert (first.blocks, first.maxima, first.averages) == ((1, 2, 3), (101.0, 102.0, 103.0), (11.0, 12.0, 13.0))
    assert first.histogram == ((2, 10), (3, 10), (4, 10))
    assert first.percentiles == ((50.0, 3000.0), *((each, 4000.0) for each in (99.0, 99.9, 99.99, 99.999)))
    series = time_series(subject, variants, as_table(runs))[0]
    assert (series.block, series.series) == (1, (("wall", (1.0, 2.0)),))


# Orders


def test_before_the_first_block_nothing_ran_and_before_others_the_last_of_the_block_before() -> None:
    experiment = builders.experiment()
    runs = list(builders.runs(experiment, 4))
    for first, found in ((0, runs), (1, [run for run in runs if run.trial.block > 0])):
        group = next(iter(group_runs(experiment, as_table(found)).values()))
        assert group.blocks == (1, 2, 3, 4)
        mine = [run.trial for run in runs if run.trial.workload == runs[0].trial.workload]
        last = {number: [trial.variant for trial in mine if trial.block == number][-1] for number in range(5)}
        before = [group.labels.index(last[number]) for number in range(4)]
        assert group.runs.before.tolist() == (before if first == 0 else [-1, *before[1:]])


# Cycles of balanced orders


def grouped(experiment: Experiment, blocks: list[int]) -> Any:
    runs = [run for run in builders.runs(experiment, 12) if run.trial.block in blocks]
    return next(iter(group_runs(experiment, as_table(runs)).values()))


@pytest.mark.parametrize(
    ("blocks", "whole"), [([1, 2, 3, 4], True), ([2, 3, 4, 5], True), ([1, 2, 4, 5], False), ([1, 2, 3, 5], False)]
)
def test_only_successive_blocks_have_the_cycles_of_balanced_orders(blocks: list[int], whole: bool) -> None:
    found = grouped(builders.experiment(order=BALANCED_ORDER), blocks)
    assert found.blocks == tuple(blocks)
    assert (found.runs.cycles, found.runs.first) == ((2, (blocks[0] - 1) % 2) if whole else (1, 0))
    independent = grouped(builders.experiment(), blocks).runs
    assert (independent.cycles, independent.first) == (1, 0)
