"""Wake-up latencies: maxima over replicates, histograms, the published page's tables 7 and 8, and warnings."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from swapstone import published
from swapstone.model import Analysis, Latency, Variant
from swapstone.published import Figure
from swapstone.report import formatting
from swapstone.report.context import ReportContext
from swapstone.report.document import Drawing, Section, data_section
from swapstone.report.topics import latency_plot, latency_warnings
from swapstone.report.topics.base import Topic
from swapstone.report.topics.latency_data import (
    IDLE,
    NS_PER_US,
    LatencyGroup,
    Ratios,
    groups,
    is_rt,
    kernel_of,
    percentile,
    ratios,
    sign,
    spread,
    total,
    us,
)

STUDY = "preempt-rt"
_PERCENTS = (99.0, 99.9, 99.99)
_BETWEEN, _LOADED, _LONGEST = "max latency generic/rt", "max latency loaded/idle", "max latency"
_KERNELS = ("generic", "rt")
_ISOLATION = "isolated CPU"
_IMAGE = (
    "The published page has maxima and averages of each load in its table 6, as an image. No figures of that table are available as "
    "text."
)

Datum = dict[str, str | float | None]


class _Beside(NamedTuple):
    """A published ratio of one board, as a number and as printed."""

    board: str
    ratio: float
    printed: str


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the sections of an analysis that holds latencies; none for another."""
    found = groups(context, analysis)
    return tuple(
        section
        for group in found
        for section in _sections(context, group, "" if len(found) == 1 else f"-{_plain(group.workload)}")
    )


def _sections(context: ReportContext, group: LatencyGroup, suffix: str) -> Iterable[Section]:
    yield _table(context, group, suffix)
    yield _histogram(group, suffix)
    if len(group.variants) > 1:
        yield _between(context, group, suffix)
    if IDLE in group.loads and len(group.loads) > 1:
        yield _loaded(context, group, suffix)
    if context.published == STUDY:
        yield from _longest(group, suffix)


