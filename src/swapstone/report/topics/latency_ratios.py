# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ratios of maxima: the published page's table 7 (between kernels) and table 8 (under load over idle), measured and published."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from swapstone import published
from swapstone.model import Analysis, Comparison, Variant
from swapstone.published import Joined
from swapstone.report import formatting
from swapstone.report.context import ReportContext
from swapstone.report.document import Section, data_section
from swapstone.report.topics.comparison_groups import shown_ratio
from swapstone.report.topics.latency_data import (
    IDLE,
    STUDY,
    Datum,
    LatencyGroup,
    Ratios,
    kernel_of,
    over_replicates,
    plain_name,
    ratios,
    sign,
)

BETWEEN, LOADED = "latency-ratio", "latency-loaded"
"""Sections of the report that have published figures."""

_KERNELS = ("generic", "rt")
_ISOLATION = "isolated CPU"


class _Beside(NamedTuple):
    """A published ratio of one board, as a number and as printed."""

    board: str
    ratio: float
    printed: str


def _joined(context: ReportContext, section: str) -> tuple[Joined, ...]:
    return published.joined(section, STUDY) if context.published == STUDY else ()


def _board(platform: str) -> str:
    """Return a board's name without its number of cores."""
    return platform.partition(" (")[0]


def _column(platform: str) -> str:
    return f"page_{plain_name(_board(platform)).replace('-', '_')}"


def _ratio_text(found: Ratios | None) -> str:
    if found is None:
        return ""
    middle = formatting.ratio(found.median)
    return (
        middle
        if found.replicates == 1
        else f"{middle} [{formatting.ratio(found.low)} .. {formatting.ratio(found.high)}]"
    )


def _comparison(analysis: Analysis, group: LatencyGroup, load: str, candidate: Variant) -> Comparison | None:
    """Return the comparison of the maxima of a candidate and the baseline; None without one that has an effect."""
    place = (group.suite, group.workload, load, "max", candidate)
    return next(
        (
            each
            for each in analysis.comparisons
            if (each.suite, each.workload, each.load, each.metric.name, each.candidate) == place
            and shown_ratio(each) is not None
        ),
        None,
    )


def _inverse_text(comparison: Comparison | None, found: Ratios) -> str:
    """Return candidate / baseline: the comparison's effect with its interval, and the range over the replicates.

    Args:
        comparison: None for the median over the replicates, without an interval.
        found: baseline / candidate.
    """
    middle = formatting.ratio(1 / found.median) if comparison is None else formatting.estimate(comparison)
    if found.replicates == 1 or min(found.low, found.high) <= 0:
        return middle
    return f"{middle} [{formatting.ratio(1 / found.high)} .. {formatting.ratio(1 / found.low)}]"


def _verdict(found: Ratios | None, beside: Sequence[_Beside], margin: float) -> tuple[str, int | None]:
    """Return on how many boards the ratio has the same sign, as text and as a number."""
    if found is None or not beside:
        return "", None
    measured_sign = found.sign(margin)
    if measured_sign is None:
        return "undecided", None
    same = sum(sign(each.ratio, margin) == measured_sign for each in beside)
    return f"{same} of {len(beside)}", same


def _apart(found: Ratios | None, beside: Sequence[_Beside]) -> tuple[float, float] | None:
    """Return the smallest and the largest factor between the ratio here and a board's, of which the larger one is divided."""
    pairs = [(found.median, each.ratio) for each in beside if each.ratio > 0] if found is not None else []
    factors = [max(pair) / min(pair) for pair in pairs if min(pair) > 0]
    return (min(factors), max(factors)) if factors else None


def _ratio_datum(found: Ratios | None, beside: Sequence[_Beside], boards: Sequence[str], margin: float) -> Datum:
    values = {each.board: each.ratio for each in beside}
    apart = _apart(found, beside)
    return {
        "draws": None if found is None else float(found.replicates),
        "ratio": None if found is None else found.median,
        "low": None if found is None else found.low,
        "high": None if found is None else found.high,
        **{_column(board): values.get(board) for board in boards},
        "boards_agreeing": _verdict(found, beside, margin)[1],
        "boards": float(len(beside)),
        "factor_apart_low": apart[0] if apart else None,
        "factor_apart_high": apart[1] if apart else None,
        "unavailable": None,
    }


