# SPDX-License-Identifier: MIT OR Apache-2.0
"""Swapping: the rate of swap-out, compression, the time to read pages back, and vmstat's columns second by second."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from swapstone.core.model import Analysis, TimeSeries, Variant
from swapstone.core.model.references import references
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Drawing, Section
from swapstone.core.report.plot import Panel, Point, Scale, Series, plot
from swapstone.core.report.ratios import Column, Ratio, Ratios, ratio_fields
from swapstone.core.report.tables import Datum, Field, item, known, quotient, section_of, unit
from swapstone.core.report.topics.topic import Topic
from swapstone.core.report.variant_values import sides, variants_of

SUITE = "swap"
STUDY = "zram-vs-flash"
SUMMARY, SECONDS = "swap-summary", "swap-seconds"
"""Sections of the report that have published figures."""

_SECOND = re.compile(r".*, second ([0-9]{1,9})", re.ASCII)


def level_of(variant: Variant) -> str:
    """Return the variant's row label: its level of swap where nothing else is varied, else its label."""
    return variant.level("swap") if [factor for factor, _ in variant.levels] == ["swap"] else variant.label


def device_of(variant: Variant) -> str:
    """Return the device that a variant swaps to, as the page names it; empty where the factor swap is not varied."""
    return next(filter(dict(variant.levels).get("swap", "").startswith, ("flash", "zram")), "")


def page_seconds(device: str) -> tuple[int, ...]:
    """Return the published KiB swapped out in each second, from the first second above 0."""
    rows = {
        int(found[1]): int(each.figure.value)
        for each in references(STUDY, SECONDS)
        if (each.place.metric, each.figure.level) == ("so", device) and (found := _SECOND.fullmatch(each.figure.metric))
    }
    return tuple(itertools.dropwhile(lambda kib: not kib, (kib for _, kib in sorted(rows.items()))))


def page_mean(device: str) -> float | None:
    """Return the published mean of a device, in KiB a second; None without one."""
    means = (each.figure for each in references(STUDY, SUMMARY) if each.place.metric == "out_mean")
    return next((figure.value for figure in means if figure.level == device), None)


def drawing(title: str, lines: Sequence[Series]) -> Drawing | None:
    """Draw swap-out in KiB a second over seconds, a line for each level; the published page's are dashed. None without points."""
    drawn = tuple(line for line in lines if line.points)
    if not drawn:
        return None
    return plot(
        title,
        Scale("time, seconds", reach=(0.0,)),
        [Panel(Scale("swapped out, KiB a second", reach=(0.0,)), drawn)],
        (f"{line.name}: at most {max(point.y for point in line.points):.0f} KiB a second" for line in drawn),
        name="swap-out",
    )


COLUMNS = ("r", "b", "swpd", "free", "buff", "cache", "si", "so", "bi", "bo", "in", "cs", "us", "sy", "id", "wa")
"""Columns of vmstat(8): tasks, memory and traffic in KiB, events a second, processor time in per cent."""

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


