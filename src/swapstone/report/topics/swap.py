# SPDX-License-Identifier: MIT OR Apache-2.0
"""Swapping: the rate of swap-out, compression, the time to read pages back, and vmstat's columns second by second."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from swapstone.model import Analysis, TimeSeries, Variant
from swapstone.report import formatting
from swapstone.report.context import ReportContext
from swapstone.report.document import Drawing, Section, data_section
from swapstone.report.topics.swap_answer import answer
from swapstone.report.topics.swap_data import (
    PAGE,
    SECONDS,
    STUDY,
    SUITE,
    SUMMARY,
    Values,
    device_of,
    level_of,
    page_mean,
    page_rows,
    page_seconds,
    values_of,
)
from swapstone.report.topics.swap_plot import NARROW, Line, bars, drawing
from swapstone.report.topics.topic import Topic

Datum = dict[str, str | float | None]
"""A row of a table for programs."""

COLUMNS = ("swpd", "free", "buff", "cache", "si", "so", "bi", "bo", "us", "sy", "id", "wa")
"""Columns of vmstat(8): memory and traffic in KiB, processor time in per cent."""

_KIB = 1024.0
_NS = 1e9

_CLOCK = (
    "On the virtual clock every instruction takes the same time. The order of zram's algorithms, and the ratio of zram to flash, need not "
    "hold on hardware, where memory accesses take longer. --ns-per-instruction 1,2,4 shows which of them depend on that time."
)
_BOARD = (
    "On a board, a cgroup limits the memory of the program and its children. What zram stores is memory of the kernel, outside of that "
    "limit, so it does not shorten what the program reaches."
)
_PAGE_UNIT = (
    "The page's figures are KiB a second, as vmstat prints them, although its text calls the two means bytes. Those are the swap space in "
    "use at the end over the seconds of swapping, truncated. The page names neither the "
    "data that its program wrote nor zram's algorithm, so each row of a device has the same published figure."
)


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the sections of an analysis that has workloads of the suite `swap`; none for another.

    Args:
        context: gives the order of loads and the workloads' parameters.
        analysis: holds the comparisons and the time series.
    """
    values = values_of(context, analysis)
    if not values.workloads:
        return ()
    sampled = [each for each in analysis.time_series if each.suite == SUITE and "so" in dict(each.series)]
    made: list[Section] = []
    note = _CLOCK if context.experiment.virtual else _BOARD
    for number, load in enumerate(values.loads):
        tag = "" if number == 0 else f"-{number + 1}"
        named = "" if len(values.loads) == 1 else f", load {load}"
        if values.fills:
            made.append(_summary(values, load, tag, named, note))
        if len(values.fills) > 1:
            made.append(_compressibility(values, load, tag, named, note))
        if values.touches:
            made.append(_back(values, load, tag, named, note))
        for fill, percent in values.fills:
            mine = [each for each in sampled if (each.workload, each.load) == (fill, load)]
            made += [_seconds(values, mine, f"{SECONDS}-{percent}{tag}", f"{fill}{named}")] if mine else []
    if values.fills and context.published == STUDY:
        made.append(_page_section())
    return tuple(made)


def _page_section() -> Section:
    """Return the page's own table of vmstat."""
    found = page_rows()
    return data_section(
        name=PAGE,
        title="The published page's vmstat each second",
        head=("level", "s", *COLUMNS),
        rows=tuple(
            (level, str(second), *(_whole(row.get(name)) for name in COLUMNS)) for (level, second), row in found.items()
        ),
        right=(False, *[True] * (len(COLUMNS) + 1)),
        keys=2,
        data=tuple(
            {"level": level, "second": float(second), **{name: row.get(name) for name in COLUMNS}}
            for (level, second), row in found.items()
        ),
        notes=(
            "The first line is a mean since boot. Memory and swap in KiB, bi and bo in blocks, as vmstat prints them.",
        ),
    )


def _whole(value: float | None) -> str:
    return "?" if value is None else formatting.fixed(value, 0)


