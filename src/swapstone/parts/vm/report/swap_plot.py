# SPDX-License-Identifier: MIT OR Apache-2.0
"""The plot of swap-out over time."""

from __future__ import annotations

from collections.abc import Sequence

from swapstone.core.report.document import Drawing
from swapstone.core.report.plot import Panel, Scale, Series, plot


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
    )