class _Line(NamedTuple):
    """A row of a table of ratios: what names it, the ratio, and what was published."""

    keys: Datum
    shown: tuple[str, ...]
    found: Ratios
    beside: tuple[_Beside, ...]
    text: str = ""


def between_kernels(context: ReportContext, analysis: Analysis, group: LatencyGroup, suffix: str) -> Section:
    """Return the page's table 7, with each candidate's maximum over the baseline's, as every ratio of a report. The page has the inverse.

    For programs, the data have the page's direction.
    """
    margin, figures, baseline = context.experiment.margin, _joined(context, BETWEEN), group.variants[0]
    # With one candidate the title names both variants.
    one = len(group.variants) == 2
    lines = []
    for load in group.loads:
        for variant in group.variants[1:]:
            found = ratios(group.found.get((load, baseline)), group.found.get((load, variant)))
            if found is not None:
                keys: Datum = {"load": load, "baseline": baseline.label, "candidate": variant.label}
                shown = (load,) if one else (load, f"{variant.short_label} / {baseline.short_label}")
                text = _inverse_text(_comparison(analysis, group, load, variant), found)
                lines.append(_Line(keys, shown, found, _between_beside(figures, load, baseline, variant), text))
    boards = _boards(lines)
    reason = _no_isolation(context)
    nothing: Datum = {"load": _ISOLATION, "baseline": None, "candidate": None, **_ratio_datum(None, (), boards, margin)}
    unavailable = (_ISOLATION, *(() if one else ("",)), "unavailable", *_beside(None, (), boards, margin))
    others = group.variants[1].short_label if one else "the others"
    return data_section(
        name=f"{BETWEEN}{suffix}",
        title=f"Maximum of {others} over that of {baseline.short_label}, by load, {_over(lines)}{_table_of(boards, 7)}",
        head=("load", *(() if one else ("maxima",)), "ratio", *_heads(boards)),
        rows=(*_rows(lines, boards, margin), unavailable),
        right=(*((False,) if one else (False, False)), *_right(boards)),
        keys=1 if one else 2,
        data=(*_data(lines, boards, margin), {**nothing, "unavailable": reason}),
        notes=(
            "Candidate / baseline: below 1, the candidate's worst case is shorter. The ratio is that of the comparisons, with its interval "
            "in parentheses; in brackets the lowest and the highest of the replicates."
            + (" The published ratios are inverted." if boards else ""),
            f"With CPU isolation: unavailable. {reason}",
            *_page_notes(context, boards, "The processors of the page's table were not isolated."),
        ),
    )


def loaded_over_idle(context: ReportContext, group: LatencyGroup, suffix: str) -> Section:
    """Return the page's table 8: the maximum under a load over the idle one."""
    margin, figures = context.experiment.margin, _joined(context, LOADED)
    lines = []
    for load in group.loads:
        for variant in group.variants if load != IDLE else ():
            found = ratios(group.found.get((load, variant)), group.found.get((IDLE, variant)))
            if found is not None:
                beside = _loaded_beside(figures, load, group.variants[0], variant)
                lines.append(
                    _Line({"load": load, "variant": variant.label}, (load, variant.short_label), found, beside)
                )
    boards = _boards(lines)
    return data_section(
        name=f"{LOADED}{suffix}",
        title=f"Maximum under load over the idle one, {_over(lines)}{_table_of(boards, 8)}",
        head=("load", "variant", "loaded/idle", *_heads(boards)),
        rows=_rows(lines, boards, margin),
        right=(False, False, *_right(boards)),
        keys=2,
        data=_data(lines, boards, margin),
        notes=(
            "The maximum under the load over the idle one of the same replicate: the median of the ratios, in brackets the lowest and the "
            "highest. Where the idle maximum is a few microseconds, small differences give large ratios.",
            *_page_notes(
                context, boards, "The page does not state whether the processors of this table were isolated."
            ),
        ),
    )


def _boards(lines: Iterable[_Line]) -> tuple[str, ...]:
    """Return the boards that have a published figure for any row."""
    return tuple(dict.fromkeys(each.board for line in lines for each in line.beside))


def _over(lines: Sequence[_Line]) -> str:
    return over_replicates(line.found.replicates for line in lines) if lines else "where no replicate has both"


