# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the trials of an experiment and appends their runs to its record: the place that joins plan, subjects and target."""

from swapstone.core.run.engine import Engine, Progress, SessionEnd, StoppingRule
from swapstone.core.run.manifest import manifest_of
from swapstone.core.run.prepare import Prepared, check_levels, check_machine, prepare
from swapstone.core.run.trial_specs import TrialSpecs

__all__ = [
    "Engine",
    "Prepared",
    "Progress",
    "SessionEnd",
    "StoppingRule",
    "TrialSpecs",
    "check_levels",
    "check_machine",
    "manifest_of",
    "prepare",
]
