# SPDX-License-Identifier: MIT OR Apache-2.0
"""How many pairs of runs an interval needs after the correction for the number of hypotheses."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence

from swapstone.core.comparison.factorial_contrasts import contrasts
from swapstone.core.model import (
    REPORT_CORRECTION,
    TAIL_RULES,
    Copy,
    Direction,
    Experiment,
    Metric,
    Variant,
    WorkSpec,
)
from swapstone.core.model.metric import TIMES
from swapstone.core.plan.stopping import pairs_needed

EXACT_PAIRS = 2
"""Pairs that a statement about exact values needs: one does not show whether a value depends on the replicate."""


def pairs_for(experiment: Experiment, hypotheses: int = 1) -> int:
    """Return the number of pairs that gives each of so many corrected hypotheses an interval.

    That is the worst case, in which one hypothesis is rejected: the level is then (1 - confidence) / hypotheses. Fewer pairs suffice
    where more differ.

    Args:
        experiment: gives the confidence.
        hypotheses: how many are corrected together, e.g. `most_hypotheses`; 1 for no correction.
    """
    return pairs_needed((1 - experiment.confidence) / max(1, hypotheses))


def interval_pairs(experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, WorkSpec]) -> int:
    """Return the number of pairs that an experiment needs for its intervals: the one number that budgets, notes and reports print.

    Exact values need two. On the virtual clock it is else not corrected: replicates hold no noise, so nearly all rows differ or are
    constant, and the corrected level is close to the uncorrected one.

    Args:
        experiment: gives confidence, correction and clock.
        variants: the baseline first.
        workloads: by name.
    """
    if experiment.exact():
        return EXACT_PAIRS
    return pairs_for(experiment, 1 if experiment.virtual else most_hypotheses(experiment, variants, workloads))


def most_hypotheses(experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, WorkSpec]) -> int:
    """Return the largest number of hypotheses that the experiment corrects together, if no row is excluded or constant.

    Args:
        experiment: gives the correction, and the workloads and loads.
        variants: the baseline first.
        workloads: by name.
    """
    candidates = sum(variant.copy is Copy.FIRST for variant in variants) - 1
    crossed = len(contrasts(experiment))
    measured: list[tuple[str, str, Metric]] = [
        (suite, load, metric)
        for suite, name in experiment.workloads
        for load in experiment.loads
        for metric in workloads[name].metrics
    ]
    if experiment.correction != REPORT_CORRECTION:
        families = collections.Counter((suite, load, metric.quantity) for suite, load, metric in measured)
        return max(families.values(), default=0) * candidates
    indexed = {(suite, load, metric.name) for suite, load, metric in measured if metric.name in TIMES}
    # The means of a metric are tested beside its medians: not by the first rules, nor without a better direction.
    tails = sum(experiment.rules >= TAIL_RULES and metric.better is not Direction.NEITHER for _, _, metric in measured)
    return (len(measured) + tails) * candidates + len(indexed) * candidates + (len(measured) + len(indexed)) * crossed