def _rows(lines: Iterable[_Line], boards: Sequence[str], margin: float) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (*line.shown, line.text or _ratio_text(line.found), *_beside(line.found, line.beside, boards, margin))
        for line in lines
    )


def _data(lines: Iterable[_Line], boards: Sequence[str], margin: float) -> tuple[Datum, ...]:
    return tuple({**line.keys, **_ratio_datum(line.found, line.beside, boards, margin)} for line in lines)


def _right(boards: Sequence[str]) -> tuple[bool, ...]:
    return (True, *(True for _ in boards), False, True) if boards else (True,)


def _only_kernel_differs(baseline: Variant, variant: Variant) -> bool:
    first, other = dict(baseline.levels), dict(variant.levels)
    return {name: level for name, level in first.items() if name != "kernel"} == {
        name: level for name, level in other.items() if name != "kernel"
    }


def _between_beside(figures: Iterable[Joined], load: str, baseline: Variant, variant: Variant) -> tuple[_Beside, ...]:
    """Return the published ratios of two kernels: the ratio baseline / candidate, printed as candidate / baseline."""
    kernels = (kernel_of(baseline), kernel_of(variant))
    if set(kernels) != set(_KERNELS) or not _only_kernel_differs(baseline, variant):
        return ()
    turned = kernels != _KERNELS
    return tuple(
        _Beside(each.figure.platform, 1 / each.figure.value, each.figure.printed)
        if turned
        else _Beside(each.figure.platform, each.figure.value, formatting.ratio(1 / each.figure.value))
        for each in figures
        if each.place.side.load == load
    )


def _loaded_beside(figures: Iterable[Joined], load: str, baseline: Variant, variant: Variant) -> tuple[_Beside, ...]:
    if not _only_kernel_differs(baseline, variant):
        return ()
    kernel = kernel_of(variant)
    return tuple(
        _Beside(each.figure.platform, each.figure.value, each.figure.printed)
        for each in figures
        if (each.place.side.load, dict(each.place.side.levels)["kernel"]) == (load, kernel)
    )


def _heads(boards: Sequence[str]) -> tuple[str, ...]:
    return (*(_board(board) for board in boards), "same sign", "factor apart") if boards else ()


def _beside(found: Ratios | None, beside: Sequence[_Beside], boards: Sequence[str], margin: float) -> tuple[str, ...]:
    values = {each.board: each.printed for each in beside}
    cells = [values.get(board, "") for board in boards]
    factors = " to ".join(dict.fromkeys(map(formatting.ratio, _apart(found, beside) or ())))
    return (*cells, _verdict(found, beside, margin)[0], factors) if boards else ()


def _table_of(boards: Sequence[str], number: int) -> str:
    return f" (the published page's table {number})" if boards else ""


_OTHER_LOADS = (
    "The page's network load goes through a network card, and here through the loopback device. Its boards have an SSD or an SD card for "
    "the I/O load, which writes to a disk in memory here."
)


def _page_notes(context: ReportContext, boards: Sequence[str], isolated: str) -> tuple[str, ...]:
    if not boards:
        return ()
    here = f", {context.experiment.architecture}" if context.experiment.architecture else ""
    scale = context.experiment.ns_per_instruction
    each = "each nanosecond" if scale == 1 else f"every {scale} ns"
    number = context.experiment.processors
    processors = "one processor that executes" if number == 1 else f"{number} processors that take turns, and execute"
    machine = (
        f"{processors} an instruction {each}{here}"
        if context.experiment.clock == "virtual"
        else f"another machine{here}"
    )
    return (
        f"The page measured {', '.join(boards)}. {isolated} Here it is {machine}. "
        "Same sign: the number of boards whose ratio is on the same side of 1; a ratio within the margin has no side. Factor apart: "
        "between the ratio here and that of the nearest and of the farthest board. Signs may agree where sizes are far apart.",
        *((_OTHER_LOADS,) if {"network", "io"} & set(context.experiment.loads) else ()),
    )


def _no_isolation(context: ReportContext) -> str:
    if context.experiment.processors > 1:
        return "Compare levels that isolate a processor, and read its row: kernel=rt,rt+isolcpus=1"
    if context.experiment.clock == "virtual":
        return "The machine has one processor, so none can be isolated. With several: --smp 2 and a level such as rt+isolcpus=1"
    return "Isolating a processor is no factor of this experiment."
