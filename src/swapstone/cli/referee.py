"""Joins precision and stopping into what the engine asks after each block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from swapstone import plan
from swapstone.cli.analysing import workloads_of
from swapstone.cli.budget import block_note
from swapstone.compare import precision
from swapstone.model import Experiment, Run, WorkloadPrecision
from swapstone.plan import Group
from swapstone.plan.stopping import decide, due, first_block, looks
from swapstone.run import Look


class PrecisionReferee:
    """Stops on precision, on the number of blocks that was asked for, or on the budget; never on significance.

    It looks with the code that will judge the runs in the end, at the level that their intervals would have now.

    Args:
        experiment: what was asked.
        tell: called with what the user should know once the first block has shown what a block takes.
    """

    def __init__(self, experiment: Experiment, tell: Callable[[str], None] = lambda _: None) -> None:
        self._experiment = experiment
        self._tell = tell
        self._variants = plan.variants(experiment)
        self._workloads = workloads_of(experiment)
        self._last: Mapping[Group, WorkloadPrecision] = {}

    def __call__(
        self, runs: Sequence[Run], still_open: tuple[Group, ...], block: int, used_ns: int, next_block_ns: int
    ) -> Look:
        """Look at the runs of blocks 0 to `block`."""
        if block == first_block(self._experiment) and (note := block_note(self._experiment, used_ns)):
            self._tell(note)
        if due(block, *looks(self._experiment)):
            self._last = precision(self._experiment, self._variants, self._workloads, runs)
        decision = decide(
            self._experiment,
            still_open=still_open,
            block=block,
            used_ns=used_ns,
            next_block_ns=next_block_ns,
            precisions=self._last,
        )
        why = decision.stop.value if decision.stop else ""
        if self._experiment.virtual:
            why = why.replace("blocks", "draws")
        return Look(decision.still_open, why, decision.remaining_ns, decision.widest)
