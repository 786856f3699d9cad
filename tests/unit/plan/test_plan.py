# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plans: blocks in random order from a seed, unchanged when a group closes."""

from __future__ import annotations

import collections
import hashlib
import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapstone.core import plan
from swapstone.core.model import (
    BOOT_ORDER,
    DIRECTION_RULES,
    EQUAL_EXTRA_RULES,
    TAIL_RULES,
    Copy,
    Experiment,
    FactorLevels,
    Status,
)
from tests.unit import builders


def test_variants_are_all_combinations_with_the_baseline_first() -> None:
    factors = (FactorLevels(factor="libc", levels=("glibc", "musl")), FactorLevels(factor="x", levels=("1", "2", "3")))
    labels = [variant.label for variant in plan.variants(builders.experiment(factors=factors))]
    assert labels == [
        "libc=glibc,x=1",
        "libc=glibc,x=2",
        "libc=glibc,x=3",
        "libc=musl,x=1",
        "libc=musl,x=2",
        "libc=musl,x=3",
    ]


def test_a_null_adds_the_baseline_again_and_relinked() -> None:
    labels = [variant.label for variant in plan.variants(builders.experiment(null=True))]
    assert labels == ["libc=glibc", "libc=glibc (again)", "libc=glibc (relinked)", "libc=musl"]


@given(st.integers(0, 2**31), st.integers(0, 50))
def test_a_block_has_each_variant_of_a_group_once_and_adjacent(seed: int, index: int) -> None:
    subject = builders.experiment(seed=seed, null=True)
    trials = plan.block(subject, index, plan.groups(subject))
    assert len({trial.key for trial in trials}) == len(trials) == 8
    assert [trial.position for trial in trials] == list(range(8))
    for start in (0, 4):
        assert len({trial.workload for trial in trials[start : start + 4]}) == 1
        assert len({trial.variant for trial in trials[start : start + 4]}) == 4


def test_orders_are_random_over_blocks_and_balanced() -> None:
    subject = builders.experiment()
    first = collections.Counter(plan.block(subject, index, plan.groups(subject))[0].variant for index in range(1000))
    assert 400 < first["libc=glibc"] < 600  # 6.3 standard deviations of a fair coin
    leading = collections.Counter(plan.block(subject, index, plan.groups(subject))[0].workload for index in range(1000))
    assert 400 < leading["b_malloc_tiny1"] < 600


def test_the_plan_depends_on_the_seed() -> None:
    def orders(seed: int) -> list[str]:
        subject = builders.experiment(seed=seed)
        return [trial.key for index in range(20) for trial in plan.block(subject, index, plan.groups(subject))]

    assert orders(1) == orders(1)
    assert orders(1) != orders(2)


def test_closing_a_group_does_not_change_the_order_in_the_others() -> None:
    subject = builders.experiment(null=True)
    both = plan.groups(subject)
    for index in range(30):
        whole = [trial.variant for trial in plan.block(subject, index, both) if trial.workload == both[1][1]]
        alone = [trial.variant for trial in plan.block(subject, index, both[1:])]
        assert whole == alone


def test_discarded_runs_come_directly_before_the_measured_run_of_their_variant() -> None:
    subject = builders.experiment(null=True)
    first, second = plan.groups(subject)
    for index in range(5):
        plain = plan.block(subject, index, (first, second))
        primed = plan.block(subject, index, (first, second), {second: 2})
        assert [trial.position for trial in primed] == list(range(4 + 3 * 4))
        assert [trial.key.split("/prime-")[0] for trial in primed if not trial.prime] == [trial.key for trial in plain]
        others = [trial for trial in primed if trial.workload == second[1]]
        for start in range(0, 12, 3):
            assert [trial.prime for trial in others[start : start + 3]] == [2, 1, 0]
            assert len({trial.variant for trial in others[start : start + 3]}) == 1
        assert len({trial.key for trial in primed}) == len(primed)


@pytest.mark.parametrize("count", range(2, 9))
def test_each_treatment_of_a_williams_square_follows_each_other_equally_often(count: int) -> None:
    rows = plan.williams_square(count)
    pairs = collections.Counter(pair for row in rows for pair in itertools.pairwise(row))
    assert set(pairs) == set(itertools.permutations(range(count), 2)) and len(set(pairs.values())) == 1
    places = collections.Counter(place for row in rows for place in enumerate(row))
    assert len(places) == count * count and len(set(places.values())) == 1


def test_balanced_orders_are_whole_squares_with_names_and_rows_drawn_for_each_cycle() -> None:
    subject = builders.experiment(order="balanced", factors=(FactorLevels(factor="x", levels=("1", "2", "3")),))
    group = plan.groups(subject)[0]
    orders = [tuple(trial.variant for trial in plan.block(subject, index, (group,))) for index in range(1, 61)]
    cycles = [orders[start : start + 6] for start in range(0, 60, 6)]
    for cycle in cycles:
        pairs = collections.Counter(pair for row in cycle for pair in itertools.pairwise(row))
        assert set(pairs.values()) == {2} and len(pairs) == 6
    assert len(set(map(tuple, cycles))) > 5


