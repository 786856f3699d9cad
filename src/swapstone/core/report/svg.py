# SPDX-License-Identifier: MIT OR Apache-2.0
"""Parts of the drawings of a page: axes, lines and texts as SVG in the page's colours. Text from outside is escaped here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from markupsafe import escape

from swapstone.core.report import formatting

SERIES = 6
"""Number of colours for series, ``var(--s1)`` to ``var(--s6)``."""
WIDE, NARROW = 680.0, 360.0
"""Widths of a drawing on a wide page and on a page of 360 pixels."""
LETTER = 6.9
"""Width of a letter of 12 points, on average, to keep texts apart."""

_RATIOS = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0, 10000.0)


def safe(text: str) -> str:
    """Return text from outside, escaped and with control characters made visible."""
    return str(escape(formatting.safe(text)))


def text(x: float, y: float, words: str, *, anchor: str = "start", colour: str = "--soft", bold: bool = False) -> str:
    """Return a text; `y` is its baseline. The page's background surrounds its letters, so that a line below does not cross them."""
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="var({colour})"{weight} stroke="var(--paper)" stroke-width="4" '
        f'paint-order="stroke" stroke-linejoin="round">{safe(words)}</text>'
    )


def upright(x: float, y: float, words: str) -> str:
    """Return a text that is read from bottom to top, centred at a point: the title of a vertical axis."""
    return f'<text transform="translate({x:.1f} {y:.1f}) rotate(-90)" text-anchor="middle" fill="var(--soft)">{safe(words)}</text>'


def line(
    x1: float, y1: float, x2: float, y2: float, colour: str = "--rule", *, width: float = 1, dash: str = ""
) -> str:
    """Return a straight line."""
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    ends = f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"
    return f'<path d="{ends}" stroke="var({colour})" stroke-width="{width:g}" fill="none"{dashes}/>'


def path(points: Sequence[tuple[float, float]], colour: str, *, dash: str = "") -> str:
    """Return a line through points."""
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    joined = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path d="M{joined}" stroke="var({colour})" stroke-width="2" fill="none" stroke-linejoin="round"{dashes}/>'


def marker(place: int, x: float, y: float, size: float = 4.5) -> str:
    """Return the mark of a series: its shape and its colour are its own."""
    colour, wide = series(place), size + 1.5
    shapes = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:g}" fill="var({colour})"/>',
        f'<rect x="{x - size:.1f}" y="{y - size:.1f}" width="{2 * size:g}" height="{2 * size:g}" fill="var({colour})"/>',
        f'<path d="M{x:.1f} {y - size - 1:.1f}l{size + 1:g} {2 * size:g}h{-2 * (size + 1):g}Z" fill="var({colour})"/>',
        f'<path d="M{x:.1f} {y - wide:.1f}l{wide:g} {wide:g}l{-wide:g} {wide:g}l{-wide:g} {-wide:g}Z" fill="var({colour})"/>',
    )
    return shapes[place % len(shapes)]


def series(place: int) -> str:
    """Return the name of a series' colour."""
    return f"--s{place % SERIES + 1}"


def drawing(width: float, height: float, parts: Iterable[str], *, title: str, description: str, name: str) -> str:
    """Return one ``<svg>`` element that scales with the page.

    Args:
        width: of the coordinates.
        height: of the coordinates.
        parts: elements.
        title: what it shows, for screen readers.
        description: its content as sentences, for the same.
        name: its class.
    """
    return (
        f'<svg class="{name}" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img" font-size="12">'
        f"<title>{safe(title)}</title><desc>{safe(description)}</desc>{''.join(parts)}</svg>"
    )


class LinearAxis:
    """A linear axis from `low` to `high`, with the coordinates `start` and `end`; `end` may be less than `start`."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high = low, high if high > low else low + 1.0
        self.start, self.end = start, end

    def scale(self, value: float) -> float:
        """Return a value as the axis has it."""
        return value

    def at(self, value: float) -> float:
        """Return the coordinate of a value, kept within the axis."""
        share = (self.scale(value) - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * min(1.0, max(0.0, share))

    def ticks(self, apart: float) -> list[float]:
        """Return the ticks: multiples of 1, 2 or 5 times a power of ten, at least `apart` points from each other."""
        least = apart * (self.high - self.low) / abs(self.end - self.start)
        power = 10.0 ** math.floor(math.log10(least))
        step = next(each * power for each in (1, 2, 5, 10) if each * power >= least)
        return [
            step * number
            for number in range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)
        ]


class LogAxis(LinearAxis):
    """A logarithmic axis.

    Args:
        values: what it holds; those that are not above 0 are left out.
        start, end: coordinates of its ends; `end` may be less than `start`.
        least: it holds at least 1 / least to least, if it is an axis of ratios; 1 for no such range.
        pad: share of its length that stays free at both ends.
        shift: added to each value, so that 0 is on the axis; 0 for none.
    """

    def __init__(
        self,
        values: Iterable[float],
        start: float,
        end: float,
        *,
        least: float = 1.0,
        pad: float = 0.08,
        shift: float = 0.0,
    ) -> None:
        self._shift = shift
        known = [math.log(value + shift) for value in values if value + shift > 0]
        known += [-math.log(least), math.log(least)] if least > 1 else []
        low, high = min(known, default=0.0), max(known, default=0.0)
        room = (high - low) * pad or (0.0 if pad == 0 < high - low else 0.5)
        super().__init__(low - room, high + room, start, end)

    def scale(self, value: float) -> float:
        """Return the logarithm of a value above 0 less the shift."""
        return math.log(value + self._shift)

    def ratios(self, apart: float) -> list[float]:
        """Return the ticks of an axis of ratios, at least `apart` points from each other, with 1 among them."""
        return self.apart([1.0, *(value for step in reversed(_RATIOS) for value in (step, 1 / step))], apart)

    def ticks(self, apart: float) -> list[float]:
        """Return the ticks of an axis of values: powers of ten, then 2 and 5 times them, at least `apart` points from each other."""
        first, last = math.floor(self.low / math.log(10)), math.ceil(self.high / math.log(10))
        zero = [0.0] if self._shift else []
        return self.apart(
            [*zero, *(step * 10.0**power for step in (1, 2, 5) for power in range(first, last + 1))], apart
        )

    def apart(self, candidates: Iterable[float], apart: float) -> list[float]:
        """Return in order those candidates that are on the axis and at least `apart` points from each one before."""
        found: list[float] = []
        for value in candidates:
            held = self.low - 1e-9 <= self.scale(value) <= self.high + 1e-9
            if held and all(abs(self.at(value) - self.at(each)) >= apart for each in found):
                found.append(value)
        return sorted(found)


def cut(name: str, most: int) -> str:
    """Return a name with at most so many letters."""
    return name if len(name) <= most else f"{name[: most - 1]}…"