class _Row(NamedTuple):
    """A workload with its parameters, and a variant."""

    work: tuple[str, ...]
    variant: Variant


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the sections of an analysis that has workloads of the suite `swap`; none for another.

    Args:
        context: gives the order of loads and the workloads' parameters.
        analysis: holds the comparisons and the time series.
    """
    loads = context.experiment.loads if any(each.suite == SUITE for each in analysis.comparisons) else ()
    every = [_Tables(context, analysis, number) for number in range(len(loads))]
    sampled = [each for each in analysis.time_series if each.suite == SUITE and "so" in dict(each.series)]
    made: list[Section] = []
    for tables in every:
        made += [tables.summary()] if tables.fills else []
        made += [tables.compressibility()] if len(tables.fills) > 1 else []
        made += [tables.back()] if tables.touches else []
        for fill, percent in tables.fills:
            mine = [each for each in sampled if (each.workload, each.load) == (fill, tables.load)]
            made += [tables.seconds(mine, percent, fill)] if mine else []
    return tuple(made)


_WHOLE = known(lambda value: formatting.fixed(value, 0), "?")
_TIMES = known(formatting.ratio, "?")
_LEVEL: Field[_Row] = Field("level", "", lambda row: formatting.safe(level_of(row.variant)), right=False)
_VARIANT: Field[_Row] = Field("", "variant", lambda row: row.variant.label)


class _Tables:
    """The tables of one load.

    Args:
        context: gives the loads and the workloads' parameters.
        analysis: holds the comparisons.
        number: of the load.

    Attributes:
        load: its name.
        fills: pairs (workload that fills memory, share of random bytes in per cent).
        touches: (workload that touches swapped pages, order, amount written as a multiple of the memory).
        variants: the baseline first; copies of it are left out.
    """

    def __init__(self, context: ReportContext, analysis: Analysis, number: int) -> None:
        found = sides(analysis, lambda each: each.suite == SUITE)
        parameters = {each.workload: context.parameters(SUITE, each.workload) for each in found}

        def works(*names: str) -> tuple[tuple[str, ...], ...]:
            return tuple(
                (work, *(known[name] for name in names)) for work, known in parameters.items() if names[0] in known
            )

        self.fills, self.touches = works("random_percent"), works("order", "memory_ratio")
        self.variants, self._ratios = variants_of(analysis, lambda each: each.suite == SUITE), Ratios(analysis)
        # The medians over the replicates.
        self._medians = {(each.workload, each.load, each.metric.name, each.variant): each.median for each in found}
        loads, self._virtual = context.experiment.loads, context.experiment.virtual
        self.load, self._tag = loads[number], f"-{number + 1}" if number else ""
        self._named = f", load {self.load}" if len(loads) > 1 else ""
        self._note = _CLOCK if self._virtual else _BOARD

    def rows(self, works: Iterable[tuple[str, ...]]) -> list[_Row]:
        """Return a row for each workload and variant."""
        return [_Row(work, variant) for work in works for variant in self.variants]

    def median(self, metric: str, work: str = "", scale: float = 1.0) -> Callable[[_Row], float | None]:
        """Return the function from a row to the median of a metric: of the row's workload, or of another one."""
        return lambda row: quotient(self._medians.get((work or row.work[0], self.load, metric, row.variant)), scale)

    def times(self, metric: str, head: str, key: str) -> tuple[Field[_Row], ...]:
        """Return a metric over the baseline's."""
        first = Column(self.load, self.variants[0])

        def of(row: _Row) -> Ratio | None:
            return self._ratios.ratio((SUITE, row.work[0]), first, Column(self.load, row.variant), metric)

        return ratio_fields(head, key, of, "?")

    def summary(self) -> Section:
        """Return rates, sizes and compression of each fill."""
        median, first = self.median, self.variants[0]

        def page(row: _Row) -> float | None:
            return page_mean(device_of(row.variant))

        def page_times(row: _Row) -> float | None:
            return quotient(page(row), page_mean(device_of(first)))

        return section_of(
            f"{SUMMARY}{self._tag}",
            f"Filling memory until the OOM kill{self._named}",
            (
                Field("data", "", lambda row: f"{row.work[1]} % random", right=False),
                Field("", "random_percent", lambda row: int(row.work[1])),
                _LEVEL,
                _VARIANT,
                Field("mean", "out_mean_kib_s", median("out_mean", scale=_KIB), _WHOLE),
                *self.times("out_mean", "mean x", "mean_over_baseline"),
                Field("page mean", "", page, known(_WHOLE)),
                Field("page x", "", page_times, known(formatting.ratio)),
                Field("steady", "out_steady_kib_s", median("out_steady", scale=_KIB), _WHOLE),
                *self.times("out_steady", "steady x", "steady_over_baseline"),
                Field("reached", "reached_bytes", median("reached"), unit("B", "?")),
                Field("until kill", "until_kill_ns", median("until_kill"), unit("ns", "?")),
                Field("swapped out", "swapped_out_bytes", median("swapped_out"), unit("B", "?")),
                Field("compressed", "compression", median("compression"), _TIMES),
                Field("flash written", "flash_written_bytes", median("flash_written"), unit("B", "?")),
                Field("", "page_mean_kib_s", page),
                Field("", "page_mean_over_baseline", page_times),
            ),
            self.rows(self.fills),
            keys=2,
            notes=(
                "Mean: KiB swapped out a second, from the first swapped page until the OOM kill. Steady: the same while the second and "
                f"third quarter of all pages were swapped out. mean x and steady x: over those of {formatting.safe(level_of(first))}, "
                "with the interval: the same estimate as in the comparisons. page x is a ratio of means, to read beside mean x. The others "
                "are medians over the replicates.",
                "Compressed: the largest amount swapped out over the memory that it took in zram. Flash does not compress.",
                _PAGE_UNIT,
                self._note,
            ),
        )

    def compressibility(self) -> Section:
        """Return rate, compression and reached memory by the data's compressibility."""

        def columns(fill: str, percent: str) -> tuple[Field[_Row], ...]:
            key, steady = f"random_{percent}", f"{percent} % random: steady"
            return (
                Field(steady, f"{key}_steady_bytes_s", self.median("out_steady", fill), unit("B/s", "?")),
                Field("compressed", f"{key}_compression", self.median("compression", fill), _TIMES),
                Field("reached", f"{key}_reached_bytes", self.median("reached", fill), unit("B", "?")),
            )

        return section_of(
            f"swap-compressibility{self._tag}",
            f"Effect of the data's compressibility{self._named}",
            (_LEVEL, _VARIANT, *(field for fill, percent in self.fills for field in columns(fill, percent))),
            self.rows([()]),
            notes=(
                "The given share of each page is random. The rest is zeros and the page's number. zram stores random data uncompressed."
                + (" Swapping then frees no memory, and the kernel kills the program early." if self._virtual else ""),
                self._note,
            ),
        )

    def back(self) -> Section:
        """Return the time to read swapped pages back."""
        median = self.median
        size = median("working_set")
        rows = self.rows(self.touches)
        return section_of(
            f"swap-back{self._tag}",
            f"Time to read swapped pages back{self._named}",
            (
                Field("order", "order", lambda row: row.work[1], right=False),
                Field("set", "", lambda row: row.work[2]),
                Field("", "times_memory", lambda row: float(row.work[2])),
                _LEVEL,
                _VARIANT,
                Field("a touch", "touch_ns", median("touch_time"), unit("ns", "?")),
                *self.times("touch_time", "x", "over_baseline"),
                Field("major faults", "major_faults", median("majflt"), _WHOLE),
                Field("pages in", "swap_ins", median("swap_ins"), _WHOLE),
                Field("back", "in_bytes_s", median("in_rate"), unit("B/s", "?")),
                Field("working set", "working_set_bytes", size, unit("B", "?")),
            ),
            rows,
            keys=3,
            notes=(
                "Set: the amount written before the touches, as a multiple of the available memory. Pages in: pages that all processes "
                "read back, readahead included. zram's store takes memory from the working set, so more touches cause major faults. The "
                "published page has no such figures."
                if self._virtual
                else "Set: the amount written before the touches, as a multiple of the available memory, or of its limit on a board. Pages "
                "in: pages that all processes read back, readahead included. The published page has no such figures.",
                self._note,
            ),
            warnings=(
                f"{touch[0]}: the levels had different amounts of memory, so their working sets differ."
                for touch in self.touches
                if len({size(row) for row in rows if row.work == touch} - {None}) > 1
            ),
        )

    def seconds(self, sampled: Sequence[TimeSeries], percent: str, fill: str) -> Section:
        """Return the page's own table: vmstat's columns each second of each level, beside the published swap-out."""
        variants, title = self.variants, f"{fill}{self._named}"
        ordered = sorted(
            (each for each in sampled if each.variant in variants), key=lambda each: variants.index(each.variant)
        )
        names = [level_of(each.variant) for each in ordered]
        runs = [_points(dict(each.series)["at_ns"], dict(each.series)["so"]) for each in ordered]
        devices = dict.fromkeys(device_of(each.variant) for each in ordered)
        pages = {f"page, {each}": seconds for each in devices if (seconds := page_seconds(each))}
        runs += [tuple(Point(at, kib, size=2.5) for at, kib in enumerate(each, start=1)) for each in pages.values()]
        lines = [
            Series(name, colour, points, dashed=colour >= len(names))
            for colour, (name, points) in enumerate(zip((*names, *pages), runs, strict=True))
        ]
        levels = {each.variant.label: formatting.safe(level_of(each.variant)) for each in ordered}
        return section_of(
            f"{SECONDS}-{percent}{self._tag}",
            f"vmstat each second: {title}",
            (
                Field("level", "", lambda row: levels[str(row["variant"])], right=False),
                item("", "variant"),
                Field("s", "", _second),
                item("", "row"),
                item("", "at_s"),
                *(item(name, name, known(_WHOLE)) for name in COLUMNS),
                item("page so", "page_so", known(_WHOLE)),
            ),
            [datum for each in ordered for datum in _second_data(each)],
            keys=2,
            notes=(
                "Memory and traffic in KiB, in and cs a second, times in per cent, as vmstat has them. vmstat's first line, a mean since "
                "boot, is left out. The last row ends with the OOM kill, before a whole second has passed. The first replicate.",
                "page so: the published swap-out, aligned at the first second above 0. " + _PAGE_UNIT,
            ),
            drawing=drawing(title, lines),
        )


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
            **{column: series[column][row] if known and column in series else None for column in COLUMNS},
            "page_so": page[row - first] if 0 <= row - first < len(page) else None,
        }


def _second(row: Datum) -> str:
    at = row["at_s"]
    return formatting.trimmed(formatting.digits(at, 3 if at < 1 else 4)) if isinstance(at, float) else str(row["row"])


def _points(at_ns: Sequence[float], so: Sequence[float]) -> tuple[Point, ...]:
    """Return the end of each row in seconds, and KiB a second."""
    spans = [(at - before) / _NS for before, at in itertools.pairwise((0.0, *at_ns))]
    return tuple(
        Point(at / _NS, kib / span if span > 0 else 0.0, size=2.5)
        for at, kib, span in zip(at_ns, so, spans, strict=True)
    )


SWAP = Topic("swap", 60, sections)
