# SPDX-License-Identifier: MIT OR Apache-2.0
"""Carry-over: what is found in simulated experiments whose truth is known, and what the stopping rule does about it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import pytest
from benchmarks.rules_simulated import (
    Machine,
    analysed,
    elapsed_rows,
    experiment_on,
    left_by_all,
    left_by_baseline,
    simulated,
)

from swapstone.core.comparison import carry_over
from swapstone.core.comparison.run_table import as_table
from swapstone.core.model import DIRECTION_RULES, CaveatKind, Run, Verdict
from tests.unit import builders
from tests.unit.comparison.test_limits import row

TRUE = (Verdict.EQUIVALENT, Verdict.SAME_MEDIAN, Verdict.INCONCLUSIVE)
"""Of variants that don't differ; an invalid row states nothing."""


def largest(runs: list[Run]) -> int:
    return max(run.trial.prime for run in runs)


def counted_blocks(runs: list[Run]) -> set[int]:
    """Return the blocks of the only group that count."""
    table = as_table(runs)
    return {*table.block[table.counted].tolist()}


@pytest.mark.slow
@pytest.mark.parametrize("variants", [2, 3])
@pytest.mark.parametrize("prime", [0, 1])
def test_what_the_baseline_leaves_behind_gives_no_difference(prime: int, variants: int, exhaustive: bool) -> None:
    machine = Machine(0.005, (0.0,) * variants, left_by_baseline(0.05))
    for seed in range(4 if exhaustive else 2):
        experiment = experiment_on(machine, seed, prime=prime)
        runs, notes = simulated(machine, experiment)
        found = analysed(experiment, runs)
        assert all(row.verdict in TRUE for row in elapsed_rows(found)), (seed, elapsed_rows(found))
        assert prime or (largest(runs) and "pairs so far don't count" in notes[0])


def test_without_the_tests_it_would_be_a_difference() -> None:
    """The same machine by the first rules, which had none of them."""
    machine = Machine(0.005, (0.0, 0.0), left_by_baseline(0.05))
    experiment = experiment_on(machine, 1, prime_more=False, rules=1)
    (row,) = elapsed_rows(analysed(experiment, simulated(machine, experiment)[0]))
    assert row.verdict is Verdict.WORSE and row.low is not None and row.low > 1.02


def test_where_no_more_runs_may_be_discarded_the_row_is_invalid_with_means_and_remedy() -> None:
    machine = Machine(0.005, (0.0, 0.0), left_by_baseline(0.05))
    experiment = experiment_on(machine, 1, prime_more=False)
    found = analysed(experiment, simulated(machine, experiment)[0])
    (row,) = elapsed_rows(found)
    assert row.verdict is Verdict.INVALID
    assert row.reason == (
        "carry-over: musl takes 1.00 ms after musl and 1.06 ms after glibc; glibc 1.00 ms after glibc and 1.00 ms after musl; "
        "measure with --prime 2"
    )
    carried = row.carry_over
    assert carried is not None and carried.matters and carried.discarded == 0 and carried.p_value < 1e-6
    assert carried.effect == pytest.approx(1.05, abs=0.01)
    assert carried.candidate_after_other / carried.candidate_after_itself == pytest.approx(1.05, abs=0.01)
    assert carried.baseline_after_other / carried.baseline_after_itself == pytest.approx(1, abs=0.01)


def test_an_effect_that_is_equal_for_all_variants_is_none() -> None:
    machine = Machine(0.005, (0.0, 0.0), left_by_all(0.05))
    experiment = experiment_on(machine, 2, prime_more=False)
    (row,) = elapsed_rows(analysed(experiment, simulated(machine, experiment)[0]))
    assert row.verdict in TRUE
    assert row.carry_over is not None and not row.carry_over.matters


@pytest.mark.slow
def test_a_small_carry_over_under_a_large_ratio_is_a_caveat() -> None:
    machine = Machine(0.002, (0.0, 1.95), left_by_baseline(0.015))
    experiment = experiment_on(machine, 3, prime_more=False, blocks=60)
    found = analysed(experiment, simulated(machine, experiment)[0])
    (row,) = elapsed_rows(found)
    assert row.verdict is Verdict.WORSE and row.carry_over is not None and not row.carry_over.matters
    (caveat,) = [each for each in found.caveats if each.kind is CaveatKind.CARRY_OVER]
    assert "too small to change" in caveat.message and "musl takes 7.0" in caveat.message


