# SPDX-License-Identifier: MIT OR Apache-2.0
"""The lists of the published figures, and of how many of them have a row here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from swapstone.core.session.catalog import Listing
from swapstone.parts.published.data import figures, further, joined

_HEAD = ("study", "platform", "condition", "suite", "metric", "level", "value", "unit", "printed")
PUBLISHED = Listing("published", _HEAD, lambda: ([getattr(each, name) for name in _HEAD] for each in figures()), 100)

_COVERAGE = ("page", "table", "numbers", "same work", "kin", "no row")


def _covered() -> Iterator[tuple[object, ...]]:
    """Yield for each table of a page: its numbers, those with a row of the same work, of another program of its kind, and of none."""
    kin: dict[object, bool] = {}
    for each in joined():
        kin[each.figure] = bool(each.place.kin) and kin.get(each.figure, True)
    tables: dict[tuple[str, str], Counter[bool | None]] = {}
    for figure in (*figures(), *further()):
        tables.setdefault((figure.source, figure.suite), Counter())[kin.get(figure)] += 1
    for place, counts in tables.items():
        yield (*place, sum(counts.values()), counts[False], counts[True], counts[None])


COVERAGE = Listing("published-coverage", _COVERAGE, _covered, 101)
