# SPDX-License-Identifier: MIT OR Apache-2.0
"""The crates of workloads."""

from __future__ import annotations

from swapstone.core.model import Workload
from swapstone.parts.net.model.crate import Crate


def crate_of(workload: Workload) -> Crate:
    """Return the crate that a workload is a program of."""
    assert isinstance(workload.origin, Crate), workload.name
    return workload.origin
