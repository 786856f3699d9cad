# SPDX-License-Identifier: MIT OR Apache-2.0
"""Floating-point ABIs: instructions of an operation with each, how many times fewer the hardware's are, and what the operands decide."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Iterable, Sequence

from swapstone import published
from swapstone.model import Analysis, Comparison, FrozenStruct, Variant
from swapstone.report import formatting
from swapstone.report.context import ReportContext
from swapstone.report.document import Section, data_section
from swapstone.report.topics.topic import Topic
from swapstone.report.verdict_groups import NO_NUMBERS

SUITE, FACTOR = "float", "float"
STUDY = "float-abi"
PAGE_WORKLOAD = "float_calls"
_EXACT, _INEXACT = "exact", "inexact"
_TIMES = ("wall", "cpu")

Datum = dict[str, str | float | None]

_LIBRARY = (
    "soft and softfp are linked with armel's glibc, which does its own arithmetic in software, and hard with armhf's, which is compiled "
    "for Thumb-2. Rows of printf compare these two libraries; in the other rows no library function is called."
)
_PAGE = (
    "The page prints one number: softfp and hard ran its program nearly {ratio} times as fast as soft, by the time in an emulator of "
    "Vexpress-A9. That is a time of the emulator and no count of instructions; benchmarks/float-abi measures it."
)


class _Line(FrozenStruct, frozen=True, kw_only=True):
    """A row of the table: a workload with one kind of operands, and its value with each variant."""

    work: str
    operands: str
    values: tuple[tuple[Variant, float], ...]

    def of(self, variant: Variant) -> float | None:
        """Return the value of a variant; None without one."""
        return dict(self.values).get(variant)


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the table of an analysis of the suite in which the ABI is varied; none for another.

    Args:
        context: has the workloads' parameters, and names the published study.
        analysis: holds the comparisons.
    """
    lines = _lines(context, analysis)
    variants = tuple(dict.fromkeys(variant for line in lines for variant, _ in line.values))
    if not lines or len(variants) < 2:
        return ()
    page = _page_ratio(context, variants[0])
    counted = context.experiment.virtual
    names = [_name(variant) for variant in variants]
    ratios = [f"{names[0]} / {name}" for name in names[1:]]
    head = ("operation", "operands", *names, *ratios, *(("page",) if page else ()))
    rows = tuple(_cells(line, variants, counted, page) for line in lines)
    return (
        data_section(
            name="float-abi",
            title="Instructions of an operation" if counted else "Time of an operation",
            head=head,
            rows=rows,
            right=(False, False, *(True for _ in head[2:])),
            keys=2,
            data=tuple(_datum(line, variants, counted, page) for line in lines),
            notes=tuple(_notes(context, lines, variants, page)),
        ),
    )


def _lines(context: ReportContext, analysis: Analysis) -> list[_Line]:
    copies = {null.copy for null in analysis.nulls}
    rows = [row for row in analysis.comparisons if _is_shown(row) and row.candidate not in copies]
    lines = []
    for name in dict.fromkeys(row.workload for row in rows):
        values: dict[Variant, tuple[float, ...]] = {}
        for row in (row for row in rows if row.workload == name):
            # The baseline is in several comparisons, in each with the replicates of its candidate. Take the longest list.
            for variant, numbers in ((row.baseline, row.baseline_values), (row.candidate, row.candidate_values)):
                if len(numbers) > len(values.get(variant, ())):
                    values[variant] = numbers
        operands = context.parameters(SUITE, name).get("operands", "")
        scale = context.experiment.ns_per_instruction if context.experiment.virtual else 1
        found = tuple((variant, statistics.median(numbers) / scale) for variant, numbers in values.items())
        lines.append(_Line(work=name.partition("(")[0], operands=operands, values=found))
    return lines


def _is_shown(row: Comparison) -> bool:
    varied = FACTOR in dict(row.baseline.levels)
    return (
        row.suite == SUITE and varied and row.metric.name in _TIMES and row.preferred and row.verdict not in NO_NUMBERS
    )


