# SPDX-License-Identifier: MIT OR Apache-2.0
"""The columns of runs: exact integers, and only what an analysis reads."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from swapstone.core import plan
from swapstone.core.comparison.run_table import ABSENT, FACTS, as_table, by_number, exact_sum, largest, quotients
from swapstone.core.model import CaveatKind, FactorLevels, Sample, Status
from tests.unit import builders
from tests.unit.comparison.conftest import caveats


@pytest.mark.parametrize("values", [[], [1, -5], [2**62, 2**62, 5], [-(2**63) + 1, -7]])
def test_sums_are_exact(values: list[int]) -> None:
    assert exact_sum(np.array(values, dtype=np.int64)) == sum(values)
    assert largest(np.array(values, dtype=np.int64)) == max(map(abs, values), default=0)


@pytest.mark.parametrize("pair", [(1, 3), (2**53 + 1, 3), (2**62 + 1, 2**61 - 1), (10**15 + 7, 10**9 + 9)])
def test_quotients_are_rounded_once(pair: tuple[int, int]) -> None:
    above, below = (np.array([each], dtype=np.int64) for each in pair)
    assert quotients(above, below, 100_000).tolist() == [100_000 * pair[0] / pair[1]]


def test_numbers_come_in_the_order_of_their_first_row() -> None:
    found = [(number, rows.tolist()) for number, rows in by_number(np.array([3, 1, 3, 2, 1]))]
    assert found == [(3, [0, 2]), (1, [1, 4]), (2, [3])]
    assert not list(by_number(np.empty(0, dtype=np.int64)))


def test_a_table_has_the_runs_in_columns() -> None:
    experiment = builders.experiment()
    facts = (("wall_ns", 5), ("unknown", 7), ("nice", -3))
    made = [
        builders.run(run.trial, 10.0 + number, facts=facts[: number % 4], started_unix_ns=number)
        for number, run in enumerate(builders.runs(experiment, 25))
    ]
    table = as_table(made, {"wall"})
    assert table.metrics.keys() == {"wall"} and table.facts.keys() == {"wall_ns", "nice"} <= FACTS
    for row in (0, 1, 2, 3, 50, len(made) - 1):
        assert table.run(row) is made[row] and table.trial(row) == made[row].trial
        assert table.metrics["wall"][row] == 10.5 + row and table.started[row] == row
        of_row = {name: int(column[row]) for name, column in table.facts.items() if column[row] != ABSENT}
        assert of_row == {name: value for name, value in made[row].facts if name in FACTS}
    assert table.fact("late_ns").tolist() == [ABSENT] * len(made)
    half = table.rows(table.block % 2 == 0)
    assert half.run(1) is made[int(half.numbers[1])] and len(half) < len(table)


def test_variants_and_workloads_come_in_the_order_of_their_names() -> None:
    """Whatever the order of the runs, and of a set of texts in this process."""
    levels = tuple(f"level{number}" for number in range(9, 0, -1))
    workloads = tuple(("libc", name) for name in "hgfedcba")
    subject = builders.experiment(factors=(FactorLevels(factor="x", levels=levels),), workloads=workloads)
    made = [msgspec.structs.replace(run, status=Status.FAILED, reason="it") for run in builders.runs(subject, 1)]
    table = as_table(made, ())
    assert len(table.labels) > 8 and list(table.labels) == sorted(table.labels)
    (caveat,) = caveats(CaveatKind.FAILED_TRIALS, subject, runs=made)
    assert caveat.message.startswith(f"{len(made)} of {len(made)} trials failed (a, b, c, d and 4 more). ")


def test_the_last_value_of_a_name_counts_as_in_a_dictionary() -> None:
    (trial, *_) = plan.block(builders.experiment(), 1, plan.groups(builders.experiment()))
    samples = (
        Sample(metric="wall", values=(1.0,)),
        Sample(metric="wall", values=(2.0,)),
        Sample(metric="wall", values=()),
    )
    table = as_table([builders.run(trial, samples=samples, facts=(("nice", 1), ("nice", 2)))])
    assert table.metrics["wall"].tolist() == [2.0] and {
        name: column.tolist() for name, column in table.facts.items()
    } == {"nice": [2]}


def test_blocks_that_count_have_the_most_discarded_runs() -> None:
    experiment = builders.experiment(prime=2)
    made = []
    for block in range(9):
        discarded = {group: min(block // 3, 2) for group in plan.groups(experiment)}
        made += [builders.run(trial) for trial in plan.block(experiment, block, plan.groups(experiment), discarded)]
    assert as_table(made).counted.tolist() == [run.trial.block >= 6 for run in made]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_is_an_error(value: float) -> None:
    run = next(iter(builders.runs(builders.experiment(), 1)))
    samples = (Sample(metric="wall", values=(value,)),)
    with pytest.raises(ValueError, match="a run's values must be finite"):
        as_table([msgspec.structs.replace(run, samples=samples)])
