# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a stopping rule decides after a block."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from swapstone.core.plan import Group


@dataclasses.dataclass(frozen=True)
class StopDecision:
    """Which groups continue after a block, and whether the session stops.

    Attributes:
        still_open: groups that continue.
        stop: why the session stops; empty to continue.
        remaining_ns: estimate of the time still needed, within the budget; None before the first estimate.
        widest: half-width of the widest interval of an open group, as a ratio; None if unknown.
        decided: how many groups have a verdict now, for displays; None before the first check.
        discarded: how many runs of the same variant directly precede each measured run from the next block on, and are discarded; by
            group, 0 for groups that it does not have.
        next_ns: estimate for the next block, for displays; 0 if unknown.
        budget_ns: the budget, which may be longer than before, for displays; 0 if unknown.
    """

    still_open: tuple[Group, ...]
    stop: str
    remaining_ns: int | None
    widest: float | None
    decided: int | None = None
    discarded: Mapping[Group, int] = dataclasses.field(default_factory=dict)
    next_ns: int = 0
    budget_ns: int = 0
