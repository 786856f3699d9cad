# SPDX-License-Identifier: MIT OR Apache-2.0
"""The stopping rule: looks, closing of groups, budget, largest and requested number of blocks, and estimate of the remaining time."""

from __future__ import annotations

import msgspec
import pytest

from swapstone.core.model import Experiment, FactorLevels, OwnProgram, WorkloadPrecision
from swapstone.core.plan.stopping import (
    MOST_BLOCKS,
    MOST_SHORT_BLOCKS,
    StopDecision,
    StopReason,
    decide,
    due,
    first_block,
    looks,
)

A, B = ("s", "a", "idle"), ("s", "b", "idle")
SECOND = 10**9

EXPERIMENT = Experiment(
    name="compare",
    factors=(FactorLevels(factor="libc", levels=("glibc", "musl")),),
    workloads=(("s", "a"), ("s", "b")),
    budget_ns=1000 * SECOND,
    margin=0.02,
    confidence=0.95,
    seed=1,
)


def at(group: tuple[str, str, str], half_width: float | None, pairs: int = 15, lost: str = "") -> WorkloadPrecision:
    suite, workload, load = group
    return WorkloadPrecision(suite=suite, workload=workload, load=load, pairs=pairs, half_width=half_width, lost=lost)


def decided(
    block: int, *found: WorkloadPrecision, used_s: float = 1, next_s: float = 2, experiment: Experiment = EXPERIMENT
) -> StopDecision:
    precisions = {(p.suite, p.workload, p.load): p for p in found}
    return decide(
        experiment,
        still_open=(A, B),
        block=block,
        used_ns=round(used_s * SECOND),
        next_block_ns=round(next_s * SECOND),
        precisions=precisions,
    )


def test_looks_are_at_15_pairs_and_then_every_5() -> None:
    assert [block for block in range(36) if due(block)] == [15, 20, 25, 30, 35]


def test_a_group_closes_when_its_interval_is_as_narrow_as_the_margin() -> None:
    found = decided(15, at(A, 0.02), at(B, 0.0201))
    assert (found.still_open, found.stop, found.widest) == ((B,), None, 0.0201)


def test_the_experiment_stops_when_all_groups_are_precise() -> None:
    found = decided(20, at(A, 0.001), at(B, 0.02))
    assert (found.still_open, found.stop, found.remaining_ns) == ((), StopReason.PRECISE, 0)


@pytest.mark.parametrize("block", [0, 1, 14, 16, 19])
def test_no_group_closes_between_looks(block: int) -> None:
    found = decided(block, at(A, 0.001), at(B, 0.001))
    assert (found.still_open, found.stop) == ((A, B), None)


def test_a_group_without_an_interval_stays_open() -> None:
    assert decided(15, at(A, None), at(B, 0.001)).still_open == (A,)
    assert decided(15).still_open == (A, B)
    assert decided(15, at(A, None), at(B, 0.5)).widest is None


def test_a_lost_group_closes() -> None:
    assert decided(15, at(A, None, lost="candidate fails"), at(B, 0.5)).still_open == (B,)


def test_the_budget_stops_before_a_block_that_would_not_fit() -> None:
    assert decided(3, used_s=998, next_s=2).stop is None
    found = decided(3, used_s=998.1, next_s=2)
    assert (found.stop, found.still_open) == (StopReason.BUDGET, (A, B))


def test_closing_makes_the_next_block_cheaper() -> None:
    both = decided(15, at(A, 0.5), at(B, 0.5), used_s=998.5, next_s=2)
    one = decided(15, at(A, 0.001), at(B, 0.5), used_s=998.5, next_s=2)
    assert (both.stop, one.stop) == (StopReason.BUDGET, None)


def test_the_experiment_stops_at_the_largest_number_of_blocks() -> None:
    assert decided(MOST_BLOCKS - 1, at(A, 0.5), at(B, 0.5)).stop is None
    assert decided(MOST_BLOCKS, at(A, 0.5), at(B, 0.5)).stop is StopReason.CAP


def test_an_exact_number_of_blocks_is_neither_shortened_nor_exceeded() -> None:
    exact = msgspec.structs.replace(EXPERIMENT, blocks=30, budget_extends=True)
    early = decided(29, at(A, 0.0001), at(B, 0.0001), used_s=10**6, experiment=exact)
    assert (early.stop, early.still_open, early.remaining_ns) == (None, (A, B), 2 * SECOND)
    assert decided(30, experiment=exact).stop is StopReason.BLOCKS


def test_a_budget_of_the_user_ends_a_number_of_blocks() -> None:
    most = msgspec.structs.replace(EXPERIMENT, blocks=30)
    found = decided(20, used_s=990, experiment=most)
    assert (found.stop, found.still_open, found.remaining_ns) == (None, (A, B), 10 * SECOND)
    assert decided(20, used_s=998, experiment=most).stop is None
    assert decided(20, used_s=999, experiment=most).stop is StopReason.BUDGET
    assert decided(0, used_s=10**6, experiment=most).stop is None, "a pair of runs is always made"
    assert decided(30, used_s=10**6, experiment=most).stop is StopReason.BLOCKS
    many = msgspec.structs.replace(EXPERIMENT, blocks=MOST_BLOCKS + 9)
    assert decided(MOST_BLOCKS + 1, experiment=many).stop is None


def test_twice_too_wide_needs_four_times_the_pairs() -> None:
    found = decided(15, at(A, 0.04), at(B, 0.001))
    assert found.still_open == (A,)
    assert found.remaining_ns == 45 * SECOND  # to 60 pairs, at half of 2 s a block


def test_the_estimate_is_between_the_first_look_and_the_budget() -> None:
    assert decided(0).remaining_ns == 15 * 2 * SECOND
    assert decided(15, at(A, 0.5), at(B, 0.5), used_s=990).remaining_ns == 10 * SECOND


