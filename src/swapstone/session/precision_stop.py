# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decides after each block whether an experiment is precise enough to stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from swapstone import plan
from swapstone.comparison import precision
from swapstone.model import Experiment, Run, WorkloadPrecision
from swapstone.plan import Group
from swapstone.plan.stopping import decide, due, first_block, looks
from swapstone.run import StopDecision
from swapstone.session.analysis import workloads_of
from swapstone.session.budget import block_note


class PrecisionStop:
    """Stops on precision, on the requested number of blocks, or on the budget; never on significance.

    It computes intervals with the code of the final analysis, at the level that they would have if the experiment ended now.

    Args:
        experiment: what is measured.
        notify: receives a note if the first block shows that the budget is too small.
    """

    def __init__(self, experiment: Experiment, notify: Callable[[str], None] = lambda _: None) -> None:
        self._experiment = experiment
        self._notify = notify
        self._variants = plan.variants(experiment)
        self._workloads = workloads_of(experiment)
        self._last: Mapping[Group, WorkloadPrecision] = {}

    def __call__(
        self, runs: Sequence[Run], still_open: tuple[Group, ...], block: int, used_ns: int, next_block_ns: int
    ) -> StopDecision:
        """Decide which groups stay open after `block`, from the runs of all blocks up to it."""
        if block == first_block(self._experiment) and (note := block_note(self._experiment, used_ns)):
            self._notify(note)
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
            why = why.replace("blocks", "draws")  # as records of the virtual clock store it
        decided = sum(each.decided for each in self._last.values()) if self._last else None
        return StopDecision(decision.still_open, why, decision.remaining_ns, decision.widest, decided)
