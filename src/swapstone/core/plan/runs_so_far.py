# SPDX-License-Identifier: MIT OR Apache-2.0
"""The runs of an experiment so far, by trial, block and place, so that no block costs more than the one before it."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence

from swapstone.core.model import Run, Status, Trial


class MadeRuns:
    """The runs of an experiment, those of a resumed record included.

    Args:
        earlier: runs that the record holds already.
    """

    def __init__(self, earlier: Iterable[Run] = ()) -> None:
        self._keys: set[str] = set()
        self._blocks: collections.defaultdict[int, list[Run]] = collections.defaultdict(list)
        self._places: collections.defaultdict[tuple[str, str, str, str], list[Run]] = collections.defaultdict(list)
        self._troubled: set[tuple[str, str, str, str]] = set()
        self._joined: list[Run] = []
        self._joined_to: int | None = None
        self._elapsed_ns = 0
        for run in earlier:
            self.add(run)

    def __contains__(self, trial: Trial) -> bool:
        return trial.key in self._keys

    def add(self, run: Run) -> None:
        """Add the run of a trial that has none, of a block that `up_to` has not returned."""
        trial = run.trial
        place = (*trial.group, trial.variant)
        self._keys.add(trial.key)
        self._blocks[trial.block].append(run)
        self._places[place].append(run)
        if run.status is not Status.OK:
            self._troubled.add(place)

    def of_block(self, block: int) -> Sequence[Run]:
        """Return the runs of a block in their order."""
        return self._blocks.get(block, ())

    def up_to(self, block: int) -> Sequence[Run]:
        """Return the runs of all blocks up to one, in order; the blocks must ascend from call to call. The same list grows."""
        first = min(self._blocks, default=0) if self._joined_to is None else self._joined_to + 1
        for number in range(first, block + 1):
            added = self.of_block(number)
            self._joined += added
            self._elapsed_ns += sum(run.elapsed_ns for run in added)
        self._joined_to = block
        return self._joined

    def elapsed_ns(self, block: int) -> int:
        """Return how long the trials of all blocks up to one took, in ns; see `up_to`."""
        self.up_to(block)
        return self._elapsed_ns

    def of_troubled_places(self) -> list[Run]:
        """Return the runs of each variant of a workload of which a run is not ok: `plan.given_up` follows from these."""
        return [run for place in sorted(self._troubled) for run in self._places[place]]

    def of_place(self, suite: str, workload: str, load: str, variant: str) -> Sequence[Run]:
        """Return the runs of a variant of a workload under a load."""
        return self._places.get((suite, workload, load, variant), ())
