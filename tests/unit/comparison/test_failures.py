# SPDX-License-Identifier: MIT OR Apache-2.0
"""A side of which more than a few runs fail is not judged: those that succeed may be its fast ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from swapstone.model import Status, Verdict
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
        assert row.reason.startswith(f"{side} fails in 2 of 60 runs: the others are no sample of all its runs")


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
