"""Swapping: the rate of swap-out, compression, the time to read pages back, and vmstat's columns second by second."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from swapstone.model import Analysis, TimeSeries
from swapstone.report import formatting
from swapstone.report.context import ReportContext
from swapstone.report.document import Drawing, Section, data_section
from swapstone.report.topics.base import Topic
from swapstone.report.topics.swap_data import SUITE, Values, device_of, level_of, page_mean, page_seconds, values_of
from swapstone.report.topics.swap_plot import Line, bars, drawing

COLUMNS = ("swpd", "free", "buff", "cache", "si", "so", "bi", "bo", "us", "sy", "id", "wa")
"""Columns of vmstat(8): memory and traffic in KiB, processor time in per cent."""

_KIB = 1024.0
_NS = 1e9

_CLOCK = (
    "On the virtual clock every instruction takes a nanosecond. The order of zram's algorithms, and the ratio of zram to flash, need not "
    "hold on hardware, where memory accesses take longer."
)
_PAGE_UNIT = (
    "The page's figures are KiB a second, as vmstat prints them, although its text calls the two means bytes. The page names neither the "
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
    for number, load in enumerate(values.loads):
        tag = "" if number == 0 else f"-{number + 1}"
        named = "" if len(values.loads) == 1 else f", load {load}"
        if values.fills:
            made.append(_summary(values, load, tag, named))
        if len(values.fills) > 1:
            made.append(_compressibility(values, load, tag, named))
        if values.touches:
            made.append(_back(values, load, tag, named))
        for fill, percent in values.fills:
            mine = [each for each in sampled if (each.workload, each.load) == (fill, load)]
            made += [_seconds(values, mine, f"swap-seconds-{percent}{tag}", f"{fill}{named}")] if mine else []
    return tuple(made)


def _kib(value: float | None) -> str:
    return "?" if value is None else f"{value / _KIB:.0f}"


def _shown(value: float | None, unit: str) -> str:
    return "?" if value is None else formatting.quantity(value, unit)


def _times(value: float | None) -> str:
    return "?" if value is None else formatting.ratio(value)


def _over(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base else None


def _summary(values: Values, load: str, tag: str, named: str) -> Section:
    head = (
        "data",
        "level",
        "mean",
        "steady",
        "x",
        "reached",
        "until kill",
        "swapped out",
        "compressed",
        "flash written",
    )
    rows: list[tuple[str, ...]] = []
    data: list[dict[str, str | float | None]] = []
    base = values.variants[0]
    page_base = page_mean(device_of(base))
    for fill, percent in values.fills:
        for variant in values.variants:
            get = {
                metric: values.middle(fill, load, metric, variant)
                for metric in (
                    "out_mean",
                    "out_steady",
                    "reached",
                    "until_kill",
                    "swapped_out",
                    "compression",
                    "flash_written",
                )
            }
            times = _over(get["out_steady"], values.middle(fill, load, "out_steady", base))
            page = page_mean(device_of(variant))
            rows.append(
                (
                    f"{percent} % random",
                    formatting.safe(level_of(variant)),
                    _kib(get["out_mean"]),
                    _kib(get["out_steady"]),
                    _times(times),
                    _shown(get["reached"], "B"),
                    _shown(get["until_kill"], "ns"),
                    _shown(get["swapped_out"], "B"),
                    _times(get["compression"]),
                    _shown(get["flash_written"], "B"),
                    "" if page is None else f"{page:.0f}",
                    "" if page is None or not page_base else formatting.ratio(page / page_base),
                )
            )
            data.append(
                {
                    "random_percent": int(percent),
                    "variant": variant.label,
                    "out_mean_kib_s": _over(get["out_mean"], _KIB),
                    "out_steady_kib_s": _over(get["out_steady"], _KIB),
                    "steady_over_baseline": times,
                    "reached_bytes": get["reached"],
                    "until_kill_ns": get["until_kill"],
                    "swapped_out_bytes": get["swapped_out"],
                    "compression": get["compression"],
                    "flash_written_bytes": get["flash_written"],
                    "page_mean_kib_s": page,
                    "page_mean_over_baseline": _over(page, page_base),
                }
            )
    return data_section(
        name=f"swap-summary{tag}",
        title=f"Filling memory until the OOM kill{named}",
        head=(*head, "page mean", "page x"),
        rows=tuple(rows),
        right=(False, False, *[True] * 10),
        keys=2,
        data=tuple(data),
        notes=(
            "Mean: KiB swapped out a second, from the first swapped page until the OOM kill. Steady: the same while the second and third "
            f"quarter of all pages were swapped out. x: steady over that of {formatting.safe(level_of(base))}. Each is the median over the "
            "replicates.",
            "Compressed: the largest amount swapped out over the memory that it took in zram. Flash does not compress.",
            _PAGE_UNIT,
            _CLOCK,
        ),
    )


def _compressibility(values: Values, load: str, tag: str, named: str) -> Section:
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
            "The given share of each page is random. The rest is zeros and the page's number. zram stores random data as it is: swapping "
            "then frees no memory, and the kernel kills the program early.",
            _CLOCK,
        ),
    )


def _back(values: Values, load: str, tag: str, named: str) -> Section:
    rows: list[tuple[str, ...]] = []
    data: list[dict[str, str | float | None]] = []
    flags: list[str] = []
    for touch, order, ratio in values.touches:
        sets = set()
        for variant in values.variants:
            time, faults, pages, rate, size = (
                values.middle(touch, load, metric, variant)
                for metric in ("touch_time", "majflt", "swap_ins", "in_rate", "working_set")
            )
            sets.add(size)
            times = _over(time, values.middle(touch, load, "touch_time", values.variants[0]))
            rows.append(
                (
                    order,
                    ratio,
                    formatting.safe(level_of(variant)),
                    _shown(time, "ns"),
                    _times(times),
                    "?" if faults is None else f"{faults:.0f}",
                    "?" if pages is None else f"{pages:.0f}",
                    _shown(rate, "B/s"),
                    _shown(size, "B"),
                )
            )
            data.append(
                {
                    "order": order,
                    "times_memory": float(ratio),
                    "variant": variant.label,
                    "touch_ns": time,
                    "over_baseline": times,
                    "major_faults": faults,
                    "swap_ins": pages,
                    "in_bytes_s": rate,
                    "working_set_bytes": size,
                }
            )
        if len(sets - {None}) > 1:
            flags.append(f"{touch}: the levels had different amounts of memory, so their working sets differ.")
    return data_section(
        name=f"swap-back{tag}",
        title=f"Time to read swapped pages back{named}",
        head=("order", "set", "level", "a touch", "x", "major faults", "pages in", "back", "working set"),
        rows=tuple(rows),
        right=(False, True, False, *[True] * 6),
        keys=3,
        data=tuple(data),
        notes=(
            "Set: the amount written before the touches, as a multiple of the available memory. Pages in: pages that all processes read "
            "back, readahead included. zram's store takes memory from the working set, so more touches cause major faults. The published "
            "page has no such figures.",
            _CLOCK,
        ),
        warnings=tuple(flags),
    )


def _seconds(values: Values, sampled: Sequence[TimeSeries], name: str, title: str) -> Section:
    """Return the page's own table: vmstat's columns each second of each level, beside the published swap-out."""
    rows: list[tuple[str, ...]] = []
    data: list[dict[str, str | float | None]] = []
    lines = []
    ordered = sorted(
        (each for each in sampled if each.variant in values.variants),
        key=lambda each: values.variants.index(each.variant),
    )
    for one in ordered:
        series = dict(one.series)
        level = level_of(one.variant)
        page = page_seconds(device_of(one.variant))
        first = next((number for number, value in enumerate(series["so"]) if value), 0)
        length = max(len(series["so"]), first + len(page))
        for row in range(length):
            beside = page[row - first] if 0 <= row - first < len(page) else None
            mine = {column: series[column][row] if row < len(series["so"]) else None for column in COLUMNS}
            at = series["at_ns"][row] / _NS if row < len(series["so"]) else None
            cells = ("" if value is None else f"{value:.0f}" for value in mine.values())
            rows.append(
                (
                    formatting.safe(level),
                    str(row + 1) if at is None else f"{at:.3g}" if at < 1 else f"{at:.4g}",
                    *cells,
                    "" if beside is None else str(beside),
                )
            )
            data.append({"variant": one.variant.label, "row": row + 1, "at_s": at, **mine, "page_so": beside})
        lines.append(Line(level, _points(series["at_ns"], series["so"])))
    pages = [
        Line(
            f"page, {device}",
            tuple((float(number), float(value)) for number, value in enumerate(seconds, start=1)),
            page=True,
        )
        for device in dict.fromkeys(map(device_of, (each.variant for each in ordered)))
        if (seconds := page_seconds(device))
    ]
    return data_section(
        name=name,
        title=f"vmstat each second: {title}",
        head=("level", "s", *COLUMNS, "page so"),
        rows=tuple(rows),
        right=(False, *[True] * (len(COLUMNS) + 2)),
        keys=2,
        data=tuple(data),
        notes=(
            "Memory and traffic in KiB, times in per cent of the second, as vmstat computes them. vmstat's first line, a mean since boot, "
            "is left out. The last row ends with the OOM kill, before a whole second has passed. The first replicate.",
            "page so: the published swap-out, aligned at the first second above 0. " + _PAGE_UNIT,
        ),
        drawing=Drawing(title=title, svg=drawing([*lines, *pages]), lines=bars([*lines, *pages])),
    )


def _points(at_ns: Iterable[float], so: Iterable[float]) -> tuple[tuple[float, float], ...]:
    """Return (end of the row in seconds, KiB a second) of each row."""
    points = []
    before = 0.0
    for at, kib in zip(at_ns, so, strict=True):
        span = (at - before) / _NS
        points.append((at / _NS, kib / span if span > 0 else 0.0))
        before = at
    return tuple(points)


SWAP = Topic("swap", sections)
