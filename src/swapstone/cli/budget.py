"""Whether a budget can hold an experiment at all: said before anything is built, with the time that it would take."""

from __future__ import annotations

from swapstone import plan
from swapstone.cli.live import duration
from swapstone.model import Experiment, UserError
from swapstone.plan.stopping import first_block, first_look
from swapstone.run import WORK_NS
from swapstone.stats import pairs_needed


def check_budget(experiment: Experiment, trial_ns: int = WORK_NS) -> str:
    """Compare an experiment's budget with the time that its blocks need at least.

    Args:
        experiment: with a budget. An exact number of blocks needs none. How long a program of the user's own takes is not known yet.
        trial_ns: what one trial takes at least: by default what calibration aims at on the baseline.

    Returns:
        A sentence for the user when the budget ends before the first look at precision; empty when it doesn't.

    Raises:
        UserError: not even the fewest blocks that can give an interval fit into it.
    """
    # What a program of the user's own takes, and what a virtual machine, the first block shows.
    if experiment.blocks or experiment.own is not None or experiment.virtual:
        return ""
    trials = len(plan.variants(experiment)) * len(plan.groups(experiment))
    block_ns = trials * trial_ns
    fewest = pairs_needed(1 - experiment.confidence)
    first = first_look(experiment)
    # One block more than there are pairs: the warm-up.
    least_ns, look_ns = (block_ns * (blocks + 1) for blocks in (fewest, first))
    size = (
        f"{len(plan.variants(experiment))} variants x {len(plan.groups(experiment))} workloads are {trials} trials a block, "
        f"at least {duration(block_ns)}"
    )
    if least_ns > experiment.budget_ns:
        raise UserError(
            f"The budget of {duration(experiment.budget_ns)} is too small: {size}. The {fewest} pairs of runs that an interval needs at "
            f"least, and the warm-up, take {duration(least_ns)}; {first} pairs, from which on precision is looked at, "
            f"{duration(look_ns)}.",
            f"Give it --budget {_rounded_up(look_ns)}, fewer levels, or fewer workloads with --only; or say how many --blocks.",
        )
    if look_ns > experiment.budget_ns:
        return (
            f"{size}. The budget of {duration(experiment.budget_ns)} ends before {first} pairs of runs, from which on precision is "
            f"looked at: those take about {duration(look_ns)} (--budget {_rounded_up(look_ns)})."
        )
    return ""


def block_note(experiment: Experiment, block_ns: int) -> str:
    """Say, when the first block has shown what a block takes, that the budget will end before the first look at precision.

    Args:
        experiment: with a budget.
        block_ns: what the warm-up took.

    Returns:
        A sentence for the user; empty when the budget holds the look, or an exact number of blocks was asked for.
    """
    first = first_look(experiment)
    warm_up = 1 - first_block(experiment)
    look_ns = block_ns * (first + warm_up)
    if experiment.blocks or look_ns <= experiment.budget_ns:
        return ""
    fewest = pairs_needed(1 - experiment.confidence)
    pairs = max(0, experiment.budget_ns // max(1, block_ns) - warm_up)
    least = "" if pairs >= fewest else f", and an interval needs {fewest}"
    return (
        f"A {'draw' if experiment.virtual else 'block'} takes {duration(block_ns)}: the budget of {duration(experiment.budget_ns)} "
        f"holds {pairs} pairs of runs{least}. {first} pairs, from which on precision is looked at, take {duration(look_ns)} "
        f"(--budget {_rounded_up(look_ns)})."
    )


def _rounded_up(nanoseconds: int) -> str:
    """Return a duration that `--budget` takes, rounded up to two digits of its unit."""
    seconds = -(-nanoseconds // 10**9)
    if seconds < 120:
        return f"{seconds}s"
    minutes = -(-seconds // 60)
    return f"{minutes}m" if minutes < 120 else f"{-(-minutes // 60)}h"
