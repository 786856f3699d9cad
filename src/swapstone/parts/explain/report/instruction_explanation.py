# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where the instructions of a row on the exact clock went: a document and a summary."""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Sequence

from swapstone.core.model.number_text import fixed
from swapstone.core.report.answer.wording import listed
from swapstone.core.report.context import ExplanationSummary
from swapstone.core.report.document import BulletList, Document, Item, Section
from swapstone.core.report.formatting import safe
from swapstone.core.report.tables import text_table
from swapstone.parts.explain.explanation.arm_costs import PROCESSORS, Bounds, ModelledRow, modelled
from swapstone.parts.explain.explanation.evidence import amount
from swapstone.parts.explain.explanation.findings import percent
from swapstone.parts.explain.model.instruction_counts import (
    AMBIGUOUS,
    KERNEL_CODE,
    PASSES,
    UNKNOWN,
    ArmCounts,
    FunctionCount,
    InstructionExplanation,
    other_behaviour,
)
from swapstone.parts.explain.model.variant_label import short_label
from swapstone.parts.explain.report.modelled_cycles_table import MODEL_HEAD, model_notes, model_rows, model_sentence
from swapstone.parts.explain.report.row_explanation import Rows, function_name, title

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


MOST_FUNCTIONS = 16
MOST_EVENTS = 12
_LEAST_SHARE = 0.05
_NAMED = 2
_SYSTEM_CALL = re.compile(r"__(?:x64|arm64|riscv)_sys_(\w+)|sys_(\w+)")
_FAULT = "handle_mm_fault"
GRAPH = "instructions-difference.html"
"""The page with the flame graph of the difference."""
GRAPH_NOTE = (
    f"The flame graph of the difference is {GRAPH}: the same instructions by call path. Callers of main are left out."
)


def kind_counts(found: InstructionExplanation) -> list[tuple[str, int, int]]:
    """Return triples (kind of code, baseline, candidate), the largest difference first."""
    before, after = collections.Counter[str](), collections.Counter[str]()
    for one in found.functions:
        before[one.kind] += one.baseline
        after[one.kind] += one.candidate
    kinds = sorted({*before, *after}, key=lambda kind: (-abs(after[kind] - before[kind]), kind))
    return [(kind, before[kind], after[kind]) for kind in kinds]


def sentence(found: InstructionExplanation) -> str:
    """Return which code the difference is in.

    For example: b_string_strlen executes 44.4 M instructions with musl instead of 7.66 M with glibc; 100 % of the difference is in the C
    library (strlen).
    """
    baseline, candidate = found.sides
    before, after = (side.instructions / side.operations for side in found.sides)
    start = (
        f"{safe(found.place.workload)} executes {amount(after)} instructions with {safe(short_label(candidate.variant))} "
        f"instead of {amount(before)} with {safe(short_label(baseline.variant))}"
    )
    difference = candidate.instructions - baseline.instructions
    if not difference:
        return f"{start}: there is no difference."
    shares = [
        f"{percent((after - before) / difference)} {'of the difference ' if not number else ''}is in {_place(found, kind)}"
        for number, (kind, before, after) in enumerate(kind_counts(found))
        if abs((after - before) / difference) >= _LEAST_SHARE
    ]
    return f"{start}; {listed(shares)}."


def _place(found: InstructionExplanation, kind: str) -> str:
    """Return a kind of code with the functions that differ most."""
    functions = [one for one in found.functions if one.kind == kind and one.difference]
    whole = sum(abs(one.difference) for one in functions)
    named = [function_name(one.name) for one in functions[:_NAMED] if abs(one.difference) >= _LEAST_SHARE * whole]
    article = "" if kind in {AMBIGUOUS, UNKNOWN} else "the " if " " in kind or kind.isalpha() else ""
    return f"{article}{safe(kind)}{f' ({listed(list(dict.fromkeys(named)))})' if named else ''}"


def _row(found: InstructionExplanation, name: Sequence[str], before: int, after: int) -> tuple[str, ...]:
    baseline, candidate = found.sides
    values = before / baseline.operations, after / candidate.operations
    whole = candidate.instructions / candidate.operations - baseline.instructions / baseline.operations
    difference = values[1] - values[0]
    sign = "+" if difference > 0 else ""
    return (*name, *map(amount, values), f"{sign}{amount(difference)}", percent(difference / whole) if whole else "")


KIND_HEAD = ("instructions of an operation in", "baseline", "candidate", "difference", "share")


