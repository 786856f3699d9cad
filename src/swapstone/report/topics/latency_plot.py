# SPDX-License-Identifier: MIT OR Apache-2.0
"""Histograms of latencies: bins of 1 us, logarithmic counts, the worst case marked. Cyclictest's own plots have this form.

The axis of latencies is the logarithm of 1 us + latency: 5 us and 6000 us are both visible, and 0 is on the axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from markupsafe import escape

from swapstone.model import Latency, Variant
from swapstone.report import formatting
from swapstone.report.topics.latency_data import NS_PER_US, LatencyGroup, us
from swapstone.report.topics.latency_warnings import worst

WIDE, NARROW = 760.0, 360.0
"""Widths of the drawing on a wide page and on a page of 360 pixels."""
_LEFT, _RIGHT = 52.0, 24.0
_PLOT, _TITLE, _LABEL, _TICKS, _GAP = 112.0, 22.0, 15.0, 24.0, 12.0
_COLOURS = 6
_TOGETHER = 4  # variants in a panel
_LEAST_COUNT = 0.5  # where the axis of counts begins, so that a count of 1 is seen
_STEPS = (1, 2, 5)
_NAME = 40

_RAMP = ".:-=+*#%@"
"""For a terminal: one character for each decade of counts, the first for 1 to 9."""
_COLUMNS = 79
_LEAST_COLUMNS = 30


def top(group: LatencyGroup) -> int:
    """Return where the axis of latencies ends, in microseconds: 1, 2 or 5 times a power of ten, at least 10, above every latency."""
    most = max(
        max(worst(each) / NS_PER_US, each.histogram[-1][0] + 1 if each.histogram else 0)
        for each in group.found.values()
    )
    power = 10
    while True:
        for step in _STEPS:
            if step * power >= most:
                return step * power
        power *= 10


def share(value: float, end: float) -> float:
    """Return a latency's position on the axis, from 0 to 1; both arguments in microseconds."""
    return min(1.0, math.log1p(max(0.0, value)) / math.log1p(end))


def _ticks(end: int) -> list[int]:
    found = [0]
    power = 1
    while power <= end:
        found += [step * power for step in _STEPS if step * power <= end]
        power *= 10
    return found


class _Scale:
    """The axes of a panel."""

    def __init__(self, group: LatencyGroup, width: float) -> None:
        self.width = width
        self.end = top(group)
        most = max((count for each in group.found.values() for _, count in each.histogram), default=1)
        self.decades = max(1, math.ceil(math.log10(max(most, 1)) - 1e-9))

    def x(self, value: float) -> float:
        return _LEFT + share(value, self.end) * (self.width - _LEFT - _RIGHT)

    def height(self, count: float) -> float:
        least = math.log10(_LEAST_COUNT)
        return _PLOT * max(0.0, math.log10(count) - least) / (self.decades - least)


def svg(group: LatencyGroup, title: str, width: float = WIDE) -> str:
    """Draw one panel per load, its variants over each other, on common axes which reach beyond the worst case.

    Args:
        group: what to draw.
        title: for screen readers.
        width: of the coordinates; letters have 12 points.
    """
    scale = _Scale(group, width)
    places = {variant: place for place, variant in enumerate(group.variants)}
    parts, y = _legend(group.variants, width)
    for load in group.loads:
        here = [each for variant in group.variants if (each := group.found.get((load, variant))) is not None]
        # About equally many in each panel.
        together = math.ceil(len(here) / max(1, math.ceil(len(here) / _TOGETHER)))
        for start in range(0, len(here), max(1, together)):
            drawn, y = _panel(load, here[start : start + together], places, scale, y)
            parts += drawn
    parts.append(
        _text((_LEFT + width - _RIGHT) / 2, y + 4, "latency, us (logarithm of 1 us + latency)", anchor="middle")
    )
    description = "; ".join(_described(each) for each in _ordered(group))
    return (
        f'<svg class="latency" viewBox="0 0 {width:g} {y + 12:g}" width="{width:g}" height="{y + 12:g}" role="img" '
        f'font-size="12"><title>{_safe(title)}</title><desc>{_safe(description)}</desc>{"".join(parts)}</svg>'
    )


def _ordered(group: LatencyGroup) -> Iterable[Latency]:
    return (
        group.found[load, variant]
        for load in group.loads
        for variant in group.variants
        if (load, variant) in group.found
    )


def _described(each: Latency) -> str:
    return f"{each.variant.short_label} under {each.load}: worst case {us(worst(each))} us"


def _safe(text: str) -> str:
    return str(escape(formatting.safe(text)))


