# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figures of public pages, and checks of what the pages derive and claim from them."""

from swapstone.published.check import CheckReport, Disagreement, check
from swapstone.published.data import (
    Figure,
    PublishedPair,
    Source,
    Study,
    figures,
    find,
    sources,
    studies,
    study,
)
from swapstone.published.derived_figures import Recomputed

__all__ = [
    "CheckReport",
    "Disagreement",
    "Figure",
    "PublishedPair",
    "Recomputed",
    "Source",
    "Study",
    "check",
    "figures",
    "find",
    "sources",
    "studies",
    "study",
]
