# SPDX-License-Identifier: MIT OR Apache-2.0
"""Indices of suites and effects of crossed factors have a direction only where the medians have it, by the rule of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from swapstone.core.model import (
    CONTRAST_RULES,
    EQUAL_EXTRA_RULES,
    REPORT_CORRECTION,
    WITHOUT_DIRECTION,
    Analysis,
    FactorEffect,
    Index,
    Presence,
    Verdict,
)
from swapstone.core.report.answer.means import Mean, Standing, decided_bounds, mean_of, standing
from tests.unit.comparison.conftest import Bench
from tests.unit.comparison.crossing import TWO, Levels, analysed, interaction, main_effect

Shares = tuple[tuple[float, float], ...]
"""Pairs (share of the candidate's runs, how many times as long they take)."""

WITHOUT: tuple[Shares, ...] = (
    ((0.4, 0.6), (0.5, 1.0), (0.1, 2.6)),
    ((0.45, 0.7), (0.45, 1.0), (0.1, 2.35)),
    ((0.35, 0.5), (0.55, 1.0), (0.1, 2.75)),
    ((0.45, 0.75), (0.45, 1.0), (0.1, 2.12)),
    ((0.45, 0.6), (0.4, 1.0), (0.15, 2.2)),
    ((0.4, 0.5), (0.55, 1.0), (0.05, 5.0)),
)
"""The pairs have a direction; neither the median nor the mean differs."""

SHIFTS = (0.5, 0.9, 0.97, 1.03, 1.1, 2.0)
"""All runs take so many times as long."""

BLOCKS = 200


def factors(shares: Shares, seed: int, blocks: int = BLOCKS) -> Sequence[float]:
    """Return how many times as long the candidate takes in each block, in random order."""
    repeated = np.repeat([each for _, each in shares], [round(blocks * share) for share, _ in shares])
    return list(map(float, np.random.default_rng(seed).permutation(repeated)))


def suite(shares: Shares, *, workloads: int = 3, rules: int = CONTRAST_RULES, metric: str = "wall") -> Analysis:
    """Return the analysis of a suite whose workloads all have a shape."""
    bench = Bench(rules=rules, correction=REPORT_CORRECTION, confidence=0.95)
    for number in range(workloads):
        random = np.random.default_rng(number)
        before, after = random.normal(1000, 5, (2, BLOCKS))
        bench.pairs(f"w{number}", metric, list(before), list(after * np.array(factors(shares, number))))
    return bench.analysis()


def index_of(found: Analysis) -> Index:
    (index,) = found.indices
    return index


def stated(found: Analysis) -> Mean:
    """Return the ratio that an answer states of a suite."""
    mean = mean_of(found.comparisons, next(iter(found.indices), None))
    assert mean is not None
    return mean


DIRECTIONS = {Standing.MORE, Standing.LESS}


@pytest.mark.parametrize("shares", WITHOUT)
def test_an_index_of_pairs_alone_has_no_direction(shares: Shares) -> None:
    found = suite(shares)
    index = index_of(found)
    assert index.low is not None and index.high is not None and not index.low <= 1 <= index.high, "the pairs have one"
    assert index.reason.startswith(WITHOUT_DIRECTION)
    assert index.median_effect == pytest.approx(1, abs=0.02)
    assert stated(found).standing(0.02) not in DIRECTIONS
    earlier = suite(shares, rules=EQUAL_EXTRA_RULES)
    assert (index_of(earlier).reason, index_of(earlier).median_effect) == ("", None)
    assert stated(earlier).standing(0.02) in DIRECTIONS, "earlier rules state it"


@pytest.mark.parametrize("shift", SHIFTS)
def test_an_index_of_a_shift_keeps_its_direction(shift: float) -> None:
    found = suite(((1.0, shift),))
    index = index_of(found)
    assert index.reason == ""
    assert stated(found).standing(0.02) is (Standing.MORE if shift > 1 else Standing.LESS)
    assert index.median_low is not None and index.median_high is not None
    assert index.median_low < shift < index.median_high
    assert index.effect == index_of(suite(((1.0, shift),), rules=EQUAL_EXTRA_RULES)).effect


def test_the_ratio_of_medians_of_an_index_is_the_geometric_mean_of_its_rows() -> None:
    found = suite(WITHOUT[0])
    ratios = [row.median_effect or 0.0 for row in found.comparisons]
    assert index_of(found).median_effect == pytest.approx(math.exp(np.log(ratios).mean()), rel=1e-12)


@pytest.mark.parametrize("shares", WITHOUT[:3])
def test_an_index_of_few_common_blocks_has_none_either(shares: Shares) -> None:
    """Of a mean of means, the rows' intervals decide."""
    bench = Bench(rules=CONTRAST_RULES, correction=REPORT_CORRECTION, confidence=0.95)
    for number in range(3):
        random = np.random.default_rng(number)
        bench.workload(f"w{number}", "wall")
        for block, factor in enumerate(factors(shares, number), start=1 + number * (BLOCKS - 40)):
            bench.run(f"w{number}", "libc=glibc", block, wall=random.normal(1000, 5))
            bench.run(f"w{number}", "libc=musl", block, wall=random.normal(1000, 5) * factor)
    found = bench.analysis()
    index = index_of(found)
    assert index.incomplete and index.low is not None and index.high is not None
    assert not index.low <= 1 <= index.high
    assert index.reason.startswith(WITHOUT_DIRECTION)
    assert stated(found).standing(0.02) not in DIRECTIONS


@pytest.mark.parametrize("shares", WITHOUT[:3])
def test_a_mean_of_rows_without_an_index_has_none(shares: Shares) -> None:
    """Memory has no index: its ratio is the mean of the rows', whose intervals have no direction."""
    found = suite(shares, metric="res")
    assert not found.indices
    assert stated(found).standing(0.02) not in DIRECTIONS


def crossed(shares: Shares, *, rules: int = CONTRAST_RULES, both: bool = False) -> Analysis:
    """Return the analysis of crossed factors of which the C library has a shape; with `both`, only together with the other allocator."""
    of_level = {name: factors(shares, number) for number, name in enumerate(("default", "fast"))}
    noise = np.random.default_rng(5).normal(0, 0.005, (BLOCKS + 1, 4))

    def value(_: str, levels: Levels, block: int) -> float:
        place = 2 * (levels["libc"] == "musl") + (levels["allocator"] == "fast")
        changed = levels["libc"] == "musl" and (not both or levels["allocator"] == "fast")
        factor = of_level[levels["allocator"]][block - 1] if changed and block else 1.0
        return float(1000 * math.exp(noise[block, place]) * factor)

    return analysed(value, TWO, blocks=BLOCKS, rules=rules, correction=REPORT_CORRECTION)


@pytest.mark.parametrize("shares", WITHOUT)
def test_an_effect_of_pairs_alone_has_no_direction(shares: Shares) -> None:
    effect = main_effect(crossed(shares), "libc=musl")
    assert effect.low is not None and effect.high is not None and not effect.low <= 1 <= effect.high
    assert (effect.verdict, effect.reason.startswith(WITHOUT_DIRECTION)) == (Verdict.INCONCLUSIVE, True)
    assert effect.median_effect == pytest.approx(1, abs=0.02)
    low, high = decided_bounds(effect) or (None, None)
    assert standing(low, high, 0.02) not in DIRECTIONS
    earlier = main_effect(crossed(shares, rules=EQUAL_EXTRA_RULES), "libc=musl")
    assert (earlier.verdict, earlier.median_effect) == (Verdict.BETTER, None)
    assert (earlier.effect, earlier.low) == (effect.effect, effect.low)


@pytest.mark.parametrize("shift", SHIFTS)
def test_an_effect_of_a_shift_keeps_its_direction(shift: float) -> None:
    effect = main_effect(crossed(((1.0, shift),)), "libc=musl")
    assert effect.verdict is (Verdict.WORSE if shift > 1 else Verdict.BETTER), effect.reason
    assert effect.median_effect == pytest.approx(shift, rel=0.01)


@pytest.mark.parametrize("shares", WITHOUT[:4])
def test_an_interaction_of_pairs_alone_is_undecided(shares: Shares) -> None:
    found = interaction(crossed(shares, both=True), "libc=musl", "allocator=fast")
    assert (found.presence, found.reason.startswith(WITHOUT_DIRECTION)) == (Presence.UNDECIDED, True)
    assert found.median_effect == pytest.approx(1, abs=0.02)
    earlier = interaction(crossed(shares, both=True, rules=EQUAL_EXTRA_RULES), "libc=musl", "allocator=fast")
    assert earlier.presence is Presence.PRESENT


@pytest.mark.parametrize("shift", [0.5, 0.9, 1.1, 2.0])
def test_an_interaction_of_a_shift_is_present(shift: float) -> None:
    found = interaction(crossed(((1.0, shift),), both=True), "libc=musl", "allocator=fast")
    assert found.presence is Presence.PRESENT
    assert found.median_effect == pytest.approx(shift, rel=0.01)


def bounds(low: float, high: float, reason: str) -> tuple[float, float] | None:
    """Return what is decided of an effect with this interval, whose medians have the interval 0.98 to 1.01."""
    effect = main_effect(crossed(((1.0, 0.9),)), "libc=musl")
    changes = {"low": low, "high": high, "reason": reason, "median_low": 0.98, "median_high": 1.01}
    found = FactorEffect(**{name: getattr(effect, name) for name in effect.__struct_fields__} | changes)
    return decided_bounds(found)


@pytest.mark.parametrize(
    ("low", "high", "reason", "expected"),
    [
        (0.8, 0.9, WITHOUT_DIRECTION, (0.8, 1.01)),
        (1.1, 1.2, f"{WITHOUT_DIRECTION}: x", (0.98, 1.2)),
        (0.8, 0.9, "", (0.8, 0.9)),
        (0.99, 1.001, WITHOUT_DIRECTION, (0.99, 1.001)),
    ],
)
def test_an_interval_against_the_medians_is_extended_by_theirs(
    low: float, high: float, reason: str, expected: tuple[float, float]
) -> None:
    assert bounds(low, high, reason) == expected


def test_a_tail_against_the_medians_is_extended_too() -> None:
    (row,) = suite(((0.4, 1.4), (0.6, 1.0)), workloads=1).comparisons
    found = decided_bounds(row)
    assert (row.verdict, row.reason.partition(":")[0]) == (Verdict.WORSE_TAIL, "same median")
    assert found is not None and row.low is not None and found[0] == row.median_low and found[0] < row.low
