# SPDX-License-Identifier: MIT OR Apache-2.0
"""Did a board change while its runs were made? Lost connections, reboots, heat and clock rate: see docs/boards.md.

The facts are those that the target `ssh` adds to a run. Records of other targets have none of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from swapstone.core.comparison.findings import wall_clock_caveats
from swapstone.core.comparison.run_table import ABSENT, OK, Ints, RunTable
from swapstone.core.model import Caveat, CaveatKind, Experiment
from swapstone.parts.boards.comparison.board_sensors import throttled_runs

SAME_FREQUENCY = 0.02
"""Frequencies at the ends of runs that differ by more than this share are reported: it is the default margin of a comparison."""

SAME_MILLIDEGREES = 10_000
"""Temperatures that differ by more than 10 degrees Celsius are reported: the first runs were on a cold board."""

_COLDEST, _LARGEST = -273_150, 2**53
"""Other numbers of a record are no measurements."""


@wall_clock_caveats
def check(experiment: Experiment, table: RunTable) -> Iterator[Caveat]:
    """Yield the caveats."""
    del experiment
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
    reconnects = _fact(table, "reconnects")
    if count := int((reconnects > 0).sum()):
        what = "one trial" if count == 1 else f"{count} trials"
        yield _caveat(
            f"The connection to the board ended during {what}, which {'was' if count == 1 else 'were'} made again.",
            "What a trial leaves, such as warm caches, may differ after it. Look for the cause: dmesg on the board.",
        )
    boots = _fact(table, "board_boots")
    if (boots > 0).any():
        number = int(boots.max())
        yield _caveat(
            f"The board rebooted {'once' if number == 1 else f'{number} times'} between runs: a comparison pairs runs of one boot only.",
            "Look for the cause: the power supply, a watchdog, or the kernel's log. Repeat the experiment: swapstone rerun",
        )


def _throttled(table: RunTable) -> Iterator[Caveat]:
    throttled, known = (found & (table.status == OK) for found in throttled_runs(table))
    count = int(throttled.sum())
    if count:
        yield _caveat(
            f"The board was throttled during {count} of {int(known.sum())} runs: its clock rate was lowered because of heat or voltage.",
            "Cool it, or use a stronger power supply, and repeat the experiment: swapstone rerun",
        )


def _drifted(table: RunTable) -> Iterator[Caveat]:
    frequency = _fact(table, "board_frequency_after")
    found = frequency[(frequency != ABSENT) & (frequency > 0)]
    if found.size and found.max() > found.min() * (1 + SAME_FREQUENCY):
        yield _caveat(
            f"The board's clock rate was not the same at the ends of all runs: {found.min() / 1000:.0f} to "
            f"{found.max() / 1000:.0f} MHz.",
            "Set its governor for the session: --target ssh:root@HOST,governor=performance",
        )
    temperature = _fact(table, "board_temperature_after")
    found = temperature[temperature != ABSENT]
    if found.size and found.max() - found.min() > SAME_MILLIDEGREES:
        yield _caveat(
            f"The board's temperature at the ends of runs was between {found.min() / 1000:.0f} and {found.max() / 1000:.0f} degrees "
            "Celsius.",
            "Let it run for some minutes before the experiment. The runs of a pair are neighbours in time, so slow heating hardly matters.",
        )


def _caveat(message: str, hint: str) -> Caveat:
    return Caveat(kind=CaveatKind.CHANGED_CONDITIONS, message=message, hint=hint)
