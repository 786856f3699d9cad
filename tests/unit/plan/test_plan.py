# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plans: blocks in random order from a seed, unchanged when a group closes."""

from __future__ import annotations

import collections

from hypothesis import given
from hypothesis import strategies as st

from swapstone import plan
from swapstone.model import FactorLevels
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