def test_a_carry_over_that_one_discarded_run_removes_is_a_caveat_with_two() -> None:
    machine = Machine(0.005, (0.0, 0.0), left_by_baseline(0.5))
    experiment = experiment_on(machine, 4, prime=2, prime_more=False)
    found = analysed(experiment, simulated(machine, experiment)[0])
    (row,) = elapsed_rows(found)
    assert row.verdict in TRUE and row.carry_over is not None and row.carry_over.discarded == 2
    assert row.carry_over.effect == pytest.approx(1.65, abs=0.05) and not row.carry_over.matters
    (caveat,) = [each for each in found.caveats if each.kind is CaveatKind.CARRY_OVER]
    assert "musl takes 1.00 ms after musl and 1.65 ms after glibc" in caveat.message
    assert "directly follow a run of the same variant" in caveat.message


def test_an_effect_of_two_runs_is_not_settled_with_one_discarded_run() -> None:
    machine = Machine(0.005, (0.0, 0.0), left_by_baseline(0.05, runs=2))
    fixed = experiment_on(machine, 5, prime=1, prime_more=False)
    (row,) = elapsed_rows(analysed(fixed, simulated(machine, fixed)[0]))
    assert row.verdict is Verdict.INVALID and "measure with --prime 2" in row.reason
    growing = experiment_on(machine, 5, prime=1)
    runs, _ = simulated(machine, growing)
    assert largest(runs) >= 2 and all(row.verdict in TRUE for row in elapsed_rows(analysed(growing, runs)))


def test_figures_are_of_the_blocks_with_the_most_discarded_runs() -> None:
    machine = Machine(0.005, (0.0, 0.0), left_by_baseline(0.05))
    experiment = experiment_on(machine, 6)
    runs, _ = simulated(machine, experiment)
    counted = counted_blocks(runs)
    assert min(counted) > 15 and {run.trial.prime for run in runs if run.trial.block == max(counted)} >= {0, 1}
    found = analysed(experiment, runs)
    (row,) = elapsed_rows(found)
    assert len(row.baseline_values) == len(counted)
    (caveat,) = [each for each in found.caveats if "not in the figures" in each.message]
    assert f"after block {min(counted) - 1}" in caveat.message


def test_without_budget_for_more_the_row_is_invalid_and_the_experiment_ends() -> None:
    machine = Machine(0.005, (0.0, 0.0), left_by_baseline(0.05))
    experiment = experiment_on(machine, 7, budget_ns=4 * 10**9)  # 20 blocks of 2 runs of 0.1 s
    runs, notes = simulated(machine, experiment)
    (row,) = elapsed_rows(analysed(experiment, runs))
    assert row.verdict is Verdict.INVALID and "give it a longer --budget" in row.reason
    assert largest(runs) == 0 and notes == [] and max(run.trial.block for run in runs) == 15


@pytest.mark.parametrize(("pairs", "discarded"), [(2, 1), (30, 0)])
def test_a_budget_that_does_not_hold_the_pairs_of_an_interval_with_more_discarded_runs_is_kept_for_those_without(
    monkeypatch: pytest.MonkeyPatch, pairs: int, discarded: int
) -> None:
    """A report with many rows needs more pairs than a first check. 15 blocks of 2 runs, then 15 of 5.1 on average, take 11 s."""
    monkeypatch.setattr("swapstone.core.session.precision_stop.interval_pairs", lambda *_: pairs)
    machine = Machine(0.005, (0.0, 0.0), left_by_baseline(0.05))
    runs, _ = simulated(machine, experiment_on(machine, 7, budget_ns=12 * 10**9))
    assert largest(runs) == discarded


@pytest.mark.parametrize(("seconds", "more"), [(13, False), (22, True)])
def test_the_budget_must_hold_the_blocks_of_all_workloads(seconds: int, more: bool) -> None:
    """15 blocks of 4 runs take 6 s. With one discarded run in one of the workloads the next 15 take 9 s, in both 12 s."""
    machine = Machine(0.005, (0.0, 0.0), left_by_baseline(0.2))
    both = ("libc", "b_malloc_tiny1"), ("libc", "b_malloc_tiny2")
    experiment = experiment_on(machine, 7, budget_ns=seconds * 10**9, workloads=both)
    assert (largest(simulated(machine, experiment)[0]) > 0) == more


def test_a_budget_that_holds_no_discarded_runs_is_spent_without_them() -> None:
    machine = Machine(0.005, (0.0, 0.0))
    short = experiment_on(machine, 8, prime=1, budget_ns=4 * 10**9)
    runs, notes = simulated(machine, short)
    assert largest(runs) == 0 and "does not hold 15 pairs with a discarded run" in notes[0]
    enough = experiment_on(machine, 8, prime=1, budget_ns=10 * 10**9)
    assert largest(simulated(machine, enough)[0]) == 1
    fixed = experiment_on(machine, 8, prime=1, prime_more=False, budget_ns=8 * 10**9)
    assert largest(simulated(machine, fixed)[0]) == 1


