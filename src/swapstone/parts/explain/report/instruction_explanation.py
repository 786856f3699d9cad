# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where the instructions of a row on the exact clock went: a document and a summary."""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Sequence

from swapstone.core.comparison.profile_difference import FrameDifference, ProfileDifference, Weights, difference
from swapstone.core.model.number_text import fixed
from swapstone.core.model.profile import OWN_OBJECT, Frame
from swapstone.core.report.answer.wording import listed
from swapstone.core.report.context import ExplanationSummary
from swapstone.core.report.document import BulletList, Document, Item, Section
from swapstone.core.report.formatting import safe
from swapstone.core.report.tables import text_table
from swapstone.parts.explain.explanation.amounts import amount, percent
from swapstone.parts.explain.explanation.arm_costs import PROCESSORS, Bounds, ModelledRow, modelled
from swapstone.parts.explain.explanation.profile_formats import with_common_names
from swapstone.parts.explain.model.instruction_counts import (
    KERNEL_CODE,
    PASSES,
    ArmCounts,
    CountedSide,
    FunctionCount,
    InstructionExplanation,
    InstructionPaths,
    counted_profiles,
    other_behaviour,
)
from swapstone.parts.explain.model.variant_label import short_label
from swapstone.parts.explain.report.modelled_cycles_table import MODEL_HEAD, model_notes, model_rows, model_sentence
from swapstone.parts.explain.report.row_explanation import Rows, title

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


MOST_FRAMES = 8
MOST_EVENTS = 12
_NAMED = 2
_LEAST_OWN = 0.5
"""A function is named without what it calls if it has at least this share of their difference itself."""
_SYSTEM_CALL = re.compile(r"__(?:x64|arm64|riscv)_sys_(\w+)|sys_(\w+)")
_FAULT = "handle_mm_fault"
GRAPH = "instructions-difference.html"
"""The page with the flame graph of the difference."""
GRAPH_NOTE = (
    f"The flame graph of the difference is {GRAPH}: the same instructions by call path. Callers of main are left out."
)


def compared(found: InstructionExplanation, paths: InstructionPaths | None = None) -> ProfileDifference:
    """Return the difference of both sides by function; without call paths no function has callers."""
    return difference(*with_common_names(*counted_profiles(found, paths)))


def sentence(found: InstructionExplanation, split: ProfileDifference) -> str:
    """Return which function the difference is in.

    For example: b_string_strlen executes 44.4 M instructions with musl instead of 7.66 M with glibc: strlen (C library), called by pass,
    executes 36.8 M more, 100 % of the difference.
    """
    baseline, candidate = found.sides
    before, after = (side.instructions / side.operations for side in found.sides)
    start = (
        f"{safe(found.place.workload)} executes {amount(after)} instructions with {safe(short_label(candidate.variant))} "
        f"instead of {amount(before)} with {safe(short_label(baseline.variant))}"
    )
    whole = split.total.difference
    differing = [one for one in split.frames if one.own.difference]
    if not whole:
        return f"{start}: {f'the differences of {len(differing)} functions cancel out' if differing else 'there is no difference'}."
    named = (f"{_name(each.frame)} {_signed(each.own.difference)}" for each in differing[:_NAMED])
    largest = f"the largest differences of functions themselves are {listed([*named])}"
    leading = split.leading()
    if not leading:
        return f"{start}: the difference is spread over {split.spread()} functions; {largest}."
    inner = "" if all(map(_is_alone, leading)) else f"; {largest}"
    return f"{start}: {'; '.join(_leading(one, whole) for one in leading)}{inner}."


def _is_alone(one: FrameDifference) -> bool:
    """Return whether a function is named without what it calls."""
    return abs(one.own.difference) >= _LEAST_OWN * abs(one.inclusive.difference)


def _leading(one: FrameDifference, whole: float) -> str:
    alone = _is_alone(one)
    more = one.own.difference if alone else one.inclusive.difference
    caller = next(map(_name, one.callers), "")
    return (
        f"{_name(one.frame)}{f', called by {caller},' if caller else ''} {'executes' if alone else 'and what it calls execute'} "
        f"{amount(abs(more))} {'more' if more > 0 else 'fewer'}, {percent(more / whole)} of the difference"
    )


def _name(frame: Frame) -> str:
    """Return a function with its file, unless it is the program's."""
    return safe(frame.symbol) + ("" if frame.object == OWN_OBJECT else f" ({_file(frame)})")


def _file(frame: Frame) -> str:
    return safe(frame.object).strip("[]")


def _signed(value: float) -> str:
    """Return a difference with its sign and all digits before the point, a small one with three digits."""
    text = f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else amount(value)
    return f"{'+' if value > 0 else ''}{text}"