def _plain(text: str) -> str:
    """Return a text in lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"


def _over_replicates(counts: Iterable[int]) -> str:
    """Return ``over 4 replicates`` for the smallest and largest of some counts; `counts` is not empty."""
    found = sorted(set(counts))
    if len(found) == 1:
        return f"over {formatting.count(found[0], 'replicate')}"
    return f"over {found[0]} to {found[-1]} replicates"


def _replicates_of(group: LatencyGroup) -> str:
    return _over_replicates(len(each.maxima) for each in group.found.values())


def _table(context: ReportContext, group: LatencyGroup, suffix: str) -> Section:
    """Return the table of maxima, averages and percentiles by load and variant."""
    cells = [(load, variant, group.found.get((load, variant))) for load in group.loads for variant in group.variants]
    shown = [(load, variant, each) for load, variant, each in cells if each is not None]
    exact = context.experiment.clock == "virtual"
    notes = [
        "Maximum: the median of the replicates' maxima, in brackets the lowest and the highest. More replicates find rarer and longer "
        "latencies. Average: the mean of the replicates' averages. Percentiles: of all replicates together, the lower edge of the bin of "
        "1 us."
    ]
    few = [each for _, _, each in shown if percentile(each, _PERCENTS[-1]) is None]
    if few:
        notes.append(
            "A percentile is empty where there are too few latencies to tell it from the maximum (p99.99 needs 10000)."
        )
    missing = [f"{variant.short_label} under {load}" for load, variant, each in cells if each is None]
    if missing:
        notes.append(f"No latencies were measured of {', '.join(missing)}.")
    if context.published == STUDY:
        notes.append(_IMAGE)
    return data_section(
        name=f"latency{suffix}",
        title=f"Wake-up latency of {group.workload} by load, in microseconds, {_replicates_of(group)}",
        head=(
            "load",
            "variant",
            "maximum",
            "average",
            *(f"p{percent:g}" for percent in _PERCENTS),
            "replicates",
            "wake-ups",
        ),
        rows=tuple(_table_row(each) for _, _, each in shown),
        right=(False, False, True, True, True, True, True, True, True),
        keys=2,
        data=tuple(_table_datum(each) for _, _, each in shown),
        notes=tuple(notes),
        warnings=latency_warnings.warnings_of(group, exact=exact),
    )


def _average(each: Latency) -> float | None:
    return statistics.fmean(each.averages) if each.averages else None


def _table_row(each: Latency) -> tuple[str, ...]:
    average = _average(each)
    known = [percentile(each, percent) for percent in _PERCENTS]
    return (
        each.load,
        each.variant.short_label,
        spread(each.maxima),
        "" if average is None else formatting.digits(average / NS_PER_US),
        *("" if value is None else us(value) for value in known),
        str(len(each.maxima)),
        str(total(each)),
    )


def _table_datum(each: Latency) -> Datum:
    average = _average(each)
    known = {percent: percentile(each, percent) for percent in _PERCENTS}
    return {
        "load": each.load,
        "variant": each.variant.label,
        "draws": float(len(each.maxima)),
        "wake_ups": float(total(each)),
        "max_median_us": statistics.median(each.maxima) / NS_PER_US,
        "max_low_us": min(each.maxima) / NS_PER_US,
        "max_high_us": max(each.maxima) / NS_PER_US,
        "average_us": None if average is None else average / NS_PER_US,
        **{f"p{percent:g}_us": None if value is None else value / NS_PER_US for percent, value in known.items()},
    }


def _histogram(group: LatencyGroup, suffix: str) -> Section:
    several = any(len(each.maxima) > 1 for each in group.found.values())
    title = f"Histogram of wake-up latency of {group.workload}, {_replicates_of(group)}{' together' if several else ''}"
    return data_section(
        name=f"latency-histogram{suffix}",
        title=title,
        data=tuple(
            {"load": each.load, "variant": each.variant.label, "from_us": float(edge), "count": float(count)}
            for load in group.loads
            for variant in group.variants
            if (each := group.found.get((load, variant))) is not None
            for edge, count in each.histogram
        ),
        notes=("Marked: the worst case of all replicates.",),
        drawing=Drawing(title=title, svg=latency_plot.svg(group, title), lines=latency_plot.drawn(group)),
    )


def _figures(context: ReportContext, metric: str) -> tuple[Figure, ...]:
    if context.published != STUDY:
        return ()
    return tuple(each for each in published.figures(STUDY, "cyclictest") if each.metric == metric)


def _board(platform: str) -> str:
    """Return a board's name without its number of cores."""
    return platform.partition(" (")[0]


def _column(platform: str) -> str:
    return f"page_{_plain(_board(platform)).replace('-', '_')}"


def _ratio_text(found: Ratios | None) -> str:
    if found is None:
        return ""
    middle = formatting.ratio(found.median)
    return (
        middle
        if found.replicates == 1
        else f"{middle} [{formatting.ratio(found.low)} .. {formatting.ratio(found.high)}]"
    )


def _verdict(found: Ratios | None, beside: Sequence[_Beside], margin: float) -> tuple[str, int | None]:
    """Return on how many boards the ratio has the same sign, as text and as a number."""
    if found is None or not beside:
        return "", None
    ours = found.sign(margin)
    if ours is None:
        return "undecided", None
    same = sum(sign(each.ratio, margin) == ours for each in beside)
    return f"{same} of {len(beside)}", same


def _ratio_datum(found: Ratios | None, beside: Sequence[_Beside], boards: Sequence[str], margin: float) -> Datum:
    values = {each.board: each.ratio for each in beside}
    return {
        "draws": None if found is None else float(found.replicates),
        "ratio": None if found is None else found.median,
        "low": None if found is None else found.low,
        "high": None if found is None else found.high,
        **{_column(board): values.get(board) for board in boards},
        "boards_agreeing": _verdict(found, beside, margin)[1],
        "boards": float(len(beside)),
        "unavailable": None,
    }


