# SPDX-License-Identifier: MIT OR Apache-2.0
"""Models of Cortex-A8 and Cortex-A9: the ranges for the page's program, and what determines their ends."""

from __future__ import annotations

import msgspec
import pytest

from swapstone.core.factors.arm_code import KINDS
from swapstone.parts.explain.explanation.arm_costs import CORE, CORTEX_A8, CORTEX_A9, PROCESSORS, ArmProcessor, modelled
from swapstone.parts.explain.model.instruction_counts import ArmCounts

# The page's program with exact operands, -O0, one loop: counted in a virtual machine.
SOFT = ArmCounts(kinds=(("integer", 149), ("load", 15), ("store", 16), ("branch", 35)), load_runs=0, helper_calls=4)
SOFTFP = ArmCounts(
    kinds=(
        *(("vadd.f32", 2), ("vmul.f32", 1), ("vdiv.f32", 1), ("vload", 8), ("vfp-to-core", 4)),
        *(("integer", 26), ("load", 10), ("store", 17), ("branch", 9)),
    ),
    load_runs=4,
    helper_calls=0,
)
ONCE = (1.0, 1.0)


def test_softfp_is_between_faster_and_slower_on_a_cortex_a8() -> None:
    row = modelled(CORTEX_A8, SOFT, SOFTFP, ONCE)
    assert row is not None
    unit = 2 * 10 + 12 + 37 + 8
    low = (unit + 4 * 20 + 62 / 0.8) / (215 / 0.8)
    high = (unit + 4 * 21 + 62 / 1.2 + 4 * 20) / (215 / 1.2)
    assert tuple(row.ratio) == pytest.approx((low, high))
    assert row.ratio.low < 1 < row.ratio.high
    assert tuple(row.baseline) == pytest.approx((215 / 1.2, 215 / 0.8))
    assert row.beside == pytest.approx((unit + 4 * 20) / (215 / 0.8))


def test_softfp_is_faster_on_a_cortex_a9_under_all_assumptions() -> None:
    row = modelled(CORTEX_A9, SOFT, SOFTFP, ONCE)
    assert row is not None and row.ratio.high < 1


def test_operations_divide() -> None:
    twice = msgspec.structs.replace(SOFT, kinds=tuple((kind, 2 * count) for kind, count in SOFT.kinds))
    assert modelled(CORTEX_A8, twice, SOFTFP, (2.0, 1.0)) == modelled(CORTEX_A8, SOFT, SOFTFP, ONCE)


def test_a_side_without_instructions_gives_no_ratio() -> None:
    assert modelled(CORTEX_A8, ArmCounts(kinds=(), load_runs=0, helper_calls=0), SOFTFP, ONCE) is None


@pytest.mark.parametrize("processor", PROCESSORS, ids=lambda each: each.name)
def test_every_kind_of_instruction_has_a_cost(processor: ArmProcessor) -> None:
    costs = dict(processor.cycles)
    assert {*costs, *CORE} == set(KINDS)
    assert all(0 < bounds.low <= bounds.high for bounds in costs.values())
