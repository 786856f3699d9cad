# SPDX-License-Identifier: MIT OR Apache-2.0
"""The user's built programs: ``--program baseline=./old --program candidate=./new``."""

from __future__ import annotations

from swapstone.core.factors.factor import Evidence, Level, Recipe, Stage


class Program:
    """Which of the user's programs is started. The user names the levels, so the registry lists none."""

    name = "program"
    stage = Stage.LAUNCH
    description = "your built programs: --program NAME=PATH"
    levels: tuple[Level, ...] = ()

    def apply(self, level: str, recipe: Recipe) -> Recipe:  # noqa: ARG002 - the path is the experiment's, not the recipe's
        """Return the recipe unchanged: the program is already built."""
        return recipe

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
