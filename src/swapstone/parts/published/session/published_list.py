# SPDX-License-Identifier: MIT OR Apache-2.0
"""The list of the published figures."""

from __future__ import annotations

from swapstone.core.session.catalog import Listing, Rows
from swapstone.parts.published.data import figures


def _rows() -> Rows:
    head = ["study", "platform", "condition", "suite", "metric", "level", "value", "unit", "printed"]
    return head, [[getattr(figure, name) for name in head] for figure in figures()]


PUBLISHED = Listing("published", _rows, 100)