def kind_rows(found: InstructionExplanation) -> Rows:
    """Return the instructions of each kind of code, their sum, and the time by the machine's clock."""
    scale, lost = found.ns_per_instruction, [side.lost for side in found.sides]
    name = "elapsed ns by its clock" + (f" / {scale}" if scale != 1 else "")
    clock = _row(found, (name,), *(side.clock_ns // scale for side in found.sides))
    return [
        *(_row(found, (safe(kind),), before, after) for kind, before, after in kind_counts(found)),
        *([_row(found, ("lost",), *lost)] if any(lost) else []),
        _row(found, ("sum",), *(side.instructions for side in found.sides)),
        *([clock] if found.region == PASSES else []),
    ]


def function_rows(found: InstructionExplanation) -> Rows:
    """Return the functions with the largest differences, the sum of the others, and the sum of all."""
    shown, rest = found.functions[:MOST_FUNCTIONS], found.functions[MOST_FUNCTIONS:]
    rows = [
        _row(found, (function_name(one.name), safe(one.file or one.kind)), one.baseline, one.candidate) for one in shown
    ]
    sums = sum(one.baseline for one in rest), sum(one.candidate for one in rest)
    rows += [_row(found, (f"{len(rest)} more", ""), *sums)] if rest else []
    return [*rows, _row(found, ("sum", ""), *(side.instructions for side in found.sides))]


def event_rows(found: InstructionExplanation) -> Rows:
    """Return page faults and system calls by name, per operation, as their functions in the kernel were entered."""
    events = ((_event(one), one.entries) for one in found.functions if any(one.entries) and _event(one))
    ordered = sorted(events, key=lambda event: (-abs(event[1][1] - event[1][0]), -max(event[1]), event[0]))
    operations = [side.operations for side in found.sides]
    return [
        (name, *(amount(count / number) for count, number in zip(entries, operations, strict=True)))
        for name, entries in ordered[:MOST_EVENTS]
    ]


def _event(function: FunctionCount) -> str:
    if function.kind != KERNEL_CODE:
        return ""
    if function.name == _FAULT:
        return "page faults"
    call = _SYSTEM_CALL.fullmatch(function.name)
    return f"system call {call[1] or call[2]}" if call else ""


def _operations(found: InstructionExplanation) -> tuple[float, float]:
    baseline, candidate = found.sides
    return baseline.operations, candidate.operations


def answer(found: InstructionExplanation) -> str:
    """Return which code the difference is in, and how modelled cycles compare: first, if they show what the instructions don't."""
    sentences = [sentence(found)]
    if found.model is not None:
        place = 0 if other_behaviour(found.model, _operations(found)) else 1
        sentences.insert(place, model_sentence(found.model, _operations(found)))
    return " ".join(filter(None, sentences))


def notes(found: InstructionExplanation) -> list[str]:
    """Return what the numbers contain, and what is not available."""
    return [
        *found.notes,
        *(model_notes(found.model) if found.model else []),
        *arm_model_notes(found),
        f"A flame graph of the difference is unavailable: {found.no_graph}." if found.no_graph else GRAPH_NOTE,
    ]


def document_of(found: InstructionExplanation) -> Document:
    """Return the explanation as a document."""
    tables: tuple[tuple[str, Callable[[InstructionExplanation], Rows], Sequence[str], int], ...] = (
        ("Instructions by file", kind_rows, KIND_HEAD, 1),
        (
            "Modelled cycles",
            lambda each: model_rows(each.model, _operations(each)) if each.model else [],
            MODEL_HEAD,
            1,
        ),
        (
            "Instructions by kind",
            arm_kind_rows,
            ("instructions of an operation, outside the kernel", "baseline", "candidate", "difference"),
            1,
        ),
        (
            "Cycles by models of processors",
            arm_model_table,
            ("cycles of an operation by a model", "baseline", "candidate", "candidate / baseline"),
            1,
        ),
        (
            "Instructions by function",
            function_rows,
            ("function", "file", "baseline", "candidate", "difference", "share"),
            2,
        ),
        ("System calls and faults", event_rows, ("in one operation", "baseline", "candidate"), 1),
    )
    sections = [
        Section(title=name, blocks=(text_table(name, head, rows, keys=keys),))
        for name, make, head, keys in tables
        if (rows := make(found))
    ]
    items = tuple(Item(safe(note)) for note in notes(found))
    return Document(
        kicker="why",
        title=f"Why: {safe(title(found.place))}",
        answer=answer(found),
        sections=(*sections, Section(title="How it was counted", blocks=(BulletList(items=items),))),
    )


def summary_of(found: InstructionExplanation, pages: Sequence[tuple[str, str]]) -> ExplanationSummary:
    """Return the explanation as the record's report prints it.

    Args:
        found: the explanation.
        pages: pairs (path, description) of the files beside it.
    """
    return ExplanationSummary(
        title=safe(title(found.place)),
        paragraph=answer(found),
        ledger=(KIND_HEAD, *kind_rows(found)),
        pages=tuple(pages),
    )