def test_a_margin_of_0_closes_only_groups_without_variation() -> None:
    nothing = msgspec.structs.replace(EXPERIMENT, margin=0.0)
    found = decided(15, at(A, 0.0001), at(B, 0.0), experiment=nothing)
    assert found.still_open == (A,)
    assert found.remaining_ns == 185 * SECOND


def test_an_open_group_needs_at_least_the_pairs_until_the_next_look() -> None:
    assert decided(15, at(A, None), at(B, 0.001)).remaining_ns == 5 * SECOND


REPLICATES = msgspec.structs.replace(EXPERIMENT, clock="virtual", target="vm")


def test_on_the_virtual_clock_looks_are_at_6_replicates_and_then_every_2() -> None:
    assert [replicate for replicate in range(13) if due(replicate, *looks(REPLICATES))] == [6, 8, 10, 12]
    assert looks(EXPERIMENT) == (15, 5)


def test_a_higher_confidence_needs_more_replicates_for_its_first_interval() -> None:
    # 2 / 2^n must not exceed 1 %: n = 8.
    assert looks(msgspec.structs.replace(REPLICATES, confidence=0.99)) == (8, 2)
    assert looks(msgspec.structs.replace(REPLICATES, confidence=0.5)) == (6, 2)


def test_the_virtual_clock_has_no_warm_up_block() -> None:
    assert (first_block(EXPERIMENT), first_block(REPLICATES)) == (0, 1)


def test_a_group_of_equal_replicates_closes_at_the_first_look() -> None:
    found = decided(6, at(A, 0.0, pairs=6), at(B, 0.5, pairs=6), experiment=REPLICATES)
    assert (found.still_open, found.stop) == ((B,), None)
    assert decided(5, at(A, 0.0), at(B, 0.0), experiment=REPLICATES).still_open == (A, B)
    assert decided(6, at(A, 0.0), at(B, 0.02), experiment=REPLICATES).stop is StopReason.PRECISE
    assert decided(MOST_BLOCKS, at(A, 0.5), at(B, 0.5), experiment=REPLICATES).stop is StopReason.CAP
    assert decided(3, used_s=998.1, next_s=2, experiment=REPLICATES).stop is StopReason.BUDGET


def test_the_estimate_counts_replicates() -> None:
    assert decided(1, experiment=REPLICATES).remaining_ns == 5 * 2 * SECOND
    # Twice too wide after 6: 24 replicates, at half of 2 s each.
    assert decided(6, at(A, 0.04, pairs=6), at(B, 0.001, pairs=6), experiment=REPLICATES).remaining_ns == 18 * SECOND


def test_a_group_that_lacks_runs_for_equivalence_stays_open_though_it_is_precise() -> None:
    lacking = msgspec.structs.replace(at(A, 0.001), missing_runs=75)
    found = decided(15, lacking, at(B, 0.001))
    assert (found.still_open, found.stop) == ((A,), None)
    assert found.remaining_ns == 75 * SECOND  # to 90 pairs, at half of 2 s a block
    assert decided(MOST_BLOCKS, lacking, at(B, 0.001)).stop is StopReason.CAP
    assert decided(15, msgspec.structs.replace(lacking, lost="candidate fails"), at(B, 0.5)).still_open == (B,)


def test_a_short_own_program_makes_more_blocks() -> None:
    own = msgspec.structs.replace(EXPERIMENT, own=OwnProgram(name="prog", arguments=("prog",)))
    lacking = msgspec.structs.replace(at(A, 0.001), missing_runs=1)
    assert decided(MOST_BLOCKS, at(A, 0.5), at(B, 0.5), used_s=11, experiment=own).stop is None
    assert decided(MOST_BLOCKS, lacking, at(B, 0.5), used_s=12, experiment=own).stop is StopReason.CAP
    assert decided(MOST_BLOCKS, at(A, 0.5), at(B, 0.5), used_s=11).stop is StopReason.CAP
    assert decided(MOST_SHORT_BLOCKS, lacking, at(B, 0.5), used_s=11, experiment=own).stop is StopReason.CAP
    assert decided(999, lacking, at(B, 0.5), used_s=11, experiment=own).stop is None
    assert decided(1000, lacking, at(B, 0.5), used_s=11, experiment=own).stop is StopReason.CAP
    assert decided(200, lacking, at(B, 0.5), used_s=11.999999999, experiment=own).stop is None


@pytest.mark.parametrize(
    ("block", "since", "still_open", "remaining_s"),
    [
        (29, {}, (A, B), 2),
        (30, {}, (A, B), None),
        (30, {A: 10}, (A,), 10),  # one second for a block of one of the two groups
        (30, {A: 10, B: 20}, (A, B), 30),
        (39, {A: 10}, (A,), 1),
        (40, {A: 10}, (A, B), None),
        (45, {A: 30}, (A,), 15),  # at most twice as many blocks in all
        (45, {A: 30, B: 20}, (A, B), 20),
        (59, {A: 58}, (A,), 1),
        (60, {A: 58}, (A, B), None),
    ],
)
def test_an_exact_number_of_blocks_is_of_those_that_count(
    block: int, since: dict[tuple[str, str, str], int], still_open: tuple[object, ...], remaining_s: int | None
) -> None:
    found = decide(
        msgspec.structs.replace(EXPERIMENT, blocks=30),
        still_open=(A, B),
        block=block,
        used_ns=SECOND,
        next_block_ns=2 * SECOND,
        precisions={},
        since=since,
    )
    assert found.still_open == still_open
    assert found.stop is (StopReason.BLOCKS if remaining_s is None else None)
    assert found.remaining_ns == (remaining_s or 0) * SECOND
