# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decisions follow from the runs alone: a list that grew gives those of a new one, so a resumed experiment repeats them."""

from __future__ import annotations

import random

import msgspec
import pytest

from swapstone.core import plan
from swapstone.core.model import CURRENT_RULES, REPORT_CORRECTION, Experiment, Run, Sample
from swapstone.core.session.precision_stop import PrecisionStop
from tests.unit import builders

BLOCKS = 32


def _runs(seed: int, prime: int) -> list[Run]:
    drawn = random.Random(seed)
    subject = _experiment()
    return [
        msgspec.structs.replace(
            run,
            elapsed_ns=drawn.randrange(10**6, 10**7),
            trial=msgspec.structs.replace(run.trial, prime=prime if run.trial.block > BLOCKS // 2 else 0),
            samples=tuple(Sample(metric=name, values=(drawn.gauss(1e6, 1e4 * seed),)) for name in ("wall", "cpu")),
        )
        for run in builders.runs(subject, BLOCKS)
    ]


def _experiment() -> Experiment:
    return builders.experiment(
        rules=CURRENT_RULES, correction=REPORT_CORRECTION, failures_count=True, budget_ns=10**12, margin=0.0001
    )


@pytest.mark.parametrize("prime", [0, 1])
@pytest.mark.parametrize("seed", (1, 2))
def test_a_growing_list_decides_as_a_new_one(seed: int, prime: int) -> None:
    subject, every = _experiment(), _runs(seed, prime)
    groups = plan.groups(subject)
    growing: list[Run] = []
    noted: list[str] = []
    grown = PrecisionStop(subject, noted.append)
    discarded, widest = set(), set()
    for block in range(1, BLOCKS + 1):
        growing += [run for run in every if run.trial.block == block]
        notes: list[str] = []
        fresh = PrecisionStop(subject, notes.append)
        for earlier in range(1, block):  # its state is that of all checks
            fresh([run for run in growing if run.trial.block <= earlier], groups, earlier, earlier * 10**7, 10**7)
        decision = fresh(list(growing), groups, block, block * 10**7, 10**7)
        assert grown(growing, groups, block, block * 10**7, 10**7) == decision
        discarded |= set(decision.discarded.values())
        widest.add(decision.widest)
    assert noted == notes
    assert max(discarded) >= prime and (prime or len(widest) > 2)


def _refuse_to_analyse(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    def analysed(*_: object, **__: object) -> None:
        raise AssertionError("analysed")

    for name in names:
        monkeypatch.setattr(f"swapstone.core.comparison.{name}", analysed)


@pytest.mark.parametrize("prime_more", [False, True])
def test_with_an_exact_number_of_blocks_only_what_may_discard_more_runs_is_analysed(
    monkeypatch: pytest.MonkeyPatch, prime_more: bool
) -> None:
    subject = msgspec.structs.replace(_experiment(), blocks=BLOCKS, prime_more=prime_more)
    every, groups = _runs(1, 0), plan.groups(subject)
    _refuse_to_analyse(monkeypatch, "analyse_runs.precision", *([] if prime_more else ["carry_over.unsettled"]))
    stop = PrecisionStop(subject)
    decisions = [
        stop([run for run in every if run.trial.block <= block], groups, block, block * 10**7, 10**7)
        for block in range(1, BLOCKS + 1)
    ]
    assert {each.decided for each in decisions} == {None}
    assert [bool(each.stop) for each in decisions] == [False] * (BLOCKS - 1) + [True]
    if prime_more:
        _refuse_to_analyse(monkeypatch, "carry_over.unsettled")
        with pytest.raises(AssertionError, match="analysed"):
            stop(every, groups, BLOCKS, BLOCKS * 10**7, 10**7)


def test_other_runs_are_read_from_their_beginning() -> None:
    subject, (first, second) = _experiment(), (_runs(seed, 0) for seed in (5, 6))
    used, fresh = PrecisionStop(subject), PrecisionStop(subject)
    assert used(first, plan.groups(subject), 20, 10**9, 10**7) != fresh(second, plan.groups(subject), 20, 10**9, 10**7)
    decision = fresh(second, plan.groups(subject), 25, 10**9, 10**7)
    assert used(second, plan.groups(subject), 25, 10**9, 10**7) == decision
