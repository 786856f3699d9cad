"""From an experiment to its variants and its ordered, seeded, blocked trials. When to stop is in `swapstone.plan.stopping`."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable

from swapstone.model import Copy, Experiment, Trial, Variant

Group = tuple[str, str, str]
"""(suite, workload, load): what is measured side by side on every variant within one block."""


def variants(experiment: Experiment) -> tuple[Variant, ...]:
    """Expand an experiment's factors into every combination of their levels.

    Args:
        experiment: with at least one factor.

    Returns:
        The baseline (the first level of each factor) first, then its null copies if the experiment has them, then the others in
        the order of the factors' levels.
    """
    names = [choice.factor for choice in experiment.factors]
    combinations = itertools.product(*(choice.levels for choice in experiment.factors))
    first, *others = (Variant(levels=tuple(zip(names, levels, strict=True))) for levels in combinations)
    # How a program of the user's own is linked is the user's affair: there is no relinked copy of it.
    # On the virtual clock an equal program is an equal run: only the relinked copy could differ.
    there = {Copy.AGAIN: not experiment.virtual, Copy.RELINKED: experiment.own is None}
    copies = [copy for copy, possible in there.items() if possible]
    nulls = [Variant(levels=first.levels, copy=copy) for copy in copies] if experiment.null else []
    return (first, *nulls, *others)


def groups(experiment: Experiment) -> tuple[Group, ...]:
    """Return every (suite, workload, load) of an experiment, in its order."""
    return tuple((suite, workload, load) for suite, workload in experiment.workloads for load in experiment.loads)


def block(experiment: Experiment, index: int, still_open: Iterable[Group]) -> tuple[Trial, ...]:
    """Return one block: each group that is still open holds each variant once, in random order, side by side.

    The variants of one group follow each other directly, so that a pair shares the machine's state of that moment. Every order is a
    function of the seed, the block and the group alone: closing one group leaves the others' order as it was, and an experiment
    that is resumed goes on with the same plan.

    Args:
        experiment: gives the seed and the variants.
        index: number of the block; 0 is the warm-up.
        still_open: groups that take part.

    Returns:
        The trials in the order in which they run.
    """
    labels = [variant.label for variant in variants(experiment)]
    ordered = sorted(still_open, key=lambda group: _rank(experiment.seed, index, *group))
    pairs = (
        (group, label)
        for group in ordered
        for label in sorted(labels, key=lambda label: _rank(experiment.seed, index, *group, label))
    )
    return tuple(
        Trial(suite=suite, workload=workload, load=load, variant=label, block=index, position=position)
        for position, ((suite, workload, load), label) in enumerate(pairs)
    )


def layout_seeds(experiment: Experiment, copy: Copy) -> tuple[str, ...]:
    """Return the seeds of an experiment's layouts: equal for all variants, but for the relinked copy, which has its own.

    Args:
        experiment: its seed and how many layouts it asks for.
        copy: of the variant.
    """
    which = "relinked" if copy is Copy.RELINKED else "layout"
    return tuple(_rank(experiment.seed, which, turn).hex()[:16] for turn in range(experiment.layouts))


def _rank(seed: int, *parts: object) -> bytes:
    """Return a pseudo-random sort key that depends on nothing but its arguments."""
    return hashlib.sha256("\0".join(map(str, (seed, *parts))).encode()).digest()
