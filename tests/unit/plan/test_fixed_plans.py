# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plans of experiments whose records exist: a resumed one continues them, and `verify` compares them, so no order may change."""

from __future__ import annotations

import hashlib
import math

import pytest

from swapstone.core import plan
from swapstone.core.model import BALANCED_ORDER, FactorLevels, Status, WorkloadPrecision
from swapstone.core.plan import stopping
from tests.unit import builders

THREE = (FactorLevels(factor="libc", levels=("glibc", "musl", "other")),)


@pytest.mark.parametrize(
    ("changes", "digest"),
    [
        ({}, "f2c5ad3ac93f8607"),
        ({"null": True}, "c37bb7b1950a7cf3"),
        ({"order": BALANCED_ORDER}, "2befb2a182ba8222"),
        ({"order": BALANCED_ORDER, "factors": THREE}, "6efab15e8e260bed"),
        ({"seed": 8, "loads": ("idle", "cpu")}, "1dabcf70958a08d0"),
    ],
)
def test_the_orders_of_a_plan_never_change(changes: dict[str, object], digest: str) -> None:
    subject = builders.experiment(**changes)
    groups = plan.groups(subject)
    keys = [
        (trial.key, trial.position)
        for number in range(14)
        for trial in plan.block(subject, number, groups, {groups[1]: number % 3})
    ]
    assert hashlib.sha256(repr(keys).encode()).hexdigest()[:16] == digest


@pytest.mark.parametrize(
    ("ok", "refused", "failed", "gone"),
    [(0, 0, 2, False), (0, 0, 3, True), (1, 0, 30, False), (1, 2, 9, False), (1, 3, 0, True), (0, 1, 2, True)],
)
def test_three_bad_runs_end_a_variant(ok: int, refused: int, failed: int, gone: bool) -> None:
    ended = {Status.OK: ok, Status.REFUSED: refused, Status.FAILED: failed}
    assert plan.gives_up(builders.experiment(failures_count=True), ended) == gone
    assert plan.gives_up(builders.experiment(), ended) == (refused + failed >= 3)


# When to stop

GROUPS = plan.groups(builders.experiment())


def precision(width: float | None, pairs: int = 15, missing: int = 0) -> WorkloadPrecision:
    return WorkloadPrecision(
        suite="libc",
        workload="b_malloc_tiny1",
        load="idle",
        pairs=pairs,
        half_width=width,
        lost="",
        missing_runs=missing,
        at_resolution=False,
        decided=False,
    )


def test_what_a_stop_reason_prints() -> None:
    assert {each.name: each.value for each in stopping.StopReason} == {
        "PRECISE": "every interval that can decide is as narrow as the margin",
        "BUDGET": "the budget is spent",
        "BLOCKS": "the requested number of blocks is reached",
        "CAP": "200 blocks or more are made, and more would gain little",
        "LOST": "more blocks would give no verdict; the report prints the reasons",
        "FAILED": "every workload failed",
        "INCOMPARABLE": "no workload can be compared",
    }


@pytest.mark.parametrize(
    ("width", "pairs", "missing", "block", "needed"),
    [
        (0.02, 15, 0, 15, 20),  # at least one more block, and up to the next check
        (0.03, 16, 0, 16, 40),  # 16 * 2.25 = 36
        (0.02 * math.sqrt(20 / 15), 15, 0, 15, 20),
        (0.021, 20, 0, 20, 25),  # 22.05
        (2.0, 15, 0, 15, 200),
        (None, 10, 0, 10, 15),
        (None, 15, 0, 15, 20),
        (0.02, 20, 30, 20, 50),
        (0.02, 20, 31, 20, 55),
        (None, 3, 0, 3, 15),
        (0.01, 150, 0, 150, 155),
        (0.03, 150, 0, 199, 200),
    ],
)
def test_blocks_that_a_group_needs(width: float | None, pairs: int, missing: int, block: int, needed: int) -> None:
    subject = builders.experiment()
    assert stopping.blocks_needed(subject, precision(width, pairs, missing), block, 0) == needed


def test_blocks_are_counted_since_more_runs_are_discarded() -> None:
    subject = builders.experiment()
    assert stopping.blocks_needed(subject, None, 20, 20) == 35
    assert stopping.blocks_needed(subject, precision(0.02, 5, 12), 30, 20) == 45  # 20 + 10 + 12
    assert stopping.blocks_needed(builders.experiment(margin=0.0), precision(0.01), 20, 0) == 200


@pytest.mark.parametrize(
    ("used_ns", "next_ns", "block", "reason"),
    [
        (59_000_000_000, 1_000_000_000, 3, None),
        (59_000_000_000, 1_000_000_002, 3, stopping.StopReason.BUDGET),
        (0, 2, 199, None),
        (0, 2, 200, stopping.StopReason.CAP),
    ],
)
def test_the_budget_and_the_cap_are_exact(
    used_ns: int, next_ns: int, block: int, reason: stopping.StopReason | None
) -> None:
    decision = stopping.decide(
        builders.experiment(), still_open=GROUPS, block=block, used_ns=used_ns, next_block_ns=next_ns, precisions={}
    )
    assert decision.stop is reason
    if reason:
        assert decision.remaining_ns == 0
    else:
        assert 0 < (decision.remaining_ns or 0) <= 60_000_000_000 - used_ns


def test_the_widest_interval_is_that_of_the_open_groups() -> None:
    def widest(*widths: float | None) -> float | None:
        precisions = {group: precision(width) for group, width in zip(GROUPS, widths, strict=False)}
        return stopping.decide(
            builders.experiment(), still_open=GROUPS, block=3, used_ns=0, next_block_ns=2, precisions=precisions
        ).widest

    assert widest(0.1, 0.3) == 0.3 and widest(0.3, 0.1) == 0.3
    assert widest(0.1, None) is None and widest(0.1) is None and widest() is None
