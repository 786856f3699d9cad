# SPDX-License-Identifier: MIT OR Apache-2.0
"""Do so many runs fail that those which succeed are another sample? A program that crashes in its slow runs looks fast."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence

from swapstone.comparison.cells import Group
from swapstone.comparison.findings import Findings, Place
from swapstone.model import Experiment, Run, Status, Variant, Verdict, Workload

FEWEST = 2
"""A single failed run is a caveat."""

LARGEST_SHARE = 0.01
"""Share of failed runs above which a side can't be judged. A slow mode of 5 % of the runs must show; one that always fails never does."""


def check(
    experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, Workload], runs: Sequence[Run]
) -> Findings:
    """Check it for every row; arguments as `swapstone.comparison.checks.check`.

    All runs count, with the warm-up and those that are discarded. Where more than half of a side's runs fail, `Cell.exclusion` has the
    reason of the failures.
    """
    del experiment
    baseline, *candidates = variants
    made: dict[Group, collections.Counter[str]] = {}
    failed: dict[Group, collections.Counter[str]] = {}
    for run in runs:
        group = run.trial.suite, run.trial.workload, run.trial.load
        made.setdefault(group, collections.Counter())[run.trial.variant] += 1
        if run.status is Status.FAILED:
            failed.setdefault(group, collections.Counter())[run.trial.variant] += 1
    excluded: dict[Place, tuple[Verdict, str]] = {}
    for group, counts in failed.items():
        for candidate in candidates:
            sides = (("baseline", baseline.label), ("candidate", candidate.label))
            for side, label in sides:
                if counts[label] >= FEWEST and counts[label] > LARGEST_SHARE * made[group][label]:
                    reason = (
                        f"{side} fails in {counts[label]} of {made[group][label]} runs: the others are no sample of all its runs, "
                        "because it may be the slow ones that fail"
                    )
                    for metric in workloads[group[1]].metrics:
                        excluded.setdefault((group, candidate.label, metric.name), (Verdict.INVALID, reason))
    return Findings(excluded=excluded)
