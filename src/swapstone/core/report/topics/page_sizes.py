# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether a figure has the size of a published one: equal signs alone are no agreement."""

from __future__ import annotations

from swapstone.core.report import formatting

SAME_SIZE = 1.1
"""Two figures are of the same size if neither is larger than the other by more than this factor."""


def same_size(here: float, on_page: float) -> bool:
    """Return whether two figures above 0 are of the same size."""
    return 1 / SAME_SIZE <= here / on_page <= SAME_SIZE


def size_note(here: float, on_page: float) -> str:
    """Return how many times the published figure this one is, e.g. ``size x 8.2``."""
    return f"size x {formatting.ratio(here / on_page)}"
