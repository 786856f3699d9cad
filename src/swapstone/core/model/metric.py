# SPDX-License-Identifier: MIT OR Apache-2.0
"""Metrics: what is measured, in which unit, and which direction is better."""

from __future__ import annotations

import enum

from swapstone.core.model.frozen_struct import FrozenStruct

TIMES = ("wall", "cpu")
"""The metrics that are the time of a whole program: elapsed, and of the processor."""


class Direction(enum.Enum):
    """Which direction of a metric is better. There is no default."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


class Quantity(enum.Enum):
    """The quantity that a metric measures. Metrics of one quantity form one family for the correction of error rates."""

    TIME = "time"
    MEMORY = "memory"
    EVENTS = "events"
    SIZE = "size"
    RATE = "rate"


class Metric(FrozenStruct, frozen=True, kw_only=True):
    """One measured number of a run.

    Attributes:
        name: the field's usual short name (``wall``, ``cpu``, ``maxrss``).
        unit: ``ns``, ``B`` (bytes), ``1`` (a count), ``1/s``, ``B/s`` or ``MB/s`` (1000000 bytes a second).
        quantity: decides the metric's family and how its values are printed.
        better: which direction is better.
        meaning: one line for ``list`` and the report.
        leads: whether verdicts on it decide when a run is precise enough.
        resolution: the step between values that the tool can print, in the metric's unit; 0 if it is too small to matter.
        exact: whether it is a deterministic count, which noise does not change on any clock.
    """

    name: str
    unit: str
    quantity: Quantity
    better: Direction
    meaning: str
    leads: bool = False
    resolution: float = 0.0
    exact: bool = False
