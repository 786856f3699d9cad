# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks whether a time budget holds an experiment, and estimates the budget that would hold it."""

from __future__ import annotations

from swapstone import plan
from swapstone.model import Experiment, UserError
from swapstone.plan.stopping import first_block, first_look
from swapstone.run import WORK_NS
from swapstone.session.values import format_duration
from swapstone.stats import pairs_needed


def check_budget(experiment: Experiment, trial_ns: int = WORK_NS) -> str:
    """Compare an experiment's budget with the shortest time that its blocks take, before anything is built.

    Own programs and virtual machines pass unchecked: the duration of their trials is unknown until the first block.
    An exact number of blocks needs no budget.

    Args:
        experiment: with a budget.
        trial_ns: shortest duration of one trial; by default the duration that calibration aims at.

    Returns:
        A note if the budget ends before the first look at precision, else an empty string.

    Raises:
        UserError: the budget does not hold the fewest blocks that give an interval.
    """
    if experiment.blocks or experiment.own is not None or experiment.virtual:
        return ""
    variants, groups = len(plan.variants(experiment)), len(plan.groups(experiment))
    block_ns = variants * groups * trial_ns
    fewest = pairs_needed(1 - experiment.confidence)
    first = first_look(experiment)
    # One block more than there are pairs: the warm-up.
    least_ns, look_ns = (block_ns * (blocks + 1) for blocks in (fewest, first))
    budget, look = format_duration(experiment.budget_ns), format_duration(look_ns)
    size = (
        f"{variants} variants x {groups} workloads are {variants * groups} trials a block, "
        f"at least {format_duration(block_ns)}"
    )
    if least_ns > experiment.budget_ns:
        raise UserError(
            f"The budget of {budget} is too small: {size}. The {fewest} pairs of runs that an interval needs, and the warm-up, "
            f"take {format_duration(least_ns)}. The {first} pairs that the first look at precision needs take {look}.",
            f"Use --budget {_rounded_up(look_ns)}, fewer levels, fewer workloads with --only, or an exact number of --blocks.",
        )
    if look_ns > experiment.budget_ns:
        return (
            f"{size}. The budget of {budget} ends before the first look at precision, which needs {first} pairs of runs: "
            f"about {look} (--budget {_rounded_up(look_ns)})."
        )
    return ""


def block_note(experiment: Experiment, block_ns: int) -> str:
    """Estimate from the first block whether the budget ends before the first look at precision.

    Args:
        experiment: with a budget.
        block_ns: duration of the warm-up block.

    Returns:
        A note if it does; an empty string if the budget holds the look, or if the experiment has an exact number of blocks.
    """
    first = first_look(experiment)
    warm_up = 1 - first_block(experiment)
    look_ns = block_ns * (first + warm_up)
    if experiment.blocks or look_ns <= experiment.budget_ns:
        return ""
    fewest = pairs_needed(1 - experiment.confidence)
    pairs = max(0, experiment.budget_ns // max(1, block_ns) - warm_up)
    least = "" if pairs >= fewest else f", and an interval needs {fewest}"
    unit = "replicate" if experiment.virtual else "block"
    return (
        f"A {unit} takes {format_duration(block_ns)}: the budget of {format_duration(experiment.budget_ns)} "
        f"holds {pairs} pairs of runs{least}. The first look at precision needs {first} pairs, which take "
        f"{format_duration(look_ns)} (--budget {_rounded_up(look_ns)})."
    )


def _rounded_up(nanoseconds: int) -> str:
    """Return a duration in the form that `--budget` accepts, rounded up to whole seconds, minutes or hours."""
    seconds = -(-nanoseconds // 10**9)
    if seconds < 120:
        return f"{seconds}s"
    minutes = -(-seconds // 60)
    return f"{minutes}m" if minutes < 120 else f"{-(-minutes // 60)}h"
