# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which experiments have worst wake-ups whose path can be derived."""

from __future__ import annotations

from swapstone.core.model import Experiment, ImageTool, Workload
from swapstone.core.workloads import workloads_of

_READER = "cyclictest"
"""The reader of the workloads whose worst wake-ups have a path (core/workloads/output_readers.py)."""


def has_wakeups(workload: Workload) -> bool:
    """Return whether a workload measures wake-ups whose path can be derived."""
    return isinstance(workload.origin, ImageTool) and workload.origin.reader == _READER


def measures_wakeups(experiment: Experiment) -> bool:
    """Return whether a workload of an experiment measures wake-ups whose path can be derived."""
    return experiment.virtual and any(has_wakeups(each) for each in workloads_of(experiment).values())
