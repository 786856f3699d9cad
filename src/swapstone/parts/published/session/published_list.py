# SPDX-License-Identifier: MIT OR Apache-2.0
"""The list of the published figures."""

from __future__ import annotations

from swapstone.core.session.catalog import Listing
from swapstone.parts.published.data import figures

_HEAD = ("study", "platform", "condition", "suite", "metric", "level", "value", "unit", "printed")
PUBLISHED = Listing("published", _HEAD, lambda: ([getattr(each, name) for name in _HEAD] for each in figures()), 100)
