# SPDX-License-Identifier: MIT OR Apache-2.0
"""Very large experiments of which few runs were made: the cost of an analysis follows the runs, and not the plan.

The rows of which no side has a run all have the same verdict. There may be millions of them: 1024 levels, 48 loads and 11 metrics in a
record from elsewhere, or a long experiment that was stopped early.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swapstone.core.comparison.cells import Group
from swapstone.core.comparison.run_table import RunTable
from swapstone.core.model import Caveat, CaveatKind, Experiment, Variant, WorkSpec

MOST_EMPTY_ROWS = 20_000
"""An analysis with more rows than these leaves out those without any run."""

CandidatesOf = Mapping[Group, Sequence[Variant]]
"""The candidates that have rows, by group, in the experiment's order; a group without any is absent."""


def measured_candidates(
    experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, WorkSpec], table: RunTable
) -> CandidatesOf | None:
    """Return the candidates of which they or the baseline have a run, of an experiment that is too large to show all; None if it is not.

    Args:
        experiment: gives workloads and loads.
        variants: the baseline first.
        workloads: by name.
        table: of all runs.
    """
    baseline, *candidates = variants
    if _rows_of(experiment, variants, workloads) <= MOST_EMPTY_ROWS:
        return None
    labels: dict[Group, set[str]] = {}
    for suite, workload, load, label in table.places:
        labels.setdefault((suite, workload, load), set()).add(label)
    return {
        group: candidates if baseline.label in found else [each for each in candidates if each.label in found]
        for group, found in labels.items()
    }


def _rows_of(experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, WorkSpec]) -> int:
    """Return how many rows of runs an experiment has."""
    metrics = sum(len(workloads[name].metrics) for _, name in experiment.workloads)
    return metrics * len(experiment.loads) * (len(variants) - 1)


def left_out_caveats(
    experiment: Experiment,
    variants: Sequence[Variant],
    workloads: Mapping[str, WorkSpec],
    candidates_of: CandidatesOf | None,
) -> tuple[Caveat, ...]:
    """Return the caveat about rows that are left out; none if no row is. Arguments as `measured_candidates` has them and returns."""
    if candidates_of is None:
        return ()
    kept = sum(len(workloads[name].metrics) * len(found) for (_, name, _), found in candidates_of.items())
    count = _rows_of(experiment, variants, workloads) - kept
    if not count:
        return ()
    message = f"{count} comparisons of which no run was made are left out: no complete pair of runs."
    return (Caveat(kind=CaveatKind.NOT_MEASURED, message=message),)
