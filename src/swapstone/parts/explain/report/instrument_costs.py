# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the instruments of an explanation cost: elapsed time, and how many runs without one take as long."""

from __future__ import annotations

from swapstone.core.model.number_text import fixed
from swapstone.parts.explain.explanation.ledger import run_of
from swapstone.parts.explain.model.explanation import RowMeasurements

INSTRUMENT_COST_HEAD = ("instrument", "elapsed", "trials as long", "slower, baseline", "candidate")
_REFERENCE = "reference"


def instrument_cost_rows(seen: RowMeasurements) -> list[tuple[str, ...]]:
    """Return for each instrument its elapsed time, how many trials take as long, and its overheads; the sum last.

    Args:
        seen: with costs; without them there are no rows.
    """
    if not seen.costs:
        return []
    rows = []
    for cost in seen.costs:
        name = "none" if cost.instrument == _REFERENCE else cost.instrument
        sides = [run_of(seen, cost.instrument, each.variant) for each in seen.references]
        if cost.instrument != _REFERENCE and not any(sides):
            name += " (unavailable)"
        slower = ["" if side is None or side.overhead is None else fixed(side.overhead, 2) for side in sides]
        rows.append((name, f"{fixed(cost.seconds, 1)} s", _times(cost.seconds, cost.trial_s), *slower))
    whole, trial_s = sum(cost.seconds for cost in seen.costs), seen.costs[0].trial_s
    return [*rows, ("all", f"{fixed(whole, 1)} s", _times(whole, trial_s), "", "")]


def _times(seconds: float, trial_s: float) -> str:
    return fixed(seconds / trial_s, 0) if trial_s > 0 else ""
