# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figures of public pages, and checks of what the pages derive and claim from them."""

from swapstone.published.check import CheckReport, Disagreement, check
from swapstone.published.data import (
    Figure,
    PublishedPair,
    Source,
    Study,
    baselines,
    figures,
    find,
    sources,
    studies,
    study,
)
from swapstone.published.derived_figures import Recomputed
from swapstone.published.measured_rows import MEASURED_ROWS, MeasuredRow

__all__ = [
    "MEASURED_ROWS",
    "CheckReport",
    "Disagreement",
    "Figure",
    "MeasuredRow",
    "PublishedPair",
    "Recomputed",
    "Source",
    "Study",
    "baselines",
    "check",
    "figures",
    "find",
    "sources",
    "studies",
    "study",
]
