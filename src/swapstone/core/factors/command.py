# SPDX-License-Identifier: MIT OR Apache-2.0
"""The user's command lines: ``swapstone compare './old --fast' './new --fast'``."""

from __future__ import annotations

from swapstone.core.factors.factor import Evidence, Level, Recipe, Stage
from swapstone.core.model import COMMAND, process_file

COMMAND_LINE = process_file("cmdline")
"""The arguments of the process, each followed by a zero byte (proc(5))."""

LONG_COMMAND_LINE = (
    "Its command line may have more than 16 KiB, which the agent does not read: give it a file instead. "
    "Or /proc is not mounted."
)


class Command:
    """Which of the user's command lines is executed. The user names the levels, so the registry lists none."""

    name = COMMAND
    stage = Stage.LAUNCH
    description = "your command lines: 'PROGRAM ARG' 'PROGRAM ARG'"
    levels: tuple[Level, ...] = ()
    observes = (COMMAND_LINE,)
    unseen = LONG_COMMAND_LINE

    def apply(self, level: str, recipe: Recipe) -> Recipe:  # noqa: ARG002 - the command line is the experiment's, not the recipe's
        """Return the recipe unchanged: a command line is no part of it."""
        return recipe

    def observe(self, evidence: Evidence) -> str | None:
        """Return the level whose executable, arguments and variables the process had at its end; another text for other ones."""
        return dict(evidence.levels).get(self.name)


COMMAND_FACTOR = Command()
