# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every kind of work that is crashed and made to fail."""

from __future__ import annotations

import os
import shutil

from tests.faults.cache_scenarios import Allocator, Fetch, Image, ImageOfLibc, SdkOfGlibc
from tests.faults.record_scenarios import (
    Board,
    CountedExplanation,
    Experiment,
    Explain,
    Extended,
    Host,
    Report,
    Resumed,
    StudyOfParts,
)
from tests.faults.scenario import Scenario

SCENARIOS: dict[str, type[Scenario]] = {
    scenario.name: scenario
    for scenario in (
        *(Experiment, Resumed, Extended, StudyOfParts, Host, Board, Report, Explain, CountedExplanation),
        *(Image, ImageOfLibc, SdkOfGlibc, Fetch, Allocator),
    )
}


def missing_program(name: str) -> str:
    """Return a program that a scenario needs and that is not installed; empty if there is none."""
    return next(
        (program for program in SCENARIOS[name].programs if shutil.which(program, path=os.environ["PATH"]) is None), ""
    )
