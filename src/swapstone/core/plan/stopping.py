# SPDX-License-Identifier: MIT OR Apache-2.0
"""When to stop: on precision, on the number of blocks, or on the budget; never on significance.

Stopping at the first significant difference (optional stopping) multiplies the false alarms. The width of an interval is nearly
independent of its centre, so stopping on width keeps their rate; docs/statistics.md has measurements.

`MadeRuns` has the runs of an experiment so far by trial, block and place, so that no block costs more than the one before it.
"""

from __future__ import annotations

import collections
import enum
import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from swapstone.core.model import Experiment, Run, Status, Trial, WorkloadPrecision
from swapstone.core.plan import Group

FIRST_LOOK = 15
LOOK_EVERY = 5
FIRST_LOOK_REPLICATES = 6
LOOK_EVERY_REPLICATES = 2
"""On the virtual clock. 6 is the smallest number that gives an interval at 95 %; replicates hold no noise, so more are not needed."""

MOST_BLOCKS = 200
"""The largest number of blocks: to halve an interval would take four times as many."""

LEAST_OWN_NS = 12_000_000_000
"""Programs of a few milliseconds make more blocks, up to this much time: they are equivalent only if their runs span 10 s."""

MOST_SHORT_BLOCKS = 1000
"""The largest number of blocks of such programs."""


class StopReason(enum.StrEnum):
    """Why an experiment stops; the value follows "stopped: ".

    `decide` gives the first four. `LOST`: no group closed because it is precise. `FAILED`: on every workload no run of the baseline, or
    none of every candidate, succeeded. `INCOMPARABLE`: as before, or they could not be built or were refused.
    """

    PRECISE = "every interval that can decide is as narrow as the margin"
    BUDGET = "the budget is spent"
    BLOCKS = "the requested number of blocks is reached"
    CAP = "200 blocks or more are made, and more would gain little"
    LOST = "more blocks would give no verdict; the report prints the reasons"
    FAILED = "every workload failed"
    INCOMPARABLE = "no workload can be compared"


AT_RESOLUTION = ", or as the resolution of its metric"
"""Follows the value of `StopReason.PRECISE` where that is why an interval is narrow enough."""


class StopDecision(msgspec.Struct, frozen=True):
    """Which groups continue after a block, and whether the session stops.

    Attributes:
        still_open: groups that take part in the next block; when stopping, those that are not precise enough.
        stop: why the session stops, of `decide` a `StopReason`; None or empty to continue.
        remaining_ns: estimate of the time that is still needed, at most what the budget leaves; None before the first estimate.
        widest: the widest half-width among the open groups, as a ratio less 1; None when one of them has none yet.
        decided: how many groups have a verdict now, for displays; None before the first check.
        discarded: how many runs of the same variant directly precede each measured run from the next block on, and are discarded; by
            group, 0 for groups that it does not have.
        next_ns: estimate for the next block, for displays; 0 if unknown.
        budget_ns: the budget, which may be longer than before, for displays; 0 if unknown.
    """

    still_open: tuple[Group, ...]
    stop: str | None
    remaining_ns: int | None
    widest: float | None
    decided: int | None = None
    discarded: Mapping[Group, int] = msgspec.field(default_factory=dict)
    next_ns: int = 0
    budget_ns: int = 0


def first_block(experiment: Experiment) -> int:
    """Return the number of the first block: 0, the warm-up; 1 on the virtual clock, which needs no warm-up."""
    return 1 if experiment.virtual else 0


def pairs_needed(alpha: float) -> int:
    """Return the smallest number n of pairs by which a signed-rank test can reach the two-sided level `alpha`: 2 / 2**n <= alpha."""
    return max(1, math.ceil(1 - math.log2(alpha)))


def looks(experiment: Experiment) -> tuple[int, int]:
    """Return after how many pairs precision is first checked, and after how many more each time.

    On the virtual clock the first is the smallest number of pairs that gives an interval at the experiment's confidence.
    """
    if not experiment.virtual:
        return FIRST_LOOK, LOOK_EVERY
    return max(FIRST_LOOK_REPLICATES, pairs_needed(1 - experiment.confidence)), LOOK_EVERY_REPLICATES


def first_look(experiment: Experiment) -> int:
    """Return after how many pairs precision is first checked."""
    return looks(experiment)[0]


