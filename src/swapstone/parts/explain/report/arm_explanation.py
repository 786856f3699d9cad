# SPDX-License-Identifier: MIT OR Apache-2.0
"""Explanations of 32-bit ARM machines: instructions by kind, and what models of two processors give for them."""

from __future__ import annotations

from swapstone.core.model.number_text import fixed
from swapstone.parts.explain.explanation.arm_costs import PROCESSORS, Bounds, ModelledRow, modelled
from swapstone.parts.explain.explanation.evidence import amount
from swapstone.parts.explain.model.instruction_counts import ArmCounts, InstructionExplanation

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("floating-point sums and differences", ("vadd",)),
    ("floating-point products", ("vmul", "vmla")),
    ("floating-point divisions and roots", ("vdiv", "vsqrt")),
    ("floating-point comparisons and conversions", ("vcmp", "vcvt")),
    ("moves within the floating-point unit", ("vmov",)),
    ("loads and stores of the floating-point unit", ("vload", "vstore")),
    ("moves from the unit to the core", ("vfp-to-core",)),
    ("moves from the core to the unit", ("core-to-vfp",)),
    ("NEON", ("neon",)),
    ("integer arithmetic", ("integer",)),
    ("integer loads and stores", ("load", "store")),
    ("branches and calls", ("branch",)),
)
"""Pairs (what is printed, kinds), in the order of the table."""

KINDS_HEAD = ("instructions of an operation, outside the kernel", "baseline", "candidate", "difference")
ARM_MODEL_HEAD = ("cycles of an operation by a model", "baseline", "candidate", "candidate / baseline")

Rows = list[tuple[str, ...]]


def arm_sides(found: InstructionExplanation) -> tuple[ArmCounts, ArmCounts] | None:
    """Return the kinds of instructions of both sides; None if one side has none."""
    baseline, candidate = (side.arm for side in found.sides)
    return None if baseline is None or candidate is None else (baseline, candidate)


def arm_kind_rows(found: InstructionExplanation) -> Rows:
    """Return the instructions of an operation by group, their sum, and the calls of libgcc's floating-point functions."""
    sides = arm_sides(found)
    if sides is None:
        return []
    pairs = [(name, [side.of(*kinds) for side in sides]) for name, kinds in GROUPS]
    pairs = [(name, counts) for name, counts in pairs if any(counts)]
    pairs.append(("sum", [sum(count for _, count in side.kinds) for side in sides]))
    if any(side.helper_calls for side in sides):
        pairs.append(("calls of libgcc's floating-point functions", [side.helper_calls for side in sides]))
    rows: Rows = []
    for name, counts in pairs:
        before, after = (count / side.operations for count, side in zip(counts, found.sides, strict=True))
        rows.append((name, amount(before), amount(after), f"{'+' if after > before else ''}{amount(after - before)}"))
    return rows


def modelled_rows(found: InstructionExplanation) -> list[ModelledRow]:
    """Return what each model gives; none for a row in which no side uses floating-point instructions or functions."""
    sides = arm_sides(found)
    if sides is None or not any(
        side.helper_calls or side.of("vadd", "vmul", "vmla", "vdiv", "vsqrt") for side in sides
    ):
        return []
    operations = found.sides[0].operations, found.sides[1].operations
    return [row for row in (modelled(processor, *sides, operations) for processor in PROCESSORS) if row is not None]


def arm_model_table(found: InstructionExplanation) -> Rows:
    """Return a row for each model."""
    return [
        (each.processor.name, *map(_range, (each.baseline, each.candidate)), _range(each.ratio, 2))
        for each in modelled_rows(found)
    ]


def arm_model_notes(found: InstructionExplanation) -> list[str]:
    """Return a sentence on the direction under each model, with its source and its assumptions."""
    notes = []
    for each in modelled_rows(found):
        name, ratio = each.processor.name, each.ratio
        verdict = "the assumptions decide which side takes fewer cycles"
        if ratio.high < 1 or ratio.low > 1:
            verdict = f"the candidate takes {'fewer' if ratio.high < 1 else 'more'} cycles under all assumptions"
        notes.append(
            f"{name}: {verdict} ({_range(ratio, 2)} times the baseline's). This is a model and no measurement. Cycles are those of "
            f"{each.processor.source}. Assumed: {each.processor.assumed}. If the core's instructions took no time beside the unit's, the "
            f"smallest ratio would be {fixed(each.beside, 2)}. Caches and branch prediction are left out."
        )
    return notes


def _range(bounds: Bounds, digits: int = 0) -> str:
    low, high = fixed(bounds.low, digits), fixed(bounds.high, digits)
    return low if low == high else f"{low} to {high}"
