# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the precision of a workload follows from, which reasons of rows stay, and the order of runs with discarded ones."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from swapstone.core.comparison.analyse_runs import workload_precision
from swapstone.core.comparison.carry_over import group_runs
from swapstone.core.comparison.rows import ErrorRates, Findings, Row, checked
from swapstone.core.comparison.run_table import as_table
from swapstone.core.model import CURRENT_RULES, Status, Verdict, WorkloadPrecision
from tests.unit import builders
from tests.unit.comparison.conftest import METRICS, Bench
from tests.unit.comparison.test_limits import row

EXPERIMENT = builders.experiment(rules=CURRENT_RULES)
LEVELS = ErrorRates(EXPERIMENT)
GROUP = ("s", "w", "idle")


def leading(pairs: int, spread: float, ratio: float = 1.5, *, resolution: float = 0.0, **changes: Any) -> Row:
    """Return a row that decides, of so many pairs whose ratios are spread around one."""
    values = np.linspace(100.0, 101.0, pairs)
    metric = msgspec.structs.replace(METRICS["wall"], leads=True, resolution=resolution)
    one = row(values, ratio * values * np.exp(spread * np.linspace(-1, 1, pairs)), **changes)
    return msgspec.structs.replace(one, metric=metric)


def precise(*rows: Row) -> WorkloadPrecision:
    return workload_precision(EXPERIMENT, GROUP, rows, LEVELS, False)


def width(one: Row) -> float:
    found = precise(one).half_width
    assert found is not None
    return found


NARROW, WIDE, FEW = leading(20, 0.001), leading(30, 0.5), leading(4, 0.001)
LOST = leading(20, 0.001, exclusion=(Verdict.INVALID, "it fails"))
WITHOUT = leading(20, 0.001, exclusion=(Verdict.INCONCLUSIVE, "no complete pair of runs"))


def test_a_workload_is_as_precise_as_its_widest_interval_with_the_fewest_pairs() -> None:
    assert width(WIDE) > 10 * width(NARROW)
    for rows in ((NARROW, WIDE), (WIDE, NARROW)):
        found = precise(*rows)
        assert (found.pairs, found.half_width, found.lost) == (20, width(WIDE), "")
    found = precise(NARROW, FEW)
    assert (found.pairs, found.half_width) == (4, None)
    assert precise(NARROW, NARROW).half_width == width(NARROW)


def test_a_workload_is_decided_if_each_row_is() -> None:
    undecided = leading(30, 0.5, ratio=1.0)
    assert precise(NARROW).decided and precise(NARROW, NARROW).decided
    assert not precise(NARROW, undecided).decided and not precise(undecided, NARROW).decided
    assert not precise().decided


def test_a_row_that_can_not_be_judged_does_not_keep_a_workload_open() -> None:
    found = precise(LOST, NARROW)
    assert (found.pairs, found.half_width, found.lost) == (20, width(NARROW), "")
    found = precise(LOST)
    assert (found.pairs, found.half_width, found.lost, found.missing_runs) == (0, None, "it fails", 0)
    assert precise(WITHOUT).lost == "" and precise(WITHOUT).half_width is None
    assert precise().lost == "none of its metrics decides"
    assert (precise().pairs, precise().half_width, precise().at_resolution) == (0, None, False)


def test_one_interval_at_the_resolution_of_its_tool_counts_as_the_margin() -> None:
    coarse = leading(30, 0.5, resolution=1e6)
    found = precise(coarse)
    assert (found.half_width, found.at_resolution) == (EXPERIMENT.margin, True)
    found = precise(NARROW, coarse)
    assert (found.half_width, found.at_resolution) == (EXPERIMENT.margin, True)
    assert width(NARROW) < EXPERIMENT.margin
    assert not precise(NARROW, WIDE).at_resolution


