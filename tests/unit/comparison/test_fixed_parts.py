# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figures of fixed inputs by second implementations, and the lengths of what is shown and compared of outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from swapstone.core.comparison import outputs, storage
from swapstone.core.comparison.layout_spread import spread_of
from swapstone.core.comparison.outputs import Agreement, agreement, agreement_text
from swapstone.core.comparison.run_table import as_table
from swapstone.core.model import CURRENT_RULES, Run, Variant
from tests.unit.comparison.conftest import Bench
from tests.unit.comparison.test_outputs import BASE, CANDIDATE, PLACE, experiment, side

# Layouts


def test_the_spread_of_links_is_that_of_999_assignments_with_the_seed_2009() -> None:
    """Groups of unequal size; the deviation is that of an analysis of variance with random effects."""
    turns = np.array([0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3])
    values = np.random.default_rng(5).normal(0, 1, turns.size) + np.array([0.0, 0.8, -0.4, 0.5])[turns]

    def apart(assigned: Sequence[int]) -> float:
        means = [np.mean(values[np.asarray(assigned) == turn]) for turn in range(4)]
        return float(max(means) - min(means))

    random = np.random.default_rng(2009)
    drawn = [apart(random.permutation(turns).tolist()) for _ in range(999)]
    sizes = [4, 2, 3, 5]
    means = [values[turns == turn].mean() for turn in range(4)]
    within = sum(((values[turns == turn] - means[turn]) ** 2).sum() for turn in range(4)) / (14 - 4)
    between = sum(size * (mean - values.mean()) ** 2 for size, mean in zip(sizes, means, strict=True)) / (4 - 1)
    each = (14 - sum(size**2 for size in sizes) / 14) / (4 - 1)
    expected, p_value, deviation = spread_of(values, turns)
    assert expected == pytest.approx(math.exp(np.median(drawn)), rel=1e-9)
    assert p_value == (1 + sum(one >= apart(turns.tolist()) - 1e-12 for one in drawn)) / 1000
    assert p_value is not None and 0.01 < p_value < 0.9
    assert deviation == pytest.approx(math.sqrt(max(0.0, (between - within) / each)), rel=1e-9)
    assert deviation is not None and deviation > 0


def test_links_that_differ_less_than_their_noise_have_no_spread() -> None:
    assert spread_of(np.array([0.0, 1.0, 0.01, 1.01]), np.array([0, 0, 1, 1]))[2] == 0.0


# Outputs


def with_sections(label: str, sections: Sequence[str]) -> list[Run]:
    """Return runs whose outputs vary, in lines of one shape with these digests of their sections."""
    lines = [f"{label} {number}\n".encode() for number in range(len(sections))]
    return [
        msgspec.structs.replace(
            run, digests=(*run.digests[:1], ("shape:stdout", "s"), ("sections:stdout", sections[number]))
        )
        for number, run in enumerate(side(label, lines, 1e6))
    ]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        # The first section, of eight digits, is constant on each side; it differs in its last digit, and the next one varies.
        (["00000001aaaaaaaa", "00000001bbbbbbbb"], ["00000002cccccccc", "00000002dddddddd"], Agreement.DIFFERENT),
        (["00000001aaaaaaaa", "00000001bbbbbbbb"], ["00000001cccccccc", "00000001dddddddd"], Agreement.SIMILAR),
        (["aaaaaaaa00000001", "bbbbbbbb00000001"], ["cccccccc10000001", "dddddddd10000001"], Agreement.DIFFERENT),
        (["aaaaaaaa", "bbbbbbbb"], ["cccccccc", "dddddddd"], Agreement.SIMILAR),
    ],
)
def test_sections_of_eight_digits_are_compared(before: list[str], after: list[str], found: Agreement) -> None:
    runs = [*with_sections(BASE, before), *with_sections(CANDIDATE, after)]
    assert agreement(experiment(), PLACE, BASE, CANDIDATE, as_table(runs))["stdout"].agreement is found


def test_twelve_digits_of_a_digest_are_shown() -> None:
    runs = [*side(BASE, [b"x\n"] * 2, 1e6), *side(CANDIDATE, [b"x\n"] * 2, 1e6)]
    digest = dict(runs[0].digests)["stdout"]
    found = agreement(experiment(), PLACE, BASE, CANDIDATE, as_table(runs))
    assert agreement_text(found) == f"output: equal (sha256 {digest[:12]})"
    assert outputs.agreement_text({}) == ""


# Storage


@pytest.mark.parametrize(
    ("count", "end"),
    [
        (4, "read 1 (libc=a), 1 (libc=b), 1 (libc=c), 1 (libc=d) MiB a run"),
        (5, "read 1 (libc=a), 1 (libc=b), 1 (libc=c), 1 (libc=d) and others MiB a run"),
    ],
)
def test_four_variants_that_use_storage_are_named(count: int, end: str) -> None:
    bench = Bench(rules=CURRENT_RULES, own=True, levels=tuple("abcde"[:count]))
    bench.workload("w", "wall")
    for level in bench.levels:
        bench.run("w", f"libc={level}", 1, wall=1e8)
        bench.runs[-1] = msgspec.structs.replace(bench.runs[-1], facts=(("read_bytes", 1 << 20),))
    variants = tuple(Variant(levels=(("libc", level),)) for level in bench.levels)
    (found,) = storage.check(bench.experiment, variants, bench.workloads, as_table(bench.runs)).caveats
    assert end in found.message
