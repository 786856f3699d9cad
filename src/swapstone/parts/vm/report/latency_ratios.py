# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ratios of maxima: the published page's table 7 (between kernels) and table 8 (under load over idle), measured and published."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from swapstone.core.model import Analysis, Variant
from swapstone.core.model.references import Reference, references
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Section
from swapstone.core.report.ratios import Column, Ratio, Ratios, ratio_fields
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


_REFUSED = "The maxima can't be compared."


def _figures(
    context: ReportContext, section: str, load: str, baseline: Variant, variant: Variant
) -> tuple[Reference, ...]:
    """Return the published figures under a load; none where more than the kernel is varied."""
    varied = {name for name, _ in {*baseline.levels} ^ {*variant.levels}}
    if context.published != STUDY or not varied <= {"kernel"}:
        return ()
    return tuple(each for each in references(STUDY, section) if each.place.side.load == load)


def _ranged(middle: str, found: MaximumRatios, low: float, high: float) -> str:
    """Return a ratio with the range over the replicates, if there are several."""
    return middle if found.replicates == 1 else f"{middle} [{formatting.ratio(low)} .. {formatting.ratio(high)}]"


def _verdict(line: _Line, margin: float) -> tuple[str, int | None]:
    """Return on how many boards the ratio has the same sign, as text and as a number."""
    if line.ratio is None or not line.beside:
        return "", None
    if line.sign is None:
        return "undecided", None
    same = sum(sign(ratio, margin) == line.sign for ratio, _ in line.beside.values())
    return f"{same} of {len(line.beside)}", same


def _apart(line: _Line) -> tuple[float, ...]:
    """Return the smallest and the largest factor between the ratio here and a board's, of which the larger one is divided."""
    here = line.ratio.value if line.ratio is not None and line.ratio.value else 0.0
    pairs = [(here, ratio) for ratio, _ in line.beside.values()]
    factors = [max(pair) / min(pair) for pair in pairs if min(pair) > 0]
    return (min(factors), max(factors)) if factors else ()


class _Line(NamedTuple):
    """A row of a table of ratios: what names it, the ratio, and what was published.

    Attributes:
        load, baseline, candidate: which ratio, by the variants' labels.
        shown: both variants for readers.
        found: the ratios of the replicates; None where it is unavailable, for the reason `unavailable`.
        ratio: between kernels that of the comparison, in the page's direction; under a load that of the replicates.
        beside: by board, the published ratio as a number and as printed.
        text: the ratio as readers see it.
        sign: of the ratio, as of `sign`; None where it is not decided.
    """

    load: str
    baseline: str | None
    candidate: str | None
    shown: str
    found: MaximumRatios | None
    ratio: Ratio | None
    beside: dict[str, tuple[float, str]]
    text: str
    sign: int | None = None
    unavailable: str | None = None


def _board_fields(platform: str) -> tuple[Field[_Line], ...]:
    board = platform.partition(" (")[0]  # without its number of cores
    return (
        Field(board, "", lambda line: line.beside.get(platform, (None, ""))[1]),
        Field("", f"page_{plain_name(board).replace('-', '_')}", lambda line: line.beside.get(platform, (None, ""))[0]),
    )


def _ratio(line: _Line) -> Ratio | None:
    return line.ratio


def _replicates(line: _Line) -> Ratio | None:
    return None if line.found is None else line.found.ratio


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
            Field("", "draws", lambda line: None if line.found is None else float(line.found.replicates)),
            *ratio_fields("", "ratio", _ratio),
            *ratio_fields("", "replicates", _replicates),
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
    baseline = group.variants[0]
    # With one candidate the title names both variants.
    one = len(group.variants) == 2
    lines = list(_between(context, analysis, group))
    boards = _boards(lines)
    reason = _no_isolation(context)
    lines.append(_Line(_ISOLATION, None, None, "", None, None, {}, "unavailable", None, reason))
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


def _between(context: ReportContext, analysis: Analysis, group: LatencyGroup) -> Iterator[_Line]:
    """Yield a row for each load and candidate: the comparison's ratio, candidate / baseline, with the range over the replicates.

    The ratios for programs are baseline / candidate. There is no number where the comparison has none.
    """
    compared, margin, (baseline, *others) = Ratios(analysis), context.experiment.margin, group.variants
    for load, variant in itertools.product(group.loads, others):
        found = ratios(group.found.get((load, baseline)), group.found.get((load, variant)))
        if found is None:
            continue
        kernels = (kernel_of(baseline), kernel_of(variant))
        beside = {
            each.figure.platform: (each.figure.value, formatting.ratio(1 / each.figure.value))
            if kernels == _KERNELS
            else (1 / each.figure.value, each.figure.printed)
            for each in _figures(context, BETWEEN, load, baseline, variant)
            if kernels in {_KERNELS, _KERNELS[::-1]}
        }
        keys = (load, baseline.label, variant.label, f"{variant.short_label} / {baseline.short_label}")
        ratio = compared.ratio((group.suite, group.workload), Column(load, baseline), Column(load, variant), "max")
        if ratio is None or ratio.value is None:
            yield _Line(*keys, None, None, beside, ratio.text() if ratio else "unavailable", None, _REFUSED)
            continue
        text = ratio.text()
        if min(found.low, found.high) > 0:
            text = _ranged(text, found, 1 / found.high, 1 / found.low)
        # Too few replicates for an interval still have a range.
        here = found.sign(margin) if ratio.bounds is None else 0 if ratio.within(margin) else ratio.inverse.sign
        yield _Line(*keys, found, ratio.inverse, beside, text, here)


def loaded_over_idle(context: ReportContext, group: LatencyGroup, suffix: str) -> Section:
    """Return the page's table 8: the maximum under a load over the idle one."""
    lines = list(_loaded(context, group))
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


def _loaded(context: ReportContext, group: LatencyGroup) -> Iterator[_Line]:
    """Yield a row for each load and variant: the maximum over the idle one."""
    for load, variant in itertools.product(group.loads, group.variants):
        found = ratios(group.found.get((load, variant)), group.found.get((IDLE, variant)))
        if load == IDLE or found is None:
            continue
        beside = {
            each.figure.platform: (each.figure.value, each.figure.printed)
            for each in _figures(context, LOADED, load, group.variants[0], variant)
            if dict(each.place.side.levels)["kernel"] == kernel_of(variant)
        }
        keys = (load, None, variant.label, variant.short_label)
        if refused := group.refused.get((load, variant)) or group.refused.get((IDLE, variant)):
            yield _Line(*keys, None, None, beside, refused, None, _REFUSED)
        else:
            text = _ranged(formatting.ratio(found.median), found, found.low, found.high)
            yield _Line(*keys, found, found.ratio, beside, text, found.sign(context.experiment.margin))


def _boards(lines: Iterable[_Line]) -> tuple[str, ...]:
    """Return the boards that have a published figure for any row."""
    return tuple(dict.fromkeys(board for line in lines for board in line.beside))


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
