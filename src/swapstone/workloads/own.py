"""A program of the user's own, as a workload."""

from __future__ import annotations

from swapstone.model import Experiment, UserError, Workload


def own_workload(experiment: Experiment) -> Workload:
    """Return the workload that an experiment's own program is.

    Raises:
        UserError: the experiment has none.
    """
    if experiment.own is None:
        raise UserError(f"The experiment {experiment.name} names a program of its own and doesn't say which.")
    raise NotImplementedError
