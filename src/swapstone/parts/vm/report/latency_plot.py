# SPDX-License-Identifier: MIT OR Apache-2.0
"""Histograms of latencies: bins of 1 us, logarithmic counts, the worst case marked. Cyclictest's own plots have this form.

The axis of latencies is the logarithm of 1 us + latency: 5 us and 6000 us are both visible, and 0 is on the axis.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from swapstone.core.model import Latency
from swapstone.core.report import svg
from swapstone.core.report.document import Drawing
from swapstone.core.report.plot import Panel, Scale, Series, Span, plot
from swapstone.parts.vm.report.latency_data import NS_PER_US, LatencyGroup, us
from swapstone.parts.vm.report.latency_warnings import worst

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
