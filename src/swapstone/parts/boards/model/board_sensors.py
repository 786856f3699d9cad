# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the sensors of a board showed around its trials: docs/boards.md, "Clock rate and temperature"."""

from __future__ import annotations

from swapstone.core.model.frozen_struct import FrozenStruct

Readings = tuple[float, float]
"""The lowest and the highest value of some readings."""


class SensorPoint(FrozenStruct, frozen=True, kw_only=True):
    """The readings before and after one trial, or several that follow each other.

    Attributes:
        first, last: numbers of the trials, from 1 on, in the order in which they ran.
        temperature: of the hottest zone, in degrees Celsius; None if it was not read.
        frequency: of the fastest processor, in MHz; None if it was not read.
        throttled: in how many of these trials the board was throttled.
    """

    first: int
    last: int
    temperature: Readings | None = None
    frequency: Readings | None = None
    throttled: int = 0


class BoardSensors(FrozenStruct, frozen=True, kw_only=True):
    """The readings of an experiment's trials on a board.

    Attributes:
        points: at least one, in the order of the trials.
        trials: how many trials there are.
        observed: of how many it is known whether the board was throttled.
    """

    points: tuple[SensorPoint, ...]
    trials: int
    observed: int = 0

    @property
    def throttled(self) -> int:
        """Return in how many trials the board was throttled."""
        return sum(point.throttled for point in self.points)

    def range_of(self, name: str) -> Readings | None:
        """Return the lowest and the highest reading of all trials; None without any.

        Args:
            name: ``temperature`` or ``frequency``.
        """
        found = [value for point in self.points for value in getattr(point, name) or ()]
        return (min(found), max(found)) if found else None