def test_an_exact_number_of_blocks_counts_those_after_the_change() -> None:
    machine = Machine(0.005, (0.0, 0.0), left_by_baseline(0.05))
    experiment = experiment_on(machine, 9, blocks=20)
    runs, _ = simulated(machine, experiment)
    assert largest(runs) == 1
    assert len(counted_blocks(runs)) == 20
    plain = experiment_on(Machine(0.005), 9, blocks=20)
    assert max(run.trial.block for run in simulated(Machine(0.005), plain)[0]) == 20


def test_a_resumed_experiment_repeats_its_decisions() -> None:
    """The runs of a record give the plan that made them, without the stopping rule."""
    machine = Machine(0.01, (0.0, 0.0, 0.0), left_by_baseline(0.05))
    experiment = experiment_on(machine, 10)
    runs, _ = simulated(machine, experiment)
    assert largest(runs) > 0


@pytest.mark.slow
@pytest.mark.parametrize("prime", [0, 1])
@pytest.mark.parametrize(
    "machine",
    [
        Machine(0.02, (0.0, 0.1)),
        Machine(0.02, (0.0, 0.0, 0.1), drift=0.0005),
        Machine(0.02, (0.0, 0.0), bursts=0.03),
        Machine(0.02, (0.0, 0.1), autocorrelation=0.8),
        Machine(0.02, (0.0, 0.0), position=0.02),
    ],
    ids=["independent", "drift", "bursts", "autocorrelation", "position"],
)
def test_noise_is_no_carry_over(machine: Machine, prime: int, exhaustive: bool) -> None:
    for seed in range(1, 9 if exhaustive else 3):
        experiment = experiment_on(machine, seed, prime=prime, prime_more=False, blocks=25)
        for each in elapsed_rows(analysed(experiment, simulated(machine, experiment)[0])):
            assert each.carry_over is None or not each.carry_over.matters, (seed, each.reason)


@pytest.mark.slow
def test_balanced_orders_are_judged_by_whole_cycles() -> None:
    machine = Machine(0.02, (0.0, 0.0, 0.2))
    experiment = experiment_on(machine, 1, order="balanced", prime_more=False, blocks=62)
    runs, _ = simulated(machine, experiment)
    same, other = elapsed_rows(analysed(experiment, runs))
    assert (
        len(same.baseline_values) == len(other.baseline_values) == 10
    )  # cycles of 6 blocks; the last 2 blocks are left out
    assert same.verdict in TRUE and other.verdict is Verdict.WORSE
    assert other.carry_over is not None and not other.carry_over.matters


@pytest.mark.slow
def test_three_variants_in_balanced_orders_meet_the_one_that_leaves_something_alike() -> None:
    """What the baseline leaves is no difference between the other two, and its own rows are found out."""
    machine = Machine(0.01, (0.0, 0.0, 0.0), left_by_baseline(0.2))
    experiment = experiment_on(machine, 2, order="balanced", prime_more=False, blocks=24)
    runs, _ = simulated(machine, experiment)
    found = elapsed_rows(analysed(experiment, runs))
    assert [row.verdict for row in found] == [Verdict.INVALID] * 2


@pytest.mark.parametrize(
    ("p_values", "rejected"),
    [
        ([0.005], [True]),
        ([0.0051], [False]),
        ([0.004, 0.0025], [True, True]),  # the smallest of two at half the rate, the other at the rate
        ([0.004, 0.0026], [False, False]),
        ([0.0051, 0.0025], [False, True]),
        ([0.0016, 0.005, 0.0024], [True, True, True]),
        ([0.0017, 0.0001, 0.0026], [True, True, True]),
        ([0.0026, 0.0001, 0.0027], [False, True, False]),
        ([], []),
    ],
)
def test_hypotheses_are_rejected_by_holms_procedure(p_values: list[float], rejected: list[bool]) -> None:
    evidence = [carry_over.Evidence(p_value, 0.0, 0.0, (0.0,) * 4) for p_value in p_values]
    tested = [carry_over.Tested(row([1.0], [1.0]), 0, each, (each,)) for each in evidence]
    judged = carry_over.judge(builders.experiment(), tested)
    assert [each.fires for each in judged] == [each.found is not None for each in judged] == rejected


