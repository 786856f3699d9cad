# SPDX-License-Identifier: MIT OR Apache-2.0
"""Drawings of a page as SVG: numbers only, never a text from outside.

Marks stand at percentages of the width, so that a drawing grows and shrinks with the page while its marks keep their size.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from swapstone.core.report import svg
from swapstone.core.report.document import ForestRow, Mark, PairedRuns, ResultTable

_TICKS = (1.02, 1.05, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0, 1024.0, 4096.0)
_LEAST = 1.04  # an axis reaches at least so far from 1 on both sides
_FARTHEST = 16.0  # and for metrics after the first at most so far
_MOST = 1e150  # what is larger, or smaller than its inverse, is drawn as an arrow too: its pad would be infinite
_APART = 14  # per cent of the width between two ticks


class Axis(svg.LogAxis):
    """A logarithmic axis of ratios, in per cent of the width."""

    def at(self, value: float) -> float:
        """Return a ratio's position in per cent of the width, kept within the axis."""
        return round(super().at(value), 2) if value > 0 else 0.0

    @property
    def labels(self) -> list[tuple[str, float]]:
        """Return pairs (label, position) of ticks that do not overlap."""
        steps = ((ratio, step) for step in reversed(_TICKS) for ratio in (step, 1 / step))
        shown = [ratio for ratio, _ in steps if 4 < self.at(ratio) < 96]
        return [(_label(ratio), self.at(ratio)) for ratio in self.apart([1.0, *shown], _APART)]


def axis(table: ResultTable) -> Axis:
    """Return an axis with ticks that do not overlap.

    It holds every ratio, interval and reference of the first metric, and those of the others up to `_FARTHEST`. What lies farther out is
    drawn as an arrow at the end of the axis.
    """
    first = {id(row) for group in table.groups[:1] for row in group.rows}
    values = [1 / _LEAST, _LEAST]
    for each in table.rows:
        row = each.row
        drawn = (row.ratio, row.low, row.high) if row.ratio is not None else ()
        found = [
            min(_MOST, max(1 / _MOST, ratio)) for ratio in (*drawn, row.reference) if ratio is not None and ratio > 0
        ]
        values += found if id(each) in first else [min(_FARTHEST, max(1 / _FARTHEST, value)) for value in found]
    return Axis(values, 0, 100, pad=0.04)


def _label(ratio: float) -> str:
    """Return ``1/4`` and the like below 1."""
    return f"{ratio:.2g}" if ratio == 0.8 else f"{ratio:g}" if ratio >= 1 else f"1/{1 / ratio:g}"


def grid(scale: Axis, margin: float) -> Markup:
    """Return a CSS background of the axis' ticks and of the margin, which every row of a table has."""
    left, right = scale.at(1 / (1 + margin)), scale.at(1 + margin)
    lines = [
        f"linear-gradient(var({'--none' if label == '1' else '--faint'}) 0 0) {at}% 0/1px 100% no-repeat"
        for label, at in sorted(scale.labels, key=lambda tick: tick[0] != "1")
    ]
    wide = right - left
    # A position in per cent aligns that point of the image with that point of the box.
    at = round(100 * left / (100 - wide), 2) if wide < 100 else 0
    lines.append(f"linear-gradient(var(--band) 0 0) {at}% 0/{wide:.2f}% 100% no-repeat")
    return Markup(",".join(lines))  # noqa: S704 - numbers only


def forest(row: ForestRow, scale: Axis) -> Markup:
    """Draw one row of a forest plot: interval, effect, and the reference as a hollow diamond."""
    parts = []
    if row.reference is not None and row.reference > 0:
        at = scale.at(row.reference)
        parts.append(f'<svg class="over" x="{at}%" y="50%"><path class="page" d="M0-5L5 0L0 5L-5 0Z"/></svg>')
    if row.ratio is not None:
        if row.low is not None and row.high is not None and row.low > 0:
            ends = f'x1="{scale.at(row.low)}%" x2="{scale.at(row.high)}%"'
            parts.append(f'<line class="interval" {ends} y1="50%" y2="50%"/>')
        parts.append(_effect(row.ratio, scale))
    return Markup('<svg class="forest" aria-hidden="true" focusable="false">{}</svg>').format(Markup("".join(parts)))  # noqa: S704 - numbers only


def _effect(ratio: float, scale: Axis) -> str:
    """Draw an effect as a dot, or as an arrow at the end of an axis that does not reach it."""
    if scale.scale(ratio) < scale.low:
        return '<svg class="over" x="0%" y="50%"><path class="effect" d="M0 0L9-5V5Z"/></svg>'
    if scale.scale(ratio) > scale.high:
        return '<svg class="over" x="100%" y="50%"><path class="effect" d="M0 0L-9-5V5Z"/></svg>'
    return f'<circle class="effect" cx="{scale.at(ratio)}%" cy="50%" r="4.5"/>'


def is_clipped(table: ResultTable, scale: Axis) -> bool:
    """Return whether an effect is outside the axis."""
    ratios = (each.row.ratio for each in table.rows)
    return any(ratio is not None and not scale.low <= scale.scale(ratio) <= scale.high for ratio in ratios)


def width(row: ForestRow) -> float | None:
    """Return the width of a row's interval, as a ratio; None without an interval."""
    return row.high / row.low if row.low and row.high else None


def position(value: float | None) -> str:
    """Return a number for a script to sort by; empty for none."""
    return "" if value is None else f"{value:.9g}"


def _dots(values: Sequence[float], low: float, high: float, y: int) -> list[tuple[int, int]]:
    span = high / 2 - low / 2  # halves, because the span of two doubles may be no double
    return [(round(1000 * ((value / 2 - low / 2) / span)) if span else 500, y) for value in values]


def strip(runs: PairedRuns) -> Markup:
    """Draw every run of both sides as a dot, the baseline above, pairs joined by a line, medians as bars.

    The axis is linear, from the smallest to the largest value; the text beside the drawing gives both.
    """
    before, after = runs.before, runs.after
    low, high = min(*before, *after), max(*before, *after)
    above, below = _dots(before, low, high, 16), _dots(after, low, high, 60)
    joined = "".join(f"M{a} {b}L{c} {d}" for (a, b), (c, d) in zip(above, below, strict=False))

    def points(found: list[tuple[int, int]]) -> str:
        return "".join(f"M{x} {y}h0" for x, y in found)

    def middle(found: list[tuple[int, int]]) -> str:
        ordered = sorted(x for x, _ in found)
        x = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2
        return f"M{x} {found[0][1] - 11}v22"

    body = (
        f'<path class="pairs" d="{joined}"/><path class="dots base" d="{points(above)}"/><path class="dots cand" d="{points(below)}"/>'
        f'<path class="median" d="{middle(above)}{middle(below)}"/>'
    )
    return Markup(
        '<svg class="strip" viewBox="-12 0 1024 76" preserveAspectRatio="none" aria-hidden="true" focusable="false">{}</svg>'
    ).format(Markup(body))  # noqa: S704 - numbers only


def css_class(mark: Mark) -> str:
    """Return a mark's CSS class, e.g. ``v-worse-tail``."""
    return f"v-{mark.name.replace(' ', '-')}"
