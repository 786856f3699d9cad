# SPDX-License-Identifier: MIT OR Apache-2.0
"""The sections' tables for other programs: parts of the JSON report and a CSV export.

Both call a section an ``exhibit``, the name that they had when their format was fixed.
"""

from __future__ import annotations

from collections.abc import Iterable

from swapstone.core.model import Analysis
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Section, notes_of
from swapstone.core.report.record_report import sections_of
from swapstone.core.report.tables import Datum, as_csv, item


def described(sections: Iterable[Section]) -> list[dict[str, object]]:
    """Return each section's name, title, data, notes and warnings."""
    return [
        {
            "name": each.name,
            "title": each.title,
            "data": each.data,
            "notes": notes_of(each),
            "flags": each.warnings,
        }
        for each in sections
    ]


def to_csv(context: ReportContext, analysis: Analysis) -> str:
    """Return one row per number or text of a section's table: its name, its row counted from 1, its column, its value.

    An empty value means that there is none. The header alone where a record has no such section.
    """
    rows: list[Datum] = [
        {"exhibit": section.name, "row": place, "column": column, "value": value}
        for section in sections_of(context, analysis)
        for place, row in enumerate(section.data, start=1)
        for column, value in row.items()
    ]
    return as_csv([item("", key) for key in ("exhibit", "row", "column", "value")], rows)
