# SPDX-License-Identifier: MIT OR Apache-2.0
"""When the noise of kernel and hardware is measured: once for a session with the suite latency, on this machine or on a board."""

from __future__ import annotations

import msgspec

from swapstone.core.model import BOOT_ORDER, Experiment
from swapstone.core.record import Manifest
from swapstone.core.targets import Target
from swapstone.core.targets.kernel_noise import TOOLS, measure
from swapstone.core.workloads import all_suites

_OWN_BOOTS = "unavailable: each variant has boots of its own"


def with_noise(manifest: Manifest, experiment: Experiment, target: Target) -> Manifest:
    """Return the manifest, with what rtla measured on the machine before the trials, or why it could not.

    Args:
        manifest: of the session.
        experiment: only one with a suite of wake-ups, on the wall clock, is concerned.
        target: of the experiment, where no trial runs now.
    """
    if (
        experiment.virtual
        or "runs_loads" not in target.offers
        or {suite for suite, _ in experiment.workloads}.isdisjoint(
            suite.name for suite in all_suites() if suite.with_wakeups is not None
        )
    ):
        return manifest
    found = dict.fromkeys(TOOLS, _OWN_BOOTS) if experiment.order == BOOT_ORDER else measure(target)
    return msgspec.structs.replace(manifest, machine=(*manifest.machine, *found.items()))
