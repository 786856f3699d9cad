# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figures of public pages, and where this program has the same numbers."""

from swapstone.published.data import Figure, baselines, figures, further, source_of, sources
from swapstone.published.joins import Joined, Place, Side, beside, joined
from swapstone.published.measured_rows import MEASURED_ROWS, MeasuredRow

__all__ = [
    "MEASURED_ROWS",
    "Figure",
    "Joined",
    "MeasuredRow",
    "Place",
    "Side",
    "baselines",
    "beside",
    "figures",
    "further",
    "joined",
    "source_of",
    "sources",
]
