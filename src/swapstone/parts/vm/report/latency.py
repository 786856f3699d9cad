# SPDX-License-Identifier: MIT OR Apache-2.0
"""Wake-up latencies: maxima over replicates, histograms, ratios and warnings."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence

from swapstone.core.model import Analysis, Latency
from swapstone.core.model.references import references
from swapstone.core.report import formatting, svg
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Drawing, Section
from swapstone.core.report.plot import Panel, Scale, Series, Span, plot
from swapstone.core.report.tables import Datum, Field, item, known, section_of
from swapstone.core.report.topics.topic import Topic
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
    us,
    us_text,
)
from swapstone.parts.vm.report.latency_processors import by_processor
from swapstone.parts.vm.report.latency_ratios import between_kernels, loaded_over_idle

LONG_NS = 1e6
"""From this latency on, in nanoseconds, a maximum is long for any kernel."""
RARE = 10.0
"""A maximum of this many times p99.99 is a rare event."""
RT_NS = 100e3
"""Above this, in nanoseconds, a maximum of PREEMPT_RT gets a warning if the load causes it."""
RT_TIMES = 10.0
"""The load causes a maximum of this many times the idle one."""
ALIKE = 0.5
"""Another kernel is delayed too where its maximum rises by this share of the real-time kernel's rise."""

_SECTION = "the kernel has a section that PREEMPT_RT can't preempt."
_SECTION_OR_OUTSIDE = (
    "by a section that PREEMPT_RT can't preempt, or by something outside this kernel: firmware, a hypervisor, an emulator, or other "
    "load on their host."
)
_EVERY_KERNEL = "the section that PREEMPT_RT can't preempt delays every kernel."
_EVERY_KERNEL_OR_OUTSIDE = "what delays the kernel with PREEMPT_RT, in it or outside, delays every kernel."
_WALL = " On the wall clock, other load on the host may be the cause."


def warnings_of(group: LatencyGroup, *, exact: bool) -> tuple[str, ...]:
    """Return a sentence for each variant and load with a long worst case, in the order of loads and variants.

    Args:
        group: the latencies.
        exact: whether the clock counts instructions; on a wall clock, a machine is also delayed by what is outside its kernel.
    """
    found: list[str] = []
    for load in group.loads:
        here = [each for variant in group.variants if (each := group.found.get((load, variant))) is not None]
        rise = min((_rise(group, each) for each in here if delayed(group, each)), default=None)
        found += filter(None, (_sentence(group, each, rise, exact=exact) for each in here))
    return tuple(found)


def worst(latency: Latency) -> float:
    """Return the largest maximum of all replicates, in nanoseconds."""
    return max(latency.maxima)


def _idle(group: LatencyGroup, latency: Latency) -> float | None:
    """Return the idle maximum beside one under a load; None without one."""
    idle = None if latency.load == IDLE else group.found.get((IDLE, latency.variant))
    return None if idle is None else worst(idle)


def _rise(group: LatencyGroup, latency: Latency) -> float:
    """Return the maximum less the idle one, in nanoseconds; the maximum itself without an idle one."""
    return worst(latency) - (_idle(group, latency) or 0.0)


def delayed(group: LatencyGroup, latency: Latency) -> bool:
    """Return whether the maximum of a kernel with PREEMPT_RT is longer than its non-preemptible sections should be."""
    if kernel_of(latency.variant) != "rt":
        return False
    most, idle = worst(latency), _idle(group, latency)
    return most >= LONG_NS or (idle is not None and most > RT_TIMES * idle and most > RT_NS)


def rare(latency: Latency) -> float | None:
    """Return p99.99, in nanoseconds, where the maximum is long and far above it; else, or with too few latencies, None."""
    known = percentile(latency, 99.99)
    return known if known is not None and worst(latency) >= max(LONG_NS, RARE * known) else None