def _shown(value: float | None, unit: str) -> str:
    return "?" if value is None else formatting.quantity(value, unit)


def _times(value: float | None) -> str:
    return "?" if value is None else formatting.ratio(value)


def _over(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base else None


class _Fill(NamedTuple):
    """Filling memory with one variant; rates in KiB a second, sizes in bytes."""

    percent: int
    variant: Variant
    mean: float | None
    mean_times: float | None
    shown_mean_times: str
    steady: float | None
    times: float | None
    shown_times: str
    reached: float | None
    until_kill_ns: float | None
    swapped_out: float | None
    compression: float | None
    flash_written: float | None
    page: float | None
    page_times: float | None


def _fill(values: Values, fill: str, percent: str, load: str, variant: Variant) -> _Fill:
    base = values.variants[0]
    page, page_base = page_mean(device_of(variant)), page_mean(device_of(base))

    def median(metric: str) -> float | None:
        return values.middle(fill, load, metric, variant)

    return _Fill(
        percent=int(percent),
        variant=variant,
        mean=_over(median("out_mean"), _KIB),
        mean_times=_over(median("out_mean"), values.middle(fill, load, "out_mean", base)),
        shown_mean_times=values.effect(fill, load, "out_mean", variant),
        steady=_over(median("out_steady"), _KIB),
        times=_over(median("out_steady"), values.middle(fill, load, "out_steady", base)),
        shown_times=values.effect(fill, load, "out_steady", variant),
        reached=median("reached"),
        until_kill_ns=median("until_kill"),
        swapped_out=median("swapped_out"),
        compression=median("compression"),
        flash_written=median("flash_written"),
        page=page,
        page_times=_over(page, page_base),
    )


def _fill_cells(each: _Fill) -> tuple[str, ...]:
    return (
        f"{each.percent} % random",
        formatting.safe(level_of(each.variant)),
        _whole(each.mean),
        each.shown_mean_times,
        "" if each.page is None else _whole(each.page),
        "" if each.page_times is None else formatting.ratio(each.page_times),
        _whole(each.steady),
        each.shown_times,
        _shown(each.reached, "B"),
        _shown(each.until_kill_ns, "ns"),
        _shown(each.swapped_out, "B"),
        _times(each.compression),
        _shown(each.flash_written, "B"),
    )


def _fill_datum(each: _Fill) -> Datum:
    return {
        "random_percent": each.percent,
        "variant": each.variant.label,
        "out_mean_kib_s": each.mean,
        "mean_over_baseline": each.mean_times,
        "out_steady_kib_s": each.steady,
        "steady_over_baseline": each.times,
        "reached_bytes": each.reached,
        "until_kill_ns": each.until_kill_ns,
        "swapped_out_bytes": each.swapped_out,
        "compression": each.compression,
        "flash_written_bytes": each.flash_written,
        "page_mean_kib_s": each.page,
        "page_mean_over_baseline": each.page_times,
    }


_FILL_HEAD = (
    *("data", "level", "mean", "mean x", "page mean", "page x", "steady", "steady x"),
    *("reached", "until kill", "swapped out", "compressed", "flash written"),
)


def _summary(values: Values, load: str, tag: str, named: str, note: str) -> Section:
    base = values.variants[0]
    fills = [_fill(values, *fill, load, variant) for fill in values.fills for variant in values.variants]
    return data_section(
        name=f"{SUMMARY}{tag}",
        title=f"Filling memory until the OOM kill{named}",
        head=_FILL_HEAD,
        rows=tuple(map(_fill_cells, fills)),
        right=(False, False, *[True] * (len(_FILL_HEAD) - 2)),
        keys=2,
        data=tuple(map(_fill_datum, fills)),
        notes=(
            "Mean: KiB swapped out a second, from the first swapped page until the OOM kill. Steady: the same while the second and third "
            f"quarter of all pages were swapped out. mean x and steady x: over those of {formatting.safe(level_of(base))}, "
            "with the interval: the same estimate as in the comparisons. page x is a ratio of means, to read beside mean x. The others are "
            "medians over the replicates.",
            "Compressed: the largest amount swapped out over the memory that it took in zram. Flash does not compress.",
            _PAGE_UNIT,
            note,
        ),
    )


def _compressibility(values: Values, load: str, tag: str, named: str, note: str) -> Section:
    shown = ("out_steady", "compression", "reached")
    head = ["level"]
    for _, percent in values.fills:
        head += [f"{percent} % random: steady", "compressed", "reached"]
    rows: list[tuple[str, ...]] = []
    data: list[dict[str, str | float | None]] = []
    for variant in values.variants:
        row = [formatting.safe(level_of(variant))]
        keyed: dict[str, str | float | None] = {"variant": variant.label}
        for fill, percent in values.fills:
            steady, compression, reached = (values.middle(fill, load, metric, variant) for metric in shown)
            row += [_shown(steady, "B/s"), _times(compression), _shown(reached, "B")]
            keyed |= {
                f"random_{percent}_steady_bytes_s": steady,
                f"random_{percent}_compression": compression,
                f"random_{percent}_reached_bytes": reached,
            }
        rows.append(tuple(row))
        data.append(keyed)
    return data_section(
        name=f"swap-compressibility{tag}",
        title=f"Effect of the data's compressibility{named}",
        head=tuple(head),
        rows=tuple(rows),
        right=(False, *[True] * (len(head) - 1)),
        data=tuple(data),
        notes=(
            "The given share of each page is random. The rest is zeros and the page's number. zram stores random data uncompressed. "
            "Swapping then frees no memory, and the kernel kills the program early."
            if note == _CLOCK
            else "The given share of each page is random. The rest is zeros and the page's number. zram stores random data uncompressed.",
            note,
        ),
    )


class _Touch(NamedTuple):
    """Touching swapped pages with one variant."""

    touch: str
    order: str
    ratio: str
    variant: Variant
    time: float | None
    times: float | None
    shown_times: str
    faults: float | None
    pages: float | None
    rate: float | None
    size: float | None


def _touch(values: Values, touch: tuple[str, str, str], load: str, variant: Variant) -> _Touch:
    name = touch[0]

    def median(metric: str) -> float | None:
        return values.middle(name, load, metric, variant)

    return _Touch(
        *touch,
        variant=variant,
        time=median("touch_time"),
        times=_over(median("touch_time"), values.middle(name, load, "touch_time", values.variants[0])),
        shown_times=values.effect(name, load, "touch_time", variant),
        faults=median("majflt"),
        pages=median("swap_ins"),
        rate=median("in_rate"),
        size=median("working_set"),
    )


def _touch_cells(each: _Touch) -> tuple[str, ...]:
    return (
        each.order,
        each.ratio,
        formatting.safe(level_of(each.variant)),
        _shown(each.time, "ns"),
        each.shown_times,
        _whole(each.faults),
        _whole(each.pages),
        _shown(each.rate, "B/s"),
        _shown(each.size, "B"),
    )


def _touch_datum(each: _Touch) -> Datum:
    return {
        "order": each.order,
        "times_memory": float(each.ratio),
        "variant": each.variant.label,
        "touch_ns": each.time,
        "over_baseline": each.times,
        "major_faults": each.faults,
        "swap_ins": each.pages,
        "in_bytes_s": each.rate,
        "working_set_bytes": each.size,
    }


def _back(values: Values, load: str, tag: str, named: str, note: str) -> Section:
    touches = [_touch(values, touch, load, variant) for touch in values.touches for variant in values.variants]
    warnings = [
        f"{name}: the levels had different amounts of memory, so their working sets differ."
        for name, _, _ in values.touches
        if len({each.size for each in touches if each.touch == name} - {None}) > 1
    ]
    return data_section(
        name=f"swap-back{tag}",
        title=f"Time to read swapped pages back{named}",
        head=("order", "set", "level", "a touch", "x", "major faults", "pages in", "back", "working set"),
        rows=tuple(map(_touch_cells, touches)),
        right=(False, True, False, *[True] * 6),
        keys=3,
        data=tuple(map(_touch_datum, touches)),
        notes=(
            "Set: the amount written before the touches, as a multiple of the available memory. Pages in: pages that all processes read "
            "back, readahead included. zram's store takes memory from the working set, so more touches cause major faults. The published "
            "page has no such figures."
            if note == _CLOCK
            else "Set: the amount written before the touches, as a multiple of the available memory, or of its limit on a board. Pages "
            "in: pages that all processes read back, readahead included. The published page has no such figures.",
            note,
        ),
        warnings=tuple(warnings),
    )


def _seconds(values: Values, sampled: Sequence[TimeSeries], name: str, title: str) -> Section:
    """Return the page's own table: vmstat's columns each second of each level, beside the published swap-out."""
    ordered = sorted(
        (each for each in sampled if each.variant in values.variants),
        key=lambda each: values.variants.index(each.variant),
    )
    data = [datum for each in ordered for datum in _second_data(each)]
    levels = {each.variant.label: level_of(each.variant) for each in ordered}
    lines = [
        Line(level_of(each.variant), _points(dict(each.series)["at_ns"], dict(each.series)["so"])) for each in ordered
    ]
    devices = dict.fromkeys(device_of(each.variant) for each in ordered)
    pages = [_page_line(device, seconds) for device in devices if (seconds := page_seconds(device))]
    return data_section(
        name=name,
        title=f"vmstat each second: {title}",
        head=("level", "s", *COLUMNS, "page so"),
        rows=tuple(_second_cells(levels[str(datum["variant"])], datum) for datum in data),
        right=(False, *[True] * (len(COLUMNS) + 2)),
        keys=2,
        data=tuple(data),
        notes=(
            "Memory and traffic in KiB, times in per cent of the second, as vmstat computes them. vmstat's first line, a mean since boot, "
            "is left out. The last row ends with the OOM kill, before a whole second has passed. The first replicate.",
            "page so: the published swap-out, aligned at the first second above 0. " + _PAGE_UNIT,
        ),
        drawing=Drawing(
            title=title,
            svg=drawing([*lines, *pages]),
            narrow=drawing([*lines, *pages], NARROW),
            lines=bars([*lines, *pages]),
        ),
    )


def _page_line(device: str, seconds: Sequence[int]) -> Line:
    points = tuple((float(number), float(value)) for number, value in enumerate(seconds, start=1))
    return Line(f"page, {device}", points, page=True)


def _second_data(sampled: TimeSeries) -> Iterator[Datum]:
    """Yield a variant's seconds, as many as were measured or published."""
    series, page = dict(sampled.series), page_seconds(device_of(sampled.variant))
    measured = len(series["so"])
    first = next((number for number, value in enumerate(series["so"]) if value), 0)
    for row in range(max(measured, first + len(page))):
        known = row < measured
        yield {
            "variant": sampled.variant.label,
            "row": row + 1,
            "at_s": series["at_ns"][row] / _NS if known else None,
            **{column: series[column][row] if known else None for column in COLUMNS},
            "page_so": page[row - first] if 0 <= row - first < len(page) else None,
        }


def _second_cells(level: str, datum: Datum) -> tuple[str, ...]:
    at = datum["at_s"]
    seconds = (
        str(datum["row"])
        if not isinstance(at, float)
        else formatting.trimmed(formatting.digits(at, 3 if at < 1 else 4))
    )
    cells = ("" if datum[column] is None else f"{datum[column]:.0f}" for column in (*COLUMNS, "page_so"))
    return (formatting.safe(level), seconds, *cells)


def _points(at_ns: Iterable[float], so: Iterable[float]) -> tuple[tuple[float, float], ...]:
    """Return (end of the row in seconds, KiB a second) of each row."""
    points = []
    before = 0.0
    for at, kib in zip(at_ns, so, strict=True):
        span = (at - before) / _NS
        points.append((at / _NS, kib / span if span > 0 else 0.0))
        before = at
    return tuple(points)


SWAP = Topic("swap", sections, answer=answer)
