# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trials as their subjects run them: programs by block, passes and loads, and those of the first blocks of a plan."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from swapstone.core import plan
from swapstone.core.model import IDLE
from swapstone.core.run.trials_ahead import TrialSpecs
from tests.unit import builders

GLIBC, MUSL = "libc=glibc", "libc=musl"


def specs(*refused: tuple[str, str, str]) -> TrialSpecs:
    """Return the specifications of an experiment, of which some workloads can't be run on some variants."""

    def program(workload: str, label: str) -> Any:
        return SimpleNamespace(in_block=lambda block: f"{workload} {label} in block {block}")

    workloads = ("b_malloc_tiny1", "b_string_strlen")
    prepared: Any = SimpleNamespace(
        variants={label: builders.variant(label) for label in (GLIBC, MUSL)},
        programs={("libc", name, label): program(name, label) for name in workloads for label in (GLIBC, MUSL)},
        refused=dict.fromkeys(refused, "why"),
        runs=lambda suite, workload: (suite, workload, GLIBC) not in refused,
        load=lambda name: IDLE if name == "idle" else None,
    )
    target: Any = SimpleNamespace(describe=lambda: SimpleNamespace(cpus=(3, 5)), scratch=lambda: "/scratch")
    return TrialSpecs(prepared, target)


PASSES = {("libc", "b_malloc_tiny1"): 7, ("libc", "b_string_strlen"): 9}


@pytest.mark.parametrize(("clock", "numbers"), [("wall", [0, 1, 2]), ("virtual", [1, 2, 3])])
def test_the_first_blocks_are_those_of_the_plan(clock: str, numbers: list[int]) -> None:
    asked = builders.experiment(clock=clock)
    found = list(specs().of_blocks(asked, 3, PASSES))
    expected = [trial for number in numbers for trial in plan.block(asked, number, plan.groups(asked))]
    assert [trial for trial, _ in found] == expected
    for trial, spec in found:
        assert (spec.identity, spec.variant.label) == (trial.identity, trial.variant)
        program: Any = spec.program
        assert program == f"{trial.workload} {trial.variant} in block {trial.block}"
        assert spec.passes == PASSES[trial.suite, trial.workload]
        assert (spec.scratch, spec.cpus, spec.load, spec.check) == ("/scratch", (3, 5), IDLE, "")
    assert list(specs().of_blocks(asked, 0, PASSES)) == []


def test_what_can_not_be_built_or_compared_is_left_out() -> None:
    asked = builders.experiment()
    found = list(
        specs(("libc", "b_malloc_tiny1", MUSL), ("libc", "b_string_strlen", GLIBC)).of_blocks(asked, 2, PASSES)
    )
    assert {(trial.workload, trial.variant) for trial, _ in found} == {("b_malloc_tiny1", GLIBC)}
    assert [trial.block for trial, _ in found] == [0, 1]


def test_the_identity_of_a_trial_may_be_another_one() -> None:
    trial = plan.block(builders.experiment(), 1, plan.groups(builders.experiment()))[0]
    assert specs().spec(trial, "again-1", 4).identity == "again-1"
    assert specs().spec(trial, "again-1", 4).passes == 4
