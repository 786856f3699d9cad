# SPDX-License-Identifier: MIT OR Apache-2.0
"""Layouts: the link is the unit of inference, and links of the same code are compared."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from swapstone.core.comparison.analyse_runs import analyse
from swapstone.core.comparison.layout_spread import by_turn, spread_of
from swapstone.core.model import CaveatKind, Copy, FactorLevels, Presence, Status, Verdict, layout_of
from swapstone.core.plan import layout_seeds, variants
from tests.unit.builders import experiment as experiment_of
from tests.unit.comparison.conftest import Bench


def test_layouts_take_turns_and_the_warm_up_runs_the_first() -> None:
    assert [layout_of(block, 3) for block in range(8)] == [0, 0, 1, 2, 0, 1, 2, 0]


def test_blocks_of_a_layout_become_their_geometric_mean() -> None:
    present, (first, second) = by_turn((0, 1, 0, 1), (np.array([1.0, 8.0, 4.0, 2.0]), np.array([3.0, 5.0, 3.0, 5.0])))
    assert present.tolist() == [0, 1]
    assert first.tolist() == pytest.approx([2.0, 4.0])
    assert second.tolist() == [3.0, 5.0]  # equal values stay exactly what they are


def test_with_a_zero_the_means_are_arithmetic() -> None:
    _, (side,) = by_turn((0, 1, 0), (np.array([0.0, 5.0, 4.0]),))
    assert side.tolist() == [2.0, 5.0]


def test_a_layout_without_a_block_is_left_out() -> None:
    present, (side,) = by_turn((1, 1), (np.array([7.0, 9.0]),))
    assert present.tolist() == [1]
    assert side.tolist() == pytest.approx([63.0**0.5])


def test_differences_of_links_are_separated_from_noise() -> None:
    random = np.random.default_rng(1)
    turns = np.arange(60) % 6
    noise = random.normal(0, 0.01, 60)
    apart = spread_of(noise + 0.1 * turns, turns)
    same = spread_of(noise, turns)
    assert apart[1] == pytest.approx(0.001) and apart[2] == pytest.approx(0.1 * np.sqrt(3.5), rel=0.1)
    assert apart[0] is not None and same[0] is not None
    assert apart[0] > same[0]  # an assignment at random spreads the large differences
    assert same[1] is not None and same[1] > 0.05 and same[2] is not None and same[2] < 0.006


def test_without_repetition_there_is_no_estimate_of_noise() -> None:
    assert spread_of(np.log([1.0, 2.0, 4.0]), np.arange(3)) == (None, None, None)


@pytest.mark.slow
def test_the_p_value_of_no_difference_is_uniform_enough() -> None:
    random = np.random.default_rng(7)
    turns = np.arange(40) % 8
    small = sum((spread_of(random.normal(0, 1, 40), turns)[1] or 1) <= 0.1 for _ in range(200))
    assert 8 <= small <= 34  # 20 expected; the limits are 3.3 standard deviations away


def test_seeds_are_the_experiments_own_and_the_relinked_copy_has_others() -> None:
    experiment = msgspec.structs.replace(experiment_of(), layouts=3)
    first, again, relinked = (layout_seeds(experiment, copy) for copy in (Copy.FIRST, Copy.AGAIN, Copy.RELINKED))
    assert first == again and len(set(first) | set(relinked)) == 6
    assert layout_seeds(msgspec.structs.replace(experiment, seed=experiment.seed + 1), Copy.FIRST) != first


def test_the_interval_holds_the_spread_between_links(new_bench: Callable[[], Bench]) -> None:
    """A difference of 2 % drowns in links that differ by 10 %; taken for runs of one link it would seem real."""
    random = np.random.default_rng(3)
    links = np.exp(random.normal(0, 0.1, (2, 12)))
    turns = [layout_of(block, 12) for block in range(1, 37)]
    sides = [100.0 * links[side][turns] * np.exp(random.normal(0, 1e-4, 36)) for side in (0, 1)]
    bench = new_bench()
    bench.layouts = 12
    bench.pairs("toy", "wall", list(sides[0]), list(1.02 * sides[1]))
    found = bench.analysis()
    (row,) = found.comparisons
    assert row.verdict is Verdict.INCONCLUSIVE and len(row.baseline_values) == 12
    assert row.low is not None and row.high is not None and row.high / row.low > 1.1
    assert found.blocks == 36
    (spread,) = found.layouts
    assert (spread.candidate.label, spread.layouts, spread.blocks, spread.same_code) == ("libc=musl", 12, 36, False)
    assert spread.p_value is not None and spread.p_value <= 0.002
    ratios = 1.02 * links[1] / links[0]
    assert spread.low == pytest.approx(ratios.min(), rel=1e-3) and spread.high == pytest.approx(ratios.max(), rel=1e-3)
    assert spread.deviation == pytest.approx(np.log(ratios).std(ddof=1), rel=1e-2)
    assert all(index.layouts and index.blocks == 12 for index in found.indices)


def test_links_that_are_alike_leave_a_difference_visible(new_bench: Callable[[], Bench]) -> None:
    bench = new_bench()
    bench.layouts = 12
    bench.noisy("toy", 1.2, 36)
    (row,) = bench.analysis().comparisons
    assert row.verdict is Verdict.WORSE


def test_too_few_layouts_are_named_as_what_is_missing(new_bench: Callable[[], Bench]) -> None:
    bench = new_bench()
    bench.layouts = 3
    bench.noisy("toy", 1.2, 36)
    found = bench.analysis()
    assert found.comparisons[0].verdict is Verdict.INCONCLUSIVE
    (caveat,) = [caveat for caveat in found.caveats if caveat.kind is CaveatKind.FEW_BLOCKS]
    assert (
        "too few pairs of layouts for a confidence interval (the fewest: 3)" in caveat.message
        and "--layouts" in caveat.hint
    )


def test_effects_of_crossed_factors_count_layouts_too(new_bench: Callable[[], Bench]) -> None:
    """Four variants whose links differ by 10 %: a planted 2 % is no finding, though runs repeat to 0.01 %."""
    random = np.random.default_rng(5)
    turns = [layout_of(block, 12) for block in range(1, 37)]
    bench = new_bench()
    bench.workload("toy", "wall")
    experiment = msgspec.structs.replace(
        bench.experiment,
        factors=(
            FactorLevels(factor="libc", levels=("glibc", "musl")),
            FactorLevels(factor="linking", levels=("dynamic", "static")),
        ),
        layouts=12,
    )
    for variant in variants(experiment):
        links = np.exp(random.normal(0, 0.1, 12))
        for block, turn in enumerate(turns, start=1):
            bench.run("toy", variant.label, block, wall=100.0 * links[turn] * float(np.exp(random.normal(0, 1e-4))))
    found = analyse(experiment, variants(experiment), bench.workloads, bench.runs)
    walls = [effect for effect in found.effects if effect.workload and not effect.held]
    assert {effect.blocks for effect in walls} == {12}
    assert {effect.verdict for effect in walls} == {Verdict.INCONCLUSIVE}
    assert {each.presence for each in found.interactions if each.workload} == {Presence.UNDECIDED}


def test_two_links_of_the_same_code_are_seen_beside_each_other(new_bench: Callable[[], Bench]) -> None:
    """The machine drifts by far more than links differ; the relinked copy ran in the same blocks, so the difference shows."""
    random = np.random.default_rng(6)
    turns = np.array([layout_of(block, 10) for block in range(1, 51)])
    drift = 1000.0 * np.exp(np.cumsum(random.normal(0, 0.2, 50)))
    links = np.exp(random.normal(0, 0.05, 10))
    bench = new_bench()
    bench.layouts, bench.null = 10, True
    noise = np.exp(random.normal(0, 0.005, 50))
    bench.pairs("toy", "cpu", list(drift), list(drift * links[turns] * noise), candidate="libc=glibc (relinked)")
    for label, factor in (("libc=glibc (again)", 1.0), ("libc=musl", 2.0)):
        for block, value in enumerate(drift, start=1):
            bench.run("toy", label, block, cpu=factor * float(value))
    found = {spread.candidate.label: spread for spread in bench.analysis().layouts}
    assert set(found) == {"libc=glibc (relinked)", "libc=musl"}
    same = found["libc=glibc (relinked)"]
    assert same.same_code and same.p_value == pytest.approx(0.001)
    assert same.deviation == pytest.approx(np.log(links).std(ddof=1), rel=0.1)
    assert found["libc=musl"].deviation == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("side", ["libc=glibc", "libc=musl"])
def test_a_side_that_is_no_sample_and_a_single_link_have_no_spread(new_bench: Callable[[], Bench], side: str) -> None:
    bench = new_bench()
    bench.layouts = 6
    values = np.exp(np.random.default_rng(2).normal(0, 0.01, (2, 12)))
    bench.pairs("toy", "wall", list(values[0]), list(values[1]))
    (spread,) = bench.analysis().layouts
    assert (spread.layouts, spread.blocks) == (6, 12)
    bench.run("toy", side, 13, Status.REFUSED)
    assert bench.analysis().layouts == ()
    bench = new_bench()
    bench.layouts = 6
    bench.pairs("toy", "wall", [1.0], [2.0])
    assert bench.analysis().layouts == ()
