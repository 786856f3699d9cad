# SPDX-License-Identifier: MIT OR Apache-2.0
"""CSV text and numbers without loss of digits, for every CSV export."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable


def comma_separated(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return CSV with a header."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()


def plain(value: float | None) -> str:
    """Return a number without loss; a whole one without a point."""
    if value is None:
        return ""
    return f"{value:.0f}" if value == int(value) and abs(value) < 2**53 else repr(value)