def test_seeds_of_links_are_those_that_records_were_made_with() -> None:
    """A resumed experiment must build the same links again, so their seeds never change."""
    subject = builders.experiment(layouts=2, seed=7)
    for copy, which in ((Copy.FIRST, "layout"), (Copy.AGAIN, "layout"), (Copy.RELINKED, "relinked")):
        expected = [hashlib.sha256(f"7\0{which}\0{turn}".encode()).hexdigest()[:16] for turn in range(2)]
        assert plan.layout_seeds(subject, copy) == tuple(expected)


@pytest.mark.parametrize(
    ("ended", "old", "new"),
    [
        ({Status.FAILED: 2}, False, False),
        ({Status.FAILED: 3}, True, True),
        ({Status.FAILED: 3, Status.OK: 1}, True, False),
        ({Status.FAILED: 300, Status.OK: 1}, True, False),
        ({Status.FAILED: 2, Status.REFUSED: 1}, True, True),
        ({Status.FAILED: 2, Status.REFUSED: 1, Status.OK: 9}, True, False),
        ({Status.REFUSED: 3, Status.OK: 9}, True, True),
        ({Status.OK: 9}, False, False),
    ],
)
def test_a_variant_is_given_up_if_it_never_succeeds_or_is_refused(
    ended: dict[Status, int], old: bool, new: bool
) -> None:
    assert plan.gives_up(builders.experiment(), ended) is old
    assert plan.gives_up(builders.experiment(failures_count=True), ended) is new


def test_a_variant_that_fails_in_some_runs_stays_in_the_plan() -> None:
    subject = builders.experiment(workloads=(("libc", "b_malloc_tiny1"),), failures_count=True)
    (group,) = plan.groups(subject)
    trials = [trial for index in range(12) for trial in plan.block(subject, index, (group,))]
    failing = [trial.variant == "libc=musl" and trial.block % 2 == 0 for trial in trials]
    runs = [
        builders.run(trial, status=Status.FAILED if fails else Status.OK)
        for trial, fails in zip(trials, failing, strict=True)
    ]
    assert plan.given_up(subject, runs, 11) == frozenset()
    old = builders.experiment(workloads=(("libc", "b_malloc_tiny1"),))
    assert plan.given_up(old, runs, 3) == frozenset()
    assert plan.given_up(old, runs, 4) == {(*group, "libc=musl")}


def test_in_the_order_of_boots_a_block_has_each_variant_once_in_one_piece() -> None:
    """All groups of a variant follow each other, so that a board boots once for each variant of a block."""
    subject = builders.experiment(
        order=BOOT_ORDER, workloads=(("libc", "b_malloc_tiny1"), ("libc", "b_malloc_tiny2")), null=True
    )
    labels = {variant.label for variant in plan.variants(subject)}
    firsts = set()
    for index in range(20):
        trials = plan.block(subject, index, plan.groups(subject))
        pieces = [label for label, _ in itertools.groupby(trial.variant for trial in trials)]
        assert len(pieces) == len(labels) and set(pieces) == labels
        groups = [[trial.workload for trial in trials if trial.variant == label] for label in pieces]
        assert len(groups[0]) == 2 and groups == len(pieces) * [groups[0]]
        closed = plan.block(subject, index, plan.groups(subject)[:1])
        assert [trial.variant for trial in closed] == pieces
        firsts.add(pieces[0])
    assert firsts == labels


@pytest.mark.parametrize("rules", [DIRECTION_RULES, EQUAL_EXTRA_RULES])
def test_how_many_runs_are_discarded_varies_at_random_by_the_seed(rules: int) -> None:
    """With a constant number a program that is slow in each second run is always measured in one phase."""
    subject = builders.experiment(rules=rules, seed=5)
    (group, *_) = plan.groups(subject)

    def numbers(experiment: Experiment) -> list[list[int]]:
        return [
            [len(list(runs)) - 1 for _, runs in itertools.groupby(trials, key=lambda trial: trial.variant)]
            for trials in (plan.block(experiment, index, [group], {group: 1}) for index in range(1, 200))
        ]

    found = numbers(subject)
    assert found == numbers(subject) != numbers(msgspec.structs.replace(subject, seed=6))
    assert {number for block in found for number in block} == {1, 2, 3}
    unequal = sum(one != other for one, other in found)
    assert unequal > 50 if rules == DIRECTION_RULES else not unequal, "what each run adds to a log grows alike"
    mean = sum(map(sum, found)) / (2 * len(found))
    assert mean == pytest.approx(plan.runs_each(subject, 1) - 1, abs=0.15)
    for index in range(1, 50):
        trials = plan.block(subject, index, [group], {group: 1})
        assert len({trial.key for trial in trials}) == len(trials)
        assert max(trial.prime for trial in trials) == 1, "the number that a check has set stays known"
        assert [trial.variant for trial in trials if not trial.prime] == [
            trial.variant for trial in plan.block(subject, index, [group])
        ]
    earlier = msgspec.structs.replace(subject, rules=TAIL_RULES)
    assert numbers(earlier) == [[1, 1]] * 199
    assert not any(trial.extra for index in range(50) for trial in plan.block(subject, index, [group]))
