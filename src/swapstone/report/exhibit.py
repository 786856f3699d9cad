"""What an exhibit is: a table and a drawing that a kind of experiment has besides its comparisons."""

from __future__ import annotations

from swapstone.model import FrozenStruct


class Exhibit(FrozenStruct, frozen=True, kw_only=True):
    """One table, with a drawing where that says more.

    Attributes:
        name: in letters, digits and hyphens; unique in a report.
        title: in words.
        head: the columns' names; empty where there is only a drawing.
        rows: cells as they are printed, each row as long as `head`.
        right: whether each column is set to the right; as long as `head`.
        keys: so many of the first columns name a row; they are repeated where a table is too wide for the terminal and goes on below.
        data: the same for programs: dictionaries from a column's plain name to a text, a number or nothing; all have the same keys.
        notes: sentences below it.
        flags: sentences that the reader must not overlook; printed above it, and with the caveats.
        svg: a drawing for a page: one ``<svg>`` element that loads nothing; empty for none. Text from outside in it is escaped already.
            Its colours are the page's, which change with the reader's scheme: ``var(--ink)``, ``var(--soft)`` and ``var(--rule)`` for
            text and lines, ``var(--s1)`` to ``var(--s6)`` for series.
        drawn: the drawing for a terminal, line by line, ASCII; at most 100 columns. A terminal that is narrower does without.
    """

    name: str
    title: str
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    right: tuple[bool, ...] = ()
    keys: int = 1
    data: tuple[dict[str, str | float | None], ...] = ()
    notes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    svg: str = ""
    drawn: tuple[str, ...] = ()