class _Line(NamedTuple):
    """A row of a table of ratios: what names it, the ratio, and what was published."""

    keys: Datum
    shown: tuple[str, ...]
    found: Ratios
    beside: tuple[_Beside, ...]


def _between(context: ReportContext, group: LatencyGroup, suffix: str) -> Section:
    """Return the page's table 7: the baseline's maximum over each candidate's."""
    margin, figures, baseline = context.experiment.margin, _figures(context, _BETWEEN), group.variants[0]
    # With one candidate the title names both variants.
    one = len(group.variants) == 2
    lines = []
    for load in group.loads:
        for variant in group.variants[1:]:
            found = ratios(group.found.get((load, baseline)), group.found.get((load, variant)))
            if found is not None:
                keys: Datum = {"load": load, "baseline": baseline.label, "candidate": variant.label}
                shown = (load,) if one else (load, f"{baseline.short_label} / {variant.short_label}")
                lines.append(_Line(keys, shown, found, _between_beside(figures, load, baseline, variant)))
    boards = _boards(lines)
    reason = _no_isolation(context)
    nothing: Datum = {"load": _ISOLATION, "baseline": None, "candidate": None, **_ratio_datum(None, (), boards, margin)}
    unavailable = (_ISOLATION, *(() if one else ("",)), "unavailable", *_beside(None, (), boards, margin))
    others = group.variants[1].short_label if one else "the others"
    return data_section(
        name=f"latency-ratio{suffix}",
        title=f"Maximum of {baseline.short_label} over that of {others}, by load, {_over(lines)}{_table_of(boards, 7)}",
        head=("load", *(() if one else ("maxima",)), "ratio", *_heads(boards)),
        rows=(*_rows(lines, boards, margin), unavailable),
        right=(*((False,) if one else (False, False)), *_right(boards)),
        keys=1 if one else 2,
        data=(*_data(lines, boards, margin), {**nothing, "unavailable": reason}),
        notes=(
            "The ratio of the maxima in each replicate: the median, in brackets the lowest and the highest. Above 1, the second variant's "
            "worst case is shorter.",
            f"With CPU isolation: unavailable. {reason}",
            *_page_notes(context, boards),
        ),
    )


def _loaded(context: ReportContext, group: LatencyGroup, suffix: str) -> Section:
    """Return the page's table 8: the maximum under a load over the idle one."""
    margin, figures = context.experiment.margin, _figures(context, _LOADED)
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
        name=f"latency-loaded{suffix}",
        title=f"Maximum under load over the idle one, {_over(lines)}{_table_of(boards, 8)}",
        head=("load", "variant", "loaded/idle", *_heads(boards)),
        rows=_rows(lines, boards, margin),
        right=(False, False, *_right(boards)),
        keys=2,
        data=_data(lines, boards, margin),
        notes=(
            "The maximum under the load over the idle one of the same replicate: the median of the ratios, in brackets the lowest and the "
            "highest. Where the idle maximum is a few microseconds, small differences give large ratios.",
            *_page_notes(context, boards),
        ),
    )


def _boards(lines: Iterable[_Line]) -> tuple[str, ...]:
    """Return the boards that have a published figure for any row."""
    return tuple(dict.fromkeys(each.board for line in lines for each in line.beside))


def _over(lines: Sequence[_Line]) -> str:
    return _over_replicates(line.found.replicates for line in lines) if lines else "where no replicate has both"


def _rows(lines: Iterable[_Line], boards: Sequence[str], margin: float) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (*line.shown, _ratio_text(line.found), *_beside(line.found, line.beside, boards, margin)) for line in lines
    )


def _data(lines: Iterable[_Line], boards: Sequence[str], margin: float) -> tuple[Datum, ...]:
    return tuple({**line.keys, **_ratio_datum(line.found, line.beside, boards, margin)} for line in lines)


def _right(boards: Sequence[str]) -> tuple[bool, ...]:
    return (True, *(True for _ in boards), False) if boards else (True,)


