# SPDX-License-Identifier: MIT OR Apache-2.0
"""The budget with which a study that failed for its budget is resumed."""

from __future__ import annotations

import math
from collections.abc import Iterable

from swapstone.session.budget import rounded_up
from swapstone.session.values import parse_duration_ns


def sufficient_budget(budgets: Iterable[tuple[int, str]]) -> str:
    """Return a value of ``--budget`` of which each part's share holds the pairs of runs that its intervals need.

    Args:
        budgets: of each part that shares it: its budget in ns, and the one that holds its pairs; empty if its own may.

    Returns:
        Empty if no part needs more.
    """
    known = tuple(budgets)
    ratios = [parse_duration_ns(needed) / own for own, needed in known if needed and own]
    if not ratios or max(ratios) <= 1:
        return ""
    return rounded_up(math.ceil(sum(own for own, _ in known) * max(ratios)))