def _text(x: float, y: float, text: str, *, anchor: str = "start", colour: str = "--soft", bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="var({colour})"{weight}>{_safe(text)}</text>'


def _style(place: int) -> tuple[str, str]:
    """Return a variant's colour, and dashes for the second variant of a colour."""
    return f"--s{place % _COLOURS + 1}", "" if place < _COLOURS else ' stroke-dasharray="4 2"'


def _legend(variants: Sequence[Variant], width: float) -> tuple[list[str], float]:
    parts = []
    x, y = _LEFT, 14.0
    for place, variant in enumerate(variants):
        name = (
            _cut(formatting.safe(variant.short_label), _NAME)
            if len(variant.short_label) > _NAME
            else variant.short_label
        )
        room = 34 + 7.2 * len(name)
        if x > _LEFT and x + room > width - _RIGHT:
            x, y = _LEFT, y + 18
        colour, dashes = _style(place)
        parts.append(
            f'<rect x="{x:.1f}" y="{y - 9:.1f}" width="16" height="9" fill="var({colour})" fill-opacity="0.28" '
            f'stroke="var({colour})" stroke-width="1.5"{dashes}/>'
        )
        parts.append(_text(x + 21, y, name, colour="--ink"))
        x += room
    y += 22
    parts.append(_text(0, y, "wake-ups in each bin of 1 us (logarithm), all replicates"))
    return parts, y + 10


def _panel(
    load: str, here: Sequence[Latency], places: dict[Variant, int], scale: _Scale, y: float
) -> tuple[list[str], float]:
    """Draw one load; return its parts and where the next panel begins."""
    parts = [_text(0, y + 14, load, colour="--ink", bold=True)]
    y += _TITLE
    roof = y + _LABEL * len(here)
    floor = roof + _PLOT
    for decade in range(scale.decades + 1):
        at = floor - scale.height(10**decade)
        parts.append(_line(_LEFT, at, scale.width - _RIGHT, at, "--rule"))
        parts.append(_text(_LEFT - 6, at + 4, _count(10**decade), anchor="end"))
    labelled = _labelled(scale)
    for tick in _ticks(scale.end):
        at = scale.x(tick)
        parts.append(_line(at, roof if str(tick)[0] in "01" else floor - 3, at, floor + 4, "--rule"))
        if tick in labelled:
            parts.append(_text(at, floor + 21, str(tick), anchor="middle"))
    parts.append(_line(_LEFT, floor, scale.width - _RIGHT, floor, "--soft"))
    for each in here:
        parts.append(_bars(each, places[each.variant], scale, floor))
    for row, each in enumerate(here):
        parts.append(_worst_line(each, places[each.variant], scale, y + _LABEL * row, floor))
    for row, each in enumerate(here):
        parts.append(_worst_label(each, places[each.variant], scale, y + _LABEL * row))
    return parts, floor + _TICKS + _GAP


def _labelled(scale: _Scale) -> list[int]:
    """Return the ticks whose labels have room: the end and powers of ten before others."""
    ticks = _ticks(scale.end)
    found: list[int] = []
    for tick in sorted(ticks, key=lambda tick: (tick != scale.end, str(tick)[0] not in "01", tick)):
        if all(abs(scale.x(tick) - scale.x(each)) >= 7 * (len(str(tick)) + len(str(each))) / 2 + 6 for each in found):
            found.append(tick)
    return found


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="var({colour})" fill="none"/>'


def _count(value: int) -> str:
    return f"{value // 1_000_000}M" if value >= 1_000_000 else f"{value // 1000}k" if value >= 1000 else str(value)


def _rectangles(histogram: Iterable[tuple[int, int]], scale: _Scale) -> list[tuple[float, float, int]]:
    """Return (left, right, count): bins narrower than a point share one, which is as high as the highest of them."""
    found: list[tuple[float, float, int]] = []
    for edge, count in histogram:
        if count <= 0:
            continue
        left, right = scale.x(edge), scale.x(edge + 1)
        if right - left < 1:
            left = math.floor(left)
            right = left + 1.0
            if found and found[-1][0] == left and found[-1][1] == right:
                found[-1] = (left, right, max(count, found[-1][2]))
                continue
        found.append((left, right, count))
    return found


def _bars(each: Latency, place: int, scale: _Scale, floor: float) -> str:
    """Draw the outline of the bins, bins that touch as one."""
    path = ""
    end: float | None = None
    for left, right, count in _rectangles(each.histogram, scale):
        if end is None or left - end > 0.05:
            path += "" if end is None else f"V{floor:.1f}Z"
            path += f"M{left:.1f} {floor:.1f}"
        path += f"V{floor - scale.height(count):.1f}H{right:.1f}"
        end = right
    path += "" if end is None else f"V{floor:.1f}Z"
    colour, dashes = _style(place)
    return (
        f'<path d="{path}" fill="var({colour})" fill-opacity="0.28" stroke="var({colour})" stroke-width="1.3" '
        f'stroke-linejoin="round"{dashes}/>'
    )


def _worst_line(each: Latency, place: int, scale: _Scale, roof: float, floor: float) -> str:
    """Mark the worst case by a line and a triangle below the axis."""
    at = scale.x(worst(each) / NS_PER_US)
    colour, _ = _style(place)
    return (
        f'<path d="M{at:.1f} {floor:.1f}V{roof + 3:.1f}" stroke="var({colour})" stroke-width="1.5" stroke-dasharray="2 2" fill="none"/>'
        f'<path d="M{at:.1f} {floor:.1f}l-4 7h8z" fill="var({colour})"/>'
    )


def _worst_label(each: Latency, place: int, scale: _Scale, roof: float) -> str:
    """Write the worst case's value beside its line, over the lines of others."""
    at = scale.x(worst(each) / NS_PER_US)
    to_left = at > scale.width / 2
    text = _text(
        at + (-5 if to_left else 5),
        roof + 12,
        f"worst {us(worst(each))} us",
        anchor="end" if to_left else "start",
        colour=_style(place)[0],
        bold=True,
    )
    return f'<g stroke="var(--paper)" stroke-width="5" paint-order="stroke">{text}</g>'


def drawn(group: LatencyGroup) -> tuple[str, ...]:
    """Draw one line per load and variant for a terminal: a character for the decade of the counts, ``X`` for the worst case."""
    end = top(group)
    shown = list(_ordered(group))
    loads = _column(dict.fromkeys(each.load for each in shown), 12)
    variants = _column((each.variant.short_label for each in shown), 20)
    values = {id(each): f"{us(worst(each))} us" for each in shown}
    room = max(map(len, values.values()))
    before = max(map(len, loads.values())) + 1 + max(map(len, variants.values())) + 1
    width = max(_LEAST_COLUMNS, _COLUMNS - before - room - 3)
    counted = {id(each): _counted(each, end, width) for each in shown}
    lines = []
    last = ""
    for each in shown:
        name = loads[each.load] if each.load != last else ""
        last = each.load
        head = f"{name.ljust(max(map(len, loads.values())))} {variants[each.variant.short_label]} "
        lines.append(f"{head}|{_strip(each, counted[id(each)], end)}| {values[id(each)].rjust(room)}")
    ruler, numbers = _ruler(end, width)
    return (
        *lines,
        f"{' ' * before}+{ruler}+ worst".rstrip(),
        f"{' ' * before} {numbers}",
        f"{' ' * before} us, logarithm of 1 us + latency. Wake-ups in a column:",
        f"{' ' * before} "
        + ", ".join(f"{mark} {_decade(place)}" for place, mark in enumerate(_RAMP[: _used(counted.values())]))
        + ", X worst",
    )


def _column(names: Iterable[str], most: int) -> dict[str, str]:
    """Return names in ASCII of one width, long ones cut in their middle."""
    found = {name: formatting.safe(name).encode("ascii", "replace").decode() for name in names}
    width = min(most, max(map(len, found.values())))
    return {name: _cut(text, width).ljust(width) for name, text in found.items()}


def _cut(text: str, width: int) -> str:
    tail = (width - 1) // 2
    return text if len(text) <= width else f"{text[: width - 1 - tail]}~{text[len(text) - tail :]}"


def _used(counted: Iterable[Sequence[int]]) -> int:
    """Return how many characters of the ramp occur."""
    return min(len(_RAMP), len(str(max(max(counts) for counts in counted))))


def _decade(place: int) -> str:
    return f"{10**place}+" if place else "1-9"


def _counted(each: Latency, end: int, width: int) -> list[int]:
    """Return how many wake-ups each column stands for: all of the bins that it holds, or of the bin that covers it and more."""
    counts = [0] * width
    for edge, count in each.histogram:
        first = min(width - 1, math.floor(share(edge, end) * width))
        after = max(first + 1, math.floor(share(edge + 1, end) * width))
        for column in range(first, min(width, after)):
            counts[column] += count
    return counts


def _strip(each: Latency, counts: Sequence[int], end: int) -> str:
    marks = [" " if not count else _RAMP[min(len(_RAMP), len(str(count))) - 1] for count in counts]
    marks[min(len(marks) - 1, math.floor(share(worst(each) / NS_PER_US, end) * len(marks)))] = "X"
    return "".join(marks)


def _ruler(end: int, width: int) -> tuple[str, str]:
    """Return a line with a tick at each power of ten, and a line with their values."""
    line, numbers = ["-"] * width, [" "] * (width + 8)
    free = 0
    for tick in _ticks(end):
        if str(tick)[0] not in "01" and tick != end:
            continue
        at = min(width - 1, math.floor(share(tick, end) * width))
        line[at] = "+"
        text = str(tick)
        start = max(0, min(at - len(text) // 2, width - len(text)))
        if start >= free:
            numbers[start : start + len(text)] = text
            free = start + len(text) + 1
    return "".join(line), "".join(numbers).rstrip()
