# SPDX-License-Identifier: MIT OR Apache-2.0
"""The readings of a board's sensors around each trial, as a series over the trials."""

from __future__ import annotations

import numpy as np

from swapstone.core.comparison.run_columns import as_table
from swapstone.core.comparison.run_table import ABSENT, Floats, Ints, Mask, Runs, RunTable
from swapstone.parts.boards.model.board_sensors import BoardSensors, Readings, SensorPoint

MOST_POINTS = 240
"""More trials than that share points: neighbours have one, with the lowest and the highest of their readings."""

_POSSIBLE = {"temperature": (-273_150, 1_000_000), "frequency": (1, 10**9)}
"""Readings in 0.001 degrees Celsius and in kHz. Other numbers of a record are no measurements."""


def board_sensors(runs: Runs) -> BoardSensors | None:
    """Return what a board's sensors showed, over all trials; None if none was read.

    Args:
        runs: all of a record, also those without success: the board was as hot.
    """
    table = as_table(runs, ())
    table = table.rows(np.argsort(table.started, kind="stable"))
    temperature, frequency = (_readings(table, name) for name in _POSSIBLE)
    throttled, observed = throttled_runs(table)
    if not len(table) or (np.isnan(temperature).all() and np.isnan(frequency).all() and not observed.any()):
        return None
    parts = np.array_split(np.arange(len(table)), min(len(table), MOST_POINTS))
    return BoardSensors(
        points=tuple(
            SensorPoint(
                first=int(rows[0]) + 1,
                last=int(rows[-1]) + 1,
                temperature=_range(temperature[:, rows]),
                frequency=_range(frequency[:, rows]),
                throttled=int(throttled[rows].sum()),
            )
            for rows in parts
        ),
        trials=len(table),
        observed=int(observed.sum()),
    )


def _readings(table: RunTable, name: str) -> Floats:
    """Return the readings before and after each trial in thousandths, of shape (2, runs); NaN for none."""
    low, high = _POSSIBLE[name]
    found: Ints = np.stack([table.fact(f"board_{name}_{when}") for when in ("before", "after")])
    return np.where((found >= low) & (found <= high), found / 1000.0, np.nan)


def throttled_runs(table: RunTable) -> tuple[Mask, Mask]:
    """Return in which runs the board was throttled, and of which that is known: a count grew, or bits of a state were set."""
    before, after = table.fact("board_throttled_before"), table.fact("board_throttled_after")
    counted = (before != ABSENT) & (after != ABSENT)
    first, last = table.fact("board_throttle_bits_before"), table.fact("board_throttle_bits_after")
    stated = (first != ABSENT) & (last != ABSENT)
    return counted & (after > before) | stated & ((first > 0) | (last > 0)), counted | stated


def _range(values: Floats) -> Readings | None:
    known = values[~np.isnan(values)]
    return (float(known.min()), float(known.max())) if known.size else None
