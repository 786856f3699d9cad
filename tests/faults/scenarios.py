# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every kind of work that is crashed and made to fail."""

from __future__ import annotations

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
from tests.programs import missing

SCENARIOS: dict[str, type[Scenario]] = {
    scenario.name: scenario
    for scenario in (
        *(Experiment, Resumed, Extended, StudyOfParts, Host, Board, Report, Explain, CountedExplanation),
        *(Image, ImageOfLibc, SdkOfGlibc, Fetch, Allocator),
    )
}


def missing_programs(name: str) -> str:
    """Return which programs that a scenario needs are not installed; empty if all are."""
    return missing(*SCENARIOS[name].programs)
