# SPDX-License-Identifier: MIT OR Apache-2.0
"""A side of which more than a few runs fail is not judged: those that succeed may be its fast ones. How often each side fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from swapstone.core import plan
from swapstone.core.comparison import failures
from swapstone.core.comparison.run_table import as_table
from swapstone.core.model import (
    KILLED,
    REPORT_CORRECTION,
    TIMED_OUT,
    Copy,
    Experiment,
    FactorLevels,
    FailureRates,
    Run,
    Status,
    Trial,
    Verdict,
)
from tests.unit.comparison.conftest import Bench

BASELINE, CANDIDATE = "libc=glibc", "libc=musl"


def with_failures(bench: Bench, failing: str, number: int, blocks: int = 60) -> Bench:
    bench.rules = 2
    bench.workload("w", "wall", "res")
    for block in range(1, blocks + 1):
        for label in (BASELINE, CANDIDATE):
            fails = label == failing and block <= number
            bench.run("w", label, block, Status.FAILED if fails else Status.OK, wall=100.0 + block % 3, res=50.0)
    return bench


@pytest.mark.parametrize(("failing", "side"), [(BASELINE, "baseline"), (CANDIDATE, "candidate")])
def test_two_failed_runs_of_sixty_make_every_row_invalid(
    new_bench: Callable[[], Bench], failing: str, side: str
) -> None:
    rows = with_failures(new_bench(), failing, 2).analysis().comparisons
    assert len(rows) == 2
    for row in rows:
        assert row.verdict is Verdict.INVALID and row.effect is None
        other = "candidate" if side == "baseline" else "baseline"
        assert row.reason == (
            f"{side} fails in 2 of 60 runs, 3.3 % (0.92–11 %), and {other} in 0 of 60, 0 % (0–6 %); "  # noqa: RUF001 - a dash
            "the runs that succeed may be the fast ones"
        )


@pytest.mark.parametrize(("number", "blocks"), [(0, 60), (1, 60), (1, 20), (2, 200)])
def test_a_failed_run_in_a_hundred_is_a_caveat_alone(new_bench: Callable[[], Bench], number: int, blocks: int) -> None:
    rows = with_failures(new_bench(), CANDIDATE, number, blocks).analysis().comparisons
    assert {row.verdict for row in rows} <= {Verdict.EQUIVALENT, Verdict.SAME_MEDIAN}


def test_the_first_rules_judge_those_that_succeed(new_bench: Callable[[], Bench]) -> None:
    bench = with_failures(new_bench(), CANDIDATE, 20)
    bench.rules = 1
    assert {row.verdict for row in bench.analysis().comparisons} == {Verdict.EQUIVALENT}


def test_a_side_that_mostly_fails_has_the_reason_of_its_failures(new_bench: Callable[[], Bench]) -> None:
    reasons = {row.reason for row in with_failures(new_bench(), CANDIDATE, 40).analysis().comparisons}
    assert all(reason.startswith("candidate fails: ") for reason in reasons) and len(reasons) == 1


EXPERIMENT = Experiment(
    name="compare",
    factors=(FactorLevels(factor="libc", levels=("glibc", "musl")),),
    workloads=(("s", "w"),),
    budget_ns=1,
    margin=0.02,
    confidence=0.95,
    seed=1,
    rules=2,
    failures_count=True,
)


def ended(label: str, block: int, how: str, *, prime: int = 0, workload: str = "w") -> Run:
    """Return a run that ended well (``ok``), or with this status or this beginning of a reason."""
    status = Status(how) if how in {"ok", "refused", "unavailable", "failed"} else Status.FAILED
    trial = Trial(suite="s", workload=workload, load="idle", variant=label, block=block, position=0, prime=prime)
    return Run(trial=trial, status=status, reason="" if status is Status.OK else f"{how} something")


def rates(runs: Sequence[Run], experiment: Experiment = EXPERIMENT) -> tuple[FailureRates, ...]:
    return failures.rates(experiment, plan.variants(experiment), as_table(runs))


def in_blocks(failing: Mapping[str, int], blocks: int = 40, workload: str = "w") -> list[Run]:
    """Return one run of each side a block; of the first blocks so many fail."""
    return [
        ended(label, block, "failed" if block < failing.get(label, 0) else "ok", workload=workload)
        for block in range(blocks)
        for label in (BASELINE, CANDIDATE)
    ]


def test_runs_are_counted_by_how_they_ended_with_the_warm_up_and_discarded_ones() -> None:
    runs = [ended(BASELINE, block, "ok") for block in range(5)]
    runs += [ended(CANDIDATE, 0, TIMED_OUT), ended(CANDIDATE, 1, KILLED), ended(CANDIDATE, 2, "failed")]
    runs += [ended(CANDIDATE, 3, "refused"), ended(CANDIDATE, 4, TIMED_OUT, prime=1), ended(CANDIDATE, 4, "ok")]
    (found,) = rates(runs)
    assert (found.baseline_runs.runs, found.baseline_runs.failed, found.baseline_runs.share) == (5, 0, 0.0)
    after = found.candidate_runs
    assert (after.runs, after.failed, after.timed_out, after.crashed, after.others, after.refused) == (6, 4, 2, 1, 1, 1)
    assert after.share == 4 / 6


def test_a_share_has_wilsons_interval_at_the_confidence_of_the_report() -> None:
    (found,) = rates(in_blocks({CANDIDATE: 14}, blocks=120))
    exact = scipy.stats.binomtest(14, 120).proportion_ci(0.95, "wilson")
    assert (found.candidate_runs.low, found.candidate_runs.high) == pytest.approx((exact.low, exact.high))
    assert found.baseline_runs.low == 0.0 and found.baseline_runs.high == pytest.approx(0.031, abs=1e-3)


def test_variants_that_were_not_built_have_no_rate() -> None:
    assert rates([ended(CANDIDATE, 1, "unavailable")]) == ()
    (found,) = rates([ended(CANDIDATE, 1, "unavailable"), *(ended(BASELINE, block, "ok") for block in range(3))])
    assert (found.candidate_runs.runs, found.candidate_runs.low, found.candidate_runs.high) == (0, 0.0, 1.0)
    assert found.unfit == () and found.p_value == 1.0


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 8))
def test_with_one_run_a_side_the_test_is_mcnemars(baseline: int, candidate: int, both: int) -> None:
    blocks = [("failed", "ok")] * baseline + [("ok", "failed")] * candidate + [("failed", "failed")] * both
    blocks += [("ok", "ok")] * 10
    runs = [
        ended(label, number, how)
        for number, sides in enumerate(blocks)
        for label, how in zip((BASELINE, CANDIDATE), sides, strict=True)
    ]
    (found,) = rates(runs)
    discordant = baseline + candidate
    exact = scipy.stats.binomtest(candidate, discordant).pvalue if discordant else 1.0
    assert found.p_value == pytest.approx(exact) and found.discordant == discordant
    more = "candidate" if candidate > baseline else "baseline"
    assert found.fails_more == (more if exact <= 0.05 else "")


def test_runs_of_a_block_that_fail_together_count_once() -> None:
    runs = [
        ended(label, block, "failed" if label == CANDIDATE and block < 5 else "ok", prime=prime)
        for block in range(40)
        for label in (BASELINE, CANDIDATE)
        for prime in (1, 0)
    ]
    (found,) = rates(runs)
    assert found.candidate_runs.failed == 10 and found.discordant == 5
    assert found.p_value == pytest.approx(2 / 2**5) and not found.fails_more
    fisher = scipy.stats.fisher_exact(np.array([[0, 80], [10, 70]])).pvalue
    assert fisher < 0.05, "it takes them for ten independent failures"


def test_failures_of_both_sides_at_the_same_time_are_no_difference() -> None:
    (found,) = rates(in_blocks({BASELINE: 20, CANDIDATE: 20}))
    assert (found.discordant, found.p_value, found.fails_more) == (0, 1.0, "")
    assert set(found.unfit) == {"baseline", "candidate"}


def test_blocks_without_a_partner_do_not_enter_the_test() -> None:
    """As after a variant was given up, or the session was interrupted."""
    runs = in_blocks({}) + [ended(CANDIDATE, 100 + block, "failed") for block in range(10)]
    (found,) = rates(runs)
    assert found.candidate_runs.failed == 10 and (found.discordant, found.p_value) == (0, 1.0)


@pytest.mark.parametrize(("number", "significant"), [(7, True), (6, False)])
def test_the_tests_of_a_report_share_its_rate(number: int, significant: bool) -> None:
    """7 blocks give a p-value of 0.016, 6 give 0.031: with two tests only the first is below 0.05 / 2."""
    several = [(name, {CANDIDATE: number}) for name in ("w", "x")]
    workloads = tuple(("s", name) for name in ("w", "x", "y", "z"))
    runs = [run for name, failing in several for run in in_blocks(failing, workload=name)]
    # Workloads without a failure, or with too few to reject, don't take part in the correction.
    runs += in_blocks({}, workload="y") + in_blocks({BASELINE: 4}, workload="z")
    experiment = msgspec.structs.replace(EXPERIMENT, workloads=workloads)
    found = rates(runs, experiment)
    assert [bool(each.fails_more) for each in found] == [significant, significant, False, False]
    (alone,) = rates(in_blocks({CANDIDATE: 6}))
    assert alone.fails_more == "candidate"


def test_a_side_that_fails_significantly_more_often_is_not_judged_although_its_share_is_small() -> None:
    runs = in_blocks({CANDIDATE: 9}, blocks=1000)
    (found,) = rates(runs)
    assert found.candidate_runs.share < failures.LARGEST_SHARE
    assert found.unfit == ("candidate",) and found.fails_more == "candidate"
    assert failures.reason_of(found).startswith("candidate fails significantly more often: in 9 of 1000 runs, 0.9 % (")
    before = msgspec.structs.replace(EXPERIMENT, failures_count=False)
    assert rates(runs, before)[0].unfit == (), "records before this rule keep their verdicts"


@pytest.mark.parametrize("failing", [BASELINE, CANDIDATE])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_time_outs_never_leave_a_verdict(new_bench: Callable[[], Bench], failing: str, ratio: float) -> None:
    """12 % of the runs of one side time out; those that succeed are faster, as fast or slower."""
    bench = new_bench()
    bench.rules, bench.correction, bench.failures_count = 2, REPORT_CORRECTION, True
    bench.workload("w", "wall", "res", "nivcsw")
    for block in range(1, 101):
        for label, factor in ((BASELINE, 1.0), (CANDIDATE, ratio)):
            fails = label == failing and block % 8 == 0
            if fails:
                bench.run("w", label, block, Status.FAILED)
            else:
                bench.run("w", label, block, wall=factor * (100.0 + block % 3), res=factor * 50.0, nivcsw=factor * 3.0)
    found = bench.analysis()
    assert {row.verdict for row in found.comparisons} == {Verdict.INVALID}
    assert found.failure_rates[0].fails_more == ("candidate" if failing == CANDIDATE else "baseline")
    assert all("fails significantly more often: in 12 of 100 runs, 12 % (" in row.reason for row in found.comparisons)


def test_copies_of_the_baseline_have_rates_too(new_bench: Callable[[], Bench]) -> None:
    bench = new_bench()
    bench.null = True
    bench.noisy("w", 1.0, 20)
    bench.run("w", "libc=glibc (again)", 1, Status.FAILED)
    found = {each.candidate.copy: each.candidate_runs.failed for each in bench.analysis().failure_rates}
    assert found[Copy.AGAIN] == 1 and found[Copy.FIRST] == 0


# Limits


def exactly(blocks: int, failing: Mapping[str, int], confidence: float = 1 - 2.0**-5) -> FailureRates:
    """Return the rates at an error rate that is a power of two, as p-values of sign tests are."""
    (found,) = rates(in_blocks(failing, blocks), msgspec.structs.replace(EXPERIMENT, confidence=confidence))
    return found


@pytest.mark.parametrize(("number", "significant"), [(5, False), (6, True), (7, True)])
@pytest.mark.parametrize("failing", [BASELINE, CANDIDATE])
def test_a_p_value_of_just_the_rate_is_significant(number: int, failing: str, *, significant: bool) -> None:
    """Six blocks in which one side alone fails give 2 / 2^6."""
    found = exactly(1000, {failing: number})
    side = "candidate" if failing == CANDIDATE else "baseline"
    assert found.p_value == 2.0 ** (1 - number) and found.discordant == number
    assert found.fails_more == (side if significant else "")
    assert found.unfit == ((side,) if significant else ())
