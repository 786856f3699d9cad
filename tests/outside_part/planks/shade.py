# SPDX-License-Identifier: MIT OR Apache-2.0
"""A factor: a variable of the environment."""

from __future__ import annotations

import msgspec

from swapstone.core.factors.factor import Evidence, Level, Recipe, Stage
from swapstone.core.model import environment_variable

_VARIABLE = environment_variable("PLANKS_SHADE")


class Shade:
    """How many lines the work counts."""

    name = "shade"
    stage = Stage.LAUNCH
    description = "how many lines are counted"
    levels: tuple[Level, ...] = (
        Level(name="dark", description="100000 lines"),
        Level(name="pale", description="200000 lines"),
    )
    observes = (_VARIABLE,)

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Set the variable."""
        return msgspec.structs.replace(recipe, environment=(*recipe.environment, (_VARIABLE.name, level)))

    def observe(self, evidence: Evidence) -> str | None:
        """Return the variable's value in the process."""
        return evidence.value(_VARIABLE)


SHADE = Shade()
