# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ratios of maxima: the published page's table 7 (between kernels) and table 8 (under load over idle), measured and published."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from swapstone.core.model import Analysis, Variant
from swapstone.core.model.references import Reference, references
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Section
from swapstone.core.report.ratios import Column, Ratio, Ratios
from swapstone.core.report.tables import Field, section_of
from swapstone.parts.vm.report.latency_data import (
    IDLE,
    STUDY,
    LatencyGroup,
    MaximumRatios,
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


def _figures(context: ReportContext, section: str) -> tuple[Reference, ...]:
    return references(STUDY, section) if context.published == STUDY else ()


def _ranged(middle: str, found: MaximumRatios, low: float, high: float) -> str:
    """Return a ratio with the range over the replicates, if there are several."""
    return middle if found.replicates == 1 else f"{middle} [{formatting.ratio(low)} .. {formatting.ratio(high)}]"


def _verdict(line: _Line, margin: float) -> tuple[str, int | None]:
    """Return on how many boards the ratio has the same sign, as text and as a number."""
    if line.found is None or not line.beside:
        return "", None
    if line.sign is None:
        return "undecided", None
    same = sum(sign(each.ratio, margin) == line.sign for each in line.beside)
    return f"{same} of {len(line.beside)}", same


def _apart(line: _Line) -> tuple[float, ...]:
    """Return the smallest and the largest factor between the ratio here and a board's, of which the larger one is divided."""
    pairs = [(line.found.median, each.ratio) for each in line.beside if each.ratio > 0] if line.found else []
    factors = [max(pair) / min(pair) for pair in pairs if min(pair) > 0]
    return (min(factors), max(factors)) if factors else ()


class _Line(NamedTuple):
    """A row of a table of ratios: what names it, the ratio, and what was published.

    Attributes:
        load, baseline, candidate: which ratio, by the variants' labels.
        shown: both variants for readers.
        found: None where it is unavailable, for the reason `unavailable`.
        text: the ratio as readers see it.
        sign: of the ratio `found`, as of `sign`; None where it is not decided.
    """

    load: str
    baseline: str | None
    candidate: str | None
    shown: str
    found: MaximumRatios | None
    beside: tuple[_Beside, ...]
    text: str
    sign: int | None = None
    unavailable: str | None = None

    def printed(self, board: str) -> str:
        """Return a board's ratio as printed; empty without one."""
        return next((each.printed for each in self.beside if each.board == board), "")

    def ratio(self, board: str) -> float | None:
        """Return a board's ratio; None without one."""
        return next((each.ratio for each in self.beside if each.board == board), None)


def _of(name: str) -> Callable[[_Line], float | None]:
    return lambda line: None if line.found is None else float(getattr(line.found, name))


def _board_fields(platform: str) -> tuple[Field[_Line], ...]:
    board = platform.partition(" (")[0]  # without its number of cores
    return (
        Field(board, "", lambda line: line.printed(platform)),
        Field("", f"page_{plain_name(board).replace('-', '_')}", lambda line: line.ratio(platform)),
    )


def _section(
    name: str,
    title: str,
    key_fields: Sequence[Field[_Line]],
    lines: Sequence[_Line],
    margin: float,
    *,
    head: str,
    number: int,
    notes: Iterable[str],
) -> Section:
    """Return one of the page's tables: the ratios, and those of each board that has a published figure for any row."""
    boards = _boards(lines)
    table_of = f" (the published page's table {number})" if boards else ""
    counts = [line.found.replicates for line in lines if line.found]
    return section_of(
        name,
        f"{title}, {over_replicates(counts) if counts else 'where no replicate has both'}{table_of}",
        (
            *key_fields,
            Field(head, "", lambda line: line.text),
            Field("", "draws", _of("replicates")),
            Field("", "ratio", _of("median")),
            Field("", "low", _of("low")),
            Field("", "high", _of("high")),
            *(field for board in boards for field in _board_fields(board)),
            Field("same sign" * bool(boards), "", lambda line: _verdict(line, margin)[0], right=False),
            Field("", "boards_agreeing", lambda line: _verdict(line, margin)[1]),
            Field("", "boards", lambda line: float(len(line.beside))),
            Field(
                "factor apart" * bool(boards),
                "",
                lambda line: " to ".join(dict.fromkeys(map(formatting.ratio, _apart(line)))),
            ),
            Field("", "factor_apart_low", lambda line: next(iter(_apart(line)), None)),
            Field("", "factor_apart_high", lambda line: next(reversed(_apart(line)), None)),
            Field("", "unavailable", lambda line: line.unavailable),
        ),
        lines,
        keys=sum(bool(field.head) for field in key_fields),
        notes=notes,
    )


def between_kernels(context: ReportContext, analysis: Analysis, group: LatencyGroup, suffix: str) -> Section:
    """Return the page's table 7, with each candidate's maximum over the baseline's, as every ratio of a report. The page has the inverse.

    For programs, the data have the page's direction.
    """
    figures, baseline = _figures(context, BETWEEN), group.variants[0]
    compared = Ratios(analysis)
    # With one candidate the title names both variants.
    one = len(group.variants) == 2
    lines = []
    for load in group.loads:
        for variant in group.variants[1:]:
            found = ratios(group.found.get((load, baseline)), group.found.get((load, variant)))
            if found is not None:
                sides = Column(load, baseline), Column(load, variant)
                ratio = compared.ratio((group.suite, group.workload), *sides, "max")
                beside = _between_beside(figures, load, baseline, variant)
                shown = f"{variant.short_label} / {baseline.short_label}"
                keys = (load, baseline.label, variant.label, shown)
                lines.append(_between_line(keys, found, ratio, beside, context.experiment.margin))
    boards = _boards(lines)
    reason = _no_isolation(context)
    lines.append(_Line(_ISOLATION, None, None, "", None, (), "unavailable", None, reason))
    return _section(
        f"{BETWEEN}{suffix}",
        f"Maximum of {group.variants[1].short_label if one else 'the others'} over that of {baseline.short_label}, by load",
        (
            Field("load", "load", lambda line: line.load, right=False),
            Field("" if one else "maxima", "", lambda line: line.shown, right=False),
            Field("", "baseline", lambda line: line.baseline),
            Field("", "candidate", lambda line: line.candidate),
        ),
        lines,
        context.experiment.margin,
        head="ratio",
        number=7,
        notes=(
            "Candidate / baseline: below 1, the candidate's worst case is shorter. The ratio is that of the comparisons, with its interval "
            "in parentheses; in brackets the lowest and the highest of the replicates."
            + (" The published ratios are inverted." if boards else ""),
            f"With CPU isolation: unavailable. {reason}",
            *_page_notes(context, boards, "The processors of the page's table were not isolated."),
        ),
    )


def _between_line(
    keys: tuple[str, str, str, str],
    found: MaximumRatios,
    ratio: Ratio | None,
    beside: tuple[_Beside, ...],
    margin: float,
) -> _Line:
    """Return a row with the comparison's ratio and the range over the replicates; without a number where the comparison has none.

    Args:
        keys: load, baseline, candidate, and both variants for readers.
        found: baseline / candidate of each replicate.
        ratio: candidate / baseline.
        beside: the published ratios.
        margin: as of `sign`.
    """
    if ratio is None or ratio.value is None:
        return _Line(
            *keys, None, beside, ratio.text() if ratio else "unavailable", None, "The maxima can't be compared."
        )
    text = ratio.text()
    if min(found.low, found.high) > 0:
        text = _ranged(text, found, 1 / found.high, 1 / found.low)
    # Too few replicates for an interval still have a range.
    here = found.sign(margin) if ratio.bounds is None else 0 if ratio.within(margin) else ratio.inverse.sign
    return _Line(*keys, msgspec.structs.replace(found, median=1 / ratio.value), beside, text, here)


def loaded_over_idle(context: ReportContext, group: LatencyGroup, suffix: str) -> Section:
    """Return the page's table 8: the maximum under a load over the idle one."""
    figures, baseline = _figures(context, LOADED), group.variants[0]
    lines = []
    for load in group.loads:
        for variant in group.variants if load != IDLE else ():
            found = ratios(group.found.get((load, variant)), group.found.get((IDLE, variant)))
            if found is not None:
                beside = _loaded_beside(figures, load, baseline, variant)
                keys = (load, None, variant.label, variant.short_label)
                if refused := group.refused.get((load, variant)) or group.refused.get((IDLE, variant)):
                    lines.append(_Line(*keys, None, beside, refused, None, "The maxima can't be compared."))
                    continue
                text = _ranged(formatting.ratio(found.median), found, found.low, found.high)
                lines.append(_Line(*keys, found, beside, text, found.sign(context.experiment.margin)))
    return _section(
        f"{LOADED}{suffix}",
        "Maximum under load over the idle one",
        (
            Field("load", "load", lambda line: line.load, right=False),
            Field("variant", "", lambda line: line.shown, right=False),
            Field("", "variant", lambda line: line.candidate),
        ),
        lines,
        context.experiment.margin,
        head="loaded/idle",
        number=8,
        notes=(
            "The maximum under the load over the idle one of the same replicate: the median of the ratios, in brackets the lowest and the "
            "highest. Where the idle maximum is a few microseconds, small differences give large ratios.",
            *_page_notes(
                context, _boards(lines), "The page does not state whether the processors of this table were isolated."
            ),
        ),
    )


def _boards(lines: Iterable[_Line]) -> tuple[str, ...]:
    """Return the boards that have a published figure for any row."""
    return tuple(dict.fromkeys(each.board for line in lines for each in line.beside))


def _only_kernel_differs(baseline: Variant, variant: Variant) -> bool:
    return {name for name, _ in {*baseline.levels} ^ {*variant.levels}} <= {"kernel"}


def _between_beside(
    figures: Iterable[Reference], load: str, baseline: Variant, variant: Variant
) -> tuple[_Beside, ...]:
    """Return the published ratios of two kernels: the ratio baseline / candidate, printed as candidate / baseline."""
    kernels = (kernel_of(baseline), kernel_of(variant))
    if set(kernels) != set(_KERNELS) or not _only_kernel_differs(baseline, variant):
        return ()
    return tuple(
        _Beside(each.figure.platform, 1 / each.figure.value, each.figure.printed)
        if kernels != _KERNELS
        else _Beside(each.figure.platform, each.figure.value, formatting.ratio(1 / each.figure.value))
        for each in figures
        if each.place.side.load == load
    )


def _loaded_beside(figures: Iterable[Reference], load: str, baseline: Variant, variant: Variant) -> tuple[_Beside, ...]:
    if not _only_kernel_differs(baseline, variant):
        return ()
    return tuple(
        _Beside(each.figure.platform, each.figure.value, each.figure.printed)
        for each in figures
        if (each.place.side.load, dict(each.place.side.levels)["kernel"]) == (load, kernel_of(variant))
    )


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