def _name(variant: Variant) -> str:
    """Return the column's name: the level where nothing else is varied, else the variant's label."""
    return formatting.safe(variant.level(FACTOR) if len(variant.levels) == 1 else variant.label)


def _page_ratio(context: ReportContext, baseline: Variant) -> float | None:
    """Return the published number, which is soft over others; None for ratios over another level, or programs that were optimized."""
    same = context.published == STUDY and dict(context.experiment.held).get("optimization") == "O0"
    same = same and baseline.level(FACTOR) == "soft"
    return next((figure.value for figure in published.figures(STUDY)), None) if same else None


def _on_page(line: _Line) -> bool:
    return (line.work, line.operands) == (PAGE_WORKLOAD, _EXACT)


def _ratios(line: _Line, variants: Sequence[Variant]) -> list[float | None]:
    """Return baseline / variant of every variant after the first."""
    base = line.of(variants[0])
    return [base / value if base and (value := line.of(variant)) else None for variant in variants[1:]]


def _cells(line: _Line, variants: Sequence[Variant], counted: bool, page: float | None) -> tuple[str, ...]:
    numbers = [_shown(line.of(variant), counted) for variant in variants]
    ratios = ["" if ratio is None else formatting.ratio(ratio) for ratio in _ratios(line, variants)]
    printed = () if page is None else (formatting.trimmed(formatting.digits(page)) if _on_page(line) else "",)
    return (formatting.safe(line.work), formatting.safe(line.operands), *numbers, *ratios, *printed)


def _shown(value: float | None, counted: bool) -> str:
    if value is None:
        return ""
    return formatting.quantity(value, "1" if counted else "ns")


def _datum(line: _Line, variants: Sequence[Variant], counted: bool, page: float | None) -> Datum:
    unit = "instructions" if counted else "ns"
    found: Datum = {"workload": line.work, "operands": line.operands}
    found |= {f"{_name(variant)} {unit}": line.of(variant) for variant in variants}
    ratios = zip(variants[1:], _ratios(line, variants), strict=True)
    found |= {f"{_name(variants[0])} / {_name(variant)}": ratio for variant, ratio in ratios}
    return found | ({} if page is None else {"published": page if _on_page(line) else None})


def _notes(
    context: ReportContext, lines: Sequence[_Line], variants: Sequence[Variant], page: float | None
) -> Iterable[str]:
    if context.experiment.virtual:
        yield (
            "An instruction takes the same time on the virtual clock, so its time is their number, with the kernel's share. It is no time "
            "of a processor, on which a division takes longer than a sum."
        )
    for variant in variants:
        if text := _operands(lines, variant):
            yield text
    yield _LIBRARY
    if page is not None and any(map(_on_page, lines)):
        yield _PAGE.format(ratio=formatting.trimmed(formatting.digits(page)))
    if context.experiment.virtual and context.explain and any(map(_on_page, lines)):
        chosen = shlex.quote(variants[1].label)
        yield (
            "Instructions by kind, and the range of cycles on a Cortex-A8 and a Cortex-A9 by a model: "
            f"{context.explain} wall --only '{PAGE_WORKLOAD}({_EXACT})' --candidate {chosen}"
        )


def _operands(lines: Sequence[_Line], variant: Variant) -> str:
    """Return what inexact operands cost with a variant; empty where nothing was measured with both kinds."""
    by_kind = {(line.work, line.operands): line.of(variant) for line in lines}
    ratios = [
        (other / value, work)
        for (work, operands), value in by_kind.items()
        if operands == _EXACT and value and (other := by_kind.get((work, _INEXACT)))
    ]
    if not ratios:
        return ""
    (low, first), (high, last) = min(ratios), max(ratios)
    span = (
        f"{formatting.ratio(low)} times ({formatting.safe(first)})"
        if first == last
        else f"{formatting.ratio(low)} ({formatting.safe(first)}) to {formatting.ratio(high)} times ({formatting.safe(last)})"
    )
    return f"{_name(variant)}: inexact operands take {span} what exact ones take."


FLOAT_ABI = Topic("float-abi", sections)
