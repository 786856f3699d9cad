# SPDX-License-Identifier: MIT OR Apache-2.0
"""The defaults of an experiment: suites, target, budget, margin, confidence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from swapstone.core.factors import PRIORITY, Stage, find_factor
from swapstone.core.model import FAMILY_CORRECTION, IDLE, REPORT_CORRECTION, Crate, FactorLevels, Workload, unknown
from swapstone.core.targets import default_target
from swapstone.core.workloads import all_suites

BUDGET_PER_VARIANT_NS = 60_000_000_000
"""Time for measuring, for each variant."""

MARGIN = 0.02
"""Ratio of no interest."""

CONFIDENCES = {REPORT_CORRECTION: 0.99, FAMILY_CORRECTION: 0.95}
"""Before correction, by what it holds for: a whole report, or each of its families."""


def default_confidence(correction: str) -> float:
    """Return the confidence of a request that names none.

    Raises:
        UserError: there is no such correction.
    """
    if correction not in CONFIDENCES:
        raise unknown("correction", correction, CONFIDENCES)
    return CONFIDENCES[correction]


def default_suites(
    factors: Iterable[FactorLevels], only: Sequence[str], *, boots: bool = True, of_target: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the suites of a request that names none: those in which its factors make a difference, else ``libc``.

    If every pattern of `only` matches a workload of ``libc``, the suite is ``libc``.

    Args:
        factors: of the request.
        only: patterns of workloads.
        boots: whether the target starts a machine for each trial.
        of_target: `Target.suites`.
    """
    if of_target:
        return of_target
    of_factor = {factor: suite for suite in all_suites() for factor in suite.factors}
    if not boots:
        of_factor |= {factor: suite for suite in all_suites() for factor in suite.factors_unbooted}
    suites = [of_factor[choice.factor] for choice in factors if choice.factor in of_factor]
    replaced = {name for suite in suites for name in suite.replaces}
    found = tuple(dict.fromkeys(suite.name for suite in suites if suite.name not in replaced))
    default = next((suite for suite in all_suites() if suite.is_default), None)
    if default is None:
        return found
    names = [workload.name for workload in default.workloads]
    all_in_default = only and all(any(fnmatchcase(name, pattern) for name in names) for pattern in only)
    return (default.name,) if all_in_default or not found else found


def default_target_of(
    factors: Sequence[FactorLevels], loads: Sequence[str], workloads: Sequence[Workload], architecture: str = ""
) -> str:
    """Return the target of an experiment whose user names none: a kind that boots machines where only a booted machine will do.

    Args:
        factors: its factors.
        loads: names of its loads.
        workloads: what it runs.
        architecture: of a virtual machine; empty for none.
    """
    boots = bool(architecture) or any(find_factor(choice.factor).stage is Stage.BOOT for choice in factors)
    if any(choice.factor == PRIORITY.name for choice in factors) and not boots:
        return "host"
    if any(isinstance(work.origin, Crate) and work.origin.bare for work in workloads):
        return default_target(boots=False, bare=True)
    loaded = any(load != IDLE.name for load in loads)
    return default_target(boots=boots or loaded or any(work.machine for work in workloads))


def default_architecture(factors: Iterable[FactorLevels]) -> str:
    """Return the architecture of the virtual machine that the factors of an experiment need; empty if this machine's will do."""
    needed = (getattr(find_factor(choice.factor), "default_architecture", "") for choice in factors)
    return next(filter(None, needed), "")


def default_budget_ns(factors: Iterable[FactorLevels]) -> int:
    """Return the budget of an experiment that names none, without copies of the baseline."""
    return BUDGET_PER_VARIANT_NS * math.prod(len(choice.levels) for choice in factors)
