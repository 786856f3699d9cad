# SPDX-License-Identifier: MIT OR Apache-2.0
"""From an experiment to its variants and its ordered, seeded, blocked trials. When to stop is in `swapstone.plan.stopping`."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable

from swapstone.model import Copy, Experiment, Trial, Variant

Group = tuple[str, str, str]
"""(suite, workload, load): measured on every variant within one block."""


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
    # On the virtual clock the same program gives the same run: only the relinked copy can differ.
    # A user's own program is linked by the user's build command, so it has no relinked copy.
    available = {Copy.AGAIN: not experiment.virtual, Copy.RELINKED: experiment.own is None}
    copies = [copy for copy, possible in available.items() if possible]
    nulls = [Variant(levels=first.levels, copy=copy) for copy in copies] if experiment.null else []
    return (first, *nulls, *others)


def groups(experiment: Experiment) -> tuple[Group, ...]:
    """Return every (suite, workload, load) of an experiment, in its order."""
    return tuple((suite, workload, load) for suite, workload in experiment.workloads for load in experiment.loads)


def block(experiment: Experiment, index: int, still_open: Iterable[Group]) -> tuple[Trial, ...]:
    """Return one block: each open group holds each variant once, in random order.

    The variants of one group follow each other directly, so that a pair runs in the same state of the machine. Every order is a function
    of the seed, the block and the group alone. So closing a group does not change the order of the others, and a resumed experiment
    continues with the same plan.

    Args:
        experiment: gives the seed and the variants.
        index: number of the block; 0 is the warm-up.
        still_open: the open groups.

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
        experiment: its seed and number of layouts.
        copy: of the variant.
    """
    which = "relinked" if copy is Copy.RELINKED else "layout"
    return tuple(_rank(experiment.seed, which, turn).hex()[:16] for turn in range(experiment.layouts))


def _rank(seed: int, *parts: object) -> bytes:
    """Return a pseudo-random sort key that depends on its arguments alone."""
    return hashlib.sha256("\0".join(map(str, (seed, *parts))).encode()).digest()
