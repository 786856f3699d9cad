# SPDX-License-Identifier: MIT OR Apache-2.0
"""The number of pairs that an interval needs after correction."""

from __future__ import annotations

import msgspec

from swapstone.core import plan
from swapstone.core.comparison.pairs import most_hypotheses, pairs_for
from swapstone.core.model import CURRENT_RULES, REPORT_CORRECTION, FactorLevels
from tests.unit.comparison.conftest import Bench


def bench_of(workloads: int) -> Bench:
    made = Bench()
    for number in range(workloads):
        made.workload(f"w{number}", "wall", "cpu", "res", "nivcsw")
    return made


def hypotheses(bench: Bench, **changes: object) -> int:
    experiment = msgspec.structs.replace(bench.experiment, **changes)
    return most_hypotheses(experiment, plan.variants(experiment), bench.workloads)


def test_pairs_without_and_with_correction() -> None:
    experiment = bench_of(1).experiment
    assert [pairs_for(experiment, count) for count in (0, 1, 2, 12)] == [6, 6, 7, 9]
    assert pairs_for(msgspec.structs.replace(experiment, confidence=0.99), 100) == 15  # 2 / 2^15 <= 0.0001


def test_a_family_is_the_rows_of_one_quantity() -> None:
    assert hypotheses(bench_of(3)) == 3 * 2  # wall and CPU time
    bench = bench_of(3)
    bench.levels = ("glibc", "musl", "other")
    bench.null = True
    assert hypotheses(bench) == 2 * 3 * 2


def test_a_report_is_all_rows_with_their_tails_and_the_indices() -> None:
    changes = {"correction": REPORT_CORRECTION, "rules": CURRENT_RULES}
    # Three of four metrics have a better direction, so that their means are tested too; wall and CPU time have an index.
    assert hypotheses(bench_of(3), **changes) == 3 * (4 + 3) + 2
    assert hypotheses(bench_of(3), correction=REPORT_CORRECTION) == 3 * 4 + 2


def test_crossed_factors_add_effects_and_interactions() -> None:
    factors = (
        FactorLevels(factor="libc", levels=("glibc", "musl")),
        FactorLevels(factor="optimization", levels=("O2", "O3")),
    )
    found = hypotheses(bench_of(1), correction=REPORT_CORRECTION, rules=CURRENT_RULES, factors=factors)
    # Three candidates; per metric and index two main effects, four simple ones and one interaction.
    assert found == 3 * (4 + 3 + 2) + (4 + 2) * 7