def test_discarded_runs_by_default_are_no_evidence_of_a_dependence() -> None:
    """They begin after the first block, whatever the program does; only a check that finds a dependence is reported."""

    def left_out(machine: Machine, prime: int) -> list[str]:
        experiment = experiment_on(machine, 5, prime=prime)
        runs, _ = simulated(machine, experiment)
        assert {run.trial.prime for run in runs if run.trial.block == 1} == {0} and largest(runs) >= 1
        found = [each.message for each in analysed(experiment, runs).caveats if each.kind is CaveatKind.CARRY_OVER]
        return [message for message in found if message.startswith("Runs depended on what ran before them")]

    assert left_out(Machine(0.005, (0.0, 0.0), left_by_all(0.0)), 1) == []
    (message,) = left_out(Machine(0.005, (0.0, 0.0), left_by_baseline(0.05)), 0)
    assert re.search(r": 2 after block \d+ of ", message)


def slow_in_each_20th(phase: int) -> Machine:
    """Return a machine on which every twentieth run of the candidate takes ten times as long."""

    def carried(mine: int, earlier: Sequence[int]) -> float:
        return math.log(10) if mine and earlier.count(1) % 20 == phase else 0.0

    return Machine(0.003, (0.0, 0.0), carried)


@pytest.mark.parametrize("phase", range(4))
def test_what_is_periodic_is_found_in_every_phase(phase: int) -> None:
    machine = slow_in_each_20th(phase)
    experiment = experiment_on(machine, 3, prime=1, prime_more=False, blocks=100, confidence=0.95)
    (row,) = elapsed_rows(analysed(experiment, simulated(machine, experiment)[0]))
    assert row.verdict is Verdict.WORSE_TAIL and row.mean_effect == pytest.approx(1.45, abs=0.25)
    assert row.candidate_runs is not None and row.candidate_runs.runs > 140, "discarded runs count in the tail"
    assert len(row.candidate_values) == 100 and row.effect == pytest.approx(1, abs=0.01)
    assert row.carry_over is not None and not row.carry_over.matters


def test_with_a_constant_number_of_discarded_runs_the_phase_would_decide() -> None:
    """By rules 2, which had one."""

    def verdict(phase: int) -> Verdict:
        machine = slow_in_each_20th(phase)
        experiment = experiment_on(machine, 3, prime=1, prime_more=False, blocks=100, confidence=0.95, rules=2)
        (row,) = elapsed_rows(analysed(experiment, simulated(machine, experiment)[0]))
        return row.verdict

    assert {verdict(0), verdict(1)} == {Verdict.EQUIVALENT, Verdict.WORSE_TAIL}


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_six_blocks_are_tested(seed: int) -> None:
    machine = Machine(0.005, (0.0, 0.0), left_by_baseline(0.05))

    def tested(blocks: int) -> bool:
        experiment = experiment_on(machine, seed, prime_more=False, blocks=blocks, confidence=0.95)
        (row,) = elapsed_rows(analysed(experiment, simulated(machine, experiment)[0]))
        return row.carry_over is not None

    assert [tested(blocks) for blocks in (5, 6, 7)] == [False, True, True]


@pytest.mark.slow
@pytest.mark.parametrize("prime", [0, 1])
def test_programs_without_carry_over_get_no_statement_of_one_at_any_check(prime: int, exhaustive: bool) -> None:
    """Each check may discard more runs as a precaution: at 5 % of the first checks. By rules 2 that was stated as a dependence."""
    stated = precautions = 0
    for seed in range(200 if exhaustive else 40):
        machine = Machine(0.01)
        experiment = experiment_on(machine, seed, prime=prime, confidence=0.95, budget_ns=40 * 10**9)
        runs, notes = simulated(machine, experiment)
        found = analysed(experiment, runs)
        stated += any(each.kind is CaveatKind.CARRY_OVER for each in found.caveats)
        stated += any(row.verdict is Verdict.INVALID for row in found.comparisons)
        stated += any("runs depend on what ran before them" in note for note in notes)
        precautions += any(each.message.startswith("As a precaution") for each in found.caveats)
    assert stated <= exhaustive
    assert precautions or not prime


def test_a_check_that_suspects_carry_over_is_a_precaution_and_one_that_shows_it_a_statement() -> None:
    def after(p_value: float, *, running: bool, rules: int = DIRECTION_RULES) -> bool:
        evidence = carry_over.Evidence(p_value, 0.1, 0.01, (0.0,) * 4)
        one = carry_over.Tested(row([1.0, 1.1, 0.9], [1.0, 1.2, 0.9]), 0, evidence, (evidence,))
        (judged,) = carry_over.judge(builders.experiment(rules=rules), [one], running=running)
        return judged.matters

    assert [after(p_value, running=True) for p_value in (0.00024, 0.00026, 0.004)] == [True, False, False]
    assert [after(p_value, running=False) for p_value in (0.0039, 0.0041)] == [True, False]
    assert after(0.0049, running=True, rules=2) and after(0.0049, running=False, rules=2)
