# SPDX-License-Identifier: MIT OR Apache-2.0
"""A suite of works of the new kind."""

from __future__ import annotations

from swapstone.core.model import Direction, Metric, PartOrigin, Quantity, Suite, Workload
from swapstone.core.workloads.metrics import WALL

_LINES = Metric(
    name="lines", unit="1", quantity=Quantity.EVENTS, better=Direction.LOWER, meaning="lines that were counted"
)

SUITE = Suite(
    name="planks",
    description="lines that a script counts",
    workloads=(
        Workload(
            name="planks-lines",
            description="counts lines",
            metrics=(_LINES, WALL),
            origin=PartOrigin(part="planks", subject="planks.script:Script", reader="planks.script:CountedLines"),
            arguments=("-c", "case $PLANKS_SHADE in dark) echo 100000 ;; *) echo 200000 ;; esac"),
        ),
    ),
)
