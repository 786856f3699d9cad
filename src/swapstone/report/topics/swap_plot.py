# SPDX-License-Identifier: MIT OR Apache-2.0
"""The drawing of swap-out over time: SVG for a page, ASCII for a terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from markupsafe import Markup

from swapstone.report import formatting

WIDE, NARROW = 720, 360
"""Widths of the drawing on a wide page and on a page of 360 pixels."""
_HEIGHT = 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 14, 46
_ROW = 18
_NAME = 44
_BAR = 60
_COLOURS = 6


@dataclasses.dataclass(frozen=True)
class Line:
    """One level over time.

    Attributes:
        name: the level.
        points: (second, KiB a second), ascending.
        page: whether the published page has these points.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    page: bool = False


def step_of(most: float, steps: int = 5) -> float:
    """Return the distance between the ticks of an axis: 1, 2 or 5 times a power of ten, for at most `steps` ticks."""
    step = 1.0
    while most / step > steps:
        step *= 2.5 if str(step).startswith("2") else 2
    return step


def drawing(lines: Sequence[Line], width: int = WIDE) -> str:
    """Draw lines over one axis of time, with their names above; the page's are dashed. Empty without points.

    Args:
        lines: in order.
        width: of the coordinates; letters have 12 points.
    """
    drawn = [line for line in lines if line.points]
    if not drawn:
        return ""
    most_s = max(line.points[-1][0] for line in drawn)
    most = max(max(rate for _, rate in line.points) for line in drawn) or 1.0
    top = _TOP + _ROW * len(drawn)
    right, bottom = width - _RIGHT, top + _HEIGHT - _TOP - _BOTTOM

    def x(second: float) -> float:
        return round(_LEFT + (right - _LEFT) * second / most_s, 1)

    def y(rate: float) -> float:
        return round(bottom - (bottom - top) * rate / most, 1)

    parts = []
    step = step_of(most)
    for tick in range(int(most // step) + 1):
        at = y(tick * step)
        parts.append(f'<line x1="{_LEFT}" x2="{right}" y1="{at}" y2="{at}" stroke="var(--rule)"/>')
        parts.append(
            f'<text x="{_LEFT - 6}" y="{at + 4}" text-anchor="end" fill="var(--soft)">{tick * step:.0f}</text>'
        )
    step = step_of(most_s, 12 if width == WIDE else 6)
    for tick in range(int(most_s // step) + 1):
        parts.append(
            f'<text x="{x(tick * step)}" y="{bottom + 16}" text-anchor="middle" fill="var(--soft)">{tick * step:.0f}</text>'
        )
    middle = (top + bottom) / 2
    parts.append(
        f'<text x="{(_LEFT + right) / 2}" y="{bottom + 36}" text-anchor="middle" fill="var(--soft)">time, seconds</text>'
    )
    parts.append(
        f'<text transform="translate(11 {middle}) rotate(-90)" text-anchor="middle" fill="var(--soft)">swapped out, KiB a second</text>'
    )
    for number, line in enumerate(drawn):
        colour = f"var(--s{number % _COLOURS + 1})"
        path = "L".join(f"{x(second)} {y(rate)}" for second, rate in line.points)
        dash = ' stroke-dasharray="5 4"' if line.page else ""
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        parts += [f'<circle cx="{x(second)}" cy="{y(rate)}" r="2.5" fill="{colour}"/>' for second, rate in line.points]
        at = _TOP + _ROW * number
        parts.append(
            f'<line x1="{_LEFT}" x2="{_LEFT + 22}" y1="{at - 4}" y2="{at - 4}" stroke="{colour}" stroke-width="2"{dash}/>'
        )
        parts.append(
            str(
                Markup('<text x="{}" y="{}" fill="var(--ink)">{}</text>').format(
                    _LEFT + 28, at, _cut(formatting.safe(line.name))
                )
            )
        )
    described = "; ".join(
        f"{line.name}: at most {max(rate for _, rate in line.points):.0f} KiB a second" for line in drawn
    )
    title = Markup("<title>Swap-out over time</title><desc>{}</desc>").format(formatting.safe(described))
    height = bottom + _BOTTOM
    return (
        f'<svg class="swap-out" viewBox="0 0 {width} {height}" role="img" font-size="12">{title}{"".join(parts)}</svg>'
    )


def _cut(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def bars(lines: Sequence[Line]) -> tuple[str, ...]:
    """Draw a bar for each second of each line, ASCII, all at one scale."""
    most = max((rate for line in lines for _, rate in line.points), default=0.0)
    if not most:
        return ()
    drawn = []
    for line in lines:
        name = formatting.safe(line.name).encode("ascii", "replace").decode()[:18]
        for number, (second, rate) in enumerate(line.points):
            bar = ("." if line.page else "#") * round(_BAR * rate / most)
            drawn.append(f"{name if number == 0 else '':<18} {second:>4.0f} s {rate:>7.0f} {bar}".rstrip())
    return (*drawn, "KiB swapped out a second, #: here, .: on the page")
