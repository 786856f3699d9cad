"""Figures that public pages printed, and what can be checked about them. Imports the model only."""

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
