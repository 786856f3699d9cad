# SPDX-License-Identifier: MIT OR Apache-2.0
"""Free factors, which ``--vary`` defines: a placeholder ``{NAME}``, or an environment variable ``env:NAME``."""

from __future__ import annotations

import re

import msgspec

from swapstone.core.factors.factor import Evidence, Factor, Level, Recipe, Stage
from swapstone.core.model import COMMAND, NOW, SESSION, environment_variable, process_file
from swapstone.core.model.substitution import NAME

COMMAND_LINE = process_file("cmdline")
"""The arguments of the process, each followed by a zero byte (proc(5))."""

LONG_COMMAND_LINE = (
    "Its command line may have more than 16 KiB, which the agent does not read: give it a file instead. "
    "Or /proc is not mounted."
)


class NamedByUser:
    """A factor whose levels the user names, so the registry lists none."""

    stage = Stage.LAUNCH
    levels: tuple[Level, ...] = ()

    def apply(self, level: str, recipe: Recipe) -> Recipe:  # noqa: ARG002 - a part of the experiment, not of the recipe
        """Return the recipe unchanged: programs and command lines are no part of it."""
        return recipe


class Command(NamedByUser):
    """Which of the user's command lines is executed."""

    name = COMMAND
    description = "your command lines: 'PROGRAM ARG' 'PROGRAM ARG'"
    observes = (COMMAND_LINE,)
    unseen = LONG_COMMAND_LINE

    def observe(self, evidence: Evidence) -> str | None:
        """Return the level that the process received; another text for other ones, and `NOT_OBSERVED` if only the build uses it."""
        return dict(evidence.levels).get(self.name)


COMMAND_FACTOR = Command()


NOT_OBSERVED = "not observed"
"""What a run stores for a factor whose level no process receives."""

UNSET = "unset"
"""The level of a variable that the process does not have."""

_FORMS = re.compile(rf"\{{(?P<placeholder>{NAME})\}}|env:(?P<variable>{NAME})", re.ASCII)


class Placeholder(Command):
    """A value that replaces ``{NAME}`` in the build command, in arguments and in environment variables.

    Args:
        placeholder: NAME.
    """

    def __init__(self, placeholder: str) -> None:
        self.placeholder = placeholder
        self.name = f"{{{placeholder}}}"
        self.description = f"your values of {self.name}"

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Add the value to the recipe."""
        return msgspec.structs.replace(recipe, values=(*recipe.values, (self.placeholder, level)))


class EnvironmentVariable(NamedByUser):
    """An environment variable of the measured process.

    Args:
        variable: its name.
    """

    def __init__(self, variable: str) -> None:
        self.name = f"env:{variable}"
        self.description = f"your values of the environment variable {variable}"
        self.observes = (environment_variable(variable),)

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Set the variable, or leave it out for `UNSET`."""
        variable = self.observes[0].name
        others = tuple(pair for pair in recipe.environment if pair[0] != variable)
        own = () if level == UNSET else ((variable, level),)
        return msgspec.structs.replace(recipe, environment=(*others, *own))

    def observe(self, evidence: Evidence) -> str | None:
        """Return the value with which the process was started, or `UNSET`."""
        if self.observes[0] in evidence.absent:
            return UNSET
        value = evidence.value(self.observes[0])
        return f"the text {value}" if value == UNSET else value


def free_factor(name: str) -> Factor | None:
    """Return the free factor of a name such as ``{threads}`` or ``env:MALLOC_ARENA_MAX``; None for another form."""
    match = _FORMS.fullmatch(name)
    if match is None:
        return None
    return Placeholder(match["placeholder"]) if match["placeholder"] else EnvironmentVariable(match["variable"])


def is_unobserved(name: str, seen: str) -> bool:
    """Return whether a run was accepted though the level in force is not known."""
    return name.startswith("{") and seen == NOT_OBSERVED


class Program(NamedByUser):
    """Which of the user's programs is started."""

    name = "program"
    description = "your built programs: --program NAME=PATH"

    def observe(self, evidence: Evidence) -> str | None:
        """Name the level by the file that was started.

        Returns:
            The level whose path was started, if its file did not change and, unless it is a script, is among the objects that the process
            had mapped at its end. Another text if the process executed another program; None if the file or the objects are unknown.
        """
        level = next((level for level, path in evidence.named if path == evidence.started), None)
        if level is None or evidence.program is None:  # a script's process is that of its interpreter
            return level
        if not evidence.objects:
            return None
        if evidence.program.path not in evidence.objects:
            return f"another program, {evidence.objects[0]},"
        return level


PROGRAM = Program()


class Session(NamedByUser):
    """Which session made a run. It is no choice of the user: what is measured is measured now."""

    name = SESSION
    description = "an earlier session and this one: --against RECORD"

    def observe(self, evidence: Evidence) -> str:  # noqa: ARG002 - as other factors
        """Return the level of every run that is made."""
        return NOW


SESSION_FACTOR = Session()
