# SPDX-License-Identifier: MIT OR Apache-2.0
"""CSV text and numbers without loss of digits, for every CSV export."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from swapstone.core.model.safe_text import spreadsheet_cell


def comma_separated(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return CSV (RFC 4180, lines end with a newline) with a header, each cell as `spreadsheet_cell` has it."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(spreadsheet_cell, header))
    writer.writerows(map(spreadsheet_cell, row) for row in rows)
    return out.getvalue()


def plain(value: float | None) -> str:
    """Return a number without loss; a whole one without a point."""
    if value is None:
        return ""
    return f"{value:.0f}" if value == int(value) and abs(value) < 2**53 else repr(value)
