# SPDX-License-Identifier: MIT OR Apache-2.0
"""Wake-up latencies: maxima over replicates, histograms, ratios and warnings."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable

from swapstone.core.model import Analysis, Latency
from swapstone.core.model.references import references
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Section
from swapstone.core.report.tables import Datum, Field, item, known, section_of
from swapstone.core.report.topics.topic import Topic
from swapstone.parts.vm.report import latency_plot, latency_warnings
from swapstone.parts.vm.report.latency_answer import answer
from swapstone.parts.vm.report.latency_data import (
    IDLE,
    NS_PER_US,
    PERCENTS,
    STUDY,
    LatencyGroup,
    average,
    groups,
    in_us,
    kernel_of,
    over_replicates,
    percentile,
    plain_name,
    spread,
    total,
    us_text,
)
from swapstone.parts.vm.report.latency_processors import by_processor
from swapstone.parts.vm.report.latency_ratios import between_kernels, loaded_over_idle

LONGEST = "latency-longest"
"""A section of the report that has a published figure."""

_IMAGE = (
    "The published page has maxima and averages of each load in its table 6, as an image. No figures of that table are available as "
    "text."
)


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the sections of an analysis that holds latencies; none for another."""
    found = groups(context, analysis)
    made: list[Section] = []
    for group in found:
        suffix = "" if len(found) == 1 else f"-{plain_name(group.workload)}"
        made += [_table(context, group, suffix), _histogram(group, suffix), *by_processor(context, group, suffix)]
        made += [between_kernels(context, analysis, group, suffix)] if len(group.variants) > 1 else []
        made += [loaded_over_idle(context, group, suffix)] if {IDLE} < {*group.loads} else []
        made += _longest(group, suffix) if context.published == STUDY else ()
    return tuple(made)


def _replicates_of(group: LatencyGroup) -> str:
    return over_replicates(len(each.maxima) for each in group.found.values())


def _table(context: ReportContext, group: LatencyGroup, suffix: str) -> Section:
    """Return the table of maxima, averages and percentiles by load and variant."""
    cells = {place: group.found.get(place) for place in itertools.product(group.loads, group.variants)}
    shown = [each for each in cells.values() if each is not None]
    notes = [
        "Maximum: the median of the replicates' maxima, in brackets the lowest and the highest. More replicates find rarer and longer "
        "latencies. Average: the mean of the replicates' averages. Percentiles: of all replicates together, the lower edge of the bin of "
        "1 us."
    ]
    few = any(percentile(each, PERCENTS[-1]) is None for each in shown)
    empty = "A percentile is empty where there are fewer latencies than it needs (p99.99 needs 10000)."
    missing = [f"{variant.short_label} under {load}" for (load, variant), each in cells.items() if each is None]
    lacking = f"No latencies were measured of {', '.join(missing)}."
    notes += [empty] * few + [lacking] * bool(missing) + [_IMAGE] * (context.published == STUDY)
    return section_of(
        f"latency{suffix}",
        f"Wake-up latency of {group.workload} by load, in microseconds, {_replicates_of(group)}",
        (
            Field("load", "load", lambda each: each.load, right=False),
            Field("variant", "", lambda each: each.variant.short_label, right=False),
            Field("", "variant", lambda each: each.variant.label),
            Field("", "draws", lambda each: float(len(each.maxima))),
            Field("", "wake_ups", lambda each: float(total(each))),
            Field("maximum", "", lambda each: spread(each.maxima)),
            Field("", "max_median_us", lambda each: statistics.median(each.maxima) / NS_PER_US),
            Field("", "max_low_us", lambda each: min(each.maxima) / NS_PER_US),
            Field("", "max_high_us", lambda each: max(each.maxima) / NS_PER_US),
            Field("average", "average_us", lambda each: in_us(average(each)), known(formatting.digits)),
            *map(_percentile, PERCENTS),
            Field("replicates", "", lambda each: len(each.maxima)),
            Field("wake-ups", "", total),
        ),
        shown,
        keys=2,
        notes=notes,
        warnings=latency_warnings.warnings_of(group, exact=context.experiment.clock == "virtual"),
    )


def _percentile(percent: float) -> Field[Latency]:
    name = f"p{percent:g}"
    return Field(name, f"{name}_us", lambda each: in_us(percentile(each, percent)), known(us_text))


def _histogram(group: LatencyGroup, suffix: str) -> Section:
    several = any(len(each.maxima) > 1 for each in group.found.values())
    title = f"Histogram of wake-up latency of {group.workload}, {_replicates_of(group)}{' together' if several else ''}"
    bins: list[Datum] = [
        {"load": each.load, "variant": each.variant.label, "from_us": float(edge), "count": float(count)}
        for place in itertools.product(group.loads, group.variants)
        if (each := group.found.get(place)) is not None
        for edge, count in each.histogram
    ]
    return section_of(
        f"latency-histogram{suffix}",
        title,
        [item("", name) for name in ("load", "variant", "from_us", "count")],
        bins,
        drawing=latency_plot.drawing(group, title),
    )


def _longest(group: LatencyGroup, suffix: str) -> Iterable[Section]:
    """Return the maximum of rt on an idle machine beside the page's longest run."""
    measured = next(
        (each for (load, variant), each in group.found.items() if load == IDLE and kernel_of(variant) == "rt"),
        None,
    )
    if measured is None:
        return
    here = f"idle, {formatting.count(len(measured.maxima), 'replicate')} of {formatting.count(total(measured), 'wake-up')} in all"
    figures = (each.figure for each in references(STUDY, LONGEST))
    yield section_of(
        f"{LONGEST}{suffix}",
        "Maximum of rt on an idle machine, in microseconds, beside the published page's longest run",
        (
            Field(
                "where",
                "",
                lambda row: row[0],
                lambda where: where if where == "here" else f"page, {where}",
                right=False,
            ),
            Field("", "where", lambda row: row[0]),
            Field("how long", "how_long", lambda row: row[1], right=False),
            Field("maximum", "", lambda row: row[2]),
            Field("", "max_us", lambda row: row[3]),
        ),
        [
            ("here", here, spread(measured.maxima), max(measured.maxima) / NS_PER_US),
            *((each.platform, each.condition, each.printed, each.value) for each in figures),
        ],
        notes=("The page does not state on which kernel its longest run was.",),
    )


LATENCY = Topic("latency", 20, sections, answer=answer)
