"""Tables and drawings that a kind of experiment has besides its comparisons: the published page's own, and better ones.

Each kind makes its exhibits from an analysis; text, Markdown, HTML, JSON and CSV print them alike.
"""

from __future__ import annotations

from collections.abc import Callable

from swapstone.model import Analysis, Noun
from swapstone.report.context import ReportContext


class Exhibit(Noun, frozen=True, kw_only=True):
    """One table, with a drawing where that says more.

    Attributes:
        name: in letters, digits and hyphens; unique in a report.
        title: in words.
        head: the columns' names; empty where there is only a drawing.
        rows: cells as they are printed, each row as long as `head`.
        right: whether each column is set to the right; as long as `head`.
        data: the same for programs: dictionaries from a column's plain name to a text, a number or nothing; all have the same keys.
        notes: sentences below it.
        flags: sentences that the reader must not overlook; printed above it, and with the caveats.
        svg: a drawing for a page: one ``<svg>`` element that loads nothing; empty for none.
        drawn: the drawing for a terminal, line by line, ASCII; at most 100 columns.
    """

    name: str
    title: str
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    right: tuple[bool, ...] = ()
    data: tuple[dict[str, str | float | None], ...] = ()
    notes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    svg: str = ""
    drawn: tuple[str, ...] = ()


MAKERS: tuple[Callable[[ReportContext, Analysis], tuple[Exhibit, ...]], ...] = ()
"""One for each kind of experiment; each returns nothing for an analysis of another kind."""


def exhibits(context: ReportContext, analysis: Analysis) -> tuple[Exhibit, ...]:
    """Return all exhibits of a report, in the order in which they are printed."""
    return tuple(exhibit for make in MAKERS for exhibit in make(context, analysis))
