# SPDX-License-Identifier: MIT OR Apache-2.0
"""The plot of swap-out over time: for a page, and as bars in ASCII for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from swapstone.core.report import formatting
from swapstone.core.report.document import Drawing
from swapstone.core.report.plot import Panel, Scale, Series, plot

_BAR = 60


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
        lines=bars(drawn),
    )


def bars(lines: Sequence[Series]) -> tuple[str, ...]:
    """Draw a bar for each second of each line, ASCII, all at one scale."""
    most = max((point.y for line in lines for point in line.points), default=0.0)
    if not most:
        return ()
    drawn = []
    for line in lines:
        name = formatting.safe(line.name).encode("ascii", "replace").decode()[:18]
        for number, point in enumerate(line.points):
            bar = ("." if line.dashed else "#") * round(_BAR * point.y / most)
            drawn.append(f"{name if number == 0 else '':<18} {point.x:>4.0f} s {point.y:>7.0f} {bar}".rstrip())
    return (*drawn, "KiB swapped out a second, #: here, .: on the page")
