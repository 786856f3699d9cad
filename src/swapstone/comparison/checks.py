# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the checks of a row's assumptions find: rows that can't be judged, and limits of the results.

One module for each assumption: `carry_over`, `outputs`, `processors`. Experiments by the first rules (`Experiment.rules`) have none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from swapstone.comparison import carry_over, outputs, processors
from swapstone.comparison.cells import Group
from swapstone.comparison.findings import Findings, Place
from swapstone.comparison.rows import Row
from swapstone.model import CURRENT_RULES, Caveat, Experiment, Run, Variant, Verdict, Workload

__all__ = ["Findings", "Group", "Place", "check", "checked"]


def check(
    experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, Workload], runs: Sequence[Run]
) -> Findings:
    """Check the assumptions of every row.

    Args:
        experiment: that the runs are of.
        variants: the baseline first.
        workloads: by name.
        runs: all, with those that are discarded.
    """
    if experiment.rules < CURRENT_RULES:
        return Findings()
    found = [module.check(experiment, variants, workloads, runs) for module in (outputs, processors, carry_over)]
    excluded: dict[Place, tuple[Verdict, str]] = {}
    for each in found:
        for place, exclusion in each.excluded.items():
            excluded.setdefault(place, exclusion)
    caveats: tuple[Caveat, ...] = tuple(caveat for each in found for caveat in each.caveats)
    carried = {place: effect for each in found for place, effect in each.carry_overs.items()}
    return Findings(excluded=excluded, caveats=caveats, carry_overs=carried)


def checked(rows: Sequence[Row], findings: Findings) -> list[Row]:
    """Return the rows, with the exclusions that the checks found.

    A row that is excluded already keeps its reason, unless it has no pairs because its runs were disturbed.
    """

    def exclusion(row: Row) -> tuple[Verdict, str] | None:
        found = findings.excluded.get((row.group, row.candidate.label, row.metric.name))
        if row.exclusion is None:
            return found
        without_pairs = row.exclusion[0] in (Verdict.UNAVAILABLE, Verdict.INCONCLUSIVE)
        return found if found and found[0] is Verdict.DISTURBED and without_pairs else row.exclusion

    return [dataclasses.replace(row, exclusion=exclusion(row)) for row in rows]