def _row(names: Sequence[str], weights: Weights) -> tuple[str, ...]:
    return (*names, amount(weights.baseline), amount(weights.candidate), _signed(weights.difference))


FILE_HEAD = ("instructions of an operation in", "baseline", "candidate", "difference", "share")


def _sides(found: InstructionExplanation, count: Callable[[CountedSide], int]) -> Weights:
    """Return a number of both sides, per operation."""
    return Weights(*(count(side) / side.operations for side in found.sides))


def file_rows(found: InstructionExplanation, split: ProfileDifference) -> Rows:
    """Return the instructions of each file, their sum, and the time by the machine's clock."""
    files = collections.defaultdict[str, Weights](Weights)
    for one in split.frames:
        files[_file(one.frame)].add(one.own)
    scale, whole = found.ns_per_instruction, _sides(found, lambda side: side.instructions)
    name = "elapsed ns by its clock" + (f" / {scale}" if scale != 1 else "")
    rows = sorted(files.items(), key=lambda row: (-abs(row[1].difference), row[0]))
    rows += [("lost", _sides(found, lambda side: side.lost))] if any(side.lost for side in found.sides) else []
    rows += [("sum", whole)]
    rows += [(name, _sides(found, lambda side: side.clock_ns // scale))] if found.region == PASSES else []
    shares = [percent(each.difference / whole.difference) if whole.difference else "" for _, each in rows]
    return [(*_row((name,), weights), share) for (name, weights), share in zip(rows, shares, strict=True)]


FUNCTION_HEAD = ("function", "file", "baseline", "candidate", "own", "inclusive", "called by")


def function_rows(split: ProfileDifference) -> Rows:
    """Return the functions with the largest differences, the one that leads first, the sum of the others, and the sum of all."""
    leading, others = split.leading(), Weights()
    ordered = sorted(split.frames, key=lambda one: one not in leading)
    for one in ordered[MOST_FRAMES:]:
        others.add(one.own)
    rows = [
        (
            *_row((safe(one.frame.symbol), _file(one.frame)), one.own),
            _signed(one.inclusive.difference),
            _callers(one),
        )
        for one in ordered[:MOST_FRAMES]
    ]
    more = len(ordered) - MOST_FRAMES
    sums = ((f"{more} more", others), ("sum", split.total))[more <= 0 :]
    return [*rows, *((*_row((name, ""), weights), "", "") for name, weights in sums)]


def _callers(one: FrameDifference) -> str:
    """Return the caller with the largest difference, and how many more have one."""
    texts = [
        f"{safe(caller.symbol)} {_signed(each.difference)}" for caller, each in one.callers.items() if each.difference
    ]
    return f"{texts[0]}, {len(texts) - 1} more" if len(texts) > 1 else "".join(texts)


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


def answer(found: InstructionExplanation, split: ProfileDifference) -> str:
    """Return which function the difference is in, and how modelled cycles compare: first, if they show what the instructions don't."""
    sentences = [sentence(found, split)]
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


def document_of(found: InstructionExplanation, split: ProfileDifference) -> Document:
    """Return the explanation as a document, of the functions as `compared` returns them."""
    tables: tuple[tuple[str, Callable[[InstructionExplanation], Rows], Sequence[str], int], ...] = (
        ("Instructions by file", lambda each: file_rows(each, split), FILE_HEAD, 1),
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
            lambda _: function_rows(split),
            FUNCTION_HEAD,
            2,
        ),
        ("System calls and faults", event_rows, ("in one operation", "baseline", "candidate"), 1),
    )
    sections = [
        Section(
            title=name, blocks=(text_table(name, head, rows, keys=keys, last=-1 if head is FUNCTION_HEAD else None),)
        )
        for name, make, head, keys in tables
        if (rows := make(found))
    ]
    items = tuple(Item(safe(note)) for note in (*notes(found), *split.notes))
    return Document(
        kicker="why",
        title=f"Why: {safe(title(found.place))}",
        answer=answer(found, split),
        sections=(*sections, Section(title="How it was counted", blocks=(BulletList(items=items),))),
    )


def summary_of(found: InstructionExplanation, pages: Sequence[tuple[str, str]]) -> ExplanationSummary:
    """Return the explanation as the record's report prints it: without callers, since paths take a second of each row to compare.

    Args:
        found: the explanation.
        pages: pairs (path, description) of the files beside it.
    """
    split = compared(found)
    return ExplanationSummary(
        title=safe(title(found.place)),
        paragraph=answer(found, split),
        ledger=(FILE_HEAD, *file_rows(found, split)),
        pages=tuple(pages),
    )
