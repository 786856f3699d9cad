"""When to stop: on precision, on the number of blocks, or on the budget; never on significance.

Stopping as soon as a difference is "significant" would make false alarms several times as frequent. The width of an interval says
nothing about where its centre is, so stopping on width leaves them nearly alone; docs/statistics.md has what was measured.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping, Sequence

from swapstone.model import Experiment, WorkloadPrecision
from swapstone.plan import Group

FIRST_LOOK = 15
LOOK_EVERY = 5
FIRST_DRAWS = 6
DRAWS_EVERY = 2
"""On the virtual clock: 6 is the fewest for an interval at 95 %, and a draw holds no noise that more of them would have to tame first."""

MOST_BLOCKS = 200
"""After so many blocks the rest stays open: half as wide again would need four times as many."""


class StopReason(enum.Enum):
    """Why an experiment stops, in words that follow "stopped: "."""

    PRECISE = "every interval that can decide is as narrow as the margin"
    BUDGET = "the budget is spent"
    BLOCKS = "the number of blocks that was asked for is reached"
    CAP = "200 blocks are made, and more would gain little"


@dataclasses.dataclass(frozen=True)
class Decision:
    """What to do after a block.

    Attributes:
        still_open: groups that take part in the next block; when stopping, those that are not precise enough.
        stop: why to stop, or None to go on.
        remaining_ns: estimate of the time that is still needed, at most what the budget leaves; None before it can be told.
        widest: the widest half-width among the open groups, as a ratio less 1; None when one of them has none yet.
    """

    still_open: tuple[Group, ...]
    stop: StopReason | None
    remaining_ns: int | None
    widest: float | None


def first_block(experiment: Experiment) -> int:
    """Return the number of the first block: 0, the warm-up; 1 on the virtual clock, where nothing warms up."""
    return 1 if experiment.virtual else 0


def looks(experiment: Experiment) -> tuple[int, int]:
    """Return after how many pairs precision is first looked at, and after how many more each time.

    On the virtual clock the first is the fewest pairs that can give an interval at the experiment's confidence.
    """
    if not experiment.virtual:
        return FIRST_LOOK, LOOK_EVERY
    # Of the signed-rank test the smallest p-value of n pairs is 2 / 2^n.
    return max(FIRST_DRAWS, math.ceil(1 - math.log2(1 - experiment.confidence))), DRAWS_EVERY


def first_look(experiment: Experiment) -> int:
    """Return after how many pairs precision is first looked at."""
    return looks(experiment)[0]


def due(block: int, first: int = FIRST_LOOK, every: int = LOOK_EVERY) -> bool:
    """Say whether precision is looked at after this block: after the first 15 pairs and every 5 more, unless `looks` says otherwise."""
    return block >= first and (block - first) % every == 0


def decide(
    experiment: Experiment,
    *,
    still_open: Sequence[Group],
    block: int,
    used_ns: int,
    next_block_ns: int,
    precisions: Mapping[Group, WorkloadPrecision],
) -> Decision:
    """Decide after a block which groups go on and whether to stop. Depends on its arguments alone.

    Args:
        experiment: its margin, budget and exact number of blocks. With an exact number, precision and budget don't count.
        still_open: groups that took part in this block and could take part in the next.
        block: its number, 0 for the warm-up: also the number of pairs so far.
        used_ns: time used so far.
        next_block_ns: estimate for one more block of all of `still_open`.
        precisions: of every group in `still_open`, from this block's look or the last one; empty before the first.

    Returns:
        The decision. Groups close only after a block for which `due` is true, and never come back.
    """
    if experiment.blocks:
        reason = StopReason.BLOCKS if block >= experiment.blocks else None
        remaining = max(0, experiment.blocks - block) * next_block_ns
        return Decision(tuple(still_open), reason, remaining, _widest(still_open, precisions))
    going = tuple(still_open)
    if due(block, *looks(experiment)):
        going = tuple(group for group in going if not _closed(precisions.get(group), experiment.margin))
    each_ns = next_block_ns / len(still_open) if still_open else 0.0
    reason = _reason(experiment, len(going) * each_ns, block, used_ns, any_left=bool(going))
    left_ns = max(0, experiment.budget_ns - used_ns)
    remaining_ns = 0 if reason else min(left_ns, _needed_ns(experiment, going, block, each_ns, precisions))
    return Decision(going, reason, remaining_ns, _widest(going, precisions))


def _closed(found: WorkloadPrecision | None, margin: float) -> bool:
    if found is None:
        return False
    return bool(found.lost) or (found.half_width is not None and found.half_width <= margin)


def _reason(experiment: Experiment, next_ns: float, block: int, used_ns: int, *, any_left: bool) -> StopReason | None:
    if not any_left:
        return StopReason.PRECISE
    if block >= MOST_BLOCKS:
        return StopReason.CAP
    if used_ns + next_ns > experiment.budget_ns:
        return StopReason.BUDGET
    return None


def _needed_ns(
    experiment: Experiment,
    going: Sequence[Group],
    block: int,
    each_ns: float,
    precisions: Mapping[Group, WorkloadPrecision],
) -> int:
    """Estimate the time that the open groups need: a half-width shrinks with the square root of the pairs."""
    blocks = (_blocks_needed(experiment, precisions.get(group), block) - block for group in going)
    return round(sum(blocks) * each_ns)


def _blocks_needed(experiment: Experiment, found: WorkloadPrecision | None, block: int) -> int:
    """Estimate at which look a group will close: the first one not yet made at which its half-width is within the margin."""
    margin, (first, every) = experiment.margin, looks(experiment)
    pairs = first
    if found is not None and found.half_width is not None:
        ratio = found.half_width / margin if margin > 0 else math.inf
        pairs = min(MOST_BLOCKS, math.ceil(found.pairs * min(ratio * ratio, 1e6)))
    pairs = max(pairs, block + 1, first)
    return min(MOST_BLOCKS, first + math.ceil((pairs - first) / every) * every)


def _widest(going: Sequence[Group], precisions: Mapping[Group, WorkloadPrecision]) -> float | None:
    widths = [precisions[group].half_width if group in precisions else None for group in going]
    known = [width for width in widths if width is not None]
    return max(known) if known and len(known) == len(widths) else None
