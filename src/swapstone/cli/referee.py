"""Joins precision and stopping into what the engine asks after each block."""

from __future__ import annotations

from collections.abc import Sequence

from swapstone import plan
from swapstone.cli.analysing import workloads_of
from swapstone.compare import precision
from swapstone.model import Experiment, Run
from swapstone.plan import Group
from swapstone.plan.stopping import decide, due
from swapstone.run import Look


class PrecisionReferee:
    """Stops on precision, on the number of blocks that was asked for, or on the budget; never on significance."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._variants = plan.variants(experiment)
        self._workloads = workloads_of(experiment)
        self._last = Look(plan.groups(experiment), "", None, None)

    def __call__(
        self, runs: Sequence[Run], still_open: tuple[Group, ...], block: int, used_ns: int, next_block_ns: int
    ) -> Look:
        """Look at the runs, when a look is due after this block."""
        raise NotImplementedError
