# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figures of public pages, where this program has the same numbers, and checks of what the pages derive and claim from them."""

from swapstone.published.check import CheckReport, Disagreement, check
from swapstone.published.data import Figure, Source, Study, baselines, figures, further, sources, studies, study
from swapstone.published.derived_figures import Recomputed
from swapstone.published.joins import Joined, Place, Side, joined
from swapstone.published.measured_rows import MEASURED_ROWS, MeasuredRow
from swapstone.published.pairs import PublishedPair, beside, find

__all__ = [
    "MEASURED_ROWS",
    "CheckReport",
    "Disagreement",
    "Figure",
    "Joined",
    "MeasuredRow",
    "Place",
    "PublishedPair",
    "Recomputed",
    "Side",
    "Source",
    "Study",
    "baselines",
    "beside",
    "check",
    "figures",
    "find",
    "further",
    "joined",
    "sources",
    "studies",
    "study",
]