def _only_kernel_differs(baseline: Variant, variant: Variant) -> bool:
    first, other = dict(baseline.levels), dict(variant.levels)
    return {name: level for name, level in first.items() if name != "kernel"} == {
        name: level for name, level in other.items() if name != "kernel"
    }


def _between_beside(figures: Iterable[Figure], load: str, baseline: Variant, variant: Variant) -> tuple[_Beside, ...]:
    """Return the published ratios of two kernels; inverted where the baseline is rt."""
    kernels = (kernel_of(baseline), kernel_of(variant))
    if set(kernels) != set(_KERNELS) or not _only_kernel_differs(baseline, variant):
        return ()
    condition = f"load={load}, not isolated"
    turned = kernels != _KERNELS
    return tuple(
        _Beside(each.platform, 1 / each.value, formatting.ratio(1 / each.value))
        if turned
        else _Beside(each.platform, each.value, each.printed)
        for each in figures
        if each.condition == condition
    )


def _loaded_beside(figures: Iterable[Figure], load: str, baseline: Variant, variant: Variant) -> tuple[_Beside, ...]:
    if not _only_kernel_differs(baseline, variant):
        return ()
    kernel = kernel_of(variant)
    return tuple(
        _Beside(each.platform, each.value, each.printed)
        for each in figures
        if (each.condition, each.level) == (f"load={load}", kernel)
    )


def _heads(boards: Sequence[str]) -> tuple[str, ...]:
    return (*(_board(board) for board in boards), "same sign") if boards else ()


def _beside(found: Ratios | None, beside: Sequence[_Beside], boards: Sequence[str], margin: float) -> tuple[str, ...]:
    values = {each.board: each.printed for each in beside}
    cells = [values.get(board, "") for board in boards]
    return (*cells, _verdict(found, beside, margin)[0]) if boards else ()


def _table_of(boards: Sequence[str], number: int) -> str:
    return f" (the published page's table {number})" if boards else ""


def _page_notes(context: ReportContext, boards: Sequence[str]) -> tuple[str, ...]:
    if not boards:
        return ()
    here = f", {context.experiment.architecture}" if context.experiment.architecture else ""
    machine = (
        f"one processor that executes an instruction each nanosecond{here}"
        if context.experiment.clock == "virtual"
        else f"another machine{here}"
    )
    return (
        f"The page measured {', '.join(boards)}, without isolated processors. Here it is {machine}. "
        "Compare directions, not sizes. Same sign: the number of boards whose ratio is on the same side of 1; a ratio within the margin "
        "has no side.",
    )


def _no_isolation(context: ReportContext) -> str:
    if context.experiment.clock == "virtual":
        return "On the virtual clock the machine has one processor, so none can be isolated. QEMU would run several processors in turns."
    return "Isolating a processor is no factor of this experiment."


def _longest(group: LatencyGroup, suffix: str) -> Iterable[Section]:
    """Return the maximum of rt on an idle machine beside the page's longest run."""
    ours = next(
        (each for (load, variant), each in group.found.items() if load == IDLE and is_rt(variant)),
        None,
    )
    if ours is None:
        return
    page = [each for each in published.figures(STUDY, "cyclictest") if each.metric == _LONGEST]
    here = (
        f"idle, {formatting.count(len(ours.maxima), 'replicate')} of {formatting.count(total(ours), 'wake-up')} in all"
    )
    data: list[Datum] = [{"where": "here", "how_long": here, "max_us": max(ours.maxima) / NS_PER_US}]
    data += [{"where": each.platform, "how_long": each.condition, "max_us": each.value} for each in page]
    yield data_section(
        name=f"latency-longest{suffix}",
        title="Maximum of rt on an idle machine, in microseconds, beside the published page's longest run",
        head=("where", "how long", "maximum"),
        rows=(
            ("here", here, spread(ours.maxima)),
            *((f"page, {each.platform}", each.condition, each.printed) for each in page),
        ),
        right=(False, False, True),
        data=tuple(data),
    )


LATENCY = Topic("latency", sections)