def test_the_most_missing_runs_of_any_row_are_those_of_an_own_program() -> None:
    own = builders.experiment(rules=CURRENT_RULES, own=Bench(own=True).experiment.own)
    first, second = (leading(pairs, 0.001) for pairs in (10, 30))
    for rows in ((first, second), (second, first)):
        assert workload_precision(own, GROUP, rows, LEVELS, False).missing_runs == 34
    assert workload_precision(own, GROUP, (second,), LEVELS, False).missing_runs == 14
    assert precise(first, second).missing_runs == 0


# Reasons of rows

FOUND = (Verdict.INVALID, "it prints other output")


@pytest.mark.parametrize(
    ("own", "stays"),
    [
        (None, False),
        ((Verdict.UNAVAILABLE, "no pair of runs gave a value of wall"), False),
        ((Verdict.INCONCLUSIVE, "no complete pair of runs"), False),
        ((Verdict.UNAVAILABLE, "baseline: no compiler"), True),
        ((Verdict.UNAVAILABLE, "candidate: no compiler"), True),
        ((Verdict.INVALID, "candidate refused in 1 of 2 runs: x"), True),
        ((Verdict.DISTURBED, "x"), True),
    ],
)
def test_what_is_found_replaces_only_that_a_row_has_no_pairs(own: tuple[Verdict, str] | None, *, stays: bool) -> None:
    one = row([1.0], [2.0], exclusion=own)
    place = (one.group, one.candidate.label, one.metric.name)
    assert [each.exclusion for each in checked([one], Findings(excluded={place: FOUND}))] == [own if stays else FOUND]
    assert [each.exclusion for each in checked([one], Findings())] == [own]
    for other in (
        (("s", "v", "idle"), *place[1:]),
        (place[0], one.baseline.label, place[2]),
        (place[0], place[1], "cpu"),
    ):
        assert [each.exclusion for each in checked([one], Findings(excluded={other: FOUND}))] == [own]


# Discarded runs


def test_logarithms_of_runs_are_in_the_order_of_the_measured_ones() -> None:
    bench = Bench()
    bench.workload("w", "wall", "cpu")
    values = {(1, "glibc"): 0.0, (1, "musl"): 5.0, (2, "glibc"): 7.0, (2, "musl"): 9.0, (3, "glibc"): 2.0}
    for block in (1, 2, 3):
        for position, level in enumerate(("musl", "glibc") if block == 2 else ("glibc", "musl")):
            for prime in (2, 1, 0):
                value = values.get((block, level), -3.0) + 100 * (prime == 0) + 50 * (prime == 2)
                status = Status.FAILED if (block, level, prime) == (3, "musl", 0) else Status.OK
                bench.run("w", f"libc={level}", block, status, wall=value)
                trial = msgspec.structs.replace(bench.runs[-1].trial, position=3 * position + 2 - prime, prime=prime)
                bench.runs[-1] = msgspec.structs.replace(bench.runs[-1], trial=trial)
    (group,) = group_runs(bench.experiment, as_table(bench.runs)).values()
    assert (group.labels, group.blocks, group.discarded) == (("libc=glibc", "libc=musl"), (1, 2, 3), 2)
    assert group.runs.order.tolist() == [[0, 1], [1, 0], [0, 1]] and group.runs.before.tolist() == [-1, 1, 0]

    def shown(metric: str, discarded: int) -> list[list[float | None]]:
        found = np.exp(group.logarithms(metric, discarded))
        return [[None if math.isnan(each) else round(each, 9) for each in line] for line in found.tolist()]

    assert shown("wall", 0) == [[100.0, 105.0], [109.0, 107.0], [102.0, None]]
    assert shown("wall", 1) == [[None, 5.0], [9.0, 7.0], [2.0, None]]  # 0 and -3 have no logarithm
    assert shown("wall", 2) == [[50.0, 55.0], [59.0, 57.0], [52.0, 47.0]]
    nothing: list[list[float | None]] = [[None, None]] * 3
    assert shown("wall", 3) == shown("cpu", 0) == shown("res", 0) == nothing
