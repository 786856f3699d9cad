"""Tables and drawings that a kind of experiment has besides its comparisons: the published page's own, and better ones.

Each kind makes its exhibits from an analysis; text, Markdown, HTML, JSON and CSV print them alike. A module that makes some imports
`Exhibit` from `swapstone.report.exhibit` and is named in `MAKERS`.
"""

from __future__ import annotations

from collections.abc import Callable

from swapstone.model import Analysis
from swapstone.report import swap
from swapstone.report.context import ReportContext
from swapstone.report.exhibit import Exhibit

__all__ = ["MAKERS", "Exhibit", "exhibits"]

MAKERS: tuple[Callable[[ReportContext, Analysis], tuple[Exhibit, ...]], ...] = (swap.make,)
"""One for each kind of experiment; each returns nothing for an analysis of another kind."""


def exhibits(context: ReportContext, analysis: Analysis) -> tuple[Exhibit, ...]:
    """Return all exhibits of a report, in the order in which they are printed."""
    return tuple(exhibit for make in MAKERS for exhibit in make(context, analysis))
