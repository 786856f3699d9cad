# SPDX-License-Identifier: MIT OR Apache-2.0
"""Free factors, which ``--vary`` defines: a placeholder ``{NAME}``, or an environment variable ``env:NAME``."""

from __future__ import annotations

import re

import msgspec

from swapstone.core.factors.command import COMMAND_LINE, LONG_COMMAND_LINE
from swapstone.core.factors.factor import Evidence, Factor, Level, Recipe, Stage
from swapstone.core.model import environment_variable
from swapstone.core.model.substitution import NAME

NOT_OBSERVED = "not observed"
"""What a run stores for a factor whose level no process receives."""

_FORMS = re.compile(rf"\{{(?P<placeholder>{NAME})\}}|env:(?P<variable>{NAME})", re.ASCII)


class Placeholder:
    """A value that replaces ``{NAME}`` in the build command, in arguments and in environment variables.

    Args:
        placeholder: NAME.
    """

    stage = Stage.LAUNCH
    levels: tuple[Level, ...] = ()
    observes = (COMMAND_LINE,)
    unseen = LONG_COMMAND_LINE

    def __init__(self, placeholder: str) -> None:
        self.placeholder = placeholder
        self.name = f"{{{placeholder}}}"
        self.description = f"your values of {self.name}"

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Add the value to the recipe."""
        return msgspec.structs.replace(recipe, values=(*recipe.values, (self.placeholder, level)))

    def observe(self, evidence: Evidence) -> str | None:
        """Return the level that the process received; `NOT_OBSERVED` if only the build uses it."""
        return dict(evidence.levels).get(self.name)


class EnvironmentVariable:
    """An environment variable of the measured process.

    Args:
        variable: its name.
    """

    stage = Stage.LAUNCH
    levels: tuple[Level, ...] = ()

    def __init__(self, variable: str) -> None:
        self.name = f"env:{variable}"
        self.description = f"your values of the environment variable {variable}"
        self.observes = (environment_variable(variable),)

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Set the variable."""
        variable = self.observes[0].name
        others = tuple(pair for pair in recipe.environment if pair[0] != variable)
        return msgspec.structs.replace(recipe, environment=(*others, (variable, level)))

    def observe(self, evidence: Evidence) -> str | None:
        """Return the value with which the process was started."""
        if evidence.is_absent(self.observes[0]):
            return "no such variable"
        return evidence.value(self.observes[0])


def free_factor(name: str) -> Factor | None:
    """Return the free factor of a name such as ``{threads}`` or ``env:MALLOC_ARENA_MAX``; None for another form."""
    match = _FORMS.fullmatch(name)
    if match is None:
        return None
    return Placeholder(match["placeholder"]) if match["placeholder"] else EnvironmentVariable(match["variable"])


def is_unobserved(name: str, seen: str) -> bool:
    """Return whether a run was accepted though the level in force is not known."""
    return name.startswith("{") and seen == NOT_OBSERVED