def _sentence(group: LatencyGroup, latency: Latency, rise: float | None, *, exact: bool) -> str:
    load = "on the idle machine" if latency.load == IDLE else f"under load {formatting.safe(latency.load)}"
    where, idle = f"{formatting.safe(latency.variant.short_label)} {load}", _idle(group, latency)
    replicates = f"worst of {formatting.count(len(latency.maxima), 'replicate')}"
    measured = f"{us(worst(latency))} us ({replicates}{'' if idle is None else f'; idle: {us(idle)} us'})"
    if delayed(group, latency):
        return f"{where} was delayed by {measured}: {_SECTION if exact else _SECTION_OR_OUTSIDE}"
    if rise is not None and rise > 0 and _rise(group, latency) >= ALIKE * rise:
        return f"{where} was delayed too, by {measured}: {_EVERY_KERNEL if exact else _EVERY_KERNEL_OR_OUTSIDE}"
    if (known := rare(latency)) is not None:
        return (
            f"{where} was delayed by {measured}, with a p99.99 of {us(known)} us: a rare event, not the usual latency."
            + ("" if exact else _WALL)
        )
    return ""


_TOGETHER = 4  # variants in a panel
_LEAST_COUNT = 0.5  # where the axis of counts begins, so that a count of 1 is seen


def top(group: LatencyGroup) -> int:
    """Return where the axis of latencies ends, in microseconds: 1, 2 or 5 times a power of ten, at least 10, above every latency."""
    most = max(
        max(worst(each) / NS_PER_US, each.histogram[-1][0] + 1 if each.histogram else 0)
        for each in group.found.values()
    )
    ends = (step * int(10**power) for power in itertools.count(1) for step in (1, 2, 5))
    return next(end for end in ends if end >= most)


def drawing(group: LatencyGroup, title: str) -> Drawing:
    """Draw one panel per load, its variants over each other, on common axes which reach beyond the worst case."""
    most = max((count for each in group.found.values() for _, count in each.histogram), default=1)
    decades = max(1, math.ceil(math.log10(max(most, 1)) - 1e-9))
    y = Scale("wake-ups", "log", _count, (_LEAST_COUNT, 10.0**decades), pad=0.0)
    panels = []
    for load in group.loads:
        here = [each for variant in group.variants if (each := group.found.get((load, variant))) is not None]
        # About equally many in each panel.
        together = math.ceil(len(here) / max(1, math.ceil(len(here) / _TOGETHER)))
        panels += [_panel(group, y, here[start : start + together]) for start in range(0, len(here), max(1, together))]
    return plot(
        title,
        Scale("latency, us (logarithm of 1 us + latency)", "log1p", reach=(0.0, float(top(group))), pad=0.0),
        panels,
        (
            f"{each.variant.short_label} under {each.load}: worst case {us(worst(each))} us"
            for place in itertools.product(group.loads, group.variants)
            if (each := group.found.get(place)) is not None
        ),
        name="latency",
        caption="Wake-ups in each bin of 1 us (logarithm), all replicates. Marked: the worst case of all replicates.",
    )


def _panel(group: LatencyGroup, y: Scale, here: Sequence[Latency]) -> Panel:
    """Return the histograms of one load, each with its worst case as a line, a triangle below the axis, and its value."""
    series = tuple(
        Series(
            each.variant.short_label,
            group.variants.index(each.variant),
            spans=tuple(Span(edge, edge + 1, _LEAST_COUNT, count) for edge, count in each.histogram if count > 0),
        )
        for each in here
    )

    def worst_cases(x: svg.LinearAxis, y: svg.LinearAxis) -> Iterator[str]:
        for row, (each, line) in enumerate(zip(here, series, strict=True)):
            at, roof, colour = x.at(worst(each) / NS_PER_US), y.end + 15 * row, svg.series(line.colour)
            left = at > (x.start + x.end) / 2
            yield svg.line(at, y.start, at, roof + 3, colour, width=1.5, dash="2 2")
            yield f'<path d="M{at:.1f} {y.start:.1f}l-4 7h8z" fill="var({colour})"/>'
            words = f"worst {us(worst(each))} us"
            yield svg.text(
                at + (-5 if left else 5), roof + 12, words, anchor="end" if left else "start", colour=colour, bold=True
            )

    return Panel(y, series, here[0].load, 112.0 + 15.0 * len(here), over=worst_cases)


def _count(number: float) -> str:
    value = int(number)
    return f"{value // 1_000_000}M" if value >= 1_000_000 else f"{value // 1000}k" if value >= 1000 else str(value)


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

    def marked(each: Latency) -> str:
        refused = group.refused.get((each.load, each.variant))
        return each.variant.short_label + (f" ({refused})" if refused else "")

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
            Field("variant", "", marked, right=False),
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
        warnings=warnings_of(group, exact=context.experiment.clock == "virtual"),
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
        drawing=drawing(group, title),
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
