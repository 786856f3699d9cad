# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table `history` of queries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from swapstone.core.session.query import QueryTable


def _rows() -> Iterator[dict[str, str | int | float]]:
    from swapstone.parts.bisect.history import History  # noqa: PLC0415 - imports what builds, and few queries read it
    from swapstone.parts.gate.points import every_row  # noqa: PLC0415 - as above

    known = History(Path.cwd(), 0.0).known
    for number, commit in enumerate(reversed(known)):
        for row in every_row(known[commit], known[commit]):
            what = {"run": row.run, "metric": row.metric, "call": row.detail, "unit": row.unit}
            yield {"commit": commit, "number": number, **what, "value": row.base}


HISTORY = QueryTable(
    "history",
    {
        "commit": "VARCHAR",
        "number": "BIGINT",
        "run": "VARCHAR",
        "metric": "VARCHAR",
        "call": "VARCHAR",
        "unit": "VARCHAR",
        "value": "DOUBLE",
    },
    _rows,
)
"""What is known of the commits of the repository around the current folder, by `number` from the first measured one."""
