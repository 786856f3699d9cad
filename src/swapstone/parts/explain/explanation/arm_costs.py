# SPDX-License-Identifier: MIT OR Apache-2.0
"""Models of two ARM processors: from executed instructions by kind to a range of cycles. Nothing is measured here.

The clock of the virtual machine counts instructions, and one that divides takes as long as one that adds. A processor's unit does not work
like that. These models give each kind of instruction the cycles that gcc's descriptions of the processors state, and leave what they don't
state as a range. docs/float-abi.md lists what the models leave out.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

from swapstone.parts.explain.model.instruction_counts import ArmCounts

CORE = ("integer", "load", "store", "branch")
"""Kinds of instructions of the core, of which a processor executes some in each cycle."""


class Bounds(NamedTuple):
    """The smallest and the largest value of a quantity."""

    low: float
    high: float


class ArmProcessor(NamedTuple):
    """A model of a processor.

    Attributes:
        name: for example ``Cortex-A8``.
        source: of `cycles`.
        assumed: what is no published number, as a sentence.
        core_per_cycle: instructions of the core that complete in a cycle.
        load_wait: cycles for which the unit's loads wait for a store to the same place, for each run of loads.
        cycles: pairs (kind of the unit's instructions, cycles of each), as `swapstone.core.factors.arm_code.KINDS` names kinds.
    """

    name: str
    source: str
    assumed: str
    core_per_cycle: Bounds
    load_wait: Bounds
    cycles: tuple[tuple[str, Bounds], ...]


def _same(*pairs: tuple[str, float]) -> tuple[tuple[str, Bounds], ...]:
    return tuple((kind, Bounds(value, value)) for kind, value in pairs)


CORTEX_A8 = ArmProcessor(
    name="Cortex-A8",
    source=(
        "gcc/config/arm/cortex-a8-neon.md of GCC: the unit VFPLite executes one instruction after another (add 10, multiply 12, divide "
        "37), and a register of the unit takes 20 cycles to the core. Its numbers are the longest ones; subnormal numbers are not modelled"
    ),
    assumed=(
        "0.8 to 1.2 instructions of the core in a cycle, 0 to 20 cycles for a load after a store, 1 to 2 for a move to the unit, and none "
        "of the core's instructions beside the unit's"
    ),
    core_per_cycle=Bounds(0.8, 1.2),
    load_wait=Bounds(0, 20),
    cycles=(
        *_same(
            ("vadd.f32", 10), ("vadd.f64", 10), ("vmul.f32", 12), ("vmul.f64", 17), ("vmla.f32", 21), ("vmla.f64", 26)
        ),
        *_same(
            ("vdiv.f32", 37), ("vdiv.f64", 65), ("vsqrt.f32", 37), ("vsqrt.f64", 65), ("vmov.f32", 4), ("vmov.f64", 4)
        ),
        *(
            ("vcmp.f32", Bounds(4, 7)),
            ("vcmp.f64", Bounds(4, 7)),
            ("vcvt.f32", Bounds(7, 7)),
            ("vcvt.f64", Bounds(7, 7)),
        ),
        *(("vload", Bounds(1, 1)), ("vstore", Bounds(1, 1)), ("vfp-to-core", Bounds(20, 21))),
        *(("core-to-vfp", Bounds(1, 2)), ("neon", Bounds(1, 2))),
    ),
)

CORTEX_A9 = ArmProcessor(
    name="Cortex-A9",
    source=(
        "gcc/config/arm/cortex-a9.md of GCC: the unit starts an instruction in each cycle, and its result is ready after 4 (add), 4 to 5 "
        "(multiply) and 15 to 25 cycles (divide)"
    ),
    assumed=(
        "0.8 to 1.6 instructions of the core in a cycle, 0 to 4 cycles for a load after a store, from no instruction that waits for the "
        "result of another to each one that waits, one division at a time, and none of the core's instructions beside the unit's"
    ),
    core_per_cycle=Bounds(0.8, 1.6),
    load_wait=Bounds(0, 4),
    cycles=(
        *(
            ("vadd.f32", Bounds(1, 4)),
            ("vadd.f64", Bounds(1, 4)),
            ("vmul.f32", Bounds(1, 4)),
            ("vmul.f64", Bounds(2, 5)),
        ),
        *(
            ("vmla.f32", Bounds(1, 8)),
            ("vmla.f64", Bounds(2, 9)),
            ("vdiv.f32", Bounds(15, 15)),
            ("vdiv.f64", Bounds(25, 25)),
        ),
        *(
            ("vsqrt.f32", Bounds(15, 15)),
            ("vsqrt.f64", Bounds(25, 25)),
            ("vmov.f32", Bounds(1, 2)),
            ("vmov.f64", Bounds(1, 2)),
        ),
        *(
            ("vcmp.f32", Bounds(1, 1)),
            ("vcmp.f64", Bounds(1, 1)),
            ("vcvt.f32", Bounds(1, 4)),
            ("vcvt.f64", Bounds(1, 4)),
        ),
        *(
            ("vload", Bounds(1, 4)),
            ("vstore", Bounds(1, 1)),
            ("vfp-to-core", Bounds(1, 2)),
            ("core-to-vfp", Bounds(1, 2)),
        ),
        ("neon", Bounds(1, 2)),
    ),
)

PROCESSORS: tuple[ArmProcessor, ...] = (CORTEX_A8, CORTEX_A9)


class ModelledRow(NamedTuple):
    """What a model gives for a row.

    Attributes:
        processor: the model.
        baseline, candidate: cycles of an operation.
        ratio: candidate over baseline. Both sides have the same assumptions, so the range is narrower than that of the quotients.
        beside: the smallest ratio if the core's instructions took no time beside the unit's.
    """

    processor: ArmProcessor
    baseline: Bounds
    candidate: Bounds
    ratio: Bounds
    beside: float


def modelled(
    processor: ArmProcessor, baseline: ArmCounts, candidate: ArmCounts, operations: tuple[float, float]
) -> ModelledRow | None:
    """Return what a model gives for a row; None if a side has executed nothing, or more than a float can count.

    Args:
        processor: the model.
        baseline: executed instructions by kind.
        candidate: the same of the other side.
        operations: of each side.
    """
    corners = list(itertools.product(processor.core_per_cycle, processor.load_wait, (0, 1)))
    sides = tuple(zip((baseline, candidate), operations, strict=True))
    pairs, beside = (
        [
            tuple(_cycles(processor, counts, *corner, beside=overlapped) / number for counts, number in sides)
            for corner in corners
        ]
        for overlapped in (False, True)
    )
    if not all(value > 0 for pair in (*pairs, *beside) for value in pair):
        return None
    before, after, ratios = (
        [pair[0] for pair in pairs],
        [pair[1] for pair in pairs],
        [pair[1] / pair[0] for pair in pairs],
    )
    return ModelledRow(
        processor=processor,
        baseline=Bounds(min(before), max(before)),
        candidate=Bounds(min(after), max(after)),
        ratio=Bounds(min(ratios), max(ratios)),
        beside=min(pair[1] / pair[0] for pair in beside),
    )


def _cycles(
    processor: ArmProcessor, counts: ArmCounts, per_cycle: float, wait: float, end: int, *, beside: bool
) -> float:
    """Return the cycles of a run for one choice of what is a range.

    Args:
        processor: the model.
        counts: executed instructions by kind.
        per_cycle: instructions of the core in a cycle.
        wait: cycles of each run of loads.
        end: 0 for the smaller cycles of each kind, 1 for the larger ones.
        beside: whether the core's instructions take no time while the unit works.
    """
    costs = {kind: bounds[end] for kind, bounds in processor.cycles}
    unit = sum(count * costs.get(kind, 0.0) for kind, count in counts.kinds) + wait * counts.load_runs
    core = sum(count for kind, count in counts.kinds if kind in CORE) / per_cycle
    return max(core, unit) if beside else core + unit
