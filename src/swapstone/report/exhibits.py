"""Tables and drawings that a kind of experiment has besides its comparisons: the published page's own, and better ones.

Each kind makes its exhibits from an analysis; text, Markdown, HTML, JSON and CSV print them alike. A module that makes some imports
`Exhibit` from `swapstone.report.exhibit` and is named in `MAKERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from swapstone.model import Analysis
from swapstone.report import latency, netstack, server, swap, throughput
from swapstone.report.context import ReportContext
from swapstone.report.csv_parts import comma_separated, plain
from swapstone.report.exhibit import Exhibit

__all__ = ["MAKERS", "Exhibit", "exhibits", "flags", "programs", "to_csv"]

MAKERS: tuple[Callable[[ReportContext, Analysis], tuple[Exhibit, ...]], ...] = (
    latency.make,
    throughput.make,
    swap.make,
    server.make,
    netstack.make,
)
"""One for each kind of experiment; each returns nothing for an analysis of another kind."""


def exhibits(context: ReportContext, analysis: Analysis) -> tuple[Exhibit, ...]:
    """Return all exhibits of a report, in the order in which they are printed."""
    return tuple(exhibit for make in MAKERS for exhibit in make(context, analysis))


def flags(found: Iterable[Exhibit]) -> tuple[str, ...]:
    """Return what the reader must not overlook, each sentence once: it stands with the caveats."""
    return tuple(dict.fromkeys(flag for exhibit in found for flag in exhibit.flags))


def programs(found: Iterable[Exhibit]) -> list[dict[str, object]]:
    """Return exhibits for other programs: name, title, data, notes and flags."""
    return [
        {"name": each.name, "title": each.title, "data": each.data, "notes": each.notes, "flags": each.flags}
        for each in found
    ]


def to_csv(context: ReportContext, analysis: Analysis) -> str:
    """Return one row per number or text of an exhibit: its name, its row counted from 1, its column, its value.

    An empty value means that there is none. The header alone where a record has no exhibits.
    """
    rows = (
        (exhibit.name, place, column, value if isinstance(value, str) else plain(value))
        for exhibit in exhibits(context, analysis)
        for place, row in enumerate(exhibit.data, start=1)
        for column, value in row.items()
    )
    return comma_separated(["exhibit", "row", "column", "value"], rows)
