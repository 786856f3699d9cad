# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the checks of a row's assumptions find: rows that can't be judged, and limits of the results.

There is one module for each assumption, and parts add checks of facts that only their runs have.
Of experiments by the first rules (`Experiment.rules`) only failures are counted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from swapstone.core.comparison import (
    carry_over,
    conditions,
    failures,
    outputs,
    processors,
    storage,
    uncounted_work,
)
from swapstone.core.comparison.findings import Check, Findings, Place
from swapstone.core.comparison.run_table import RunTable
from swapstone.core.model import TAIL_RULES, Caveat, Experiment, Variant, Verdict, WorkSpec
from swapstone.core.model.parts import provided


@functools.cache
def _checks() -> tuple[Check, ...]:
    return (
        *(module.check for module in (failures, outputs, storage, conditions, uncounted_work)),
        *provided("check", Callable),
        conditions.overloaded,
        processors.check,
        carry_over.check,
    )


def check(
    experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, WorkSpec], table: RunTable
) -> Findings:
    """Check the assumptions of every row.

    Args:
        experiment: that the runs are of.
        variants: the baseline first.
        workloads: by name.
        table: of all runs, with those that are discarded.
    """
    if experiment.rules < TAIL_RULES:
        return Findings(failure_rates=failures.rates(experiment, variants, table))
    found = [each(experiment, variants, workloads, table) for each in _checks()]
    excluded: dict[Place, tuple[Verdict, str]] = {}
    for each in found:
        for place, exclusion in each.excluded.items():
            excluded.setdefault(place, exclusion)
    caveats: tuple[Caveat, ...] = tuple(caveat for each in found for caveat in each.caveats)
    carried = {place: effect for each in found for place, effect in each.carry_overs.items()}
    failing = tuple(rates for each in found for rates in each.failure_rates)
    return Findings(excluded=excluded, caveats=caveats, carry_overs=carried, failure_rates=failing)