def due(block: int, first: int = FIRST_LOOK, every: int = LOOK_EVERY) -> bool:
    """Return whether precision is checked after this block: after the first 15 pairs and every 5 more, unless `looks` has others."""
    return block >= first and (block - first) % every == 0


def decide(
    experiment: Experiment,
    *,
    still_open: Sequence[Group],
    block: int,
    used_ns: int,
    next_block_ns: int,
    precisions: Mapping[Group, WorkloadPrecision],
    since: Mapping[Group, int] | None = None,
) -> StopDecision:
    """Decide after a block which groups continue and whether to stop. The result depends on the arguments alone.

    Args:
        experiment: its margin, budget and number of blocks. With a number of blocks precision is ignored, and a default budget too.
        still_open: groups that took part in this block and can take part in the next.
        block: its number, 0 for the warm-up: also the number of pairs so far.
        used_ns: time used so far.
        next_block_ns: estimate for one more block of all of `still_open`.
        precisions: of every group in `still_open`, from the last check; empty before the first.
        since: the last block whose measured runs don't count any more, by group; 0 for groups that it does not have. A number of
            blocks is of blocks that count, and there are at most twice as many.

    Returns:
        The decision. Groups close only after a block for which `due` is true, or when they have the number of blocks, and never open
        again.
    """
    since = since or {}
    going = tuple(still_open)
    if experiment.blocks:
        left = {group: experiment.blocks - (block - since.get(group, 0)) for group in still_open}
        most = min(max(left.values(), default=0), 2 * experiment.blocks - block)
        if most <= 0:
            return StopDecision(going, StopReason.BLOCKS, 0, _widest(going, precisions))
        going = tuple(group for group in going if left[group] > 0)
        blocks = [min(most, left[group]) for group in going]
    else:
        if due(block, *looks(experiment)):
            going = tuple(group for group in going if not _closed(precisions.get(group), experiment.margin))
            if experiment.alone and going:  # the reference program is measured beside all
                going = tuple(still_open)
        # A half-width is proportional to 1 / sqrt(pairs).
        blocks = [blocks_needed(experiment, precisions.get(each), block, since.get(each, 0)) - block for each in going]
    each_ns = next_block_ns / len(still_open) if still_open else 0.0
    reason = _reason(experiment, len(going) * each_ns, block, used_ns, any_left=bool(going))
    remaining_ns = round(sum(blocks) * each_ns)
    if experiment.timed:
        remaining_ns = min(remaining_ns, max(0, experiment.budget_ns - used_ns))
    return StopDecision(going, reason, 0 if reason else remaining_ns, _widest(going, precisions))


def _closed(precision: WorkloadPrecision | None, margin: float) -> bool:
    if precision is None:
        return False
    precise = precision.half_width is not None and precision.half_width <= margin and not precision.missing_runs
    return bool(precision.lost) or precise


def _reason(experiment: Experiment, next_ns: float, block: int, used_ns: int, *, any_left: bool) -> StopReason | None:
    if not any_left:
        return StopReason.PRECISE
    short = experiment.own is not None and used_ns < LEAST_OWN_NS and block < MOST_SHORT_BLOCKS
    if block >= MOST_BLOCKS and not short and not experiment.blocks:
        return StopReason.CAP
    if experiment.timed and used_ns + next_ns > experiment.budget_ns and block:  # a pair of runs is always made
        return StopReason.BUDGET
    return None


def blocks_needed(experiment: Experiment, precision: WorkloadPrecision | None, block: int, since: int) -> int:
    """Estimate after how many blocks a group closes: at the first check at which its half-width is within the margin."""
    margin, (first, every) = experiment.margin, looks(experiment)
    pairs = first
    if precision is not None and precision.half_width is not None:
        ratio = precision.half_width / margin if margin > 0 else math.inf
        pairs = min(MOST_BLOCKS, math.ceil(precision.pairs * min(ratio * ratio, 1e6)))
    if precision is not None and precision.missing_runs:
        pairs = max(pairs, block - since + precision.missing_runs)
    pairs = max(since + pairs, block + 1, first)
    return min(MOST_BLOCKS, first + math.ceil((pairs - first) / every) * every)


def _widest(going: Sequence[Group], precisions: Mapping[Group, WorkloadPrecision]) -> float | None:
    widths = [precisions[group].half_width if group in precisions else None for group in going]
    known = [width for width in widths if width is not None]
    return max(known) if known and len(known) == len(widths) else None


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
