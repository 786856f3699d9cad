# SPDX-License-Identifier: MIT OR Apache-2.0
"""Did a board change while its runs were made? Lost connections, reboots, heat and clock rate: see docs/boards.md.

The facts are those that the target `ssh` adds to a run. Records of other targets have none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from swapstone.core.comparison.rows import wall_clock_caveats
from swapstone.core.comparison.run_table import ABSENT, OK, Runs, RunTable, as_table
from swapstone.core.model import Caveat, CaveatKind, Experiment
from swapstone.core.model.frozen_struct import FrozenStruct
from swapstone.core.stats import Floats, Ints, Mask

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


SAME_FREQUENCY = 0.02
"""Frequencies at the ends of runs that differ by more than this share are reported: it is the default margin of a comparison."""

SAME_MILLIDEGREES = 10_000
"""Temperatures that differ by more than 10 degrees Celsius are reported: the first runs were on a cold board."""

_COLDEST, _LARGEST = -273_150, 2**53
"""Other numbers of a record are no measurements."""


@wall_clock_caveats
def check(_experiment: Experiment, table: RunTable) -> Iterator[Caveat]:
    """Yield the caveats."""
    for find in (_emulated, _lost, _throttled, _drifted):
        yield from find(table)


def _fact(table: RunTable, name: str) -> Ints:
    """Return the values of a fact in runs that are ok; `ABSENT` where there is none."""
    column = table.fact(name)
    return np.where((table.status == OK) & (column >= _COLDEST) & (column < _LARGEST), column, ABSENT)


def _emulated(table: RunTable) -> Iterator[Caveat]:
    if (_fact(table, "board_emulated") > 0).any():
        yield Caveat(
            kind=CaveatKind.VIRTUAL_MACHINE,
            message="The board is emulated: every duration is that of the emulator on this machine. It is no estimate for a real board, "
            "and neither are the ratios.",
            hint="Measure on a real board (--target ssh:USER@HOST), or count instructions (--target vm --clock virtual).",
        )


def _lost(table: RunTable) -> Iterator[Caveat]:
    if count := int((_fact(table, "reconnects") > 0).sum()):
        what = "one trial" if count == 1 else f"{count} trials"
        yield _caveat(
            f"The connection to the board ended during {what}, which {'was' if count == 1 else 'were'} made again.",
            "What a trial leaves, such as warm caches, may differ after it. Look for the cause: dmesg on the board.",
        )
    if (number := int(_fact(table, "board_boots").max(initial=0))) > 0:
        yield _caveat(
            f"The board rebooted {'once' if number == 1 else f'{number} times'} between runs: a comparison pairs runs of one boot only.",
            "Look for the cause: the power supply, a watchdog, or the kernel's log. Repeat the experiment: swapstone rerun",
        )


def _throttled(table: RunTable) -> Iterator[Caveat]:
    throttled, known = (found & (table.status == OK) for found in throttled_runs(table))
    if count := int(throttled.sum()):
        yield _caveat(
            f"The board was throttled during {count} of {int(known.sum())} runs: its clock rate was lowered because of heat or voltage.",
            "Cool it, or use a stronger power supply, and repeat the experiment: swapstone rerun",
        )


_DRIFTS: tuple[tuple[str, int, Callable[[int, int], bool], str, str], ...] = (
    (
        "board_frequency_after",
        1,
        lambda low, high: high > low * (1 + SAME_FREQUENCY),
        "The board's clock rate was not the same at the ends of all runs: {:.0f} to {:.0f} MHz.",
        "Set its governor for the session: --target ssh:root@HOST,governor=performance",
    ),
    (
        "board_temperature_after",
        _COLDEST,
        lambda low, high: high - low > SAME_MILLIDEGREES,
        "The board's temperature at the ends of runs was between {:.0f} and {:.0f} degrees Celsius.",
        "Let it run for some minutes before the experiment. The runs of a pair are neighbours in time, so slow heating hardly matters.",
    ),
)
"""A fact, its least value, whether its lowest and highest value differ by too much, and a caveat with thousandths of both, and a hint."""


def _drifted(table: RunTable) -> Iterator[Caveat]:
    for name, least, differ, message, hint in _DRIFTS:
        column = _fact(table, name)
        found = column[column >= least]
        if found.size and differ(low := int(found.min()), high := int(found.max())):
            yield _caveat(message.format(low / 1000, high / 1000), hint)


def _caveat(message: str, hint: str) -> Caveat:
    return Caveat(kind=CaveatKind.CHANGED_CONDITIONS, message=message, hint=hint)
