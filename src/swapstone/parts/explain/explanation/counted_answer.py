# SPDX-License-Identifier: MIT OR Apache-2.0
"""Explain a row on the exact clock by the instructions that the emulator's plugin counted."""

from __future__ import annotations

import collections
from collections.abc import Callable

from swapstone.core.comparison.profile_difference import ProfileDifference, Weights, difference, stacks_of_both
from swapstone.parts.explain.explanation.amounts import amount, percent, short_label
from swapstone.parts.explain.explanation.by_function import answer, by_function
from swapstone.parts.explain.explanation.profile_formats import LIBRARY, aligned, is_library
from swapstone.parts.explain.model.explanation import EvidenceTable, Explanation
from swapstone.parts.explain.model.instruction_counts import (
    PASSES,
    ArmCounts,
    CountedRow,
    CountedSide,
)

Rows = tuple[tuple[str, ...], ...]

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


def arm_sides(found: CountedRow) -> tuple[ArmCounts, ArmCounts] | None:
    """Return the kinds of instructions of both sides; None if one side has none."""
    baseline, candidate = (side.arm for side in found.sides)
    return None if baseline is None or candidate is None else (baseline, candidate)


def arm_kind_rows(found: CountedRow) -> Rows:
    """Return the instructions of an operation by group, their sum, and the calls of libgcc's floating-point functions."""
    sides = arm_sides(found)
    if sides is None:
        return ()
    pairs = [(name, [side.of(*kinds) for side in sides]) for name, kinds in GROUPS]
    pairs = [(name, counts) for name, counts in pairs if any(counts)]
    pairs.append(("sum", [sum(count for _, count in side.kinds) for side in sides]))
    if any(side.helper_calls for side in sides):
        pairs.append(("calls of libgcc's floating-point functions", [side.helper_calls for side in sides]))
    rows: list[tuple[str, ...]] = []
    for name, counts in pairs:
        before, after = (count / side.operations for count, side in zip(counts, found.sides, strict=True))
        rows.append((name, amount(before), amount(after), f"{'+' if after > before else ''}{amount(after - before)}"))
    return tuple(rows)


MOST_EVENTS = 12
GRAPH_NOTE = "The flame graphs have the same instructions by call path. Callers of main are left out."


def explain_counts(found: CountedRow) -> Explanation:
    """Explain a row by its instructions."""
    split = counted_difference(found)
    time = by_function(split)
    before, after = (side.instructions / side.operations for side in found.sides)
    baseline, candidate = (short_label(side.variant) for side in found.sides)
    start = f"{found.place.workload} executes {amount(after)} instructions with {candidate} instead of {amount(before)} with {baseline}"
    tables: tuple[tuple[str, tuple[str, ...], Rows], ...] = (
        ("Instructions by file", FILE_HEAD, file_rows(found)),
        (
            "Instructions by kind",
            ("instructions of an operation, outside the kernel", *FILE_HEAD[1:4]),
            arm_kind_rows(found),
        ),
        ("System calls and faults", ("in one operation", "baseline", "candidate"), event_rows(found)),
    )
    no_callers = (f"Callers and flame graphs are unavailable: {found.no_paths}.",) if found.no_paths else ()
    return Explanation(
        place=found.place,
        time=time,
        sentence=answer(start, time),
        unknown=(*no_callers, *split.notes),
        tables=tuple(
            EvidenceTable(title=name, head=head, rows=rows, brief=True) for name, head, rows in tables if rows
        ),
        methods=(*found.notes, *(() if no_callers else (GRAPH_NOTE,))),
    )


def counted_difference(found: CountedRow) -> ProfileDifference:
    """Return the difference of both variants' instructions by function; without call paths no function has callers."""
    first, second, _ = aligned(*found.profiles)
    return difference(first, second)


FILE_HEAD = ("instructions of an operation in", "baseline", "candidate", "difference", "share")


def _sides(found: CountedRow, count: Callable[[CountedSide], int]) -> Weights:
    """Return a number of both sides, per operation."""
    return Weights(*(count(side) / side.operations for side in found.sides))


def _signed(value: float) -> str:
    """Return a difference with its sign and all digits before the point, a small one with three digits."""
    text = f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else amount(value)
    return f"{'+' if value > 0 else ''}{text}"


def file_rows(found: CountedRow) -> Rows:
    """Return the instructions of each file, their sum, and the time by the machine's clock."""
    files = collections.defaultdict[str, Weights](Weights)
    known, stacks = stacks_of_both(*found.profiles)
    for numbers, weights in stacks.items():
        for frame in (known[number] for number in numbers[-1:]):
            files[LIBRARY if is_library(frame) else frame.object.strip("[]")].add(weights)
    scale, whole = found.ns_per_instruction, _sides(found, lambda side: side.instructions)
    name = "elapsed ns by its clock" + (f" / {scale}" if scale != 1 else "")
    rows = sorted(files.items(), key=lambda row: (-abs(row[1].difference), row[0]))
    rows += [("lost", _sides(found, lambda side: side.lost))] if any(side.lost for side in found.sides) else []
    rows += [("sum", whole)]
    rows += [(name, _sides(found, lambda side: side.clock_ns // scale))] if found.region == PASSES else []
    shares = [percent(each.difference / whole.difference) if whole.difference else "" for _, each in rows]
    return tuple(
        (text, amount(each.baseline), amount(each.candidate), _signed(each.difference), share)
        for (text, each), share in zip(rows, shares, strict=True)
    )


def event_rows(found: CountedRow) -> Rows:
    """Return page faults and system calls, those whose numbers differ most first."""
    pairs = [(each, each.baseline or 0.0, each.candidate or 0.0) for each in found.events]
    ordered = sorted(pairs, key=lambda one: (-abs(one[2] - one[1]), -max(one[1:]), one[0].name))
    return tuple(
        (f"system call {each.name}" if each.group == "system calls" else each.name, amount(before), amount(after))
        for each, before, after in ordered[:MOST_EVENTS]
    )
