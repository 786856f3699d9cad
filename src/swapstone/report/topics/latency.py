# SPDX-License-Identifier: MIT OR Apache-2.0
"""Wake-up latencies: maxima over replicates, histograms, ratios and warnings."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from swapstone import published
from swapstone.model import Analysis, Latency
from swapstone.report import formatting
from swapstone.report.context import ReportContext
from swapstone.report.document import Section, data_section
from swapstone.report.topics import latency_plot, latency_warnings
from swapstone.report.topics.latency_answer import answer
from swapstone.report.topics.latency_data import (
    IDLE,
    NS_PER_US,
    STUDY,
    Datum,
    LatencyGroup,
    groups,
    is_rt,
    over_replicates,
    percentile,
    plain_name,
    spread,
    total,
    us,
)
from swapstone.report.topics.latency_processors import by_processor
from swapstone.report.topics.latency_ratios import between_kernels, loaded_over_idle
from swapstone.report.topics.topic import Topic

_PERCENTS = (99.0, 99.9, 99.99)
LONGEST = "latency-longest"
"""A section of the report that has a published figure."""

_IMAGE = (
    "The published page has maxima and averages of each load in its table 6, as an image. No figures of that table are available as "
    "text."
)


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the sections of an analysis that holds latencies; none for another."""
    found = groups(context, analysis)
    return tuple(
        section
        for group in found
        for section in _sections(context, analysis, group, "" if len(found) == 1 else f"-{plain_name(group.workload)}")
    )


def _sections(context: ReportContext, analysis: Analysis, group: LatencyGroup, suffix: str) -> Iterable[Section]:
    yield _table(context, group, suffix)
    yield _histogram(group, suffix)
    yield from by_processor(context, group, suffix)
    if len(group.variants) > 1:
        yield between_kernels(context, analysis, group, suffix)
    if IDLE in group.loads and len(group.loads) > 1:
        yield loaded_over_idle(context, group, suffix)
    if context.published == STUDY:
        yield from _longest(group, suffix)


def _replicates_of(group: LatencyGroup) -> str:
    return over_replicates(len(each.maxima) for each in group.found.values())


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
        notes.append("A percentile is empty where there are fewer latencies than it needs (p99.99 needs 10000).")
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
        drawing=latency_plot.drawing(group, title),
    )


def _longest(group: LatencyGroup, suffix: str) -> Iterable[Section]:
    """Return the maximum of rt on an idle machine beside the page's longest run."""
    measured = next(
        (each for (load, variant), each in group.found.items() if load == IDLE and is_rt(variant)),
        None,
    )
    if measured is None:
        return
    page = [each.figure for each in published.joined(LONGEST, STUDY)]
    here = f"idle, {formatting.count(len(measured.maxima), 'replicate')} of {formatting.count(total(measured), 'wake-up')} in all"
    data: list[Datum] = [{"where": "here", "how_long": here, "max_us": max(measured.maxima) / NS_PER_US}]
    data += [{"where": each.platform, "how_long": each.condition, "max_us": each.value} for each in page]
    yield data_section(
        name=f"{LONGEST}{suffix}",
        title="Maximum of rt on an idle machine, in microseconds, beside the published page's longest run",
        head=("where", "how long", "maximum"),
        rows=(
            ("here", here, spread(measured.maxima)),
            *((f"page, {each.platform}", each.condition, each.printed) for each in page),
        ),
        right=(False, False, True),
        data=tuple(data),
        notes=("The page does not state on which kernel its longest run was.",),
    )


LATENCY = Topic("latency", sections, answer=answer)
