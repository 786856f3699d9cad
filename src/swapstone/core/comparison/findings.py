# SPDX-License-Identifier: MIT OR Apache-2.0
"""The result of checking the assumptions of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from swapstone.core.comparison.cells import Group
from swapstone.core.comparison.rows import Row
from swapstone.core.comparison.run_table import RunTable
from swapstone.core.model import CarryOver, Caveat, Experiment, FailureRates, Variant, Verdict, WorkSpec

Place = tuple[Group, str, str]
"""((suite, workload, load), label of the candidate, name of the metric): a row."""


class Findings(msgspec.Struct, frozen=True):
    """What a check found.

    Attributes:
        excluded: verdict and reason of rows that can't be judged.
        caveats: limits of the results.
        carry_overs: how runs depend on what ran before them, of the rows where that was tested.
        failure_rates: how often runs fail, of every workload, load and candidate.
    """

    excluded: Mapping[Place, tuple[Verdict, str]] = msgspec.field(default_factory=dict)
    caveats: tuple[Caveat, ...] = ()
    carry_overs: Mapping[Place, CarryOver] = msgspec.field(default_factory=dict)
    failure_rates: tuple[FailureRates, ...] = ()


Check = Callable[[Experiment, Sequence[Variant], Mapping[str, WorkSpec], RunTable], Findings]
"""A check of a row's assumptions; arguments as `swapstone.core.comparison.checks.check`."""


def shortened(names: Sequence[str], most: int = 4) -> str:
    """Join the first names of a list, with the number of the rest."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def wall_clock_caveats(find: Callable[[Experiment, RunTable], Iterable[Caveat]]) -> Check:
    """Return the check that gives the caveats found in the runs of an experiment on the wall clock, and none on the virtual clock."""

    def check(
        experiment: Experiment, _variants: Sequence[Variant], _workloads: Mapping[str, WorkSpec], table: RunTable
    ) -> Findings:
        return Findings() if experiment.virtual else Findings(caveats=tuple(find(experiment, table)))

    return check


def checked(rows: Iterable[Row], findings: Findings) -> list[Row]:
    """Return the rows, with the exclusions that the checks found.

    A row that is excluded already keeps its reason, unless all that is known of it is that it has no pairs: what a check found
    comes first then. Runs that were all disturbed have no pairs, and their outputs may still differ. A side of which no run was made
    has no pairs for another reason, which stays.
    """

    def exclusion(row: Row) -> tuple[Verdict, str] | None:
        found = findings.excluded.get(row.place)
        if row.exclusion is None:
            return found
        verdict, reason = row.exclusion
        no_run = verdict is Verdict.UNAVAILABLE and reason.startswith(("baseline: ", "candidate: "))
        without_pairs = verdict in (Verdict.UNAVAILABLE, Verdict.INCONCLUSIVE) and not no_run
        return found if found and without_pairs else row.exclusion

    return [msgspec.structs.replace(row, exclusion=exclusion(row)) for row in rows]
