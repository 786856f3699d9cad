# SPDX-License-Identifier: MIT OR Apache-2.0
"""Refuses the factor `fs` for other work than the suite `fs`: no other program mounts the image."""

from __future__ import annotations

from collections.abc import Sequence

from swapstone.core.model import FactorLevels, UserError
from swapstone.core.session.request import ExperimentRequest, ExperimentRules
from swapstone.parts.fs.fs_factor import FS


def _check(request: ExperimentRequest, factors: Sequence[FactorLevels]) -> None:
    """Check that a request with the factor has the suite, named or by default.

    Raises:
        UserError: it measures something else.
    """
    levels = next((",".join(choice.levels) for choice in factors if choice.factor == FS.name), "")
    if levels and (request.own or set(request.settings.workloads.suites) - {FS.name}):
        raise UserError(
            "The factor fs is for the suite fs, which mounts an image of Swapstone's own programs.",
            f"Compare file systems with it: swapstone compare fs={levels}",
        )


RULES = ExperimentRules(check=_check)
