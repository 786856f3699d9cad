# SPDX-License-Identifier: MIT OR Apache-2.0
"""The drawing of swap-out over time: SVG for a page, ASCII for a terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from markupsafe import Markup

from swapstone.report import formatting

_WIDTH, _HEIGHT = 720, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 150, 14, 40
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


def drawing(lines: Sequence[Line]) -> str:
    """Draw lines over one axis of time; the page's are dashed. Empty without points."""
    drawn = [line for line in lines if line.points]
    if not drawn:
        return ""
    most_s = max(line.points[-1][0] for line in drawn)
    most = max(max(rate for _, rate in line.points) for line in drawn) or 1.0
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def x(second: float) -> float:
        return round(_LEFT + (right - _LEFT) * second / most_s, 1)

    def y(rate: float) -> float:
        return round(bottom - (bottom - _TOP) * rate / most, 1)

    parts = []
    step = step_of(most)
    for tick in range(int(most // step) + 1):
        at = y(tick * step)
        parts.append(f'<line x1="{_LEFT}" x2="{right}" y1="{at}" y2="{at}" stroke="var(--rule)"/>')
        parts.append(
            f'<text x="{_LEFT - 6}" y="{at + 4}" text-anchor="end" fill="var(--soft)">{tick * step:.0f}</text>'
        )
    step = step_of(most_s, 12)
    for tick in range(int(most_s // step) + 1):
        parts.append(
            f'<text x="{x(tick * step)}" y="{bottom + 16}" text-anchor="middle" fill="var(--soft)">{tick * step:.0f}</text>'
        )
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 6}" fill="var(--soft)">seconds; KiB swapped out a second</text>')
    for number, line in enumerate(drawn):
        colour = f"var(--s{number % _COLOURS + 1})"
        path = "L".join(f"{x(second)} {y(rate)}" for second, rate in line.points)
        dash = ' stroke-dasharray="5 4"' if line.page else ""
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        parts += [f'<circle cx="{x(second)}" cy="{y(rate)}" r="2.5" fill="{colour}"/>' for second, rate in line.points]
        at = _TOP + 12 + 18 * number
        parts.append(
            f'<line x1="{right + 12}" x2="{right + 34}" y1="{at - 4}" y2="{at - 4}" stroke="{colour}" stroke-width="2"{dash}/>'
        )
        parts.append(
            str(
                Markup('<text x="{}" y="{}" fill="var(--ink)">{}</text>').format(
                    right + 40, at, formatting.safe(line.name)
                )
            )
        )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" font-size="12" '
        f'aria-label="Swap-out over time">{"".join(parts)}</svg>'
    )


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
