# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which runs count: not the warm-up, not those that only precede a measured run, and not those from before a group had more of these."""

from __future__ import annotations

from collections.abc import Iterable

from swapstone.core.model.experiment import Trial

Group = tuple[str, str, str]
"""(suite, workload, load)"""


def discarded_by_block(trials: Iterable[Trial]) -> dict[tuple[int, Group], int]:
    """Return how many runs of the same variant were discarded directly before each measured run, by block and group.

    The first run of a group in a block has the largest number, so a block that was interrupted after its first run is known too.

    Args:
        trials: of the runs of a record, in any order.
    """
    found: dict[tuple[int, Group], int] = {}
    for trial in trials:
        place = (trial.block, (trial.suite, trial.workload, trial.load))
        found[place] = max(found.get(place, 0), trial.prime)
    return found


def counted_blocks(trials: Iterable[Trial]) -> dict[Group, frozenset[int]]:
    """Return the blocks whose measured runs count, by group: those with the group's largest number of discarded runs, without block 0.

    That number only grows while an experiment runs. Earlier blocks had fewer, so their measured runs are no sample of the same quantity.

    Args:
        trials: of the runs of a record, in any order.
    """
    numbers: dict[Group, dict[int, int]] = {}
    for (block, group), number in discarded_by_block(trials).items():
        if block > 0:
            numbers.setdefault(group, {})[block] = number
    return {
        group: frozenset(block for block, number in by_block.items() if number == max(by_block.values()))
        for group, by_block in numbers.items()
    }
