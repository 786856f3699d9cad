# SPDX-License-Identifier: MIT OR Apache-2.0
"""Running both variants of a row without and with instruments."""

from __future__ import annotations

import pytest

from swapstone.parts.explain.instruments.acquisition import (
    MAX_REFERENCES,
    MIN_REFERENCES,
    REFERENCE_BUDGET_S,
    references_for,
)


@pytest.mark.parametrize(
    ("seconds", "runs"), [(1e-4, MAX_REFERENCES), (REFERENCE_BUDGET_S / 11, 10), (1.0, 16), (30.0, MIN_REFERENCES)]
)
def test_short_runs_are_made_more_often(seconds: float, runs: int) -> None:
    assert references_for(seconds) == runs
