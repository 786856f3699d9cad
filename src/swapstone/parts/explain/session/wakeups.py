# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which experiments have wake-ups whose path can be derived."""

from __future__ import annotations

from swapstone.core.model import Experiment, Workload


def has_wakeups(workload: Workload) -> bool:
    """Return whether a workload measures wake-ups whose path can be derived."""
    return workload.real_time and workload.unchanged


def measures_wakeups(experiment: Experiment) -> bool:
    """Return whether a workload of an experiment measures wake-ups whose path can be derived."""
    if not experiment.virtual:
        return False
    from swapstone.core.workloads import workloads_of  # noqa: PLC0415 - imports suites, which reports do without

    return any(has_wakeups(each) for each in workloads_of(experiment).values())
