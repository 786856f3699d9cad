# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records that tests make by the Python API, with options by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import swapstone
from swapstone.core.factors import all_factors
from swapstone.core.model import FactorLevels, OwnProgram
from swapstone.core.session.options import settings_from
from swapstone.core.session.request import ExperimentRequest

_ARGUMENTS = {"out", "progress", *(factor.name for factor in all_factors())}


def compared(**arguments: Any) -> swapstone.Record:
    """Run `swapstone.compare` with factors, `out` and `progress`, and with options by their names, of which it makes the settings."""
    own = {name: value for name, value in arguments.items() if name in _ARGUMENTS}
    settings = settings_from({name: value for name, value in arguments.items() if name not in _ARGUMENTS})
    return swapstone.compare(*settings.pieces(), **own)


def request_of(
    factors: Sequence[FactorLevels], own: OwnProgram | None = None, name: str = "compare", **options: Any
) -> ExperimentRequest:
    """Return a request with options by their names."""
    return ExperimentRequest(name=name, factors=factors, settings=settings_from(options), own=own)
