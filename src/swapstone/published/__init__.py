# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figures of public pages, and where this program has the same numbers."""

from swapstone.published.data import baselines, figures, further, source_of, sources
from swapstone.published.joins import Joined, PublishedPlace, joined
from swapstone.published.measured_rows import MeasuredRow, measured_rows

__all__ = [
    "Joined",
    "MeasuredRow",
    "PublishedPlace",
    "baselines",
    "figures",
    "further",
    "joined",
    "measured_rows",
    "source_of",
    "sources",
]
